"""What single releases lose: each one's worst case, as a pair of laws that every method composes.

Source: dominating pairs and their composition, adaptive too: Zhu, Dong and Wang, "Optimal
    accounting of differential privacy via characteristic function" (AISTATS 2022); randomized
    response as the worst pure mechanism: Kairouz, Oh and Viswanath, "The composition theorem for
    differential privacy" (ICML 2015); pure losses in zCDP: Bun and Steinke, "Concentrated
    differential privacy" (TCC 2016), proposition 1.4; the discrete Gaussian in zCDP: Canonne,
    Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS 2020), theorem 4.
    That a shift by the whole sensitivity is the worst for log-concave noise: ``ldp.shift_privacy``.
Model: the losses are those of ideal coins, about one unit of one user's data; two inputs of an
    additive mechanism lie at most ``sensitivity`` apart.
Error: none towards less. Losses and masses are doubles that are never below the exact ones, and
    a loss that is too large only makes the composed epsilon larger.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.k_ary import KaryRandomizedResponse
from ldp.mechanism import Mechanism, checked_epsilon
from ldp.randomized_response import RandomizedResponse
from ldp.rounding import exact, round_up
from ldp.skellam import Skellam, SkellamLaw
from ldp.thresholds import loss as log_ratio
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE

SLACK = 1 + 2.0**-40
"""What positive results of a few dozen operations on doubles are multiplied with: far more than
their rounding errors add up to, and too little to be seen."""

# Beyond so many atoms discrete Laplace noise is taken as any pure loss, and a discrete Gaussian has
# no pair: 2^21 atoms are a sigma of 87,000.
_MOST_LAPLACE, _MOST_GAUSSIAN = 1 << 16, 1 << 21

# A discrete Gaussian exceeds 12 sigma with probability below 1e-32. Its weights fall, so that their
# sum beyond a point is at most their integral from there, and all of them together are at least
# sigma sqrt(2 pi) (Poisson summation). So its tail is at most the normal one, 1.8e-33.
_TAIL, _TAIL_SIGMAS = 1e-32, 12

# What is left out of a Skellam law weighs below 2^-110, about 1e-33.
_SKELLAM_BITS = 110

# Far outside of any use, and wide enough that no double below overflows.
_WIDEST = 2.0**64


@dataclass(frozen=True, eq=False)
class Pair:
    """The law of the privacy loss ln(P/Q) under P, for a pair (P, Q) that dominates a mechanism.

    losses: float64 (m,), each at least the exact one.  masses: float64 (m,), each at least the
    exact one.  infinite: at least the mass where Q has none. P and Q may change places: the pairs
    here are symmetric.
    """

    losses: NDArray[np.float64]
    masses: NDArray[np.float64]
    infinite: float = 0.0


class Loss(Protocol):
    """What one release loses about one user, as every method of ``ldp.composition`` needs it."""

    @property
    def epsilon(self) -> float:
        """Pure loss, rounded up; infinity where there is none."""

    @property
    def rho(self) -> float:
        """Loss in zCDP, rounded up; infinity where there is none."""

    def pair(self) -> Pair | None:
        """A dominating pair, or None where none is known."""


@dataclass(frozen=True)
class PureLoss:
    """Any epsilon-LDP release of which no more is known; ``math.inf`` for one that has no privacy.

    Randomized response at the same epsilon is the worst of them.
    """

    epsilon: float

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            checked_epsilon(self.epsilon, 0.0)
            # A double above what was given, since it states a loss.
            object.__setattr__(self, "epsilon", round_up(exact(self.epsilon)))

    @property
    def rho(self) -> float:
        """epsilon^2 / 2."""
        return _half_square(self.epsilon)

    def pair(self) -> Pair:
        """Randomized response at this epsilon; for infinity, two laws that never meet."""
        if self.epsilon == math.inf:
            return Pair(np.empty(0), np.empty(0), infinite=1.0)
        lie = math.exp(-self.epsilon)
        masses = np.array([lie, 1.0]) / (1 + lie) * SLACK
        return Pair(np.array([-self.epsilon, self.epsilon]), masses)


@dataclass(frozen=True)
class ZcdpLoss:
    """A release of which only its rho in zCDP is known; pure composition has no bound for it.

    rho: in [2^-64, 2^64].
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", round_up(_number("rho", self.rho)))

    @property
    def epsilon(self) -> float:
        """Infinity."""
        return math.inf

    def pair(self) -> Pair | None:
        """None: zCDP bounds moments of the loss and leaves its law open."""
        return None


