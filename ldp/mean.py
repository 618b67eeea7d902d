"""What mean mechanisms share: the public range of a value, its unbiased rounding, and their checks.

A value enters a mechanism in two steps. It is rounded at random to a point of a public grid, so
that the mean of the point is the value; then coins decide the report, and they see the point alone.
Hence the law of a report is a mixture of the laws given a grid point, with weights that depend on
the value. A mixture of laws whose ratios are at most e^epsilon against each other has no larger
ratio, whatever the weights: floating point, which makes the weights, cannot cost privacy, only
accuracy.

Source: randomized rounding as in Ding, Kulkarni and Yekhanin, "Collecting telemetry data
    privately" (NIPS 2017).
Error: with u = 2^-53, the fraction (x - low) / (high - low) has a relative error of at most 3.1 u
    (no error for range [0, 1]); the probability of a step up is an exact multiple of 2^-62, less
    than 2^-62 below what it should be. So the mean of the point is off by less than 3.1 u of the
    range (4.1 u where the steps of the grid are no power of two), and by 2^-62 of a step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp.mechanism import Estimate
from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import Rng

PIECE = PIECE_BYTES // 4
"""Entries handled together: a few arrays of 64-bit words of that length fit the outer cache."""

# Squares of widths in between, and of noise 2^62 times as wide, stay within doubles.
_NARROWEST, _WIDEST = 2.0**-400, 2.0**400


@dataclass(frozen=True)
class Range:
    """The public range [low, high] that every user's value lies in.

    low, high: real numbers, finite, with a difference in [2^-400, 2^400].
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _real(name, getattr(self, name)))
        if not _NARROWEST <= self.high - self.low <= _WIDEST:
            raise ParameterError(
                f"high - low must lie in [2^-400, 2^400], got [{self.low!r}, {self.high!r}]",
                remedy="give the range that values are clipped to, lower end first",
            )

    @property
    def width(self) -> float:
        """high - low, rounded to nearest."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """Half way between the ends."""
        return self.low + self.width / 2

    def checked(self, x: ArrayLike, name: str = "x") -> NDArray[np.float64]:
        """``x`` as float64; ParameterError unless it holds real numbers of the range.

        x: floats of at most 64 bits or integers, any shape. Bools are refused, since they are no
        measurements. The message names the first entry at fault and never shows it.
        """
        given = np.asarray(x)
        if given.dtype.kind not in "fiu" or given.dtype.itemsize > 8:
            raise ParameterError(
                f"{name} must hold floats of at most 64 bits or integers, got dtype {given.dtype}"
            )
        values = given.astype(np.float64, copy=False)
        # Comparisons with NaN are false, so NaN is at fault too.
        if values.size and not (values.min() >= self.low and values.max() <= self.high):
            wrong = ~((values >= self.low) & (values <= self.high))
            index = [int(i) for i in np.argwhere(wrong)[0]]
            raise ParameterError(
                f"{name}{index or ''} is no number in [{self.low!r}, {self.high!r}]",
                remedy="clip values to the range first; the mean is then that of clipped values",
            )
        return values

    def fractions(
        self, values: NDArray[np.float64], out: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Where checked values lie in the range: 0.0 at low, 1.0 at high, never outside."""
        # Rounding is monotone, so no fraction passes 1.
        offsets = np.asarray(np.subtract(values, self.low, out=out))
        np.divide(offsets, self.width, out=offsets)
        return offsets


