"""Probabilities as multiples of 2^-64, on the safe side of a requested epsilon.

A finite mechanism here has one coin, and its worst ratio is a known multiple of that coin's odds:
the privacy loss is ln(weight * (t / (2^64 - t))^power) for threshold t. So one function finds the
threshold for an epsilon, and one gives the epsilon of any ratio.

Error: none; both are decided by exact integers between correctly rounded bounds.
"""

from fractions import Fraction

from ldp.mechanism import checked_epsilon
from ldp.rounding import exp_bounds, log_ratio_bounds, round_up, settle
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE

MIN_EPSILON = 2.0**-60
"""Below it no coin could tell its two sides apart: one step of a threshold is about 2^-62."""

# Odds never pass 2^64 - 1, whose logarithm is 44.36, and weights lie within e^45 of 1 wherever they
# are used: from here on every request has the largest threshold.
_SATURATED = 200


def largest_threshold(epsilon: float, weight: Fraction | int = 1, power: int = 1) -> int:
    """The largest t in [1, 2^64) with weight * (t / (2^64 - t))^power <= e^epsilon.

    epsilon: finite, at least 2^-60.  weight: positive.  power: at least 1.
    Raises ParameterError for another epsilon, and where even t = 1 is too much.
    """
    value = min(checked_epsilon(epsilon, MIN_EPSILON), float(_SATURATED * power))
    factor = Fraction(weight)

    def bounds(digits: int) -> tuple[int, int]:
        low, high = exp_bounds(value, digits)
        return _threshold(low / factor, power), _threshold(high / factor, power)

    found = settle(bounds)
    if found < 1:
        raise ParameterError(
            f"no coin in steps of 2^-64 keeps to epsilon {epsilon!r}",
            remedy="ask for a larger epsilon, or a smaller domain",
        )
    return min(found, ONE - 1)


def _threshold(odds: Fraction, power: int) -> int:
    """The largest t in [0, 2^64) with (t / (2^64 - t))^power <= odds."""
    if power == 1:
        return min(ONE * odds.numerator // (odds.numerator + odds.denominator), ONE - 1)
    low, high = 0, ONE - 1
    while low < high:
        middle = (low + high + 1) // 2
        if middle**power * odds.denominator <= (ONE - middle) ** power * odds.numerator:
            low = middle
        else:
            high = middle - 1
    return low


def loss(ratio: Fraction) -> float:
    """ln(ratio), for a ratio of at least 1: the smallest double that is not below it.

    Numerator and denominator must lie below 10^43.
    """

    def bounds(digits: int) -> tuple[float, float]:
        low, high = log_ratio_bounds(ratio.numerator, ratio.denominator, digits)
        return round_up(low), round_up(high)

    return 0.0 if ratio == 1 else settle(bounds)
