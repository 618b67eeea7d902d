"""Rows of factors: ridge regression against dense systems, first rows, scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.ratings import Floats, Triples
from recsys.models import rating_factors
from recsys.models.rating_factors import (
    FactorScorer,
    centre,
    first_rows,
    predicted,
    rating_matrix,
    ridge,
)
from recsys.simulation import SimulationRng


def ratings(seed: int, users: int, items: int) -> Triples:
    """A third of all pairs, some rated 0; some users may have none."""
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((users, items)) < 0.3)
    values = rng.integers(-2, 3, u.size).astype(np.float64)
    return Triples(u.astype(np.int32), i.astype(np.int32), values)


def dense_ridge(of: Triples, users: int, others: Floats, penalty: float, bias: bool) -> Floats:
    """The normal equations of one user after the other."""
    rows = np.zeros((users, others.shape[1]))
    for user in range(users):
        mine = of.users == user
        features = others[of.items[mine]].copy()
        features[:, -1] = 1.0 if bias else 0.0
        target = of.values[mine] - others[of.items[mine], -1]
        gram = features.T @ features + penalty * np.eye(others.shape[1])
        rows[user] = np.linalg.solve(gram, features.T @ target)
    return rows


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 4),
    st.sampled_from([0.1, 3.0]),
    st.booleans(),
)
def test_ridge_solves_for_each_row_by_itself(
    seed: int, users: int, items: int, dim: int, penalty: float, bias: bool
) -> None:
    """Ratings of 0 count as ratings; who has none gets zeros."""
    of = ratings(seed, users, items)
    others = np.random.default_rng(seed).standard_normal((items, dim + 1))
    if not bias:
        others[:, -1] = 0
    matrix = rating_matrix(of, users, items)
    found = ridge(matrix, others, penalty, bias=bias)
    assert found == pytest.approx(dense_ridge(of, users, others, penalty, bias), abs=1e-9)
    assert not found[np.setdiff1d(np.arange(users), of.users)].any()


def test_ridge_gives_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = rating_matrix(ratings(1, 40, 20), 40, 20)
    others = np.random.default_rng(2).standard_normal((20, 4))
    whole = ridge(matrix, others, 1.0)
    monkeypatch.setattr(rating_factors, "_MOST_ENTRIES", 3 * 4**2)
    assert ridge(matrix, others, 1.0) == pytest.approx(whole, abs=1e-12)


def test_the_matrix_holds_every_rating_and_no_other() -> None:
    of = ratings(3, 7, 5)
    matrix = rating_matrix(of, 7, 5)
    assert matrix.nnz == len(of)
    assert np.array_equal(matrix.indices, of.items)
    assert np.array_equal(matrix.toarray()[of.users, of.items], of.values)


def test_first_rows_are_normal_where_something_is_known() -> None:
    rated = np.array([4, 1, 4, 700], dtype=np.int32)
    rows = first_rows("users", rated, 1000, 300, 0.1, SimulationRng(0))
    known = [1, 4, 700]
    assert not np.delete(rows, known, axis=0).any()
    assert not rows[:, -1].any()
    # 900 entries: a standard error of .0024 of the deviation, .0033 of the mean.
    assert rows[known, :-1].std() == pytest.approx(0.1, abs=0.016)
    assert abs(rows[known, :-1].mean()) < 0.022


def test_a_row_that_joins_changes_no_other_and_purposes_differ() -> None:
    few, many = np.arange(3, dtype=np.int32), np.arange(5, dtype=np.int32)
    sim = SimulationRng(1)
    small, large = (first_rows("items", rated, 5, 2, 1.0, sim) for rated in (few, many))
    assert np.array_equal(small[:3], large[:3])
    assert not np.array_equal(first_rows("users", many, 5, 2, 1.0, sim), large)


def test_centre_is_the_mean_or_nothing() -> None:
    of = Triples(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.array([1.0, 4.0]))
    assert centre(of, True) == [2.5]
    assert centre(of, False) == [0.0]


def test_unknown_rows_count_as_zero() -> None:
    arrays = {
        "mean": np.array([3.0]),
        "users": np.array([[1.0, 2.0, 0.5], [9.0, 9.0, 9.0]]),
        "items": np.array([[3.0, 4.0, -0.25], [7.0, 7.0, 7.0]]),
    }
    users, items = np.array([0, -1, 0, -1], np.int32), np.array([0, 0, -1, -1], np.int32)
    found = FactorScorer().score(arrays, users, items)
    assert found.tolist() == [3 + 0.5 - 0.25 + 11, 3 - 0.25, 3 + 0.5, 3]
    assert predicted(arrays["users"][:1], arrays["items"][:1]).tolist() == [11.25]
