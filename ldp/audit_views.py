"""Numbers of a report in which a broken mechanism may betray its input.

They are where faults were found: the report itself, each position of a vector, a few positions
together, sums and counts over positions or repeated reports, low-order bits, the exponent of the
lowest set bit, and what is no number at all.

Source: Mironov, "On significance of the least significant bits for differential privacy" (CCS
    2012), for the bits of floating-point noise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError

Views = Mapping[str, NDArray[Any]]
"""What the collector sees of n reports, by name; each array has shape (n,) or (n, positions)."""

FEW = 64
"""Values up to this many are told apart one by one, and as many positions are looked at singly."""

HEAD = 20_000
"""Reports of each input from which it is decided what to look at."""

_POSITIONS = 16  # of those that differ most, where there are more than FEW
_TOGETHER, _TOGETHER_VALUES = (2, 4), 8  # columns looked at jointly, and values of each
_COUNTED = 8  # distinct values that are counted over the positions
_LOW_BITS = 4
_KINDS = ("a number", "-0.0", "NaN", "infinite")
_ZERO_EXPONENT = 2000  # 0 is a multiple of every power of two


def as_views(reports: NDArray[Any] | Views, n: int) -> Views:
    """``reports`` as views of at most two axes; an array alone is named "report".

    Records become a view for each field. Bools become 0 and 1.  Raises ParameterError unless all
    hold ``n`` reports of bools, integers or floats of at most 64 bits.
    """
    named = reports if isinstance(reports, Mapping) else {"report": reports}
    views = {}
    for name, array in _fields(named):
        numbers = array.dtype.kind in "buif" and array.dtype.itemsize <= 8
        if not numbers or not array.ndim or array.shape[0] != n:
            raise ParameterError(
                f"{name} must hold {n} reports of numbers of at most 64 bits, got {array.dtype} "
                f"{array.shape}"
            )
        values = array.view(np.uint8) if array.dtype == np.bool_ else array
        views[name] = values if values.ndim == 1 else values.reshape(n, -1)
    return views


def _fields(named: Views) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, given in named.items():
        array = np.asarray(given)
        if array.dtype.names is None:
            yield name, array
        for field in array.dtype.names or ():
            yield f"{name}.{field}", array[field]


@dataclass(frozen=True, eq=False)
class Statistic:
    """A number of each report. of: views of n reports to (n,) integers or floats.

    tell: a value in words, for statistics whose values are codes.
    """

    name: str
    of: Callable[[Views], NDArray[Any]]
    tell: Callable[[int], str] | None = None


@dataclass(frozen=True, eq=False)
class _Column:
    """A view of one axis, or a position of one with two; one, other: its reports."""

    label: str
    of: Callable[[Views], NDArray[Any]]
    one: NDArray[Any]
    other: NDArray[Any]

    @cached_property
    def difference(self) -> float:
        """Of the means, in standard deviations; infinite where there is no deviation."""
        one, other = (part[:HEAD].astype(np.float64) for part in (self.one, self.other))
        gap, spread = abs(one.mean() - other.mean()), np.sqrt(one.var() + other.var())
        return float(gap / spread) if spread else (np.inf if gap else 0.0)

    @property
    def is_small(self) -> bool:
        """Whether it can be looked at together with others: integers from 0 to 7."""
        return self.one.dtype.kind in "iu" and all(
            int(part.min()) >= 0 and int(part.max()) < _TOGETHER_VALUES
            for part in (self.one, self.other)
        )


def statistics(one: Views, other: Views) -> Iterator[Statistic]:
    """What to look at in reports of these shapes and types, simple things first."""
    columns = [column for name in one for column in _columns(name, one[name], other[name])]
    for column in columns:
        yield from _of_numbers(column)
    for name, array in one.items():
        if array.ndim == 2 and array.shape[1] > 1:
            yield from _over_positions(name, array, other[name])
    small = sorted(
        (column for column in columns if column.is_small),
        key=lambda column: column.difference,
        reverse=True,
    )
    for count in _TOGETHER:
        if len(small) >= count:
            yield _together([column for column in columns if column in small[:count]])


def _columns(name: str, one: NDArray[Any], other: NDArray[Any]) -> Iterator[_Column]:
    """A view as columns; of very many, those that differ most."""
    if one.ndim == 1:
        yield _Column(name, lambda views: views[name], one, other)
        return
    columns = [
        _Column(
            f"{name}[{position}]",
            partial(_position, name=name, position=position),
            one[:, position],
            other[:, position],
        )
        for position in range(one.shape[1])
    ]
    if len(columns) > FEW:
        least = sorted((column.difference for column in columns), reverse=True)[_POSITIONS - 1]
        columns = [column for column in columns if column.difference >= least][:_POSITIONS]
    yield from columns


def _of_numbers(column: _Column) -> Iterator[Statistic]:
    """A number, and its bits where it has too many values for each to be looked at."""
    name, of = column.label, column.of
    yield Statistic(name, of)
    head = np.concatenate([column.one[:HEAD], column.other[:HEAD]])
    is_float = head.dtype.kind == "f"
    if np.unique(head).size > FEW:
        low = f"mantissa of {name}" if is_float else name
        yield Statistic(f"{low} modulo {1 << _LOW_BITS}", lambda views: _low_bits(of(views)))
        yield Statistic(
            f"exponent of the lowest set bit of {name} ({_ZERO_EXPONENT} for 0)",
            lambda views: _lowest_bit(of(views)),
        )
    if is_float:
        yield Statistic(f"kind of {name}", lambda views: _kind(of(views)), _KINDS.__getitem__)


def _over_positions(name: str, one: NDArray[Any], other: NDArray[Any]) -> Iterator[Statistic]:
    """Sums and counts over the positions of a vector, or over repeated reports."""
    values = np.unique(np.concatenate([one[:HEAD], other[:HEAD]]))
    if values.size > _COUNTED:
        yield Statistic(f"sum of {name}", partial(_sum, name=name))
        return
    for value in values[1:] if values.size == 2 else values:  # one of two says it all
        yield Statistic(
            f"number of {value.item()}s in {name}", partial(_occurrences, name=name, value=value)
        )
    if values.size == 2 and one.shape[1] <= FEW:
        # Where every position is a little likelier to be one thing, all of them together tell.
        likelier = one[:HEAD].mean(axis=0) > other[:HEAD].mean(axis=0)
        pattern = np.where(likelier, values[1], values[0])
        if not (likelier.all() or not likelier.any()):
            shown = " ".join(str(value) for value in pattern.tolist())
            yield Statistic(
                f"number of positions where {name} is as in {shown}",
                partial(_occurrences, name=name, value=pattern),
            )


def _together(columns: Sequence[_Column]) -> Statistic:
    """Several small numbers as one."""
    return Statistic(
        f"({', '.join(column.label for column in columns)})",
        partial(_joined, parts=[column.of for column in columns]),
        partial(_tell_joined, count=len(columns)),
    )


# Statistics


def _position(views: Views, name: str, position: int) -> NDArray[Any]:
    return views[name][:, position]


def _occurrences(views: Views, name: str, value: Any) -> NDArray[Any]:
    found: NDArray[Any] = np.count_nonzero(views[name] == value, axis=1)
    return found


def _sum(views: Views, name: str) -> NDArray[Any]:
    return np.asarray(np.sum(views[name], axis=1, dtype=np.float64))


def _joined(views: Views, parts: Sequence[Callable[[Views], NDArray[Any]]]) -> NDArray[Any]:
    columns = np.stack([of(views) for of in parts], axis=1).astype(np.int64)
    weights = _TOGETHER_VALUES ** np.arange(len(parts))[::-1]
    outside = ((columns < 0) | (columns >= _TOGETHER_VALUES)).any(axis=1)
    joined: NDArray[Any] = np.where(outside, -1, columns @ weights)
    return joined


def _tell_joined(code: int, count: int) -> str:
    if code < 0:
        return "anything else"
    digits = [code // _TOGETHER_VALUES**place % _TOGETHER_VALUES for place in range(count)][::-1]
    return f"({', '.join(map(str, digits))})"


def _kind(values: NDArray[Any]) -> NDArray[Any]:
    kinds = np.zeros(values.shape, dtype=np.int64)
    kinds[(values == 0) & np.signbit(values)] = 1
    kinds[np.isnan(values)] = 2
    kinds[np.isinf(values)] = 3
    return kinds


def _low_bits(values: NDArray[Any]) -> NDArray[Any]:
    words = values if values.dtype.kind in "iu" else values.view(f"u{values.dtype.itemsize}")
    low: NDArray[Any] = words & words.dtype.type((1 << _LOW_BITS) - 1)
    return low


def _lowest_bit(values: NDArray[Any]) -> NDArray[Any]:
    """v where a value is an odd multiple of 2^v."""
    if values.dtype.kind in "iu":
        whole, exponent = values.astype(np.int64, copy=False), np.zeros(values.shape, np.int64)
    else:
        # Every finite double is its 53 bits of mantissa times a power of two.
        finite = np.where(np.isfinite(values), values, 0).astype(np.float64)
        fraction, power = np.frexp(finite)
        whole, exponent = np.ldexp(fraction, 53).astype(np.int64), power.astype(np.int64) - 53
    lowest = (whole & -whole).view(np.uint64)
    # A power of two is exact as a double, and its logarithm an integer.
    place = np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.int64)
    return np.where(whole == 0, _ZERO_EXPONENT, place + exponent)
