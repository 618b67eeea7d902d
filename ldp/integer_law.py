"""Laws on the integers that are symmetric around 0 and log-concave, given by enclosed weights.

Log-concave means that the ratio of neighbouring weights falls as one goes outwards. So a geometric
series bounds what lies beyond the last weight at hand, and a likelihood ratio test between the law
and its shift is a threshold, which makes its privacy easy to compute (``ldp.shift_privacy``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldp.exact_exp import Enclosure

_VARIANCE_BITS = 128


@dataclass(frozen=True)
class Weights:
    """w(x) for x = 0 ... n, relative to w(0) = 1, and what follows.

    low, high: integers around 2^work * w(x).  tail: at least 2^work * (w(n + 1) + w(n + 2) + ...).
    """

    low: Sequence[int]
    high: Sequence[int]
    tail: int


class SymmetricLaw(ABC):
    """P(x) proportional to w(|x|); its outcomes are in signed order, 0, -1, 1, -2, 2, ..."""

    @abstractmethod
    def weights(self, bits: int) -> Weights:
        """Weights whose errors and tail add up to less than 2^-bits of the total."""

    def variance(self) -> float:
        """The variance, to about a relative 2^-52."""
        given = self.weights(_VARIANCE_BITS)
        # The enclosures are far narrower than a double, so that one end stands for both.
        second = 2 * sum(x * x * w for x, w in enumerate(given.high))
        return second / (2 * sum(given.high) - given.high[0])

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """The boundaries of the law, for ``ldp.exact_table``."""
        given = self.weights(bits)
        # Both signs of each but 0 have the same weight.
        low = [w for w in given.low for _ in range(2)][1:]
        high = [w for w in given.high for _ in range(2)][1:]
        return boundaries(low, high, 2 * given.tail, bits)


def boundaries(
    low: Sequence[int], high: Sequence[int], tail: int, bits: int
) -> Iterator[Enclosure]:
    """Enclosures of 2^bits F(1), 2^bits F(2), ... for enclosed weights of outcomes 0, 1, ...

    tail: at least the weight of all further outcomes. The last enclosure reaches 2^bits.
    """
    total_low, total_high = sum(low), sum(high) + tail
    sum_low = sum_high = 0
    for weight_low, weight_high in zip(low, high, strict=True):
        sum_low += weight_low
        sum_high += weight_high
        yield (sum_low << bits) // total_high, -(-(sum_high << bits) // total_low)


def geometric_tail(weight: int, ratio: int, work: int) -> int | None:
    """A bound on what follows a weight if each next one is at most ratio / 2^work times the last.

    None if the ratio is not below one.
    """
    one = 1 << work
    return None if ratio >= one else -(-weight * ratio // (one - ratio))
