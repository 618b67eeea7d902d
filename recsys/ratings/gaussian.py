"""Normal numbers from the coins of an ``Rng``, in single precision, and rows that look like others.

Source: Box and Muller, "A note on the generation of random normal deviates" (1958).
Model: for noise that has to look like other numbers, such as the gradients of pseudo-interacted
    items. It is no mechanism of differential privacy: that takes exact laws, which ``ldp`` has.
Error: 32 bits give a radius and 32 an angle, both rounded to the 24 bits of float32. No number is
    beyond 6.77, where a normal one is with probability 2^-36. Radii below .004 have steps of up to
    .0004, which moves no probability of an interval by more than 10^-6. Beyond that numbers have
    a relative error of about 10^-6.
"""

from math import pi

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import SYSTEM_RNG, Rng, Shape

Floats = NDArray[np.float64]

FARTHEST = 6.77
"""No number is larger in magnitude."""

_PAIRS = PIECE_BYTES // 8
_STEP = np.float32(2.0**-32)
_HALF_STEP = np.float32(2.0**-33)
_TURN = np.float32(2 * pi * 2.0**-32)


def standard_normals(shape: Shape, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.float32]:
    """Independent normal numbers of mean 0 and variance 1: float32 of ``shape``.

    Takes a 32-bit word for each, and one more where their number is odd.
    """
    out = np.empty(shape, dtype=np.float32)
    flat = out.reshape(-1)
    for start in range(0, flat.size, 2 * _PAIRS):
        piece = flat[start : start + 2 * _PAIRS]
        pairs = -(-piece.size // 2)
        words = rng.words((2, pairs), np.uint32)
        # A half step keeps the logarithm finite; it is lost where the word is large.
        radius = words[0].astype(np.float32)
        radius *= _STEP
        radius += _HALF_STEP
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle = words[1].view(np.int32).astype(np.float32)
        angle *= _TURN
        np.multiply(radius, np.cos(angle), out=piece[:pairs])
        np.sin(angle, out=angle)
        rest = piece[pairs:]
        np.multiply(radius[: rest.size], angle[: rest.size], out=rest)
    return out


def similar_rows(real: Floats, count: int, step: float, *, rng: Rng = SYSTEM_RNG) -> Floats:
    """``count`` Gaussian rows with the mean and the covariance of ``real`` (K, w): (count, w).

    The covariance is that of a sample, with K - 1 for K; where K = 1 it is zero, and all rows are
    the real one.  step: of the grid that rows will be put on, in their unit. Where single precision
    has larger steps for such rows, they are made in double precision.
    Raises ParameterError for K = 0.
    """
    size, width = real.shape
    if not size and count:
        raise ParameterError("a client without a gradient has no mean for pseudo items to have")
    if not count:
        return np.zeros((0, width))
    mean = real.mean(axis=0)
    if size == 1:
        return np.repeat(real, count, axis=0)
    # z^T deviations / sqrt(K - 1) has covariance deviations^T deviations / (K - 1).
    factor = (real - mean) / np.sqrt(size - 1)
    if size >= 2 * width and count >= 8 * width:
        factor = np.linalg.qr(factor, mode="r")  # the same product with itself, and fewer rows
    z = standard_normals((count, factor.shape[0]), rng=rng)
    # No deviation is above eight standard deviations, and float32 has steps of 2^-23 of it.
    if 8 * np.sqrt(np.square(factor).sum(axis=0).max()) * 2.0**-23 > step:
        deviations = z.astype(np.float64) @ factor
    else:
        deviations = z @ factor.astype(np.float32)
    made: Floats = mean + deviations
    return made
