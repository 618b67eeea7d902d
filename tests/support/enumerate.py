"""Exact laws: walk every random tape through the kernel that runs, as one batch.

A tape is one outcome of all the random draws of a kernel. All tapes together form the batch axis,
so the kernel is called once and sees an ordinary batch.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.rng import Rng

MAX_TAPES = 1 << 16


def tapes(sizes: Sequence[int]) -> NDArray[np.uint64]:
    """Every outcome of draws that take 0..size-1 each: shape (product of sizes, len(sizes))."""
    total = 1
    for size in sizes:
        total *= size
    if total > MAX_TAPES:
        raise ValueError(f"{total} tapes, at most {MAX_TAPES} are walked")
    return np.indices(tuple(sizes), dtype=np.uint64).reshape(len(sizes), total).T.copy()


class TapeRng(Rng):
    """Gives the columns of ``values`` (B, draws) in order, along the batch axis of each draw.

    A draw of shape s with s[axis] = B consumes product(s) / B columns; the other axes are walked
    in C order. A draw past the end raises IndexError: the tape is the complete randomness.
    """

    def __init__(self, values: NDArray[np.uint64], axis: int = 0) -> None:
        self._values = values
        self._axis = axis
        self.used = 0

    def fill(self, out: NDArray[Any]) -> None:
        batch = self._values.shape[0]
        if out.shape[self._axis] != batch:
            raise ValueError(f"axis {self._axis} of {out.shape} is not the batch of {batch} tapes")
        moved = np.moveaxis(out, self._axis, 0)
        columns = moved[0].size
        if self.used + columns > self._values.shape[1]:
            raise IndexError("the kernel draws more than the tape holds")
        part = self._values[:, self.used : self.used + columns]
        moved[...] = part.reshape(moved.shape).astype(out.dtype)
        self.used += columns


def law(view: NDArray[Any]) -> dict[bytes, Fraction]:
    """The exact law of a view, shape (B, ...): probability of each outcome over uniform tapes."""
    rows = np.ascontiguousarray(view).reshape(view.shape[0], -1)
    counts = Counter(row.tobytes() for row in rows)
    return {outcome: Fraction(count, len(rows)) for outcome, count in counts.items()}


def joint(*parts: NDArray[Any]) -> NDArray[np.uint64]:
    """Several parts of a view, each (B, ...), side by side as one array (B, columns)."""
    return np.concatenate([p.reshape(p.shape[0], -1).astype(np.uint64) for p in parts], axis=1)