@dataclass(frozen=True)
class ResponseLoss:
    """k-ary randomized response: the truth with probability keep / 2^64, else any other value.

    k: at least 2.  keep: in (2^64 / k, 2^64), as in ``ldp.randomized_response`` for k = 2.
    """

    k: int
    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 2, 2**40))
        keep = integer("keep", self.keep, ONE // self.k + 1, ONE - 1)
        object.__setattr__(self, "keep", keep)

    @cached_property
    def epsilon(self) -> float:
        """ln((k - 1) keep / (2^64 - keep)), the smallest double not below it."""
        return log_ratio(Fraction(self.keep * (self.k - 1), ONE - self.keep))

    @property
    def rho(self) -> float:
        """epsilon^2 / 2."""
        return _half_square(self.epsilon)

    def pair(self) -> Pair:
        """The truth, the other of the two inputs, and the k - 2 values that tell nothing."""
        truth, other = Fraction(self.keep, ONE), Fraction(ONE - self.keep, ONE * (self.k - 1))
        masses = [round_up(mass) for mass in (other, 1 - truth - other, truth)]
        below = math.nextafter(self.epsilon, 0.0)  # the exact loss lies above it
        return Pair(np.array([-below, 0.0, self.epsilon]), np.array(masses))


@dataclass(frozen=True)
class LaplaceLoss:
    """Discrete Laplace noise: P(x) proportional to exp(-|x| / scale) on all integers.

    scale: in [2^-64, 2^64].  sensitivity: in [1, 2^53], in steps of the integer grid.
    """

    scale: float | Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _number("scale", self.scale))
        object.__setattr__(self, "sensitivity", _sensitivity(self.sensitivity))

    @cached_property
    def epsilon(self) -> float:
        """sensitivity / scale."""
        return round_up(self.sensitivity / Fraction(self.scale))

    @property
    def rho(self) -> float:
        """epsilon^2 / 2."""
        return _half_square(self.epsilon)

    def pair(self) -> Pair:
        """The noise around 0 and around ``sensitivity``; between the two the loss falls evenly."""
        width, scale = self.sensitivity, float(self.scale)
        if width > _MOST_LAPLACE:
            return PureLoss(self.epsilon).pair()
        x = np.arange(width + 1)
        losses = (width - 2 * x) / scale
        # Everything at or below 0 has one loss, everything at or above the sensitivity another.
        masses = np.exp(-x / scale)
        masses[1:-1] *= -math.expm1(-1 / scale)
        masses *= SLACK / (1 + math.exp(-1 / scale))
        return Pair(_raised(losses), masses)


@dataclass(frozen=True)
class GaussianLoss:
    """Discrete Gaussian noise: P(x) proportional to exp(-x^2 / (2 sigma^2)) on all integers.

    sigma: in [2^-64, 2^64].  sensitivity: in [1, 2^53], in steps of the integer grid.
    """

    sigma: float | Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _number("sigma", self.sigma))
        object.__setattr__(self, "sensitivity", _sensitivity(self.sensitivity))

    @property
    def epsilon(self) -> float:
        """Infinity: the loss grows without end into the tail."""
        return math.inf

    @cached_property
    def rho(self) -> float:
        """sensitivity^2 / (2 sigma^2)."""
        return round_up(Fraction(self.sensitivity**2) / (2 * Fraction(self.sigma) ** 2))

    def pair(self) -> Pair | None:
        """The noise around 0 and around ``sensitivity``; None if sigma has too many values."""
        sigma, width = float(self.sigma), self.sensitivity
        reach = math.ceil(_TAIL_SIGMAS * sigma) + 2
        if 2 * reach + 1 > _MOST_GAUSSIAN:
            return None
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        weights = np.exp(-0.5 * (x / sigma) ** 2)
        # The sum leaves both tails out, so that it is no larger than the true one.
        masses = weights * (SLACK / float(np.sum(weights)))
        losses = (width / sigma) * ((0.5 * width - x) / sigma)
        masses[-1] += _TAIL  # where the loss is lowest; it is lower still in the tail
        return Pair(_raised(losses), masses, infinite=_TAIL)


