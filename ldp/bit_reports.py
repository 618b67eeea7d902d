"""Reports of k bits, one row for each user: what checks and adds them up.

Error: none; all sums are exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.frequency import smallest_dtype
from mpc.core.errors import ParameterError
from mpc.core.rng import Shape

# So many bytes can be added up in one byte.
_LANES = 255

# Rows shorter than this are added side by side: numpy's cost for a row would be most of theirs.
_WIDTH = 256


def checked_bits(reports: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """``reports`` as a bool array of shape (n, k); ParameterError otherwise."""
    bits = np.asarray(reports)
    if bits.dtype != np.bool_ or bits.ndim != 2 or bits.shape[1] != k:
        raise ParameterError(
            f"reports must be a bool array of shape (n, {k}), got {bits.dtype} {bits.shape}"
        )
    return bits


def checked_shape(shape: Shape, k: int) -> tuple[int, int]:
    """``shape`` as the pair (n, k); ParameterError for any other shape of reports."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) != 2 or sizes[0] < 0 or sizes[1] != k:
        raise ParameterError(f"reports have a shape (n, {k}), got {sizes}")
    return sizes[0], k


def column_sums(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many rows of a bool array (n, k) have each bit set: int64 (k,)."""
    n, k = bits.shape
    total = np.zeros(k, dtype=np.int64)
    fold = -(-_WIDTH // k)
    step = _LANES * fold
    whole = n - n % step
    for start in range(0, whole, step):
        lanes = bits[start : start + step].view(np.uint8).reshape(_LANES, fold * k)
        sums = np.add.reduce(lanes, axis=0, dtype=np.uint8)
        total += sums.reshape(fold, k).sum(axis=0, dtype=np.int64)
    total += bits[whole:].sum(axis=0, dtype=np.int64)
    return total


def row_sums(bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many bits each row of a bool array (n, k) has set: int64 (n,)."""
    # The narrowest dtype that cannot overflow is the fastest to add in.
    width = smallest_dtype(bits.shape[1] + 1)
    sums: NDArray[Any] = np.add.reduce(bits.view(np.uint8), axis=1, dtype=width)
    return sums.astype(np.int64)
