"""Skellam noise: the difference of two Poisson variables, exactly, for sums across users.

Sums of independent Skellam variables are Skellam again, with the sum of the variances. So users may
each add a small share of the noise that their sum is to have, which no discrete Gaussian allows.

Source: Agarwal, Kairouz and Liu, "The Skellam mechanism for differentially private federated
    learning" (NeurIPS 2021), corollary 3.6 (``rdp``). The law is Skellam's (1946):
    P(x) = e^-v I_x(v) with the modified Bessel function and v the variance.
Model: (alpha, rdp(alpha))-RDP and (epsilon, delta)-LDP for each value against anyone who sees any
    set of reports, with unbounded computing power given ideal coins; computational for AES-CTR
    coins. No finite epsilon holds with delta = 0, so ``epsilon`` is infinity.
Leaks: the report, and that the user reported. The time of a draw depends a little on the noise.
Error: none in the law. The mean of reports is unbiased.
Differs: the source draws two Poisson variables; here one table holds the law of the difference. No
    Bessel function is evaluated: the ratios I_(x+1) / I_x follow from their recursion, which
    narrows intervals when it runs towards 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isqrt

import numpy as np
from numpy.typing import NDArray

from ldp import shift_privacy
from ldp.exact_exp import Enclosure, RealNumber, positive_rational
from ldp.exact_table import ExactTable, exact_table
from ldp.integer_law import SymmetricLaw, Weights, geometric_tail
from ldp.integer_noise import IntegerNoise, checked_sensitivity
from ldp.renyi import epsilon_of_rdp
from ldp.rounding import round_up
from mpc.core.checks import integer
from mpc.core.rng import Rng

MAX_VARIANCE = 1 << 20
"""Larger laws have too many boundaries for a table of 2^16 prefixes."""


@dataclass(frozen=True)
class SkellamLaw(SymmetricLaw):
    """P(x) proportional to I_|x|(v) for variance v.

    It is log-concave, since both Poisson laws are and convolution keeps that.
    """

    v: Fraction

    def weights(self, bits: int) -> Weights:
        """w(x + 1) = w(x) r(x) with r(x) = I_(x+1)(v) / I_x(v)."""
        work = bits + 64
        # The tail falls below 2^-bits before 2 sqrt(v bits) or, for small v, before 2 bits; should
        # it not, twice as many are tried.
        count = 2 * isqrt(int(self.v * work) + 1) + 2 * work
        while True:
            ratios = _ratios(self.v, count, work)
            low, high = [1 << work], [1 << work]
            for ratio_low, ratio_high in ratios:
                tail = geometric_tail(high[-1], ratio_high, work)
                if tail is not None and tail >> work - bits - 16 == 0:
                    return Weights(low, high, tail)
                low.append(low[-1] * ratio_low >> work)
                high.append(-(-high[-1] * ratio_high >> work))
            count *= 2


def _ratios(v: Fraction, count: int, work: int) -> Sequence[Enclosure]:
    """Enclosures of r(0), ..., r(count - 1), by r(x) = 1 / (2 (x + 1) / v + r(x + 1)).

    The recursion is I_x = 2 (x + 1) / v I_(x+1) + I_(x+2). It starts from 0 < r < 1 and turns an
    error in r(x + 1) into one r(x)^2 times as large.
    """
    one = 1 << work
    low, high = 0, one
    ratios = []
    for x in range(count, 0, -1):
        floor = (2 * x * v.denominator << work) // v.numerator
        low, high = (
            (one << work) // (floor + 1 + high),
            min(one, -(-(one << work) // (floor + low))) if floor + low else one,
        )
        ratios.append((low, high))
    ratios.reverse()
    return ratios


@dataclass(frozen=True)
class Skellam(IntegerNoise):
    """Adds N - N' for independent Poisson variables of mean variance / 2 each.

    variance: int, float (taken as the dyadic rational that it is) or Fraction, in (0, 2^20]; kept
    as a Fraction in ``exact_variance``.  sensitivity: how far apart two inputs may lie that must
    look alike, in [1, 2^53].  For a larger variance use ``ldp.discrete_gaussian``.
    """

    exact_variance: Fraction
    sensitivity: int = 1

    def __init__(self, variance: RealNumber, sensitivity: int = 1) -> None:
        exact = positive_rational(
            "variance", variance, MAX_VARIANCE, "for larger noise use ldp.discrete_gaussian"
        )
        object.__setattr__(self, "exact_variance", exact)
        object.__setattr__(self, "sensitivity", checked_sensitivity(sensitivity))

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return float(self.exact_variance)

    @property
    def epsilon(self) -> float:
        """Infinity: far out, the ratio of neighbouring probabilities exceeds every bound.

        Use ``rdp``, or ``epsilon_at`` with the delta that you accept.
        """
        return inf

    def rdp(self, alpha: int, *, l1: int | None = None, l2_squared: int | None = None) -> float:
        """The Renyi privacy loss of order ``alpha``, an upper bound (corollary 3.6), rounded up.

        With noise on each coordinate of a vector and its sensitivities in the two norms,
        alpha l2^2 / (2 v) + min(((2 alpha - 1) l2^2 + 6 l1) / (4 v^2), 3 l1 / (2 v)).
        alpha: integer, at least 2.  l1, l2_squared: of the vector, integers; by default those of
        one value.  Losses add up over releases; ``ldp.renyi.epsilon_of_rdp`` converts the sum.
        """
        order = integer("alpha", alpha, 2, 1 << 53)
        wide = self.sensitivity if l1 is None else integer("l1", l1, 1, 1 << 106)
        square = (
            self.sensitivity**2
            if l2_squared is None
            else integer("l2_squared", l2_squared, 1, 1 << 106)
        )
        v = self.exact_variance
        correction = min(
            ((2 * order - 1) * square + 6 * wide) / (4 * v**2), Fraction(3 * wide) / (2 * v)
        )
        return round_up(order * square / (2 * v) + correction)

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon for which a report is (epsilon, delta)-LDP, rounded up.

        delta: in (0, 1).  Where it is a hundred or more it may follow from ``rdp``, and is not the
        least then.
        """
        exact = shift_privacy.epsilon_at(self._law, self.sensitivity, delta)
        if exact < inf:
            return exact
        orders = range(2, 20)
        return min(epsilon_of_rdp(order, self.rdp(order), delta) for order in orders)

    def delta_at(self, epsilon: float) -> float:
        """The least delta for which a report is (epsilon, delta)-LDP, rounded up.

        epsilon: finite, at least 0; from 500 on the result may lie above the least, and so may one
        below 2^-256.
        """
        return shift_privacy.delta_at(self._law, self.sensitivity, epsilon)

    @cached_property
    def _law(self) -> SkellamLaw:
        return SkellamLaw(self.exact_variance)

    @property
    def _spread(self) -> Fraction:
        return Fraction(max(isqrt(int(self.exact_variance)), self.sensitivity // 4))

    @cached_property
    def _table(self) -> ExactTable:
        return exact_table(self._law, signed=True)

    def _fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        self._table.fill(out, rng)
