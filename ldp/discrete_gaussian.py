"""Discrete Gaussian noise: P(x) proportional to e^(-x^2 / (2 sigma^2)) on all integers, exactly.

Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
    2020): theorem 4 (concentrated privacy, ``rho``), theorem 7 (the least delta for each epsilon).
Model: rho-zCDP and (epsilon, delta)-LDP for each value against anyone who sees any set of reports,
    with unbounded computing power given ideal coins; computational for AES-CTR coins. No finite
    epsilon holds with delta = 0, so ``epsilon`` is infinity.
Leaks: the report, and that the user reported. The time of a draw depends a little on the noise.
Error: none in the law. The mean of reports is unbiased, with a variance of at most sigma^2.
Differs: the source draws one value at a time, a discrete Laplace proposal and coins of e^-x each.
    Here a table holds the law for sigma below 2^10. Above, a table of blocks proposes, a uniform
    offset places x within its block, and one coin accepts, at least 97 times in 100.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, isqrt

import numpy as np
from numpy.typing import NDArray

from ldp import renyi, shift_privacy
from ldp.exact_exp import RealNumber, positive_rational
from ldp.exact_table import PIECE, ExactTable, exact_table
from ldp.exp_coin import ExpCoin
from ldp.gaussian_law import GaussianBlocks, GaussianLaw
from ldp.integer_noise import IntegerNoise, checked_sensitivity
from ldp.rounding import round_up
from mpc.core.rng import Rng

MAX_SIGMA = 1 << 20
"""Exponents of the coins then fit into a word for every block below 2^29, 2^25 sigma from 0."""

TABLE_SIGMA = 1 << 10
"""From here on a table of the law has too many boundaries, and blocks are faster."""

_BLOCKS_PER_SIGMA_BITS = 4
_BLOCK_LIMIT = 1 << 29  # the first block that needs more than 2^48 coins, all ones
_SIGMA_BITS = 64


@dataclass(frozen=True)
class DiscreteGaussian(IntegerNoise):
    """Adds an integer x with probability proportional to e^(-x^2 / (2 sigma^2)).

    sigma: int, float (taken as the dyadic rational that it is) or Fraction, in (0, 2^20]; kept as
    a Fraction.  sensitivity: how far apart two inputs may lie that must look alike, in [1, 2^53].
    """

    sigma: Fraction
    sensitivity: int = 1

    def __init__(self, sigma: RealNumber, sensitivity: int = 1) -> None:
        exact = positive_rational("sigma", sigma, MAX_SIGMA, "measure x in coarser steps")
        object.__setattr__(self, "sigma", exact)
        object.__setattr__(self, "sensitivity", checked_sensitivity(sensitivity))

    @classmethod
    def from_rho(cls, rho: RealNumber, sensitivity: int = 1) -> "DiscreteGaussian":
        """The least sigma, in steps of 2^-64, that is rho-zCDP: sensitivity / sqrt(2 rho).

        rho: positive, at most 2^64.  Raises ParameterError if sigma would pass 2^20.
        """
        width = checked_sensitivity(sensitivity)
        variance = width**2 / (2 * positive_rational("rho", rho, 1 << 64))
        square = -(-(variance.numerator << 2 * _SIGMA_BITS) // variance.denominator)
        return cls(Fraction(isqrt(square - 1) + 1, 1 << _SIGMA_BITS), width)

    @property
    def rho(self) -> float:
        """Zero-concentrated privacy loss, sensitivity^2 / (2 sigma^2), rounded up.

        Losses of several reports add up, and ``ldp.renyi.epsilon_of_rho`` converts the sum.
        """
        return round_up(self._rho)

    @property
    def epsilon(self) -> float:
        """Infinity: far out, the ratio of neighbouring probabilities exceeds every bound.

        Use ``rho``, or ``epsilon_at`` with the delta that you accept.
        """
        return inf

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon for which a report is (epsilon, delta)-LDP, rounded up.

        delta: in (0, 1).  For sigma from 2^10 on, and for epsilons of a hundred or more, it may
        follow from rho, and is not the least then.
        """
        exact = inf
        if self._has_table:
            exact = shift_privacy.epsilon_at(self._law, self.sensitivity, delta)
        return exact if exact < inf else renyi.epsilon_of_rho(self._rho, delta)

    def delta_at(self, epsilon: float) -> float:
        """The least delta for which a report is (epsilon, delta)-LDP, rounded up.

        epsilon: finite, at least 0.  For sigma from 2^10 on, and for epsilons of 500 or
        more, it may follow from rho, and is not the least then; nor need one below 2^-256 be.
        """
        implied = renyi.delta_of_rho(self._rho, epsilon)
        if not self._has_table:
            return implied
        return min(implied, shift_privacy.delta_at(self._law, self.sensitivity, epsilon))

    @cached_property
    def variance(self) -> float:
        """Variance of the noise: at most sigma^2, and very near it from sigma = 1 on."""
        if self._has_table:
            return self._law.variance()
        return float(self.sigma**2)  # nearer than a double can tell

    @property
    def _rho(self) -> Fraction:
        return self.sensitivity**2 * self._step

    @property
    def _step(self) -> Fraction:
        return 1 / (2 * self.sigma**2)

    @property
    def _law(self) -> GaussianLaw:
        return GaussianLaw(self._step)

    @property
    def _spread(self) -> Fraction:
        return max(self.sigma * Fraction(4, 5), Fraction(self.sensitivity, 4))

    @property
    def _has_table(self) -> bool:
        return self.sigma < TABLE_SIGMA

    @cached_property
    def _sampler(self) -> "ExactTable | _Blocks":
        return exact_table(self._law, signed=True) if self._has_table else _blocks(self.sigma)

    def _fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        self._sampler.fill(out, rng)


class _Blocks:
    """Rejection from blocks of 2^shift integers, between 16 and 32 of them to a sigma."""

    def __init__(self, sigma: Fraction) -> None:
        step = 1 / (2 * sigma**2)
        self._shift = int(sigma).bit_length() - 1 - _BLOCKS_PER_SIGMA_BITS
        blocks = GaussianBlocks(step, self._shift)
        self._table: ExactTable = exact_table(blocks, signed=True, limit=_BLOCK_LIMIT)
        self._coin = ExpCoin(step)

    def fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        done = 0
        while done < out.size:
            # Surplus draws are dropped whatever they are, so those kept are as good as any. One in
            # thirty more than needed, or none for the last few.
            missing = out.size - done
            accepted = self._proposals(min(missing + missing // 32, PIECE), rng)[:missing]
            out[done : done + accepted.size] = accepted
            done += accepted.size

    def _proposals(self, n: int, rng: Rng) -> NDArray[np.int64]:
        """Those of ``n`` proposals that are accepted."""
        block = np.empty(n, dtype=np.int64)
        self._table.fill(block, rng)
        # |x| = base + offset, where base is the start of the block, or 1 more on the other side.
        sign = block >> 63
        base = block ^ sign
        base <<= self._shift
        base -= sign
        offset = (rng.words(n, np.uint16) & ((1 << self._shift) - 1)).astype(np.int64)
        # The weight of x is that of its base times e^(-step (x^2 - base^2)).
        excess = base << 1
        excess += offset
        excess *= offset
        accepted = self._coin.toss(excess, rng)
        base += offset
        base ^= sign  # minus |x| is the complement of |x|, plus 1
        base -= sign
        return base[accepted]


@lru_cache(maxsize=8)
def _blocks(sigma: Fraction) -> _Blocks:
    return _Blocks(sigma)
