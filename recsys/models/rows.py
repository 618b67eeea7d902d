"""Sums over equal rows: what the samples of one batch add to the parameters that they share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class RowSums:
    """Adds samples' changes to the rows that they belong to; a row may occur any number of times.

    rows: integer (n,), n at least 1.  One sort serves every array that has these rows, and the
    order of additions depends on ``rows`` alone.
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._order = np.argsort(rows, kind="stable")
        ordered = rows[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._rows = ordered[self._starts]

    def add(self, target: Floats, changes: Floats) -> None:
        """target[rows[n]] += changes[n] for all n at once, in place; changes (n, ...)."""
        target[self._rows] += np.add.reduceat(changes[self._order], self._starts, axis=0)
