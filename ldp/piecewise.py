"""The Piecewise Mechanism on a grid: a point near the value with high probability, else any other.

Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin and Yu, "Collecting and analyzing multidimensional
    data with local differential privacy" (ICDE 2019), section III: the Piecewise Mechanism for one
    attribute, and its variance.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported; the public range and grid.
Error: unbiased up to 2^-50 of the range (``ldp.mean``). Probabilities are exact multiples of 2^-64
    and of 1 / steps and 1 / window, on the safe side of the requested epsilon. The variance is the
    paper's, t^2 / (e^(epsilon/2) - 1) + (e^(epsilon/2) + 3) / (3 (e^(epsilon/2) - 1)^2) for t in
    [-1, 1], but for terms of order 1 / steps; ``variance_of`` gives it exactly.
Differs: the paper draws real numbers, and the floating point numbers that would stand for them
    need not keep to epsilon. Here value and report are points of stated grids. The value is rounded
    without bias to a point i of 0..N, where N = steps. The report is one of M = N + w points: with
    probability keep / 2^64 one of the window i..i+w-1, uniformly, else one of the N others. These
    are exact draws, so any report has probability keep / (2^64 w) or (2^64 - keep) / (2^64 N) given
    i, and the worst ratio is keep N / ((2^64 - keep) w).

The same law as a mixture: with probability s = (keep - (2^64 - keep) w / N) / 2^64 the report is
uniform on the window, else uniform on all M points. Measured from the middle of the M points, the
window of i is centred at i - N/2. So the mean report is s (i - N/2), linear in i, and its square
has mean (1 - s)(M^2 - 1)/12 + s ((i - N/2)^2 + (w^2 - 1)/12), which gives the variance.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.frequency import smallest_dtype
from ldp.mean import (
    PIECE,
    GridRounding,
    Noise,
    Range,
    checked_reports,
    checked_users,
    estimate_mean,
)
from ldp.mechanism import Estimate, checked_epsilon
from ldp.rounding import exp_bounds, settle
from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

STEPS = 1 << 15
"""Steps of the default grid: reports take 16 bits, and rounding adds below 3e-10 of the range^2."""

_MOST_STEPS = 1 << 31

# From here on every window is one point wide.
_NARROW = 64.0


@dataclass(frozen=True)
class Piecewise:
    """Report a point of the value's window with probability keep / 2^64, else one of the others.

    low, high: the public range, finite real numbers, low < high.  steps: of the grid of values, in
    [1, 2^31].  window: points of a window, in [1, steps].  keep: in (2^64 w / (N + w), 2^64), so
    that reports near the value are the likelier ones.
    """

    low: float
    high: float
    steps: int
    window: int
    keep: int

    def __post_init__(self) -> None:
        span = Range(self.low, self.high)
        object.__setattr__(self, "low", span.low)
        object.__setattr__(self, "high", span.high)
        object.__setattr__(self, "steps", integer("steps", self.steps, 1, _MOST_STEPS))
        object.__setattr__(self, "window", integer("window", self.window, 1, self.steps))
        # At the lower end every report would be equally likely, at the upper end nothing is hidden.
        least = ONE * self.window // (self.steps + self.window) + 1
        object.__setattr__(self, "keep", integer("keep", self.keep, least, ONE - 1))

    @classmethod
    def from_epsilon(
        cls,
        epsilon: float,
        low: float = -1.0,
        high: float = 1.0,
        *,
        steps: int = STEPS,
        window: int | None = None,
    ) -> Self:
        """The largest keep whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60; the loss never passes ln(2^64 steps / window).
        window: by default the paper's: steps * e^(-epsilon/2), rounded to nearest, at least 1; then
        it makes 1 / (e^(epsilon/2) + 1) of all reports, and keep is near 1 - that.
        """
        steps = integer("steps", steps, 1, _MOST_STEPS)
        if window is None:
            window = _papers_window(epsilon, steps)
        window = integer("window", window, 1, steps)
        keep = largest_threshold(epsilon, Fraction(steps, window))
        if keep <= ONE * window // (steps + window):
            raise ParameterError(
                f"in steps of 2^-64 no report is likelier than others at epsilon {epsilon!r}",
                remedy=f"widen the window, now {window} of {steps} steps, or leave it out",
            )
        return cls(low, high, steps, window, keep)

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below that of the law."""
        return loss(Fraction(self.keep * self.steps, (ONE - self.keep) * self.window))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user."""
        return "value"

    @property
    def outcomes(self) -> int:
        """Number of different reports, M: they are the integers in [0, steps + window)."""
        return self.steps + self.window

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire."""
        return (self.outcomes - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The dtype of reports: the smallest unsigned one."""
        return smallest_dtype(self.outcomes)

    @cached_property
    def range(self) -> Range:
        """The public range of a value."""
        return Range(self.low, self.high)

    @cached_property
    def _slope(self) -> Fraction:
        # By how much the mean report rises when i does: s of the module's docstring.
        return (self.keep - Fraction((ONE - self.keep) * self.window, self.steps)) / ONE

    @cached_property
    def noise(self) -> Noise:
        """Variance of one report's value, in units of the range's width."""
        s, n, w, m = self._slope, self.steps, self.window, self.outcomes
        square = 1 / s - 1
        constant = ((1 - s) * (m * m - 1) + s * (w * w - 1)) / (12 * s * s)
        # Largest at the ends; only where hardly any noise is left does the rounding of a value
        # beside an end outweigh it. For r steps from an end it is r (1 - (n - 1) square) - r^2
        # more, and further inside it is less.
        rise = max(Fraction(0), 1 - (n - 1) * square)
        worst = square * n * n / 4 + constant + rise * rise / 4
        return Noise(
            square=float(square),
            constant=float(constant / n**2),
            rounding=float((square + 1) / n**2),
            steps=n,
            worst=float(worst / n**2),
        )

    @property
    def worst_variance(self) -> float:
        """The largest variance that one report adds, whatever the value."""
        return self.range.width**2 * self.noise.worst

    def variance_of(self, x: ArrayLike) -> NDArray[np.float64]:
        """Variance of the value that a user with value ``x`` reports; ``x`` of any shape.

        The variance of the mean of n users is the sum of theirs over n^2.
        """
        return self.range.width**2 * self.noise.at(self.range.fractions(self.range.checked(x)))

    def perturb(self, x: ArrayLike, *, rng: Rng = SYSTEM_RNG) -> NDArray[Any]:
        """Randomize each entry of ``x``, any shape, with coins of its own.

        x: floats of at most 64 bits or integers, within the range.  Returns ``dtype`` of x's shape.
        Raises ParameterError for other entries, NaN included, before any coin is drawn.
        """
        values = self.range.checked(x)
        flat = values.reshape(-1)
        out = np.empty(flat.size, dtype=self.dtype)
        rounding = GridRounding(self.range, flat.size)
        for start in range(0, flat.size, PIECE):
            piece = flat[start : start + PIECE]
            self.report(piece, rounding, rng, out[start : start + PIECE])
        return out.reshape(values.shape)

    def report(
        self,
        values: NDArray[np.float64],
        rounding: GridRounding,
        rng: Rng,
        out: NDArray[np.unsignedinteger[Any]],
    ) -> None:
        """``perturb`` for a piece of checked values, into ``out``."""
        words = rounding.draw(values.size, rng)
        points = rounding.to_points(values, self.steps, words).astype(self.dtype)
        # Both draws are made for every entry, so that neither their number nor their time tells
        # which of them is the report.
        inside = rng.bernoulli(self.keep, points.size)
        near = rng.uniform(self.window, points.size, self.dtype)
        other = rng.uniform(self.steps, points.size, self.dtype)
        near += points
        # The others are numbered past the window.
        other += (other >= points) * self.dtype.type(self.window)
        np.copyto(out, other)
        np.copyto(out, near, where=inside)

    def values(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        """What each report says: its mean is the user's value; any shape, far outside the range."""
        told = checked_reports(reports, self.outcomes)
        return np.asarray(self.range.middle + self.range.width * self.offsets(told))

    def offsets(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        """``values`` of checked reports, from the middle of the range in units of its width."""
        middle = (self.outcomes - 1) / 2
        offsets = np.asarray(np.subtract(reports, middle, dtype=np.float64))
        np.divide(offsets, float(self._slope) * self.steps, out=offsets)
        return offsets

    def estimate(self, reports: NDArray[Any]) -> Estimate:
        """Unbiased mean of the users' values, along axis 0; may leave the range.

        reports: integers, shape (users, ...).  Returns an Estimate whose value has shape (...). The
        plug-in variance estimates the mean square of the values from the reports.
        Raises ParameterError without users.
        """
        told = checked_users(checked_reports(reports, self.outcomes))
        return estimate_mean(self.range, self.noise, told, self.offsets)

    def pack(self, reports: NDArray[Any]) -> bytes:
        """Reports of any shape, ``report_bits`` each."""
        told = checked_reports(reports, self.outcomes)
        return packed.pack_words(told.astype(np.uint64), self.report_bits)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[Any]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return packed.unpack_below(data, shape, self.outcomes).astype(self.dtype)


def _papers_window(epsilon: float, steps: int) -> int:
    # Decided exactly, so that users and server find the same grid on any machine.
    half = min(checked_epsilon(epsilon, MIN_EPSILON), _NARROW) / 2

    def bounds(digits: int) -> tuple[int, int]:
        low, high = exp_bounds(-half, digits)
        return _nearest(steps * low), _nearest(steps * high)

    return max(1, settle(bounds))


def _nearest(x: Fraction) -> int:
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)
