"""The discrete Gaussian law, P(x) proportional to e^(-x^2 / (2 sigma^2)), between rationals.

Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
    2020), definition 1.
Error: none; enclosures.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ldp.exact_exp import Enclosure, exp_enclosure
from ldp.integer_law import SymmetricLaw, Weights, boundaries, geometric_tail


@dataclass(frozen=True)
class GaussianLaw(SymmetricLaw):
    """The law itself, for sigma up to a few thousand: every weight is computed.

    step: 1 / (2 sigma^2).
    """

    step: Fraction

    def weights(self, bits: int) -> Weights:
        """w(x + 1) = w(x) g(x) with g(x) = e^(-step (2x + 1)), and g(x + 1) = g(x) e^(-2 step)."""
        # After n steps w is off by at most n^2 units, and n stays below 2 sigma sqrt(bits): all
        # errors together are below n^3, which is far below the square of sigma^2 bits.
        work = bits + 32 + 2 * (int(1 / self.step) * bits).bit_length()
        ratio_low, ratio_high = exp_enclosure(self.step, work)
        fall_low, fall_high = exp_enclosure(2 * self.step, work)
        low, high = [1 << work], [1 << work]
        while True:
            tail = geometric_tail(high[-1], ratio_high, work)
            if tail is not None and tail >> work - bits - 16 == 0:
                return Weights(low, high, tail)
            low.append(low[-1] * ratio_low >> work)
            high.append(-(-high[-1] * ratio_high >> work))
            ratio_low = ratio_low * fall_low >> work
            ratio_high = -(-ratio_high * fall_high >> work)


@dataclass(frozen=True)
class GaussianBlocks:
    """Block t = floor(x / 2^shift) with the largest weight of its block, outcomes in signed order.

    The largest weight is at x = 2^shift t for t >= 0 and at x = 2^shift (t + 1) - 1 below, so that
    of -1-q is e^(-step (2^shift q + 1)^2).
    """

    step: Fraction
    shift: int

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """The boundaries of the law, for ``ldp.exact_table``."""
        work = bits + 64
        low: list[int] = []
        high: list[int] = []
        q = 0
        while True:
            for first in (q << self.shift, (q << self.shift) + 1):
                weight = exp_enclosure(self.step * first**2, work)
                low.append(weight[0])
                high.append(weight[1])
            # Both signs of the blocks from q + 1 on, by their falling ratios.
            ratio = exp_enclosure(self.step * (2 * q + 1 << 2 * self.shift), work)[1]
            tail = geometric_tail(2 * high[-2], ratio, work)
            if tail is not None and tail >> work - bits - 16 == 0:
                return boundaries(low, high, tail, bits)
            q += 1
