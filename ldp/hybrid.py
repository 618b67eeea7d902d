"""The Hybrid Mechanism: Piecewise for some reports and Duchi's for the others, by a public coin.

Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin and Yu, "Collecting and analyzing multidimensional
    data with local differential privacy" (ICDE 2019), section III: the Hybrid Mechanism; the
    paper's epsilon* is ``LEAST_EPSILON``, its alpha is share / 2^64.
Model: epsilon-LDP for each value, as for its two parts: the coin between them knows no value, and
    the report says how it fell. Computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported; the public range and grid.
Error: unbiased as its parts are. Up to an epsilon of 0.61 it is Duchi's mechanism; from there on
    the terms in the true value cancel, and every value has the same variance but for terms of order
    1 / steps: the paper's worst case,
    (e^(epsilon/2) + 3) / (3 e^(epsilon/2) (e^(epsilon/2) - 1))
    + (e^epsilon + 1)^2 / (e^(epsilon/2) (e^epsilon - 1)^2) for values in [-1, 1].
Differs: its parts are exact (``ldp.piecewise``, ``ldp.one_bit_mean``), and a report is a point of a
    grid or a bit. The share is an exact multiple of 2^-64 too.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.duchi import Duchi
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
from ldp.piecewise import STEPS, Piecewise
from ldp.rounding import exp_bounds, settle
from ldp.thresholds import MIN_EPSILON
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

# Up to here Duchi's mechanism alone has the least variance at its worst; 0.61.
_ROOT = 405 * math.sqrt(241)
LEAST_EPSILON = math.log((-5 + 2 * math.cbrt(6353 - _ROOT) + 2 * math.cbrt(6353 + _ROOT)) / 27)
"""The epsilon above which some reports are Piecewise."""

# From here on the share is the largest there is.
_SATURATED = 200.0


@dataclass(frozen=True)
class Hybrid:
    """A Piecewise report with probability share / 2^64, else Duchi's; both of the same range.

    share: in [0, 2^64).  Reports 0 and 1 are Duchi's bits; report 2 + j is the Piecewise report j.
    With share 0 reports are bits.
    """

    duchi: Duchi
    piecewise: Piecewise
    share: int

    def __post_init__(self) -> None:
        for name, kind in (("duchi", Duchi), ("piecewise", Piecewise)):
            part = getattr(self, name)
            if not isinstance(part, kind):
                raise ParameterError(f"{name} must be a {kind.__name__}, got {type(part).__name__}")
        if self.duchi.range != self.piecewise.range:
            raise ParameterError(
                f"both parts must have one range, got [{self.duchi.low!r}, {self.duchi.high!r}] "
                f"and [{self.piecewise.low!r}, {self.piecewise.high!r}]"
            )
        object.__setattr__(self, "share", integer("share", self.share, 0, ONE - 1))

    @classmethod
    def from_epsilon(
        cls, epsilon: float, low: float = -1.0, high: float = 1.0, *, steps: int = STEPS
    ) -> Self:
        """The paper's mixture of two mechanisms whose loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60.  share: 1 - e^(-epsilon/2), rounded down, and none up to
        ``LEAST_EPSILON``.  steps: of the grid of the Piecewise Mechanism.
        """
        duchi = Duchi.from_epsilon(epsilon, low, high)
        piecewise = Piecewise.from_epsilon(epsilon, low, high, steps=steps)
        return cls(duchi, piecewise, _papers_share(epsilon))

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats, rounded up: the larger of its parts'."""
        # A report names its part, which has the same probability for all values.
        parts = [self.duchi.epsilon, self.piecewise.epsilon]
        return max(parts if self.share else parts[:1])

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user."""
        return "value"

    @property
    def outcomes(self) -> int:
        """Number of different reports: they are the integers below it."""
        return 2 + self.piecewise.outcomes if self.share else 2

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire."""
        return (self.outcomes - 1).bit_length()

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The dtype of reports: the smallest unsigned one."""
        return smallest_dtype(self.outcomes)

    @property
    def range(self) -> Range:
        """The public range of a value."""
        return self.duchi.range

    @cached_property
    def noise(self) -> Noise:
        """Variance of one report's value, in units of the range's width.

        The mean over both parts, since either's mean is the value. ``worst`` is a bound: it takes
        the most that rounding adds together with the most of the rest.
        """
        share = self.share / ONE
        a, b = self.piecewise.noise, self.duchi.noise
        square = share * a.square + (1 - share) * b.square
        constant = share * a.constant + (1 - share) * b.constant
        rounding = share * a.rounding
        worst = constant + max(0.0, square) / 4 + rounding / 4
        return Noise(square, constant, rounding, a.steps, worst)

    @property
    def worst_variance(self) -> float:
        """A bound on the variance that one report adds, whatever the value; tight to 1 / steps."""
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
        bits = np.empty(min(flat.size, PIECE), dtype=np.bool_)
        near = np.empty(min(flat.size, PIECE), dtype=self.piecewise.dtype)
        for start in range(0, flat.size, PIECE):
            piece, told = flat[start : start + PIECE], out[start : start + PIECE]
            # Both parts answer for every entry, so that the work does not tell which one reports.
            self.duchi.report(piece, rounding, rng, bits[: piece.size])
            np.copyto(told, bits[: piece.size])
            if self.share:
                self.piecewise.report(piece, rounding, rng, near[: piece.size])
                points = np.add(near[: piece.size], 2, dtype=self.dtype)
                np.copyto(told, points, where=rng.bernoulli(self.share, piece.size))
        return out.reshape(values.shape)

    def values(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        """What each report says: its mean is the user's value; any shape, far outside the range."""
        told = checked_reports(reports, self.outcomes)
        return np.asarray(self.range.middle + self.range.width * self._offsets(told))

    def _offsets(self, reports: NDArray[Any]) -> NDArray[np.float64]:
        signed = reports.astype(np.int64)
        bits = self.duchi.offsets(signed == 1)
        return np.where(signed < 2, bits, self.piecewise.offsets(signed - 2))

    def estimate(self, reports: NDArray[Any]) -> Estimate:
        """Unbiased mean of the users' values, along axis 0; may leave the range.

        reports: integers, shape (users, ...).  Returns an Estimate whose value has shape (...).
        Raises ParameterError without users.
        """
        told = checked_users(checked_reports(reports, self.outcomes))
        return estimate_mean(self.range, self.noise, told, self._offsets)

    def pack(self, reports: NDArray[Any]) -> bytes:
        """Reports of any shape, ``report_bits`` each."""
        told = checked_reports(reports, self.outcomes)
        return packed.pack_words(told.astype(np.uint64), self.report_bits)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[Any]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return packed.unpack_below(data, shape, self.outcomes).astype(self.dtype)


def _papers_share(epsilon: float) -> int:
    epsilon = min(checked_epsilon(epsilon, MIN_EPSILON), _SATURATED)
    if epsilon <= LEAST_EPSILON:
        return 0

    def bounds(digits: int) -> tuple[int, int]:
        low, high = exp_bounds(-epsilon / 2, digits)
        return int(ONE * (1 - high)), int(ONE * (1 - low))

    return min(settle(bounds), ONE - 1)
