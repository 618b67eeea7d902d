"""Duchi's mechanism in one dimension: one of two values far outside the range, without bias.

Source: Duchi, Jordan and Wainwright, "Minimax optimal procedures for locally private estimation"
    (JASA 113, 2018), the strategy for means in a box, in one dimension; in the form that Wang et
    al. give it, "Collecting and analyzing multidimensional data with local differential privacy"
    (ICDE 2019), section III.
Model, Leaks, Error: those of ``ldp.one_bit_mean``.
Differs: in one dimension it is 1BitMean on another scale. Both report a bit that is one with a
    probability linear in the value, between 1 / (e^epsilon + 1) at one end of the range and
    e^epsilon / (e^epsilon + 1) at the other; Duchi's is read as plus or minus
    (e^epsilon + 1) / (e^epsilon - 1) for values in [-1, 1]. So there is one implementation, and
    this module gives the scale.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp.mean import Noise
from ldp.one_bit_mean import OneBitMean
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE


@dataclass(frozen=True)
class Duchi(OneBitMean):
    """1BitMean with a value for each bit: ``factor`` half ranges above the middle, or below it."""

    @classmethod
    def from_epsilon(cls, epsilon: float, low: float = -1.0, high: float = 1.0) -> Self:
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60; from 44.37 on the loss stays at ln(2^64 - 1) = 44.36.
        """
        return cls(low, high, RandomizedResponse.from_epsilon(epsilon))

    @cached_property
    def factor(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1): a report's value for values in [-1, 1], less its sign.

        Exact integers until the last division.
        """
        return float(Fraction(ONE, 2 * self.coin.keep - ONE))

    @cached_property
    def noise(self) -> Noise:
        """Variance of one report's value, in units of the range's width: factor^2 / 4 - y^2."""
        worst = self.factor**2 / 4
        return Noise(square=-1.0, constant=worst, rounding=0.0, steps=1, worst=worst)

    def values(self, reports: NDArray[np.bool_]) -> NDArray[np.float64]:
        """What each report says: its mean is the user's value; bool of any shape."""
        bits = np.asarray(reports)
        if bits.dtype != np.bool_:
            raise ParameterError(f"reports must be a bool array, got dtype {bits.dtype}")
        return np.asarray(self.range.middle + self.range.width * self.offsets(bits))

    def offsets(self, reports: NDArray[np.bool_]) -> NDArray[np.float64]:
        """``values`` of checked reports, from the middle of the range in units of its width."""
        return np.asarray((reports.astype(np.float64) - 0.5) * self.factor)
