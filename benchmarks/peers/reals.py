"""The vector that is quantised, and what every unbiased rounding of it satisfies."""

import math
from collections.abc import Sequence

CLIP = 8.0
FRAC_BITS = 18
"""One unit is 2^-18: the resolution of Flower's defaults, 2^22 steps over [-8, 8]."""

_LARGEST = int(CLIP * 2**FRAC_BITS)
_SPREAD = 9 * 2**FRAC_BITS  # beyond the clip on both sides, so that clipping is seen
_DEVIATIONS = 7


def _whole_units(count: int) -> list[int]:
    return [i * 40_507 % (2 * _SPREAD) - _SPREAD for i in range(count)]


def reals(count: int) -> list[float]:
    """A vector over [-9, 9) whose entries all lie a quarter above a multiple of the unit."""
    return [(units + 0.25) / 2**FRAC_BITS for units in _whole_units(count)]


def rounds_without_bias(units: Sequence[int]) -> bool:
    """Whether ``units``, the vector in units, is clipped, and one entry in four rounded up.

    Rounding to the nearest would never round these entries up.
    """
    below = _whole_units(len(units))
    inside = [u - b for u, b in zip(units, below, strict=True) if -_LARGEST <= b < _LARGEST]
    clipped = [
        u == (_LARGEST if b > 0 else -_LARGEST)
        for u, b in zip(units, below, strict=True)
        if not -_LARGEST <= b < _LARGEST
    ]
    deviation = math.sqrt(len(inside) * 0.25 * 0.75)
    return (
        all(clipped)
        and set(inside) <= {0, 1}
        and abs(sum(inside) - 0.25 * len(inside)) <= _DEVIATIONS * deviation
    )