@dataclass(frozen=True)
class SkellamLoss:
    """Skellam noise: the difference of two Poisson variables of mean variance / 2 each.

    variance: in (0, 2^20].  sensitivity: in [1, 2^53], in steps of the integer grid.
    """

    variance: float | Fraction
    sensitivity: int = 1

    def __post_init__(self) -> None:
        noise = Skellam(self.variance, self.sensitivity)  # which knows the domain
        object.__setattr__(self, "variance", noise.exact_variance)
        object.__setattr__(self, "sensitivity", noise.sensitivity)

    @property
    def epsilon(self) -> float:
        """Infinity: the loss grows without end into the tail."""
        return math.inf

    @property
    def rho(self) -> float:
        """Infinity: no bound in zCDP is used here; see ``renyi``."""
        return math.inf

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bounds of the divergences at ``orders`` above 1, by ``Skellam.rdp``.

        Divergences grow with the order, so that the next integer's serves a broken one.
        """
        noise = Skellam(self.variance, self.sensitivity)
        return np.array([noise.rdp(max(2, math.ceil(order))) for order in orders])

    def pair(self) -> Pair:
        """The noise around 0 and around ``sensitivity``."""
        known = SkellamLaw(Fraction(self.variance)).weights(_SKELLAM_BITS)
        low, high = np.array(known.low, np.float64), np.array(known.high, np.float64)
        reach, width = low.size - 1, self.sensitivity
        # Where the other law's weight is not known, the loss counts as infinite.
        x = np.arange(max(width - reach, -reach), reach + 1)
        losses = np.log(high[np.abs(x)] / low[np.abs(x - width)])
        total = low[0] + 2 * float(np.sum(low[1:]))  # the tails left out: no larger than the true
        masses = high[np.abs(x)] * (SLACK / total)
        unknown = np.arange(-reach, min(width - reach, reach + 1))
        far = float(np.sum(high[np.abs(unknown)])) + 2 * float(known.tail)
        # Logarithms of rounded quotients, themselves at most a hundred or so.
        return Pair(_raised(losses) + 2.0**-48, masses, infinite=far * (SLACK / total))


def loss_of(mechanism: Mechanism) -> Loss:
    """The tightest loss known here for a mechanism; for those that it does not know, epsilon."""
    if isinstance(mechanism, RandomizedResponse):
        return ResponseLoss(2, mechanism.keep)
    if isinstance(mechanism, KaryRandomizedResponse):
        return ResponseLoss(mechanism.k, mechanism.keep)
    if isinstance(mechanism, DiscreteLaplace):
        return LaplaceLoss(mechanism.scale, mechanism.sensitivity)
    if isinstance(mechanism, DiscreteGaussian):
        return GaussianLoss(mechanism.sigma, mechanism.sensitivity)
    if isinstance(mechanism, Skellam):
        return SkellamLoss(mechanism.exact_variance, mechanism.sensitivity)
    return PureLoss(mechanism.epsilon)


def _half_square(epsilon: float) -> float:
    return math.inf if epsilon == math.inf else round_up(Fraction(epsilon) ** 2 / 2)


def _raised(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The losses, moved up by more than the rounding of the few operations that made them."""
    return np.asarray(losses + np.abs(losses) * 2.0**-48)


def _number(name: str, value: float | Fraction) -> Fraction:
    given: object = value
    number = isinstance(given, Real) and not isinstance(given, bool)
    if not number or not 1 / _WIDEST <= value <= _WIDEST:  # false for NaN too
        raise ParameterError(f"{name} must be a number in [2^-64, 2^64], got {value!r}")
    return exact(value)


def _sensitivity(value: int) -> int:
    return integer("sensitivity", value, 1, 2**53)
