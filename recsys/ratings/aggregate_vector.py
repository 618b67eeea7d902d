"""A client's gradients as one vector: the rows of all items in order, then the weights.

Items that a client does not upload are zero there, so most of the vector is: sums are formed from
the rows alone, and only masking ever writes it out, a stretch at a time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from recsys.ratings.gradients import Floats, Gradients, GridGradients

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """n_items rows of ``width`` entries each, and n_weights entries after them."""

    n_items: int
    width: int
    n_weights: int

    @property
    def rows_size(self) -> int:
        """Entries of all rows."""
        return self.n_items * self.width

    @property
    def size(self) -> int:
        """Entries of the whole vector."""
        return self.rows_size + self.n_weights

    def check(self, gradients: Gradients) -> None:
        """ParameterError unless the arrays have these sizes and name each item once, in order."""
        members, starts, items = gradients.members, gradients.starts, gradients.items
        sizes = {
            "starts": (starts.shape, (members.size + 1,)),
            "rows": (gradients.rows.shape, (items.size, self.width)),
            "weights": (gradients.weights.shape, (members.size, self.n_weights)),
        }
        for name, (found, expected) in sizes.items():
            if found != expected:
                raise ParameterError(f"{name} must have shape {expected}, got {found}")
        if starts[0] != 0 or starts[-1] != items.size or (np.diff(starts) < 0).any():
            raise ParameterError(f"starts must rise from 0 to {items.size}")
        if (np.diff(members) <= 0).any():
            raise ParameterError("members must be distinct and rising")
        if items.size and not (items.min() >= 0 and items.max() < self.n_items):
            raise ParameterError(f"items must lie in [0, {self.n_items})")
        steps = np.diff(items, prepend=-1)
        steps[starts[:-1][starts[:-1] < items.size]] = 1  # where the next client begins
        if (steps <= 0).any():
            raise ParameterError("the items of a client must be distinct and rising")

    def nothing(self) -> Integers:
        """A vector of zeros."""
        return np.zeros(self.size, dtype=np.int64)

    def senders(self, grid: GridGradients) -> Integers:
        """How many clients have a row of each item: int64 (n_items,)."""
        return np.bincount(grid.items, minlength=self.n_items)

    def add(self, total: Integers, items: NDArray[np.int32], values: Integers) -> None:
        """Add one client's rows, for her ``items``, and then her weights to ``total``, in place."""
        rows = total[: self.rows_size].reshape(self.n_items, self.width)
        end = items.size * self.width
        rows[items] += values[:end].reshape(-1, self.width)  # each item once, so none is lost
        total[self.rows_size :] += values[end:]

    def upload(self, grid: GridGradients, user: int) -> tuple[NDArray[np.int32], Integers]:
        """One user's items and values, weights last; no items and zeros if she has no row."""
        at = int(np.searchsorted(grid.members, user))
        if at == grid.members.size or grid.members[at] != user:
            return np.zeros(0, dtype=np.int32), np.zeros(self.n_weights, dtype=np.int64)
        rows = slice(int(grid.starts[at]), int(grid.starts[at + 1]))
        values = np.concatenate([grid.rows[rows].reshape(-1), grid.weights[at]])
        return grid.items[rows], values

    def total(self, grid: GridGradients) -> Integers:
        """The sum of all clients' vectors: int64 (size,), which wraps nowhere near its ends."""
        uploads = grid.items.size
        ones = np.ones(uploads, dtype=np.int64)
        owners = csc_array(
            (ones, grid.items, np.arange(uploads + 1)), shape=(self.n_items, uploads)
        )
        rows = np.asarray(owners @ grid.rows)
        return np.concatenate([rows.reshape(-1), grid.weights.sum(axis=0)])

    def dense(
        self,
        grid: GridGradients,
        place: NDArray[np.intp],
        members: int,
        ring: Ring,
        start: int,
        stop: int,
    ) -> RingArray:
        """Entries ``start`` to ``stop`` of the vectors of ``members`` clients, as ring elements.

        place (c,): the row that each client of ``grid`` has among them; the others are zero.
        """
        out: RingArray = np.zeros((members, stop - start), dtype=ring.dtype)
        end = min(stop, self.rows_size)
        if start < end:
            first, last = start // self.width, -(-end // self.width)
            chosen = (grid.items >= first) & (grid.items < last)
            owners = np.repeat(place, np.diff(grid.starts))[chosen]
            block = np.zeros((members, last - first, self.width), dtype=ring.dtype)
            block[owners, grid.items[chosen] - first] = ring.reduce(grid.rows[chosen])
            flat = block.reshape(members, -1)
            lead = first * self.width
            out[:, : end - start] = flat[:, start - lead : end - lead]
        begin = max(start, self.rows_size)
        if begin < stop:
            weights = grid.weights[:, begin - self.rows_size : stop - self.rows_size]
            out[place, begin - start :] = ring.reduce(weights)
        return out

    def split(self, vector: Floats) -> tuple[Floats, Floats]:
        """A vector's rows (n_items, width) and its weights (n_weights,)."""
        rows = vector[: self.rows_size].reshape(self.n_items, self.width)
        return rows, vector[self.rows_size :]
