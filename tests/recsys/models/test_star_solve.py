"""The user's ridge regression, and what it says of each rating without that rating."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from recsys.errors import DivergenceError
from recsys.models.star_solve import _Gram, _Rows, fit, segment_rows
from tests.recsys.models.star_cases import groups_of, normal

Floats = NDArray[np.float64]


def refitted(x: Floats, y: Floats, ridge: Floats) -> Floats:
    """The minimiser of |y - x b|^2 + sum ridge b^2, as least squares with a row for each ridge."""
    rows = np.concatenate([x, np.diag(np.sqrt(ridge))])
    right = np.concatenate([y, np.zeros(ridge.size)])
    found: Floats = np.linalg.lstsq(rows, right, rcond=None)[0]
    return found


def without_each(x: Floats, y: Floats, ridge: Floats) -> Floats:
    """Every target less its prediction by a refit to the other rows."""
    errors = []
    for row in range(y.size):
        kept = np.arange(y.size) != row
        errors.append(y[row] - x[row] @ refitted(x[kept], y[kept], ridge))
    return np.array(errors)


def some_rows(
    sizes: list[int], dim: int, seed: int, ridge: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    """Design (n, dim), targets (n,), and a ridge (c, dim) of each client's own."""
    rows = sum(sizes)
    ridges = ridge * (0.1 + normal(seed + 2, len(sizes), dim).abs())
    return normal(seed, rows, dim), normal(seed + 1, rows), ridges


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    dim=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_errors_are_those_of_refits_without_each_rating(
    sizes: list[int], dim: int, seed: int
) -> None:
    """Also with fewer rows than coefficients, down to a single one."""
    groups = groups_of(sizes)
    x, y, ridge = some_rows(sizes, dim, seed)
    found = fit(x, y, ridge, groups)
    errors = found.errors().numpy()
    for k, (first, end) in enumerate(groups.cuts):
        mine = x[first:end].numpy(), y[first:end].numpy(), ridge[k].numpy()
        assert found.coefficients[k].numpy() == pytest.approx(refitted(*mine), abs=1e-9)
        assert errors[first:end] == pytest.approx(without_each(*mine), abs=1e-8)


def test_errors_of_the_fit_itself_are_not_those() -> None:
    """The twin without the leverage: a rating that has been seen is predicted too well."""
    sizes = [6, 3]
    x, y, ridge = some_rows(sizes, 3, 0)
    found = fit(x, y, ridge, groups_of(sizes))
    seen = y - (found.coefficients[[0] * 6 + [1] * 3] * x).sum(1)
    assert (seen.abs() < found.errors().abs()).all()
    expected = without_each(x[:6].numpy(), y[:6].numpy(), ridge[0].numpy())
    assert seen[:6].numpy() != pytest.approx(expected, rel=0.1)


def test_who_rated_one_item_has_nothing_to_predict_it_by() -> None:
    x, y, ridge = some_rows([1, 1], 3, 4)
    torch.testing.assert_close(fit(x, y, ridge, groups_of([1, 1])).errors(), y)


def test_rows_that_are_equal_and_a_row_of_zeros() -> None:
    """Whatever the design, ridges keep it solvable."""
    x = torch.cat([normal(0, 1, 3).expand(4, 3), torch.zeros((1, 3))]).double()
    y = normal(1, 5)
    ridge = torch.full((1, 3), 0.3, dtype=torch.float64)
    errors = fit(x, y, ridge, groups_of([5])).errors()
    expected = without_each(x.numpy(), y.numpy(), ridge[0].numpy())
    assert errors.numpy() == pytest.approx(expected, abs=1e-9)
    assert errors[4] == y[4]


@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0, 1e6])
def test_precision_is_lost_with_the_square_of_a_small_ridge(ridge: float) -> None:
    """Two rows and three coefficients: 1 - h is of the order of the ridge, and divides."""
    x, y, ridges = some_rows([2], 3, 8, ridge)
    errors = fit(x, y, ridges, groups_of([2])).errors()
    expected = without_each(x.numpy(), y.numpy(), ridges[0].numpy())
    assert errors.numpy() == pytest.approx(expected, rel=1e-13 * (1 + 100 / ridge**2))


def test_a_design_that_drowns_the_ridge_is_divergence() -> None:
    """Two equal rows of 1e20: what the ridge adds to their product is below a rounding."""
    x = torch.full((2, 2), 1e20, dtype=torch.float64) * torch.tensor([1.0, 1.0 + 1e-9])
    with pytest.raises(DivergenceError, match="too large for a user's equations"):
        fit(x, normal(0, 2), torch.ones((1, 2), dtype=torch.float64), groups_of([2]))


def test_nobodys_rows_change_anybody_elses_fit() -> None:
    sizes = [3, 2, 4]
    x, y, ridge = some_rows(sizes, 2, 5)
    before = fit(x, y, ridge, groups_of(sizes))
    changed = y.clone()
    changed[3:5] += 1
    after = fit(x, changed, ridge, groups_of(sizes))
    assert torch.equal(after.coefficients[[0, 2]], before.coefficients[[0, 2]])
    assert not torch.equal(after.coefficients[1], before.coefficients[1])


# Derivatives.


def leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()


def test_products_have_the_derivatives_of_finite_differences() -> None:
    """By PyTorch's own check, which compares them entry by entry; empty groups included."""
    groups = groups_of((2, 0, 3, 1))
    x, matrices = leaf(normal(0, 6, 3)), leaf(normal(1, 4, 3, 2))

    def gram(x: Tensor) -> Any:
        return _Gram.apply(x, groups)  # type: ignore[no-untyped-call]

    def rows(x: Tensor, matrices: Tensor) -> Any:
        return _Rows.apply(x, matrices, groups)  # type: ignore[no-untyped-call]

    assert torch.autograd.gradcheck(gram, (x,))
    assert torch.autograd.gradcheck(rows, (x, matrices))


def test_errors_have_the_derivatives_of_finite_differences() -> None:
    """By design, targets and ridges."""
    sizes = [1, 4, 2]
    x, y, ridge = (leaf(part) for part in some_rows(sizes, 2, 3))
    groups = groups_of(sizes)

    def errors(x: Tensor, y: Tensor, ridge: Tensor) -> Tensor:
        return fit(x, y, ridge, groups).errors()

    assert torch.autograd.gradcheck(errors, (x, y, ridge))


def test_rows_meet_the_matrix_of_their_owner() -> None:
    groups = groups_of((2, 0, 1))
    x, matrices = normal(0, 3, 4), normal(1, 3, 4, 2)
    expected = torch.stack([x[0] @ matrices[0], x[1] @ matrices[0], x[2] @ matrices[2]])
    torch.testing.assert_close(segment_rows(x, matrices, groups), expected)


def test_a_repr_shows_neither_ratings_nor_their_design() -> None:
    x, y, ridge = some_rows([3], 2, 0)
    shown = repr(fit(x, y, ridge, groups_of([3])))
    assert not any(f"{name}=" in shown for name in ("_design", "_targets", "_root"))
