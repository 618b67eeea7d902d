"""Sparse products and products of pairs: against dense matrices, and their gradients."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.ratings import Graph
from recsys.models.graph_ridge import laplacian
from recsys.models.graphs import Pairs, Sparse, chebyshev, pair_products, propagate, row_products


def sparse(rows: int, columns: int, seed: int = 0) -> Sparse:
    """Weights in quarters, which float32 holds exactly."""
    rng = np.random.default_rng(seed)
    source, target = np.nonzero(rng.random((rows, columns)) < 0.4)
    weights = rng.integers(-8, 9, source.size) / 4
    return Sparse.of(source, target, weights, (rows, columns))


def tensor(*shape: int, seed: int = 1) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(values).requires_grad_()


def gradcheck(function: Any, *inputs: torch.Tensor) -> bool:
    found: bool = torch.autograd.gradcheck(function, inputs)
    return found


@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.integers(0, 99))
def test_propagation_is_a_matrix_product(rows: int, columns: int, width: int, seed: int) -> None:
    graph, x = sparse(rows, columns, seed), tensor(columns, width)
    assert np.array_equal(graph.transposed.toarray(), graph.matrix.toarray().T)
    expected = graph.matrix.toarray().astype(np.float64) @ x.detach().numpy()
    assert propagate(graph, x).detach().numpy() == pytest.approx(expected)


def test_its_gradient_is_that_of_the_transposed_matrix() -> None:
    graph = sparse(5, 3)
    assert gradcheck(lambda x: propagate(graph, x), tensor(3, 2))


def test_edges_that_are_listed_twice_add_up() -> None:
    twice = np.array([0, 0]), np.array([1, 1]), np.array([0.5, 0.25])
    assert np.array_equal(Sparse.of(*twice, (1, 2)).matrix.toarray(), [[0.0, 0.75]])


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
def test_pair_products_and_their_gradients(users: int, items: int, width: int, seed: int) -> None:
    """Also for users and items without a pair, and for pairs that come twice."""
    rng = np.random.default_rng(seed)
    pairs = Pairs(
        np.sort(rng.integers(0, users, 6)).astype(np.int32),
        rng.integers(0, items, 6).astype(np.int32),
    )
    left, right = tensor(users, width), tensor(items, width, seed=2)
    found = pair_products(left, right, pairs).detach().numpy()
    dense = (left @ right.T).detach().numpy()
    assert found == pytest.approx(dense[pairs.users, pairs.items])
    assert gradcheck(lambda x, y: pair_products(x, y, pairs), left, right)


def test_rows_of_many_pairs_are_taken_in_pieces() -> None:
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    pairs = Pairs(
        rng.integers(-1, 30, 20_000).astype(np.int32), rng.integers(-1, 20, 20_000).astype(np.int32)
    )
    expected = (left @ right.T)[pairs.users, pairs.items]
    assert row_products(left, right, pairs) == pytest.approx(expected)


def edges(*pairs: tuple[int, int]) -> Graph:
    source, target = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return Graph(source, target)


def test_the_laplacian_is_shifted_by_the_identity() -> None:
    """With a node that has no neighbour: there both are the identity, and nothing is left."""
    graph = edges((0, 1), (1, 2), (2, 2), (0, 2))
    shifted = Sparse.shifted_laplacian(graph, 4).matrix.toarray()
    dense = laplacian(graph, 4).toarray()
    dense[3, 3] = 1.0
    assert shifted == pytest.approx(dense - np.eye(4))
    assert np.abs(np.linalg.eigvalsh(shifted)).max() <= 1 + 1e-6


def test_chebyshev_polynomials_are_cosines_of_multiples() -> None:
    """T_k(cos a) = cos(k a), on the eigenvalues."""
    graph = Sparse.shifted_laplacian(edges((0, 1), (1, 2), (2, 3), (0, 2)), 5)
    values, vectors = np.linalg.eigh(graph.matrix.toarray().astype(np.float64))
    angles = np.arccos(np.clip(values, -1, 1))
    x = tensor(5, 2)
    expected = [
        vectors @ np.diag(np.cos(k * angles)) @ vectors.T @ x.detach().numpy() for k in range(6)
    ]
    found = chebyshev(graph, x, 6).detach().numpy()
    assert found == pytest.approx(np.hstack(expected), abs=1e-5)
    assert np.array_equal(chebyshev(graph, x, 1).detach().numpy(), x.detach().numpy())
