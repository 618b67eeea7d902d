"""Decimal numbers of many lines at once, by arithmetic on the bytes of a block.

A text that is no plain decimal makes the whole block None: who calls then reads it another way.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.rating_ids import MOST_DIGITS

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

_ZERO = ord("0")
_POINT = ord(".")
_POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)
_SHORT = 9  # digits that fit into 32 bits


def fields(block: Bytes, separator: bytes, width: int) -> tuple[Places, Places] | None:
    """Begin and end of the fields of each line, both (width, lines), or None if a line differs.

    block: whole lines.  separator: one character, or the same one twice.
    """
    ends = np.flatnonzero(block == ord("\n"))
    found = np.flatnonzero(block == separator[0])
    between = width - 1
    if found.size != ends.size * between * len(separator):
        return None
    cuts = found.reshape(ends.size, between, len(separator))
    begin, end = np.empty((2, width, ends.size), dtype=np.intp)
    begin[0, :1] = 0
    begin[0, 1:] = ends[:-1] + 1
    end[-1] = ends
    end[:-1] = cuts[:, :, 0].T
    begin[1:] = cuts[:, :, -1].T + 1
    whole = (end[:-1] + len(separator) == begin[1:]).all()
    # With the right number in all, each line has its share if its cuts lie within it.
    within = (begin[0] <= end[0]).all() and (begin[-1] <= end[-1]).all()
    return (begin, end) if whole and within else None


def whole_numbers(
    block: Bytes, begin: Places, end: Places, *, ids: bool
) -> NDArray[np.signedinteger[Any]] | None:
    """Fields of 1 to 15 digits as int32 or int64; with ``ids`` a leading zero counts as foreign."""
    sizes = end - begin
    shortest, longest = int(sizes.min(initial=1)), int(sizes.max(initial=1))
    if shortest < 1 or longest > MOST_DIGITS:
        return None
    dtype: type[np.int32] | type[np.int64] = np.int32 if longest <= _SHORT else np.int64
    value: NDArray[np.signedinteger[Any]] = np.zeros(sizes.size, dtype=dtype)
    for place in range(longest):
        digit = block.take(begin + place, mode="clip") - np.uint8(_ZERO)  # wraps: 9 at most
        if place < shortest:
            foreign = digit > 9
            np.multiply(value, 10, out=value)
            np.add(value, digit, out=value)
        else:
            here = place < sizes
            foreign = here & (digit > 9)
            np.multiply(value, 10, out=value, where=here)
            np.add(value, digit, out=value, where=here)
        if foreign.any() or (ids and place == 0 and ((digit == 0) & (sizes > 1)).any()):
            return None
    return value


def decimals(block: Bytes, begin: Places, end: Places) -> NDArray[np.float64] | None:
    """Fields such as 3, 3.5 or .50, of at most 15 characters, as the nearest float64."""
    sizes = end - begin
    longest = int(sizes.max(initial=1))
    if int(sizes.min(initial=1)) < 1 or longest > MOST_DIGITS:
        return None
    digits = np.zeros(sizes.size, dtype=np.int64)
    point = np.full(sizes.size, -1, dtype=np.int8)
    for place in range(longest):
        character = block.take(begin + place, mode="clip")
        here = place < sizes
        digit = character - np.uint8(_ZERO)
        number = here & (digit <= 9)
        pointed = here & (character == _POINT) & (point < 0)
        if (here & ~number & ~pointed).any():
            return None
        point[pointed] = place
        np.multiply(digits, 10, out=digits, where=number)
        np.add(digits, digit, out=digits, where=number)
    if ((point >= 0) & (sizes == 1)).any():
        return None  # a point and no digit
    # Both are exact, so that one division rounds once, as reading the text would.
    behind = np.where(point >= 0, sizes - 1 - point, 0)
    value: NDArray[np.float64] = digits / _POWERS[behind]
    return value
