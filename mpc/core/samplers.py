"""Unbiased rounding.

Source: stochastic rounding as in Bonawitz et al., "Federated Learning with Autotuned
    Communication-Efficient Secure Aggregation" (2019).
Error: exactly unbiased for entries that are multiples of 2^-64, so for all of at least 2^-12 in
    magnitude; the mean of a smaller one is off by less than 2^-64. Rows are independent; two
    entries of one row have a covariance of at most 2^-34.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.rng import Rng

_LIMIT = 2.0**62

# Entries, scratch and result of one piece stay in a second-level cache of 1 MiB.
_PIECE = 1 << 15

_FIRST_BITS = 16
_SECOND_WORDS = 3
_SECOND_BITS = 16 * _SECOND_WORDS

# A whole number below 2^51 in magnitude is the last bits of its sum with this double. To read it
# there takes less than half the time of a cast to int64.
_ANCHOR = 1.5 * 2.0**52
_ANCHOR_BITS = np.float64(_ANCHOR).view(np.int64)
_NEAR = 2.0 ** (51 - _FIRST_BITS)


def round_unbiased(x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
    """Round each entry up or down at random, so that the mean is the entry itself.

    x: floats of at most 64 bits, any shape, finite, below 2^62 in magnitude.
    Returns int64 of the same shape.  Each row of the last axis takes a coin of 48 bits and then
    one of 16 for each entry, whatever the entries are: a batch of vectors consumes its tape as
    the single vectors would.
    """
    given = np.asarray(x)
    if given.dtype.kind != "f" or given.dtype.itemsize > 8:
        raise ParameterError(f"x must hold floats of at most 64 bits, got dtype {given.dtype}")
    values = given.astype(np.float64, copy=False)
    largest = float(max(-values.min(), values.max())) if values.size else 0.0
    if not largest < _LIMIT:  # true for NaN too
        raise ParameterError(
            "an entry is NaN or at least 2^62 in magnitude", remedy="clip before rounding"
        )
    out = np.empty(given.shape, dtype=np.int64)
    round_clipped(values, max(largest, 1.0), 0, rng, out)
    return out


def round_clipped(
    x: NDArray[np.float64], clip: float, frac_bits: int, rng: Rng, out: NDArray[Any]
) -> None:
    """``round_unbiased`` of x * 2^frac_bits into ``out``, x cut at -clip and clip before.

    x: float64 without NaN, which is not looked for.  clip: clip * 2^frac_bits in (0, 2^62].
    out: C-contiguous, of x's shape: int64, or an unsigned dtype, in which the result wraps.
    """
    reach = math.ldexp(clip, frac_bits)
    if not 0 < reach <= _LIMIT:
        raise ParameterError(f"clip * 2^frac_bits must lie in (0, 2^62], got {reach}")
    if out.shape != x.shape or not out.flags.c_contiguous or out.dtype.kind not in "iu":
        raise ParameterError(
            f"out must be C-contiguous integers of shape {x.shape}, got {out.dtype} {out.shape}"
        )
    if not x.size:
        return
    width = x.shape[-1] if x.ndim else 1
    # All at once, because a generator may bind its coins to the rows of a batch.
    words = rng.words((*x.shape[:-1], _SECOND_WORDS + width), np.uint16)
    words = words.reshape(-1, _SECOND_WORDS + width)
    places = np.array([1 << 16 * place for place in range(_SECOND_WORDS)], dtype=np.uint64)
    second, first = words[:, :_SECOND_WORDS] @ places, words[:, _SECOND_WORDS:]
    values, results = x.reshape(-1, width), out.reshape(-1, width)
    wide = min(width, _PIECE)
    high = max(1, _PIECE // width)
    scratch = np.empty(wide * min(high, len(values)))
    for top in range(0, len(values), high):
        rows = slice(top, top + high)
        for left in range(0, width, wide):
            piece = rows, slice(left, left + wide)
            part = values[piece]
            grid = scratch[: part.size].reshape(part.shape)
            np.clip(part, -clip, clip, out=grid)
            # A power of two moves the exponent and rounds nothing; nor does any later step.
            grid *= 2.0 ** (frac_bits + _FIRST_BITS)
            _round(grid, first[piece], second[rows], results[piece], near=reach < _NEAR)


def _round(
    grid: NDArray[np.float64],
    first: NDArray[np.uint16],
    second: NDArray[np.uint64],
    out: NDArray[Any],
    *,
    near: bool,
) -> None:
    """Round grid / 2^16 into ``out``; overwrites ``grid``.

    An entry of ``grid`` is g + r with g whole and 0 <= r < 1. With u uniform in [0, 2^16),
    floor((g + u) / 2^16) has the mean g / 2^16, and at u = 0 it is the lower neighbour, whatever
    g is. So there, and only there, the second coin adds one more with probability r. It is the
    same for all such entries of a row, which changes the law of none.
    """
    last = np.flatnonzero(first == 0)  # which ones, depends on no entry
    rest = grid.reshape(-1)[last]
    np.floor(grid, out=grid)
    rest -= grid.reshape(-1)[last]
    up = second[last // grid.shape[1]] < (rest * 2.0**_SECOND_BITS).astype(np.uint64)
    if near:
        grid += _ANCHOR
        steps = grid.view(np.int64)
        steps += first
        if out.itemsize > 4:  # a narrower type drops the anchor's bits
            steps -= _ANCHOR_BITS
        steps >>= _FIRST_BITS
    else:
        whole = np.floor(grid * 2.0**-_FIRST_BITS)
        grid -= whole * 2.0**_FIRST_BITS
        steps = grid.astype(np.int64)
        steps += first
        steps >>= _FIRST_BITS
        steps += whole.astype(np.int64)
    steps.reshape(-1)[last] += up
    np.copyto(out, steps, casting="unsafe")
