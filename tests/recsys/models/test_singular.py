"""Rows from the largest singular vectors, against NumPy's decomposition."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from recsys.models.singular import singular_rows
from recsys.simulation import SimulationRng


def matrix(rows: int, columns: int) -> "csr_array[np.float64]":
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((rows, 3)) @ rng.standard_normal((3, columns))
    dense += 0.05 * rng.standard_normal((rows, columns))
    return csr_array(np.where(rng.random((rows, columns)) < 0.6, dense, 0.0))


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_products_are_the_best_of_their_rank(shape: tuple[int, int]) -> None:
    sparse = matrix(*shape)
    u, s, vh = np.linalg.svd(sparse.toarray())
    left, right = singular_rows(sparse, 3, SimulationRng(0))
    assert left @ right.T == pytest.approx((u[:, :3] * s[:3]) @ vh[:3], abs=1e-3)


def test_both_sides_share_the_singular_value() -> None:
    left, right = singular_rows(matrix(40, 25), 2, SimulationRng(0))
    assert (left**2).sum(axis=0) == pytest.approx((right**2).sum(axis=0))
    assert (left**2).sum(axis=0)[0] == pytest.approx(
        np.linalg.norm(matrix(40, 25).toarray(), ord=2), rel=1e-6
    )


def test_missing_vectors_are_zeros() -> None:
    left, right = singular_rows(matrix(4, 3), 7, SimulationRng(0))
    assert left.shape == (4, 7)
    assert right.shape == (3, 7)
    assert not left[:, 3:].any()
    assert left @ right.T == pytest.approx(matrix(4, 3).toarray())
