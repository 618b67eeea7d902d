"""Unbiased rounding.

Source: stochastic rounding as in Bonawitz et al., "Federated Learning with Autotuned
    Communication-Efficient Secure Aggregation" (2019).
Error: exactly unbiased for entries that are multiples of 2^-64, so for all of at least 2^-12 in
    magnitude; the mean of a smaller one is too near zero by less than 2^-64.
"""

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import Rng

_LIMIT = 2.0**62
_PIECE_WORDS = PIECE_BYTES // 8


def round_unbiased(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """Round each entry up or down at random, so that the mean is the entry itself.

    x: floats of at most 64 bits, any shape, finite, below 2^62 in magnitude.
    Returns int64 of the same shape.  One 64-bit coin for each entry, in order, whatever the entry
    is: a batch of vectors consumes its tape as the single vectors would.
    """
    given = np.asarray(x)
    if given.dtype.kind != "f" or given.dtype.itemsize > 8:
        raise ParameterError(f"x must hold floats of at most 64 bits, got dtype {given.dtype}")
    values = given.astype(np.float64, copy=False).reshape(-1)
    if values.size and not (values.min() > -_LIMIT and values.max() < _LIMIT):  # true for NaN too
        raise ParameterError(
            "an entry is NaN or at least 2^62 in magnitude", remedy="clip before rounding"
        )
    coins = rng.words(given.shape, np.uint64).reshape(-1)
    out = np.empty(values.size, dtype=np.int64)
    for start in range(0, values.size, _PIECE_WORDS):
        piece = slice(start, start + _PIECE_WORDS)
        magnitude = np.abs(values[piece])
        whole = np.floor(magnitude)
        # The fraction is exact, and a power of two only moves its exponent; the cast drops what
        # lies below 2^-64, which only entries below 2^-12 have.
        threshold = ((magnitude - whole) * 2.0**64).astype(np.uint64)
        rounded = whole.astype(np.int64) + (coins[piece] < threshold)
        np.multiply(rounded, np.sign(values[piece]).astype(np.int64), out=out[piece])
    return out.reshape(given.shape)
