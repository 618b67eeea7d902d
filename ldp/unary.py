"""Unary encoding: a value as k bits, of which its own is set, each bit randomized by itself.

Source: Wang, Blocki, Li and Jha, "Locally differentially private protocols for frequency
    estimation" (USENIX Security 2017), "unary encoding": ``symmetric`` is their SUE, the
    basic RAPPOR of Erlingsson, Pihur and Korolova, "RAPPOR: randomized aggregatable
    privacy-preserving ordinal response" (CCS 2014); ``optimized`` is their OUE.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default. Two
    values differ in two bits, and epsilon is the loss of both together.
Leaks: the report itself, and that the user reported.
Error: probabilities are exact multiples of 2^-64, on the safe side of the requested epsilon. The
    estimate is unbiased. Its variance for a value that nobody holds does not depend on k: n times
    e^(epsilon/2) / (e^(epsilon/2) - 1)^2 (symmetric), 4 e^epsilon / (e^epsilon - 1)^2 (optimized).
Differs: RAPPOR keeps a first, permanent response and randomizes it again for each report; here
    ``perturb`` draws fresh coins at each call, and m reports about one value cost m * epsilon.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.bit_reports import checked_bits, checked_shape, column_sums
from ldp.frequency import MAX_VALUES, Support, checked_reports, checked_values
from ldp.mechanism import Estimate
from ldp.thresholds import largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape


@dataclass(frozen=True)
class UnaryEncoding:
    """Report k bits; the user's own is 1 with probability one / 2^64, any other with zero / 2^64.

    k: in [2, 2^32]; a single value would leave nothing to count.
    one, zero: integers with 0 < zero < one < 2^64.
    """

    k: int
    one: int
    zero: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 2, MAX_VALUES))
        one = integer("one", self.one, 2, ONE - 1)
        object.__setattr__(self, "one", one)
        object.__setattr__(self, "zero", integer("zero", self.zero, 1, one - 1))

    @classmethod
    def symmetric(cls, k: int, epsilon: float) -> "UnaryEncoding":
        """SUE, or basic RAPPOR: each bit told truthfully with odds of at most e^(epsilon/2).

        epsilon: in nats, finite, at least 2^-60; from 88.73 on the loss stays at 2 ln(2^64 - 1).
        Raises ParameterError for anything else, NaN, strings and bools included.
        """
        keep = largest_threshold(epsilon, power=2)
        return cls(k, keep, ONE - keep)

    @classmethod
    def optimized(cls, k: int, epsilon: float) -> "UnaryEncoding":
        """OUE: the own bit is a fair coin, any other is 1 with odds of at least e^-epsilon.

        Of all unary encodings it has the least variance where few users hold the value.
        epsilon: in nats, finite, at least 2^-60; from 44.37 on the loss stays at ln(2^64 - 1).
        Raises ParameterError for anything else, NaN, strings and bools included.
        """
        return cls(k, ONE // 2, ONE - largest_threshold(epsilon))

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below the exact one.

        The exact one is the logarithm of one (2^64 - zero) / ((2^64 - one) zero).
        """
        return loss(Fraction(self.one * (ONE - self.zero), (ONE - self.one) * self.zero))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user, with all bits of its report."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: k."""
        return self.k

    @cached_property
    def support(self) -> Support:
        """A report supports the values whose bits are set."""
        return Support(Fraction(self.one, ONE), Fraction(self.zero, ONE))

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        """Randomize each entry of ``x`` with coins of its own, one for each bit of its report.

        x: integers in [0, k), shape (n,).  Returns bool (n, k).  Raises ParameterError for anything
        else, naming the first entry at fault.
        """
        values = checked_values(x, self.k)
        out = rng.bernoulli(self.zero, (values.size, self.k))
        # Every bit has its coin as another value's; the own one is then drawn anew, as one's own.
        for start in range(0, values.size, PIECE_BYTES):
            own = values[start : start + PIECE_BYTES]
            rows = np.arange(start, start + own.size)
            out[rows, own] = rng.bernoulli(self.one, own.size)
        return out

    def estimate(self, reports: NDArray[np.bool_]) -> Estimate:
        """Unbiased number of users who hold each value, float64 (k,); may be negative.

        reports: bool (n, k), n at least 1.
        """
        bits = checked_bits(reports, self.k)
        n = checked_reports(len(bits))
        return self.support.estimate(column_sums(bits), n)

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""
        return self.support.variance_of(count, n)

    def pack(self, reports: NDArray[np.bool_]) -> bytes:
        """Reports, bool (n, k), eight bits to a byte."""
        return packed.pack(checked_bits(reports, self.k))

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.bool_]:
        """Inverse of ``pack`` for a known shape (n, k).

        Raises WireError for bytes that are no such reports, ParameterError for another shape.
        """
        return packed.unpack(data, checked_shape(shape, self.k))
