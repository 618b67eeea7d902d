"""What every mechanism offers: perturb, estimate with a variance, and a privacy loss with its unit.

Source: local model of differential privacy, Duchi, Jordan and Wainwright (FOCS 2013); PriRec
    (Chen et al., 2020), Definition 3.1.
Model: users run ``perturb`` themselves; whoever sees the reports, all of them, learns at most a
    factor e^epsilon on the odds of one unit of one user's data.
Error: estimates are unbiased and come with the variance that the mechanism adds.
"""

import math
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """An estimate after a named step that makes it biased; the raw estimate stays beside it."""

    value: NDArray[np.float64]
    step: str
    raw: "Estimate"


@dataclass(frozen=True, eq=False)
class Estimate:
    """A raw, unbiased estimate: a count may come out negative, or above the number of users.

    value: float64, any shape.  variance: of ``value``, float64, broadcasts against it; the noise of
    the mechanism only, given the true data.  n: the number of reports behind each entry.
    """

    value: NDArray[np.float64]
    variance: NDArray[np.float64]
    n: int

    def interval(self, confidence: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper end, normal approximation, each of ``value``'s shape; not clipped.

        It covers the mechanism's noise, not the sampling of the users. The approximation needs a
        few dozen reports on either side.  Raises ParameterError unless 0 < confidence < 1.
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence must lie in (0, 1), got {confidence!r}")
        # The lower tail is given, since 1 - tail would lose a small tail to rounding.
        half = -NormalDist().inv_cdf((1 - confidence) / 2) * np.sqrt(self.variance)
        return np.asarray(self.value - half), np.asarray(self.value + half)

    def clipped(self, low: float = 0.0, high: float | None = None) -> PostProcessed:
        """Clip to [low, high], by default to [0, n], the range of a count of ``n`` users.

        A clipped estimate is biased, so sums of many are too: sum first, then clip.
        Raises ParameterError unless low <= high, both numbers.
        """
        top = float(self.n) if high is None else high
        if not low <= top:  # false for NaN too
            raise ParameterError(f"low must be at most high, got [{low}, {top}]")
        value = np.asarray(np.clip(self.value, low, top))
        return PostProcessed(value=value, step=f"clipped to [{low:g}, {top:g}]", raw=self)


class Mechanism(Protocol):
    """An epsilon-LDP randomizer of arrays and the estimator that fits it."""

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report about one unit, in nats, rounded up."""

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: "bit", "value", "coordinate" or "vector"."""

    def perturb(self, x: NDArray[Any], *, rng: Rng = SYSTEM_RNG) -> NDArray[Any]:
        """Randomize each unit of ``x`` independently."""

    def estimate(self, reports: NDArray[Any]) -> Estimate:
        """The mechanism's own statistic over axis 0 of ``reports``, unbiased."""


def checked_epsilon(epsilon: float, minimum: float) -> float:
    """``epsilon`` as a double, never rounded up; ParameterError unless minimum <= it < infinity.

    Takes real numbers of any type except bool, which is a slip in this place, and no strings.
    """
    given: object = epsilon  # whatever the caller really passed
    if isinstance(given, bool) or not isinstance(given, Real):
        raise ParameterError(
            f"epsilon must be a real number, got {type(given).__name__}",
            remedy="pass a float in nats, for example 1.0",
        )
    if not minimum <= epsilon < math.inf:  # false for NaN too
        shown = "0" if minimum == 0 else f"2^{math.log2(minimum):g}"
        raise ParameterError(
            f"epsilon must be finite and at least {shown}, got {epsilon!r}",
            remedy="0 would carry no information and infinity no privacy",
        )
    return _double_below(epsilon)


def _double_below(x: float) -> float:
    try:
        nearest = float(x)
    except OverflowError:
        nearest = math.inf
    # Integers, fractions and long doubles may lie just below the double nearest to them.
    return math.nextafter(nearest, 0.0) if nearest > x else nearest
