"""Exact Bernoulli draws and unbiased rounding.

Source: byte-wise comparison of a uniform word with a threshold (inverse transform), refined only
    on ties; stochastic rounding as in Bonawitz et al., "Federated Learning with Autotuned
    Communication-Efficient Secure Aggregation" (2019).
Error: Bernoulli probabilities are exact multiples of 2^-64. Rounding is unbiased up to 2^-64.
"""

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import Rng, Shape

ONE = 1 << 64
"""Probability 1 as a threshold."""

_EXACT = 2**62


def bernoulli(threshold: int, shape: Shape, rng: Rng) -> NDArray[np.bool_]:
    """Independent bits that are True with probability exactly threshold / 2^64.

    threshold: integer in [0, 2^64].  Returns a bool array of ``shape``.
    """
    if not 0 <= threshold <= ONE:
        raise ParameterError(f"threshold must lie in [0, 2^64], got {threshold}")
    out = np.empty(shape, dtype=np.bool_)
    if threshold == ONE:
        out[...] = True
        return out
    flat = out.reshape(-1)
    top, low = threshold >> 56, np.uint64(threshold & ((1 << 56) - 1))
    scratch = np.empty(min(flat.size, PIECE_BYTES), dtype=np.uint8)
    for start in range(0, flat.size, PIECE_BYTES):
        piece = flat[start : start + PIECE_BYTES]
        first = scratch[: piece.size]
        rng.fill(first)
        np.less(first, top, out=piece)
        if low:
            # One byte decides 255 cases in 256; a tie is decided by the other 56 bits.
            ties = np.flatnonzero(first == top)
            if ties.size:
                piece[ties] = (rng.words(ties.size, np.uint64) >> np.uint64(8)) < low
    return out


def round_unbiased(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """Round each entry up or down at random, so that the mean is the entry itself.

    x: float64, any shape, finite, below 2^62 in magnitude.  Returns int64 of the same shape.
    One 64-bit coin for each entry, in order, whatever the entry is: a batch of vectors consumes
    its tape as the single vectors would.
    """
    values = np.asarray(x, dtype=np.float64)
    magnitude = np.abs(values)
    if not np.all(magnitude < _EXACT):  # false for NaN too
        raise ParameterError(
            "an entry is NaN or at least 2^62 in magnitude", remedy="clip before rounding"
        )
    whole = np.floor(magnitude)
    # Both the fraction and its multiple by 2^64 are exact: a power of two only moves the exponent.
    threshold = np.ldexp(magnitude - whole, 64).astype(np.uint64)
    coins = rng.words(values.shape, np.uint64)
    rounded = whole.astype(np.int64) + (coins < threshold)
    signed: NDArray[np.int64] = np.where(values < 0, -rounded, rounded)
    return signed
