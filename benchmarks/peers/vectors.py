"""The clients' vectors of a round, and what every right mean of some of them satisfies."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CLIP = 8.0
FRAC_BITS = 18
"""One unit is 2^-18: the resolution of Flower's defaults, 2^22 steps over [-8, 8]."""

_PARTS = 16
_DEVIATIONS = 8


def vectors(clients: int, dim: int) -> NDArray[np.float64]:
    """Vectors over [-7, 7), of shape (clients, dim); entries all differ while they are few."""
    places = np.arange(clients * dim, dtype=np.int64).reshape(clients, dim)
    return places * 40_507 % 1_000_003 / 1_000_003 * 14 - 7


def is_mean(mean: ArrayLike, x: NDArray[np.float64]) -> bool:
    """Whether ``mean`` is that of the rows of ``x``, each of them rounded by a unit at most."""
    found = np.asarray(mean, dtype=np.float64)
    if found.shape != x.shape[1:]:
        return False
    return bool(np.max(np.abs(found - x.mean(axis=0))) <= 2.0**-FRAC_BITS)


def are_masked(payloads: Sequence[NDArray[Any]]) -> bool:
    """Whether vectors of integers below 2^32 are spread over that range as uniform ones are.

    The clients' own entries take 22 bits of it.
    """
    for payload in payloads:
        counts = np.bincount(payload.astype(np.uint32) >> np.uint32(28), minlength=_PARTS)
        expected = payload.size / _PARTS
        if not np.all(np.abs(counts - expected) <= _DEVIATIONS * np.sqrt(expected)):
            return False
    return True
