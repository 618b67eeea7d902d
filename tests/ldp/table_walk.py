"""Exact laws of ``ExactTable``: every prefix, and bisection for the boundaries that words hold.

What is walked is the sampler that runs, on scripted coins. Within one prefix its outcome rises with
the word, since it is found by a search among sorted boundaries; so bisection finds each boundary to
the last bit of a word. The words that a tie takes after that are scripted as zeros.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.exact_exp import Enclosure
from ldp.exact_table import PREFIX_BITS, WORD_BITS, ExactTable, Law
from mpc.core.rng import Rng

Interval = tuple[Fraction, Fraction]

_REST_BITS = WORD_BITS - PREFIX_BITS
_UNIT = Fraction(1, 2**WORD_BITS)

CELLS = 64


class Script(Rng):
    """Gives the stated values, one array or number for each draw; the last one again and again."""

    def __init__(self, *values: NDArray[Any] | Sequence[int] | int) -> None:
        self._values = values
        self.used = 0

    def fill(self, out: NDArray[Any]) -> None:
        value = self._values[min(self.used, len(self._values) - 1)]
        self.used += 1
        out[...] = np.asarray(value, dtype=out.dtype)


def real(table: ExactTable, bits: str) -> int:
    """The outcome for the real whose binary digits are ``bits``, and zeros after them."""
    padded = bits.ljust(-(-len(bits) // WORD_BITS) * WORD_BITS, "0")
    rest = [int(padded[i : i + WORD_BITS], 2) for i in range(WORD_BITS, len(padded), WORD_BITS)]
    first = int(padded[:WORD_BITS], 2)
    out = np.empty(1, dtype=np.int64)
    prefix, word = first >> _REST_BITS, first << PREFIX_BITS & 2**WORD_BITS - 1
    table.fill(out, Script(prefix, word, *rest, 0))
    return int(out[0])


def index_of(outcome: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each outcome in the order 0, -1, 1, -2, 2, ..."""
    return np.where(outcome >= 0, 2 * outcome, -2 * outcome - 1)


class Remembered:
    """A law whose enclosures are computed once for each precision: thousands of ties ask for them.

    It gives the very numbers of ``law``, so that the table's law and code stay as they are.
    """

    def __init__(self, law: Law) -> None:
        self._law = law
        self._started: dict[int, tuple[list[Enclosure], Iterator[Enclosure]]] = {}

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        if bits not in self._started:
            self._started[bits] = ([], self._law.enclosures(bits))
        known, rest = self._started[bits]
        for i in count():
            if i == len(known):
                following = next(rest, None)
                if following is None:
                    return
                known.append(following)
            yield known[i]


def boundaries(table: ExactTable, *, signed: bool = True) -> list[Interval]:
    """Intervals around F(1), F(2), ..., as far as 64-bit words tell outcomes apart.

    Each is at most ``CELLS`` of 2^-64 wide: to search on would be to ask for a tie at each.
    """
    table = copy.copy(table)
    table._law = Remembered(table._law)
    prefixes = np.arange(2**PREFIX_BITS, dtype=np.int64)
    is_open = np.zeros(prefixes.size, dtype=np.bool_)
    is_open[table.open_prefixes] = True

    def index(p: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
        out = np.empty(p.size, dtype=np.int64)
        asked = is_open[p]
        table.fill(out, Script(p, words[asked] << PREFIX_BITS, 0) if asked.any() else Script(p))
        return index_of(out) if signed else out

    top = np.full(prefixes.size, 2**_REST_BITS - 1)
    top[-1] -= 1  # the last cell of an unbounded law holds all the rest
    lowest, highest = index(prefixes, np.zeros_like(prefixes)), index(prefixes, top)
    assert np.all(lowest <= highest)
    assert np.all(highest[:-1] <= lowest[1:])
    # Boundaries within a prefix: the first word of each that gives the target or more.
    holder = np.repeat(prefixes, highest - lowest)
    steps = np.concatenate([np.arange(n) for n in highest - lowest]) if holder.size else holder
    target = lowest[holder] + 1 + steps
    low, high = np.zeros_like(holder), top[holder]
    while np.any(high - low > CELLS - 2):
        middle = (low + high) // 2
        below = index(holder, middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    start = [int(p) << _REST_BITS for p in holder]
    found = [(s + int(a), s + int(b) + 1) for s, a, b in zip(start, low, high, strict=True)]
    # Boundaries between the last word of one prefix and the first of the next.
    for p in np.flatnonzero(highest[:-1] < lowest[1:]):
        edge = int(p) + 1 << _REST_BITS
        found += [(edge - 1, edge + 1)] * int(lowest[p + 1] - highest[p])
    # The real that starts with the lower word does not reach F(k), the other one does.
    return [(a * _UNIT, b * _UNIT) for a, b in sorted(found)]


def masses(found: Sequence[Interval]) -> list[Interval]:
    """Intervals around the probabilities of the outcomes 0, 1, ... in the table's order."""
    edges = [(Fraction(0), Fraction(0)), *found]
    return [(b[0] - a[1], b[1] - a[0]) for a, b in pairwise(edges)]


def exp(x: Fraction) -> Decimal:
    """e^x to the digits of the current context: what the tests compare with."""
    return (Decimal(x.numerator) / Decimal(x.denominator)).exp()


@contextmanager
def digits(n: int = 80) -> Iterator[None]:
    """Decimal arithmetic to ``n`` digits."""
    with localcontext() as context:
        context.prec = n
        yield


def contains(interval: Interval, value: Decimal) -> bool:
    """Whether the interval holds the value, give or take 10^-70 for its rounding."""
    slack = Fraction(1, 10**70)
    return interval[0] - slack <= Fraction(value) <= interval[1] + slack
