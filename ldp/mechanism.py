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
from mpc.core.rng import SYSTEM_RNG, Rng, Shape


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """An estimate after a named step that makes it biased; the raw estimate stays beside it."""

    value: NDArray[np.float64]
    step: str
    raw: "Estimate"


@dataclass(frozen=True, eq=False)
class Estimate:
    """A raw, unbiased estimate: a count may come out negative, or above the number of users.

    value: float64, any shape.  n: the number of reports behind each entry.
    variance: of ``value``, float64, broadcasts against it; the noise of the mechanism only, given
        the true data. Where it depends on the truth, the estimate stands in for it ("plug-in").
    worst: the same for the data that make it largest; it needs no plug-in, so it always holds.
    """

    value: NDArray[np.float64]
    variance: NDArray[np.float64]
    worst: NDArray[np.float64]
    n: int

    def interval(
        self, confidence: float = 0.95, *, worst: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper end, normal approximation, each of ``value``'s shape; not clipped.

        worst: use the worst-case variance instead of the plug-in.
        It covers the mechanism's noise, not the sampling of the users. The approximation needs a
        few dozen reports on either side.  Raises ParameterError unless 0 < confidence < 1.
        """
        if not 0 < confidence < 1:
            raise ParameterError(f"confidence must lie in (0, 1), got {confidence!r}")
        variance = self.worst if worst else self.variance
        # The lower tail is given, since 1 - tail would lose a small tail to rounding.
        half = -NormalDist().inv_cdf((1 - confidence) / 2) * np.sqrt(variance)
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

    def simplex(self, total: float | None = None) -> PostProcessed:
        """The nearest counts (least squares) that are not negative and add up to ``total``.

        For a histogram, so ``value`` must have one axis, of at least one entry, all finite.
        total: positive and finite, by default n.  Source: Duchi, Shalev-Shwartz, Singer and
        Chandra, "Efficient projections onto the l1-ball" (ICML 2008), figure 1.
        """
        return self._on_simplex(total, "projected to the simplex of sum")

    def norm_sub(self, total: float | None = None) -> PostProcessed:
        """Norm-Sub: take one number off every count and set what falls below 0 to 0.

        The number is the one that leaves the sum ``total`` (by default n). Wang et al., "Locally
        differentially private frequency estimation with consistency" (NDSS 2020), show that this
        is the point that ``simplex`` finds; both names give it.
        """
        return self._on_simplex(total, "norm-sub to the sum")

    def _on_simplex(self, total: float | None, step: str) -> PostProcessed:
        target = float(self.n) if total is None else float(total)
        if not 0 < target < math.inf:
            raise ParameterError(f"total must be positive and finite, got {total!r}")
        if self.value.ndim != 1 or not self.value.size or not np.isfinite(self.value).all():
            raise ParameterError(
                f"a simplex needs finite counts on one axis, got shape {self.value.shape}",
                remedy="post-process one histogram at a time",
            )
        falling = np.sort(self.value)[::-1]
        # How far the largest i + 1 counts must come down so that they alone add up to the target.
        excess = (np.cumsum(falling) - target) / np.arange(1, falling.size + 1)
        last = np.flatnonzero(falling > excess)[-1]  # the first entry always qualifies
        value = np.maximum(self.value - excess[last], 0.0)
        return PostProcessed(value=value, step=f"{step} {target:g}", raw=self)


class Mechanism(Protocol):
    """An epsilon-LDP randomizer of arrays and the estimator that fits it.

    A report is one entry of the leading axis of what ``perturb`` returns; batches travel packed.
    """

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report about one unit, in nats, rounded up."""

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: "bit", "value", "coordinate" or "vector"."""

    @property
    def report_bits(self) -> int:
        """Bits that one report takes on the wire; a bound of their mean where reports vary."""

    def perturb(self, x: NDArray[Any], *, rng: Rng = SYSTEM_RNG) -> NDArray[Any]:
        """Randomize each unit of ``x`` independently, with fresh coins."""

    def estimate(self, reports: NDArray[Any]) -> Estimate:
        """The mechanism's own statistic over axis 0 of ``reports``, unbiased."""

    def pack(self, reports: NDArray[Any]) -> bytes:
        """Reports as bytes: ceil(reports * report_bits / 8), or about that where widths vary."""

    def unpack(self, data: bytes, shape: Shape) -> NDArray[Any]:
        """Inverse of ``pack``; WireError for bytes that are not the encoding of such reports."""


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
