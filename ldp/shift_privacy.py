"""The exact (epsilon, delta) of additive noise with a symmetric, log-concave law on the integers.

Two inputs k apart give laws that differ by a shift of k. The ratio p(x) / p(x + k) rises with x, so
the event that tells them apart best is a tail: with T(c) = P(X > c),
    delta(epsilon) = max over c of T(c) - e^epsilon T(c + k).
T falls, so each term grows with k, and the largest k within the sensitivity is the worst.

Source: for the discrete Gaussian, theorem 7 of Canonne, Kamath and Steinke, "The discrete Gaussian
    for differential privacy" (NeurIPS 2020), which also shows that no smaller delta holds; the
    argument above gives the same for every such law.
Error: deltas are upper ends of enclosures, an epsilon the least double at which that end is small
    enough.
"""

import math
import struct
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ldp.exact_exp import Enclosure, exp_enclosure
from ldp.integer_law import SymmetricLaw
from ldp.mechanism import checked_epsilon
from ldp.renyi import checked_delta
from ldp.rounding import round_up

_BITS = 192
_MOST_BITS = 768
_WIDTH_BITS = 40
_TINY_BITS = 256
_LARGEST = 2.0**1000


def delta_at(law: SymmetricLaw, sensitivity: int, epsilon: float) -> float:
    """The least delta for inputs ``sensitivity`` apart, to a relative 2^-40, rounded up.

    epsilon: finite, at least 0.  A result below 2^-256 may lie above the least delta; so may one
    for an epsilon of 500 or more, which only noise too small for any privacy asks for.
    """
    exact = Fraction(checked_epsilon(epsilon, 0.0))
    bits = _BITS
    while True:
        low, high = _delta(_tails(law, bits), sensitivity, exact)
        is_narrow = high - low <= high >> _WIDTH_BITS
        is_tiny = high << _TINY_BITS <= 1 << bits
        if is_narrow or is_tiny or bits >= _MOST_BITS:
            return min(1.0, round_up(Fraction(high, 1 << bits)))
        bits *= 2


def epsilon_at(law: SymmetricLaw, sensitivity: int, delta: float) -> float:
    """The least epsilon for inputs ``sensitivity`` apart that holds with ``delta``, rounded up.

    delta: in (0, 1).  Infinity if the noise is so small that the least cannot be told at the
    precision used; it is above a hundred then.
    """
    bound = checked_delta(delta)
    # So many bits that the enclosure of delta is narrower than delta by 2^-128.
    bits = _BITS + (int(1 / bound).bit_length() // 64 + 1) * 64
    tails = _tails(law, bits)

    def suffices(code: int) -> bool:
        high = _delta(tails, sensitivity, Fraction(_double(code)))[1]
        return Fraction(high, 1 << bits) <= bound

    # Codes of positive doubles are in the order of the doubles.
    found = bisect_left(range(_code(_LARGEST)), True, key=suffices)
    return _double(found) if found < _code(_LARGEST) else math.inf


def _code(x: float) -> int:
    return int(struct.unpack(">q", struct.pack(">d", x))[0])


def _double(code: int) -> float:
    return float(struct.unpack(">d", struct.pack(">q", code))[0])


@dataclass(frozen=True)
class _Tails:
    """Enclosures, in units of 2^-bits, of p(x) and of T(x) for x = 0 ... n, and of what is beyond.

    beyond: at least p(x) and T(x) for x > n.
    """

    bits: int
    mass: list[Enclosure]
    upper: list[Enclosure]
    beyond: int

    def p(self, x: int) -> Enclosure:
        """P(X = x)."""
        x = abs(x)
        return self.mass[x] if x < len(self.mass) else (0, self.beyond)

    def above(self, c: int) -> Enclosure:
        """P(X > c)."""
        if c < 0:
            low, high = self.above(-c - 1)  # P(X <= c) by symmetry
            return (1 << self.bits) - high, (1 << self.bits) - low
        return self.upper[c] if c < len(self.upper) else (0, self.beyond)


@lru_cache(maxsize=2)
def _tails(law: SymmetricLaw, bits: int) -> _Tails:
    given = law.weights(bits)
    sum_low, sum_high = 0, given.tail
    sums = []
    for low, high in zip(reversed(given.low[1:]), reversed(given.high[1:]), strict=True):
        sums.append((sum_low, sum_high))
        sum_low += low
        sum_high += high
    sums.append((sum_low, sum_high))
    total_low, total_high = given.low[0] + 2 * sum_low, given.high[0] + 2 * sum_high

    def share(low: int, high: int) -> Enclosure:
        return (low << bits) // total_high, -(-(high << bits) // total_low)

    mass = [share(low, high) for low, high in zip(given.low, given.high, strict=True)]
    upper = [share(low, high) for low, high in reversed(sums)]
    return _Tails(bits, mass, upper, share(0, given.tail)[1])


def _delta(tails: _Tails, k: int, epsilon: Fraction) -> Enclosure:
    """The enclosure of delta(epsilon), in units of 2^-bits."""
    one = 1 << tails.bits
    fall_low, fall_high = exp_enclosure(epsilon, tails.bits)  # of e^-epsilon
    last = len(tails.mass) - 1
    first = -(k // 2) - 1  # p(x) < p(x + k) up to here, so that the terms still rise

    def rises(c: int) -> bool:
        """Whether the term of c is certainly above that of c - 1: e^-epsilon p(c) < p(c + k)."""
        return fall_high * tails.p(c)[1] < tails.p(c + k)[0] * one

    def falls(c: int) -> bool:
        return fall_low * tails.p(c)[0] > tails.p(c + k)[1] * one

    def term(c: int) -> Enclosure:
        low, high = tails.above(c)
        shifted_low, shifted_high = tails.above(c + k)
        least = low + -shifted_high * one // fall_low if fall_low else 0
        return least, high - shifted_low * one // fall_high

    if first < -last - 1:  # the shift carries all the weight that is listed beyond itself
        return max(0, term(first)[0]), one
    # The terms rise up to the best c and fall from there on; between the last that certainly rises
    # and the first that certainly falls all are tried.
    c = bisect_left(range(first, last + 1), True, key=lambda x: not rises(x)) + first - 1
    best_low, best_high = 0, tails.beyond  # no term beyond the last is above T
    while True:
        low, high = term(c)
        best_low, best_high = max(best_low, low), max(best_high, high)
        c += 1
        if c > last or falls(c):
            return best_low, best_high
