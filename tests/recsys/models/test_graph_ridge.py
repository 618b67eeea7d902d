"""Ridge regression along a graph: against one dense system, and the Laplacian edge by edge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.ratings import Graph
from recsys.models.graph_ridge import laplacian, smooth_ridge

Edges = list[tuple[int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15)


def graph(edges: Edges) -> Graph:
    source, target = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    return Graph(source, target)


@given(EDGES, st.integers(0, 2**32 - 1))
def test_the_quadratic_form_adds_up_differences_over_edges(edges: Edges, seed: int) -> None:
    """Loops count nothing, and an edge once, in whatever order and number it is listed."""
    x = np.random.default_rng(seed).standard_normal(7)
    proper = {frozenset(edge) for edge in edges if edge[0] != edge[1]}
    degree = [sum(node in edge for edge in proper) for node in range(7)]
    expected = 0.0
    for one, other in map(tuple, proper):
        expected += (x[one] / degree[one] ** 0.5 - x[other] / degree[other] ** 0.5) ** 2
    found = laplacian(graph(edges), 7)
    assert x @ (found @ x) == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(found.toarray(), found.toarray().T)


@given(EDGES, st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
def test_it_solves_the_one_large_system(edges: Edges, seed: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((7, 3, 3))
    grams = factors @ factors.transpose(0, 2, 1) + 0.5 * np.eye(3)
    right, start = rng.standard_normal((2, 7, 3))
    smooth = weight * laplacian(graph(edges), 7)
    whole = np.kron(smooth.toarray(), np.eye(3))
    for row in range(7):
        whole[3 * row : 3 * row + 3, 3 * row : 3 * row + 3] += grams[row]
    expected = np.linalg.solve(whole, right.reshape(-1)).reshape(7, 3)
    before = start.copy()
    found = smooth_ridge(grams, right, smooth, start)
    assert found == pytest.approx(expected, abs=1e-6)
    assert np.array_equal(start, before)


def test_a_right_side_of_zeros_has_zeros_for_an_answer() -> None:
    grams = np.repeat(np.eye(2)[np.newaxis], 7, axis=0)
    smooth = laplacian(graph([(0, 1)]), 7)
    nothing = np.zeros((7, 2))
    assert not smooth_ridge(grams, nothing, smooth, nothing).any()
    far = np.ones((7, 2))
    assert smooth_ridge(grams, nothing, smooth, far) == pytest.approx(nothing, abs=1e-12)
