"""Discrete Laplace noise: P(x) proportional to e^(-|x| / scale) on all integers, drawn exactly.

Source: Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms"
    (STOC 2009), where it is the geometric mechanism. The split of a geometric variable into
    quotient and remainder is that of Canonne, Kamath and Steinke, "The discrete Gaussian for
    differential privacy" (NeurIPS 2020), algorithm 2, here with tables instead of coins.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report, and that the user reported. The time of a draw depends a little on the noise.
Error: none in the law: its support is unbounded, and every neighbouring pair of probabilities has
    the ratio e^(1 / scale). The mean of reports is unbiased.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldp.exact_exp import Enclosure, RealNumber, exp_enclosure, positive_rational
from ldp.exact_table import ExactTable, exact_table
from ldp.integer_noise import MAX_INPUT, IntegerNoise, checked_sensitivity
from ldp.mechanism import checked_epsilon
from ldp.rice import LIMIT
from ldp.rounding import round_up
from mpc.core.errors import ParameterError
from mpc.core.rng import Rng

MAX_SCALE = 1 << 54
"""Noise of a larger scale would come near the ends of 64 bits."""

# Scales up to 2^7 have about 2^9 boundaries among the 2^16 prefixes of a table, so that few draws
# need a second look; what lies above is split off as digits with at most 2^8 boundaries each.
_TABLE_SCALE_BITS = 7
_DIGIT_BITS = 8


@dataclass(frozen=True)
class Quotients:
    """The law of floor(X / 2^shift) for X discrete Laplace; outcomes in signed order.

    With rho = e^(-1/scale) and r = rho^(2^shift), quotient q >= 0 has weight r^q and quotient
    -1-q has weight rho r^q.
    """

    scale: Fraction
    shift: int

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """F(2q) = 1 - r^q and F(2q + 1) = 1 - r^q (rho + r) / (1 + rho)."""
        work = bits + 64
        one = 1 << work
        rho = exp_enclosure(1 / self.scale, work)
        ratio = exp_enclosure(2**self.shift / self.scale, work)
        # (rho + r) / (1 + rho) grows with either.
        middle = (
            (rho[0] + ratio[0] << work) // (one + rho[0]),
            -(-(rho[1] + ratio[1] << work) // (one + rho[1])),
        )
        power = (one, one)
        while True:
            yield _complement(_product(power, middle, work), 64, bits)
            power = _product(power, ratio, work)
            yield _complement(power, 64, bits)


@dataclass(frozen=True)
class Digit:
    """The law of a geometric variable of ratio e^(-1/scale), given that it is below 2^width."""

    scale: Fraction
    width: int

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """F(d) = (1 - r^d) / (1 - r^(2^width)) for d = 1 ... 2^width - 1."""
        guard = 64 + int(self.scale).bit_length()  # the divisor is at least 1 / (2 scale)
        work = bits + guard
        one = 1 << work
        ratio = exp_enclosure(1 / self.scale, work)
        all_low, all_high = exp_enclosure(2**self.width / self.scale, work)
        power = (one, one)
        for _ in range(2**self.width - 1):
            power = _product(power, ratio, work)
            low = (one - power[1] << bits) // (one - all_low)
            high = -(-(one - power[0] << bits) // (one - all_high))
            yield low, high


def _product(x: Enclosure, y: Enclosure, bits: int) -> Enclosure:
    return x[0] * y[0] >> bits, -(-(x[1] * y[1]) >> bits)


def _complement(x: Enclosure, guard: int, bits: int) -> Enclosure:
    """1 - x, with ``guard`` bits fewer."""
    return (1 << bits) - -(-x[1] >> guard), (1 << bits) - (x[0] >> guard)


@dataclass(frozen=True)
class DiscreteLaplace(IntegerNoise):
    """Adds an integer x with probability (1 - rho) / (1 + rho) rho^|x|, rho = e^(-1/scale).

    scale: int, float (taken as the dyadic rational that it is) or Fraction, in (0, 2^54]; kept as
    a Fraction.  sensitivity: how far apart two inputs may lie that must look alike, in [1, 2^53].
    """

    scale: Fraction
    sensitivity: int = 1

    def __init__(self, scale: RealNumber, sensitivity: int = 1) -> None:
        exact = positive_rational("scale", scale, MAX_SCALE, "measure x in coarser steps")
        object.__setattr__(self, "scale", exact)
        object.__setattr__(self, "sensitivity", checked_sensitivity(sensitivity))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: int = 1) -> "DiscreteLaplace":
        """The least noise whose privacy loss is ``epsilon``: scale = sensitivity / epsilon exactly.

        epsilon: finite, at least sensitivity / 2^54.  Raises ParameterError for anything else, NaN,
        strings and bools included.
        """
        width = checked_sensitivity(sensitivity)
        loss = checked_epsilon(epsilon, 0.0)
        if loss * MAX_SCALE < width:
            raise ParameterError(
                f"epsilon must be at least sensitivity / 2^54 = {width / MAX_SCALE:.3g}, "
                f"got {epsilon!r}",
                remedy="measure in coarser steps, so that the sensitivity is smaller",
            )
        return cls(width / Fraction(loss), width)

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: sensitivity / scale, rounded up to a double."""
        return round_up(self.sensitivity / self.scale)

    @cached_property
    def variance(self) -> float:
        """Variance of the noise: 2 rho / (1 - rho)^2, about 2 scale^2 where that is large."""
        bits = 192 + int(1 / self.scale)  # so that neither rho nor 1 - rho loses its digits
        if bits > 4096:
            return 0.0  # rho is below the smallest double
        rho = Fraction(sum(exp_enclosure(1 / self.scale, 2 * bits)), 2 << 2 * bits)
        return float(2 * rho / (1 - rho) ** 2)

    @property
    def _spread(self) -> Fraction:
        return max(self.scale, Fraction(self.sensitivity, 4))

    @cached_property
    def _shift(self) -> int:
        return max(int(self.scale).bit_length() - _TABLE_SCALE_BITS, 0)

    @cached_property
    def _quotients(self) -> ExactTable:
        # Beyond this quotient every X lies beyond what input and report have room for.
        limit = (LIMIT + MAX_INPUT >> self._shift) + 1
        return exact_table(Quotients(self.scale, self._shift), signed=True, limit=limit)

    @cached_property
    def _digits(self) -> list[tuple[int, ExactTable]]:
        """Width and table of the digits below the quotient, the most significant first.

        The remainder of a geometric variable is independent of its quotient, and so is each digit
        of it of the others.
        """
        digits = []
        rest = self._shift
        while rest:
            width = min(rest, _DIGIT_BITS)
            rest -= width
            digits.append((width, exact_table(Digit(self.scale / 2**rest, width))))
        return digits

    def _fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        self._quotients.fill(out, rng)
        if not self._digits:
            return
        # X = -1 - Y where the sign is negative, which is Y with every bit turned over.
        sign = out >> 63
        out ^= sign
        digit = np.empty_like(out)
        for width, table in self._digits:
            table.fill(digit, rng)
            out <<= width
            out |= digit
        out ^= sign
