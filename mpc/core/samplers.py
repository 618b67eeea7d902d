"""Exact Bernoulli draws and unbiased rounding.

Source: byte-wise comparison of a uniform word with a threshold (inverse transform), refined only
    on ties; stochastic rounding as in Bonawitz et al., "Federated Learning with Autotuned
    Communication-Efficient Secure Aggregation" (2019).
Error: Bernoulli probabilities are exact multiples of 2^-64. Rounding is exactly unbiased for
    entries that are multiples of 2^-64, so for all of at least 2^-12 in magnitude; the mean of a
    smaller one is too near zero by less than 2^-64.
"""

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import Rng, Shape

ONE = 1 << 64
"""Probability 1 as a threshold."""

_LIMIT = 2.0**62
_PIECE_WORDS = PIECE_BYTES // 8


def bernoulli(threshold: int, shape: Shape, rng: Rng) -> NDArray[np.bool_]:
    """Independent bits that are True with probability exactly threshold / 2^64.

    threshold: integer in [0, 2^64].  Returns a bool array of ``shape``.
    Takes a byte for each entry and a 64-bit word for each of the few that the byte leaves open,
    so the bytes that one entry takes depend on the others: a batch is not its rows in a row.
    """
    threshold = integer("threshold", threshold, 0, ONE)
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
