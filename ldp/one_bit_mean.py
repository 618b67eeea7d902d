"""1BitMean: the mean of numbers in a known range, from one randomized bit of each user.

Source: Ding, Kulkarni and Yekhanin, "Collecting telemetry data privately" (NIPS 2017):
    the mechanism 1BitMean (``perturb``) and its estimator (``estimate``); the paper's m is
    high - low, for low = 0.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported; the public range.
Error: the estimate is unbiased up to 2^-51 of the range (``ldp.mean``; up to 2^-62 for range
    [0, 1]). One report adds (high - low)^2 (1 / (4 g^2) - (f - 1/2)^2) to the variance, where
    g = (e^epsilon - 1) / (e^epsilon + 1) and f = (x - low) / (high - low).
Differs: the paper's report is one coin of probability (1 + f (e^epsilon - 1)) / (e^epsilon + 1),
    linear in x. Here x is first rounded to a bit without bias, and the bit goes through randomized
    response: the same law, but its privacy is the second coin's alone. Given x, a report's law is a
    mixture of its laws given bit 0 and given bit 1, whose ratio is keep / (2^64 - keep); mixing
    them, with whatever weights the floating point arithmetic finds, never gives a larger ratio.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp.mean import PIECE, GridRounding, Range, checked_users, checked_words
from ldp.mechanism import Estimate
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng, Shape


@dataclass(frozen=True)
class OneBitMean:
    """Report whether a value was rounded up to ``high`` rather than down to ``low``, by ``coin``.

    low, high: the public range, finite real numbers, low < high.
    """

    low: float
    high: float
    coin: RandomizedResponse

    def __post_init__(self) -> None:
        span = Range(self.low, self.high)
        object.__setattr__(self, "low", span.low)
        object.__setattr__(self, "high", span.high)
        given: object = self.coin
        if not isinstance(given, RandomizedResponse):
            raise ParameterError(f"coin must be a RandomizedResponse, got {type(given).__name__}")

    @classmethod
    def from_epsilon(cls, epsilon: float, low: float = 0.0, high: float = 1.0) -> Self:
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60; from 44.37 on the loss stays at ln(2^64 - 1) = 44.36.
        """
        return cls(low, high, RandomizedResponse.from_epsilon(epsilon))

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats, rounded up: that of the coin."""
        return self.coin.epsilon

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: one."""
        return 1

    @cached_property
    def range(self) -> Range:
        """The public range of a value."""
        return Range(self.low, self.high)

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance that one report adds: that of a value in the middle of the range."""
        return self.range.width**2 * self._middle

    @cached_property
    def _middle(self) -> float:
        # 1 / (4 g^2) is the coin's variance plus that of a fair bit.
        return self.coin.variance + 0.25

    def variance_of(self, x: ArrayLike) -> NDArray[np.float64]:
        """Variance that the report of a user with value ``x`` adds to the sum of reports.

        x: any shape, within the range.  The variance of the mean of n users is the sum of theirs
        over n^2.
        """
        return self._variance(self.range.fractions(self.range.checked(x)))

    def _variance(self, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
        rounding = fractions * (1 - fractions)
        return np.asarray(self.range.width**2 * (self.coin.variance + rounding))

    def perturb(self, x: ArrayLike, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        """Randomize each entry of ``x``, any shape, with coins of its own.

        x: floats of at most 64 bits or integers, within the range.  Returns bool of x's shape.
        Raises ParameterError for other entries, NaN included, before any coin is drawn.
        """
        values = self.range.checked(x)
        flat = values.reshape(-1)
        out = np.empty(flat.size, dtype=np.bool_)
        rounding = GridRounding(self.range, flat.size)
        for start in range(0, flat.size, PIECE):
            self.report(flat[start : start + PIECE], rounding, rng, out[start : start + PIECE])
        return out.reshape(values.shape)

    def report(
        self,
        values: NDArray[np.float64],
        rounding: GridRounding,
        rng: Rng,
        out: NDArray[np.bool_],
    ) -> None:
        """``perturb`` for a piece of checked values, into ``out``."""
        rounding.to_bits(values, rounding.draw(values.size, rng), out)
        out[...] = self.coin.perturb(out, rng=rng)

    def perturb_with(
        self, x: ArrayLike, rounding: NDArray[np.uint64], coins: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """The same with given coins, so that an answer can be given again.

        rounding, coins: independent uniform 64-bit words, uint64 of x's shape. Whoever knows
        ``coins`` reads the rounded bit. Coins that serve two values tell that they differ if the
        reports do.
        """
        values = self.range.checked(x)
        words = checked_words("rounding", rounding, values.shape).reshape(-1)
        told = checked_words("coins", coins, values.shape).reshape(-1)
        flat = values.reshape(-1)
        out = np.empty(flat.size, dtype=np.bool_)
        kernel = GridRounding(self.range, flat.size)
        for start in range(0, flat.size, PIECE):
            piece = slice(start, start + PIECE)
            kernel.to_bits(flat[piece], words[piece], out[piece])
            out[piece] = self.coin.perturb_with(out[piece], told[piece])
        return out.reshape(values.shape)

    def estimate(self, reports: NDArray[np.bool_]) -> Estimate:
        """Unbiased mean of the users' values, along axis 0; may leave the range.

        reports: bool, shape (users, ...).  Returns an Estimate whose value has shape (...); see
        ``estimate_from_ones`` for its variance.  Raises ParameterError without users.
        """
        bits = np.asarray(reports)
        if bits.dtype != np.bool_:
            raise ParameterError(f"reports must be a bool array, got dtype {bits.dtype}")
        checked_users(bits)
        return self.estimate_from_ones(np.sum(bits, axis=0, dtype=np.int64), bits.shape[0])

    def estimate_from_ones(self, ones: ArrayLike, n: int) -> Estimate:
        """The same from the numbers of reported ones among ``n`` reports each.

        ones: integers in [0, n], any shape.  n: in [1, 2^53).
        One bit tells nothing of how the values spread around their mean, so ``variance`` is the
        largest for values of the estimated mean: that of users who all have it.
        """
        count = self.coin.estimate_from_ones(ones, n)
        fraction = count.value / count.n
        width = self.range.width
        return Estimate(
            value=np.asarray(self.low + width * fraction),
            variance=np.asarray(self._variance(np.clip(fraction, 0.0, 1.0)) / count.n),
            worst=np.full(fraction.shape, self.worst_variance / count.n),
            n=count.n,
        )

    def pack(self, reports: NDArray[np.bool_]) -> bytes:
        """Reports of any shape, eight to a byte."""
        return self.coin.pack(reports)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.bool_]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return self.coin.unpack(data, shape)
