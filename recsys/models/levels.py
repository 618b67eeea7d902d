"""Ratings as levels: the distinct values, or intervals where there are too many of them."""

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Floats


def graded(values: Floats, most: int) -> tuple[Floats, NDArray[np.int64]]:
    """The levels, rising (r,), with r at most ``most``, and the level of each value (n,).

    values: float64 (n,), n at least 1.  Where they take more than ``most`` values, that many equal
    intervals share their range; empty ones are left out, and a level is the mean of its values.
    """
    levels, index = np.unique(values, return_inverse=True)
    if levels.size > most:
        low, width = levels[0], (levels[-1] - levels[0]) / most
        interval = np.minimum((values - low) // width, most - 1)
        index = np.unique(interval, return_inverse=True)[1]
        levels = np.bincount(index, weights=values) / np.bincount(index)
    return levels, index
