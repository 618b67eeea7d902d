"""Products with sparse matrices and products of row pairs, with their gradients, for PyTorch.

Error: rounding, in the type of the tensors that come in. Sums run in the order of the entries, on
    one thread, so that equal input gives equal output whatever the number of cores.
Differs: SciPy multiplies, which needs a fifth of the time that indexing and adding up take in
    PyTorch, and whose order of summation is fixed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from recsys.data.ratings import Floats, Graph, Indices
from recsys.models.graph_ridge import laplacian

_PIECE = 8192
"""Pairs whose rows are held at once."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix and its transpose, float32, both by rows."""

    matrix: "csr_array[np.float32]"
    transposed: "csr_array[np.float32]"

    @classmethod
    def of(
        cls, rows: NDArray[Any], columns: NDArray[Any], weights: Floats, shape: tuple[int, int]
    ) -> "Sparse":
        """The matrix with ``weights`` at (rows, columns); what is there twice is added up."""
        entries = weights.astype(np.float32), (rows, columns)
        matrix = csr_array(coo_array(entries, shape=shape))
        return cls(matrix, csr_array(matrix.T))

    @classmethod
    def shifted_laplacian(cls, graph: Graph, size: int) -> "Sparse":
        """I - D^(-1/2) A D^(-1/2) less I, whose eigenvalues lie in [-1, 1].

        Zeros in the row of whom has no neighbour: there the Laplacian is the identity.
        """
        smooth = laplacian(graph, size).tocoo()
        apart = smooth.row != smooth.col
        ends = smooth.row[apart], smooth.col[apart]
        return cls.of(*ends, smooth.data[apart], (size, size))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows of two matrices to be multiplied: users rising, items in any order; integers (n,)."""

    users: Indices
    items: Indices


class _Propagation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, graph: Sparse) -> Tensor:
        ctx.graph = graph
        return _tensor(graph.matrix @ _array(x))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return _tensor(ctx.graph.transposed @ _array(slopes[0])), None


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pairs: Pairs) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.pairs = pairs
        return _tensor(row_products(_array(left), _array(right), pairs))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = (_array(saved) for saved in ctx.saved_tensors)
        users, items = ctx.pairs.users, ctx.pairs.items
        starts = np.append(0, np.cumsum(np.bincount(users, minlength=left.shape[0])))
        sparse = csr_array(
            (_array(slopes[0]), items, starts.astype(items.dtype)),
            shape=(left.shape[0], right.shape[0]),
        )
        return _tensor(sparse @ right), _tensor(sparse.T @ left), None


def propagate(graph: Sparse, x: Tensor) -> Tensor:
    """``graph.matrix`` times x (columns, d): a tensor (rows, d)."""
    result: Tensor = _Propagation.apply(x, graph)  # type: ignore[no-untyped-call]
    return result


def chebyshev(graph: Sparse, x: Tensor, terms: int) -> Tensor:
    """Chebyshev polynomials of the matrix, from degree 0, times x (n, d): (n, terms d).

    Source: Defferrard, Bresson and Vandergheynst, "Convolutional neural networks on graphs with
    fast localized spectral filtering" (NIPS 2016), section 2.1.
    """
    found = [x, propagate(graph, x)]
    while len(found) < terms:
        found.append(2 * propagate(graph, found[-1]) - found[-2])
    return torch.cat(found[:terms], dim=1)


def pair_products(left: Tensor, right: Tensor, pairs: Pairs) -> Tensor:
    """left[users[n]] . right[items[n]] for every pair n, of tensors (., d): (n,)."""
    result: Tensor = _PairProducts.apply(left, right, pairs)  # type: ignore[no-untyped-call]
    return result


def row_products(left: NDArray[Any], right: NDArray[Any], pairs: Pairs) -> NDArray[Any]:
    """The same of arrays, without gradients; the users may come in any order."""
    products = np.empty(pairs.users.size, dtype=left.dtype)
    for start in range(0, products.size, _PIECE):
        piece = slice(start, start + _PIECE)
        rows = left[pairs.users[piece]], right[pairs.items[piece]]
        np.einsum("nd,nd->n", *rows, out=products[piece])
    return products


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array)
