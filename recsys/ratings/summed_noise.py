"""The noise of a sum over users by real numbers: an approximation to hold the exact law against.

Simulations draw the exact law, on the users' own grid, by ``ldp.summed_laplace``, in about the same
time.

Source: Kotz, Kozubowski and Podgorski, "The Laplace distribution and generalizations" (2001): a
    Laplace variable is the difference of two exponential ones, so that the sum of n is a difference
    of two gamma variables of shape n. The noise is that of FedGNN (Wu et al., arXiv:2102.04925),
    Eq. 1, as the paper has it: real.
Model: a simulation. These are no coins of a protocol: they come from a numpy generator.
Error: the result lies on no grid. Beside discrete Laplace noise of the same scale, in grid steps,
    its variance is larger by a part of 1 / (12 scale^2), and rounded to the grid its law is nearer
    than 1 / (8 scale^2) in total variation.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.ratings import Floats


def gamma_difference(
    terms: NDArray[np.integer[Any]], scale: float, each: int, generator: np.random.Generator
) -> Floats:
    """``each`` sums of terms[i] continuous Laplace variables, for every i: float64 (n, each).

    terms: integers (n,), at least 0.  scale: positive, in the unit of the result.
    generator: of ``SimulationRng.generator``, or keyed from the system where the run has no seed.
    """
    given = np.asarray(terms)
    if given.dtype.kind not in "iu" or given.ndim != 1 or (given < 0).any():
        raise ParameterError("terms must be non-negative integers of shape (n,)")
    if not 0 < scale < np.inf:
        raise ParameterError(f"scale must be positive and finite, got {scale!r}")
    shape = np.broadcast_to(given[:, np.newaxis].astype(np.float64), (given.size, each))
    drawn: Floats = generator.standard_gamma(shape) - generator.standard_gamma(shape)
    drawn *= scale
    return drawn
