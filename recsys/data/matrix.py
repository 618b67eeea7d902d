"""The entries of a matrix that are not 0, whatever form the file held it in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError

MOST_ROWS = 2**31 - 1

_Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Matrix:
    """A sparse matrix.

    shape: rows and columns.  keys: int64 (n,), ``row * columns + column``, rising.
    values: float64 (n,), none of them 0.
    """

    shape: tuple[int, int]
    keys: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.int32]:
        """The row of each entry."""
        return (self.keys // max(self.shape[1], 1)).astype(np.int32)

    @property
    def columns(self) -> NDArray[np.int32]:
        """The column of each entry."""
        return (self.keys % max(self.shape[1], 1)).astype(np.int32)


def from_columns(shape: tuple[int, int], slabs: Iterable[_Numbers]) -> Matrix:
    """A dense matrix from slabs of whole columns, each (columns, rows), left to right."""
    _check_shape(shape)
    keys, values = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    first = 0
    for slab in slabs:
        column, row = np.nonzero(slab)
        keys.append(row.astype(np.int64) * shape[1] + column + first)
        values.append(slab[column, row].astype(np.float64))
        first += slab.shape[0]
    if first != shape[1]:
        raise ParameterError(f"there are {first} columns, of {shape[1]}")
    return _sorted(shape, np.concatenate(keys), np.concatenate(values))


def from_compressed_columns(
    shape: tuple[int, int], starts: _Numbers, rows: _Numbers, values: _Numbers
) -> Matrix:
    """A sparse matrix as MATLAB keeps it, column by column.

    starts: integers (columns + 1,), where each column begins (jc).  rows: integers, the row of each
    entry (ir).  values: numbers; both may be longer than the entries are many.
    Raises ParameterError where they do not fit together.
    """
    _check_shape(shape)
    jc = starts.astype(np.int64).reshape(-1)
    if jc.size != shape[1] + 1 or jc[0] != 0 or (np.diff(jc) < 0).any():
        raise ParameterError(f"jc does not divide the entries into {shape[1]} columns")
    n = int(jc[-1])
    ir, data = rows.astype(np.int64).reshape(-1)[:n], values.reshape(-1)[:n].astype(np.float64)
    if ir.size < n or data.size < n:
        raise ParameterError(f"there are {min(ir.size, data.size)} entries, of {n} that jc counts")
    if n and not (ir.min() >= 0 and ir.max() < shape[0]):
        raise ParameterError(f"ir names a row outside the {shape[0]} there are")
    column = np.repeat(np.arange(shape[1]), np.diff(jc))
    kept = data != 0  # NaN stays, for the caller to find
    return _sorted(shape, (ir * shape[1] + column)[kept], data[kept])


def _check_shape(shape: tuple[int, int]) -> None:
    if len(shape) != 2 or not all(0 <= size <= MOST_ROWS for size in shape):
        raise ParameterError(f"the shape {shape} is not that of a matrix")


def _sorted(shape: tuple[int, int], keys: NDArray[np.int64], values: NDArray[np.float64]) -> Matrix:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        raise ParameterError("a place of the matrix has two entries")
    return Matrix(shape, keys, values[order])