class GridRounding:
    """Unbiased rounding of values in a range to grid points, a piece at a time.

    It keeps the memory of one piece, since fresh memory costs more than all the arithmetic. What a
    method returns is valid until the next call.
    """

    def __init__(self, span: Range, size: int) -> None:
        length = min(size, PIECE)
        self._span = span
        self._fractions = np.empty(length, dtype=np.float64)
        self._whole = np.empty(length, dtype=np.float64)
        self._thresholds = np.empty(length, dtype=np.int64)
        self._words = np.empty(length, dtype=np.uint64)
        self._coins = np.empty(length, dtype=np.uint64)

    def draw(self, size: int, rng: Rng) -> NDArray[np.uint64]:
        """Coins for ``size`` entries: uniform 64-bit words."""
        words = self._words[:size]
        rng.fill(words)
        return words

    def to_bits(
        self, values: NDArray[np.float64], words: NDArray[np.uint64], out: NDArray[np.bool_]
    ) -> None:
        """True with probability the fraction of each checked value, False otherwise, in ``out``.

        values: one axis, at most a piece.  words: a uniform coin each, which is not asked at the
        two ends of the range.
        """
        self._less(words, self._span.fractions(values, self._fractions[: values.size]), out)

    def to_points(
        self, values: NDArray[np.float64], steps: int, words: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """A point of 0..steps each, so that its mean is ``steps`` times the value's fraction.

        steps: in [1, 2^32].  A value whose fraction is exact and at a grid point gives that point,
        whatever the coin; so do both ends of the range.
        """
        places = self._span.fractions(values, self._fractions[: values.size])
        whole = self._whole[: values.size]
        np.multiply(places, float(steps), out=places)
        np.floor(places, out=whole)
        np.subtract(places, whole, out=places)  # exact, and below 1
        up = np.empty(values.size, dtype=np.bool_)
        self._less(words, places, up)
        points = self._thresholds[: values.size]
        np.copyto(points, whole, casting="unsafe")
        np.add(points, up, out=points)
        return points

    def _less(
        self, words: NDArray[np.uint64], fractions: NDArray[np.float64], out: NDArray[np.bool_]
    ) -> None:
        # A coin is the 62 high bits of a word: then all thresholds, that of fraction 1 included,
        # fit signed words, to which numpy casts without branching on each entry. A power of two
        # only moves the exponent; the cast drops what lies below 2^-62.
        np.multiply(fractions, 2.0**62, out=fractions)
        thresholds = self._thresholds[: fractions.size]
        np.copyto(thresholds, fractions, casting="unsafe")
        coins = self._coins[: fractions.size]
        np.right_shift(words, np.uint64(2), out=coins)
        np.less(coins.view(np.int64), thresholds, out=out)


@dataclass(frozen=True)
class Noise:
    """Variance of the unbiased value of one report, as a function of the true value.

    Both are measured from the middle of the range, in units of its width: for a true value y in
    [-1/2, 1/2] the variance is square * y^2 + constant + rounding * r (1 - r), where r is how far y
    lies between two grid points, in steps.

    square: at least -1.  worst: the largest value of this for any y, or a bound on it.
    """

    square: float
    constant: float
    rounding: float
    steps: int
    worst: float

    def at(self, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance for true values at ``fractions`` of the range."""
        place = fractions * self.steps
        part = place - np.floor(place)
        at_points = self.square * (fractions - 0.5) ** 2 + self.constant
        return np.asarray(at_points + self.rounding * part * (1 - part))

    def plug_in(
        self, first: NDArray[np.float64], second: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Mean variance over users, from the mean of their reported values and of the squares.

        The mean of y^2 is estimated from the squares where the variance grows with it, without
        bias but for the limits it is held to. Where the variance falls with y^2, the least that
        fits the estimated mean stands in for it.
        """
        constant = self.constant + self.rounding / 4
        grows = self.square > 0
        squares = (second - constant) / (1 + self.square) if grows else first**2
        return np.asarray(self.square * np.clip(squares, 0.0, 0.25) + constant)


def estimate_mean(
    span: Range,
    noise: Noise,
    reports: NDArray[Any],
    values: Callable[[NDArray[Any]], NDArray[np.float64]],
) -> Estimate:
    """Mean over axis 0 of the unbiased values of checked reports.

    reports: shape (users, ...), at least one user.  values: what some reports say, measured from
    the middle of the range in units of its width, float64 of the reports' shape.
    """
    n, shape = reports.shape[0], reports.shape[1:]
    rows = max(1, PIECE // max(1, math.prod(shape)))
    first, second = np.zeros(shape), np.zeros(shape)
    for start in range(0, n, rows):
        piece = values(reports[start : start + rows])
        first += piece.sum(axis=0)
        second += np.square(piece, out=piece).sum(axis=0)
    first /= n
    second /= n
    square = span.width**2
    return Estimate(
        value=np.asarray(span.middle + span.width * first),
        variance=np.asarray(square * noise.plug_in(first, second) / n),
        worst=np.full(shape, square * noise.worst / n),
        n=n,
    )


def checked_reports(reports: NDArray[Any], outcomes: int) -> NDArray[Any]:
    """``reports`` as an array; ParameterError unless integers in [0, outcomes), a user each row."""
    given = np.asarray(reports)
    if given.dtype.kind not in "iu":
        raise ParameterError(f"reports must be integers, got dtype {given.dtype}")
    if given.size and not (int(given.min()) >= 0 and int(given.max()) < outcomes):
        raise ParameterError(f"reports must lie in [0, {outcomes})")
    return given


def checked_users(reports: NDArray[Any]) -> NDArray[Any]:
    """``reports``; ParameterError unless axis 0 has at least one user."""
    if reports.ndim == 0 or not reports.shape[0]:
        raise ParameterError(f"reports need at least one user on axis 0, got {reports.shape}")
    return reports


def checked_words(name: str, words: NDArray[np.uint64], shape: tuple[int, ...]) -> NDArray[Any]:
    """Given coins as an array; ParameterError unless they are uint64 of ``shape``."""
    given = np.asarray(words)
    if given.dtype != np.uint64 or given.shape != shape:
        raise ParameterError(
            f"{name} must be uint64 of shape {shape}, got {given.dtype} {given.shape}"
        )
    return given


def _real(name: str, value: object) -> float:
    # float() would take a string too, and raises OverflowError for integers beyond doubles.
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(f"{name} must be a real number, got {type(value).__name__}")
    try:
        number = float(value) + 0.0  # minus zero becomes zero, the same number under one name
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be finite, got {number!r}")
    return number
