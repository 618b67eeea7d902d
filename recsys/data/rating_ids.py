"""Ids of users and items while files are read, and the index that each gets in the end.

An id is the text between the separators, unchanged: '7' and '007' are two. While blocks of a file
are read, an id is a 64-bit code, so that millions of rows hold no strings.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Indices

Codes = NDArray[np.signedinteger[Any]]

MOST_DIGITS = 15
"""Of a number that codes for itself: so long that no file has more, short of 2^53."""

_ROOM = 1 << 20  # numbers up to here are marked in a table, however few they are


class IdTable:
    """Codes for ids. A number in shortest decimal form codes for itself, other texts below 0."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}

    def codes(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """The code of each id; equal ids have equal codes, others have others."""
        return np.array([self._code(text) for text in ids], dtype=np.int64)

    def _code(self, text: str) -> int:
        # The lengths come first: most texts that are no numbers are long.
        if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit():
            number = int(text)
            if text[0] != "0" or text == "0":
                return number
        return -1 - self._texts.setdefault(text, len(self._texts))

    def indexed(self, columns: Sequence[Codes]) -> tuple[tuple[str, ...], list[Indices]]:
        """All ids of ``columns`` and, for each column, its codes as indices into them.

        Numbers come first, by size, then other texts by their characters, so that the same ratings
        in another order are the same data set.
        """
        distinct = _distinct(columns)
        known = list(self._texts)
        texts = sorted((known[-1 - code], at) for at, code in enumerate(distinct[distinct < 0]))
        numbers = distinct[distinct >= 0]
        index = np.arange(-len(texts), numbers.size, dtype=np.int32)
        index[[at for _, at in texts]] = np.arange(numbers.size, distinct.size, dtype=np.int32)
        ids = (*map(str, numbers.tolist()), *(text for text, _ in texts))
        return ids, [index[_places(distinct, column)] for column in columns]


def _distinct(columns: Sequence[Codes]) -> NDArray[np.int64]:
    """The codes that occur, ascending."""
    columns = [column for column in columns if column.size]
    if not columns:
        return np.empty(0, dtype=np.int64)
    low = min(int(column.min()) for column in columns)
    high = max(int(column.max()) for column in columns)
    if high - low > _ROOM + 4 * sum(column.size for column in columns):
        return np.unique(np.concatenate([np.unique(column) for column in columns])).astype(np.int64)
    seen = np.zeros(high - low + 1, dtype=np.bool_)
    for column in columns:
        seen[column - low if low else column] = True
    return np.flatnonzero(seen) + low


def _places(distinct: NDArray[np.int64], column: Codes) -> NDArray[np.integer[Any]]:
    """Where each code of ``column`` stands in ``distinct``."""
    if not column.size:
        return np.empty(0, dtype=np.int32)
    low, high = int(distinct[0]), int(distinct[-1])
    if high - low > _ROOM + 4 * column.size:
        return np.searchsorted(distinct, column)
    table = np.empty(high - low + 1, dtype=np.int32)
    table[distinct - low] = np.arange(distinct.size, dtype=np.int32)
    places: NDArray[np.int32] = table[column - low if low else column]
    return places
