"""Rows of many clients side by side: sums, leaving out, and weights that each client has."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recsys.models.star import Groups, Star, client_linear, segment_product
from tests.recsys.models.star_cases import groups_of, normal

sizes_ = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def star_of(sizes: tuple[int, ...], met: tuple[int, ...], *, leave_out: bool) -> Star:
    clients, dim = len(sizes), 2
    users, items = normal(1, clients, dim), normal(2, sum(sizes), dim)
    near = normal(3, sum(met), dim)
    return Star(users, items, groups_of(sizes), near, groups_of(met), None, leave_out)


@given(sizes=sizes_)
def test_groups_tell_who_owns_a_row(sizes: list[int]) -> None:
    groups = groups_of(sizes)
    expected = [k for k, size in enumerate(sizes) for _ in range(size)]
    assert groups.owners.tolist() == expected
    assert groups.sizes.tolist() == sizes
    assert [end - first for first, end in groups.cuts] == sizes
    assert groups.one_each == (set(sizes) == {1})
    x = normal(0, sum(sizes), 3)
    rows = np.split(x.numpy(), np.cumsum(sizes)[:-1])
    assert groups.sum(x).numpy() == pytest.approx(np.stack([part.sum(0) for part in rows]))


def test_single_rows_are_their_own_sums() -> None:
    groups = Groups.single(4)
    x = normal(0, 4, 2)
    assert groups.one_each
    assert torch.equal(groups.sum(x), x)


def test_sums_around_a_star_take_items_and_neighbours() -> None:
    star = star_of((2, 1, 3), (0, 2, 1), leave_out=False)
    values, near = normal(5, 6, 4), normal(6, 3, 4)
    expected = torch.stack([values[:2].sum(0), values[2] + near[:2].sum(0), values[3:].sum(0)])
    expected[2] += near[2]
    torch.testing.assert_close(star.around(values, near), expected)
    assert star.degrees.squeeze(1).tolist() == [2, 3, 4]
    assert star.rows.one_each
    assert torch.equal(star.spread(star.users), star.users)


def test_leaving_out_gives_a_sum_for_each_item_without_it() -> None:
    star = star_of((2, 1, 3), (0, 2, 1), leave_out=True)
    values, near = normal(5, 6, 4), normal(6, 3, 4)
    owners = [0, 0, 1, 2, 2, 2]
    for row, owner in enumerate(owners):
        others = [k for k in range(6) if owners[k] == owner and k != row]
        met = range(*star.met.cuts[owner])
        expected = values[others].sum(0) + near[list(met)].sum(0)
        torch.testing.assert_close(star.around(values, near)[row], expected)
    assert star.degrees.squeeze(1).tolist() == [1, 1, 2, 3, 3, 3]
    assert torch.equal(star.spread(star.users), star.users[owners])
    assert star.rows is star.rated


@given(sizes=sizes_, seed=st.integers(0, 2**16))
def test_client_linear_gives_each_client_the_gradient_of_her_rows(
    sizes: list[int], seed: int
) -> None:
    groups, clients, rows = groups_of(sizes), len(sizes), sum(sizes)
    x = normal(seed, rows, 4).requires_grad_()
    weights = normal(seed + 1, 4, 2).expand(clients, 4, 2).detach().requires_grad_()
    out = client_linear(x, weights, groups)
    g = normal(seed + 2, rows, 2)
    of_x, of_weights = torch.autograd.grad((out * g).sum(), [x, weights])
    torch.testing.assert_close(out, x @ weights[0])
    torch.testing.assert_close(of_x, g @ weights[0].T)
    for k, (first, end) in enumerate(groups.cuts):
        torch.testing.assert_close(of_weights[k], x[first:end].T @ g[first:end])


def test_client_linear_passes_no_gradient_that_nobody_asks_for() -> None:
    groups, weights = groups_of((2, 1)), normal(1, 4, 2).expand(2, 4, 2)
    x = normal(0, 3, 4).requires_grad_()
    client_linear(x, weights, groups).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert weights.grad is None


@given(sizes=sizes_)
def test_products_of_segments_are_those_of_each_client(sizes: list[int]) -> None:
    """Also where everybody has one row, which goes another way."""
    groups = groups_of(sizes)
    x, y = normal(0, sum(sizes), 3), normal(1, sum(sizes), 2)
    found = segment_product(x, y, groups)
    for k, (first, end) in enumerate(groups.cuts):
        torch.testing.assert_close(found[k], x[first:end].T @ y[first:end])


def test_products_of_single_rows() -> None:
    x, y = normal(0, 4, 3), normal(1, 4, 2)
    expected = torch.stack([torch.outer(a, b) for a, b in zip(x, y, strict=True)])
    torch.testing.assert_close(segment_product(x, y, Groups.single(4)), expected)
