"""Gradients by central differences, for what is differentiated by hand."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def central_differences(of: Callable[[], float], at: Floats, step: float = 1e-5) -> Floats:
    """Derivative of ``of()`` by the entries of ``at``, which is changed and put back."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        kept = at[index]
        at[index] = kept + step
        there = of()
        at[index] = kept - step
        gradient[index] = (there - of()) / (2 * step)
        at[index] = kept
    return gradient
