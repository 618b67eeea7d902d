"""One step of Adam, in place."""

import numpy as np

from recsys.data.ratings import Floats

FIRST, SECOND = 0.9, 0.999
"""Decay of the moments in Adam."""

_TINY = 1e-8


def adam_step(
    values: Floats, gradient: Floats, first: Floats, second: Floats, *, rate: float, step: int
) -> None:
    """Change ``values`` and both moments, arrays of one shape, in place.

    step: from 1; the moments, zeros at first, are corrected by it.
    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (ICLR 2015), algorithm 1.
    """
    first += (1 - FIRST) * (gradient - first)
    second += (1 - SECOND) * (gradient**2 - second)
    scale = np.sqrt(second / (1 - SECOND**step)) + _TINY
    values -= rate * first / (1 - FIRST**step) / scale
