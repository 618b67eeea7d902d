"""The vector over the whole catalogue: stretches of it, and sums that never write it out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.ring import Ring
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.gradients import GridGradients

MEMBERS = 6


def some(layout: Layout, seed: int) -> GridGradients:
    """Clients at places 0, 2 and 5 of six."""
    rng = np.random.default_rng(seed)
    items = [np.flatnonzero(rng.random(layout.n_items) < 0.5) for _ in range(3)]
    ends = np.cumsum([0, *(part.size for part in items)])
    return GridGradients(
        members=np.array([3, 8, 9], dtype=np.int32),
        starts=ends,
        items=np.concatenate(items).astype(np.int32),
        rows=rng.integers(-(2**20), 2**20, (ends[-1], layout.width)),
        weights=rng.integers(-(2**20), 2**20, (3, layout.n_weights)),
    )


def written_out(layout: Layout, grid: GridGradients) -> NDArray[np.int64]:
    """Entry by entry."""
    out = np.zeros((MEMBERS, layout.size), dtype=np.int64)
    for at, place in enumerate((0, 2, 5)):
        for row in range(grid.starts[at], grid.starts[at + 1]):
            for column in range(layout.width):
                out[place, grid.items[row] * layout.width + column] = grid.rows[row, column]
        out[place, layout.rows_size :] = grid.weights[at]
    return out


@pytest.mark.parametrize("bits", [7, 32, 64])
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 5)),
    seed=st.integers(0, 2**32 - 1),
)
def test_stretches_are_those_of_the_whole_vector(
    bits: int, sizes: tuple[int, int, int], seed: int
) -> None:
    layout, ring = Layout(*sizes), Ring(bits)
    grid = some(layout, seed)
    whole = ring.reduce(written_out(layout, grid))
    place = np.array([0, 2, 5])
    for start in range(layout.size):
        for stop in range(start + 1, layout.size + 1):
            part = layout.dense(grid, place, MEMBERS, ring, start, stop)
            assert part.dtype == ring.dtype
            assert np.array_equal(part, whole[:, start:stop])


@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 5)),
    seed=st.integers(0, 2**32 - 1),
)
def test_sparse_sums_are_those_of_the_vectors(sizes: tuple[int, int, int], seed: int) -> None:
    layout = Layout(*sizes)
    grid = some(layout, seed)
    expected = written_out(layout, grid).sum(axis=0)
    assert np.array_equal(layout.total(grid), expected)
    one_by_one = layout.nothing()
    for at in range(3):
        rows = slice(grid.starts[at], grid.starts[at + 1])
        values = np.concatenate([grid.rows[rows].reshape(-1), grid.weights[at]])
        layout.add(one_by_one, grid.items[rows], values)
    assert np.array_equal(one_by_one, expected)
    table, weights = layout.split(expected.astype(np.float64))
    assert table.shape == (layout.n_items, layout.width)
    assert np.array_equal(np.concatenate([table.reshape(-1), weights]), expected)
    senders = [int((grid.items == item).sum()) for item in range(layout.n_items)]
    assert layout.senders(grid).tolist() == senders
