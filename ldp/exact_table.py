"""Exact draws from any law on the integers whose probabilities can be enclosed, at table speed.

A uniform real in [0, 1) is read 16 bits at first, and those index a table of outcomes. The few
prefixes that hold a boundary between two outcomes take 48 more bits and a search among 64-bit
boundaries; should a boundary lie within that very cell of 2^-64, or the cell be the last, which
holds all the rest of an unbounded law, bits are added until the outcome is certain.

Source: inversion with lazily drawn digits, Knuth and Yao, "The complexity of nonuniform random
    number generation" (1976); Devroye, "Non-Uniform Random Variate Generation" (1986), III.2, with
    the guide tables of Chen and Asau (1974) for the first digits.
Model: given uniform bytes, the outcomes are independent and follow the law exactly.
Leaks: the time of a draw depends on its outcome: one in ten to one in thousands takes longer.
Error: none. No probability is rounded, and no tail is cut off.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldp.exact_exp import Enclosure
from mpc.core.rng import Rng

PREFIX_BITS = 16
WORD_BITS = 64
PIECE = 1 << 14
"""How many draws to ask for at once: table, coins and outcomes then share the second cache."""

_FAR = 1 << 60  # outcomes are counted one by one, so that none comes near it
_REST_BITS = WORD_BITS - PREFIX_BITS
_GUARD_BITS = 64


class Law(Protocol):
    """A distribution on 0, 1, 2, ... by its boundaries F(k) = P(outcome < k)."""

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """Enclosures of 2^bits F(1), 2^bits F(2), ... that narrow to one unit as bits grow.

        If the law has a last outcome k, they end with F(k); if not, they may only end with an
        enclosure that reaches 2^bits.
        """

    def __hash__(self) -> int:
        """Laws are values: equal ones share a table."""


class ExactTable:
    """Draws from ``law``, prepared once; see the module.

    signed: the law's outcomes 0, 1, 2, 3, 4, ... stand for 0, -1, 1, -2, 2, ...
    limit: outcomes beyond it count as plus or minus ``limit``.
    """

    def __init__(self, law: Law, *, signed: bool = False, limit: int = _FAR) -> None:
        self._law = law
        self._signed = signed
        self._limit = limit
        # A boundary lies at or below every real of the cells from ``_passed`` on, and above every
        # real of the cells before ``_met``; in between its own cell, a tie, needs more bits.
        passed: list[int] = []
        met: list[int] = []
        for low, high in law.enclosures(WORD_BITS + _GUARD_BITS):
            met.append(min(low >> _GUARD_BITS, 2**WORD_BITS - 1))
            first_above = -(-high >> _GUARD_BITS)
            if first_above >= 2**WORD_BITS:
                break
            passed.append(first_above)
        else:
            met.append(2**WORD_BITS - 1)  # so that every index below has an entry here
        self._passed = np.maximum.accumulate(np.array(passed, dtype=np.uint64))
        self._met = np.maximum.accumulate(np.array(met, dtype=np.uint64))
        first = np.arange(2**PREFIX_BITS, dtype=np.uint64) << np.uint64(_REST_BITS)
        last = first | np.uint64(2**_REST_BITS - 1)
        index = np.searchsorted(self._passed, first, side="right")
        is_open = np.searchsorted(self._met, last, side="right") != index
        outcome = self._outcome(index)
        # The smallest dtype keeps several tables in the cache; its least value marks open prefixes.
        kind = np.min_scalar_type(-int(np.abs(outcome).max()) - 2)
        self._open = np.iinfo(kind).min
        self._outcomes = np.where(is_open, self._open, outcome).astype(kind)

    def fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        """Overwrite ``out`` (one axis, best of at most ``PIECE`` entries) with independent draws.

        Takes a 16-bit word for each entry, then a 64-bit word for each that these leave open, and
        more of them, one by one, for ties.
        """
        prefixes = rng.words(out.size, np.uint16)
        found = self._outcomes.take(prefixes, mode="clip")  # no index is out of range
        out[...] = found
        still_open = np.flatnonzero(found == self._open)
        if still_open.size:
            out[still_open] = self._outcome(self._settled(prefixes[still_open], rng))

    @property
    def open_prefixes(self) -> NDArray[np.int64]:
        """The prefixes that take a 64-bit word more, in order: int64."""
        return np.flatnonzero(self._outcomes == self._open)

    def draw(self, n: int, rng: Rng) -> NDArray[np.int64]:
        """``n`` independent draws."""
        out = np.empty(n, dtype=np.int64)
        for start in range(0, n, PIECE):
            self.fill(out[start : start + PIECE], rng)
        return out

    def _settled(self, prefixes: NDArray[np.uint16], rng: Rng) -> NDArray[np.int64]:
        words = prefixes.astype(np.uint64) << np.uint64(_REST_BITS)
        words |= rng.words(words.size, np.uint64) >> np.uint64(PREFIX_BITS)
        index = np.searchsorted(self._passed, words, side="right").astype(np.int64)
        for tied in np.flatnonzero(self._met[index] <= words):
            index[tied] = self._refined(int(words[tied]), rng)
        return index

    def _refined(self, word: int, rng: Rng) -> int:
        """The index of the outcome of a real of which the first 64 bits are ``word``."""
        bits = WORD_BITS
        while True:
            word = word << WORD_BITS | int(rng.words(1, np.uint64)[0])
            bits += WORD_BITS
            index = self._located(word, bits)
            if index is not None:
                return self._limited(index)
            # The boundary lies in this cell too: one case in 2^64.

    def _limited(self, index: int) -> int:
        if not self._signed:
            return min(index, self._limit)
        return min(index, 2 * self._limit - (index & 1))  # odd indices are the negative outcomes

    def _located(self, word: int, bits: int) -> int | None:
        index = 0
        for low, high in self._law.enclosures(bits + _GUARD_BITS):
            if high <= word << _GUARD_BITS:
                index += 1
            elif low >= word + 1 << _GUARD_BITS:
                return index
            else:
                return None
        return index

    def _outcome(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return index >> 1 ^ -(index & 1) if self._signed else index


@lru_cache(maxsize=64)
def exact_table(law: Law, *, signed: bool = False, limit: int = _FAR) -> ExactTable:
    """The table of a law, kept for the next caller: up to about a megabyte each."""
    return ExactTable(law, signed=signed, limit=limit)
