"""Exact laws of views that are affine in their random tape over Z_{2^l}, at any size.

For fixed keys and inputs such a view is b + sum_i t_i a_i with tape entries t_i uniform in Z_{2^l}:
it is uniform on the coset b + M of the module M that the a_i span. Two inputs have the same law if
and only if they have the same M and b - b' lies in M. The kernel that runs gives b and all a_i in
one batch, from the tape of zeros and the unit tapes.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG, Rng

Who = TypeVar("Who", bound=Hashable)
Rows = list[list[int]]


class BatchRng(Rng):
    """Gives the columns of ``values`` (B, draws) in order; B is the length of one axis alone."""

    def __init__(self, values: NDArray[np.uint64]) -> None:
        self._values = values
        self.used = 0

    def fill(self, out: NDArray[Any]) -> None:
        batch = len(self._values)
        (axis,) = (i for i, length in enumerate(out.shape) if length == batch)
        moved = np.moveaxis(out, axis, 0)
        part = self._values[:, self.used : self.used + moved[0].size]
        if part.shape[1] != moved[0].size:
            raise IndexError("the kernel draws more than the tape holds")
        moved[...] = part.reshape(moved.shape).astype(out.dtype)
        self.used += moved[0].size


def affine_laws(
    kernel: Callable[[NDArray[np.uint64]], Mapping[Who, NDArray[np.uint64]]],
    draws: int,
    ring: Ring,
) -> dict[Who, "AffineLaw"]:
    """The law of each of several views of one kernel, from one batch.

    kernel: from tapes (B, draws) to views (B, columns), all entries of ``ring``.
    """
    tapes = np.concatenate([np.zeros((1, draws)), np.eye(draws)]).astype(np.uint64)
    some = ring.random((draws + 1, draws), SYSTEM_RNG).astype(np.uint64)
    views = kernel(np.concatenate([tapes, some]))
    return {who: AffineLaw(seen.tolist(), some.tolist(), ring) for who, seen in views.items()}


class AffineLaw:
    """The law of a view. ValueError if the view is not affine in the tape.

    views: of the tape of zeros, of the unit tapes and then of ``some`` random ones.
    """

    def __init__(self, views: Rows, some: Rows, ring: Ring) -> None:
        self._bits = ring.bits
        count = len(some)
        self.offset = views[0]
        generators = [self._minus(row, self.offset) for row in views[1:count]]
        for tape, seen in zip(some, views[count:], strict=True):
            columns = zip(self.offset, *generators, strict=True)
            expected = [b + sum(t * a for t, a in zip(tape, c, strict=True)) for b, *c in columns]
            if any(self._minus(seen, expected)):
                raise ValueError("the view is not affine in the tape")
        self._pivots = self._echelon(generators)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineLaw)
            and all(other._spans(row) for _, row in self._pivots)
            and all(self._spans(row) for _, row in other._pivots)
            and self._spans(self._minus(self.offset, other.offset))
        )

    __hash__ = None  # type: ignore[assignment]

    def _minus(self, left: Sequence[int], right: Sequence[int], times: int = 1) -> list[int]:
        modulus = 1 << self._bits
        return [(a - times * b) % modulus for a, b in zip(left, right, strict=True)]

    def _echelon(self, rows: Rows) -> list[tuple[int, list[int]]]:
        """Rows that span the same module, each with the column of its pivot, a power of two.

        A pivot has the least valuation of all entries that are left, so it divides them.
        """
        pivots = []
        rows = [row for row in rows if any(row)]
        while rows:
            _, index, column = min(
                (entry & -entry, i, j)
                for i, row in enumerate(rows)
                for j, entry in enumerate(row)
                if entry
            )
            row = rows.pop(index)
            power = row[column] & -row[column]
            inverse = pow(row[column] // power, -1, 1 << self._bits)
            row = [entry * inverse % (1 << self._bits) for entry in row]
            pivots.append((column, row))
            rest = (self._minus(other, row, other[column] // power) for other in rows)
            rows = [other for other in rest if any(other)]
        return pivots

    def _spans(self, vector: list[int]) -> bool:
        for column, row in self._pivots:
            vector = self._minus(vector, row, vector[column] // row[column])
        return not any(vector)
