"""The bits that randomized response reports, and what every right report satisfies."""

import math
from collections.abc import Sequence

_DEVIATIONS = 7
"""Standard deviations allowed; a right result lies farther out once in 10^11 times."""


def bits(count: int) -> list[int]:
    """Zeros and ones, three ones in ten."""
    return [int(i % 10 < 3) for i in range(count)]


def told_truthfully(truth: Sequence[int], reports: Sequence[int], epsilon: float) -> bool:
    """Whether zeros and ones are each told truthfully in e^epsilon / (1 + e^epsilon) of cases.

    Each value by itself: reports that ignore the truth can still have the right number of ones.
    """
    if len(reports) != len(truth) or not set(reports) <= {0, 1}:
        return False
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    for value in (0, 1):
        told = [r for t, r in zip(truth, reports, strict=True) if t == value]
        deviation = math.sqrt(len(told) * keep * (1 - keep))
        if abs(told.count(value) - len(told) * keep) > _DEVIATIONS * deviation:
            return False
    return True
