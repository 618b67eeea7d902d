"""The batched star model against the same, node by node, and what leaving one out means."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recsys.models.star import REAL, Groups, client_linear
from recsys.models.star_model import (
    NEIGHBOUR_WEIGHTS,
    RATING_WEIGHTS,
    Inputs,
    StarModel,
    client_gradients,
)
from recsys.ratings.config import RatingConfig
from tests.recsys.models.star_reference import Client, Reference

DIM = 3
SIZES = (1, 4, 2, 7, 1)
"""Items of each client: ragged, and single ones at both ends."""
NEIGHBOURS = (0, 2, 3, 0, 1)

NETWORKS = ("gcn", "gat", "ggnn")
WAYS: tuple[dict[str, Any], ...] = (
    {"user_fit": "solve"},
    {"user_fit": "solve", "residual": False},
    {"user_fit": "solve", "bias": False},
    {"user_fit": "steps"},
    {"user_fit": "steps", "residual": False},
    {"user_fit": "steps", "rating_edges": True},
    {"user_fit": "steps", "rating_edges": True, "residual": False},
)


def normal(seed: int, *shape: int) -> Tensor:
    """Numbers that are the same in every run."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(REAL)


def groups_of(sizes: Sequence[int]) -> Groups:
    return Groups(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def some_inputs(model: StarModel, seed: int = 0) -> Inputs:
    """Inputs of as many clients as ``SIZES`` has, of which no number is special."""
    clients = len(SIZES)
    met = NEIGHBOURS if model.met else (0,) * clients
    weights = {
        name: (0.5 * normal(seed + 10 + at, *shape)).expand(clients, *shape)
        for at, (name, shape) in enumerate(model.shapes().items())
    }
    users = torch.zeros((clients, model.dim), dtype=REAL)
    return Inputs(
        ratings=normal(seed + 1, sum(SIZES)),
        rated=groups_of(SIZES),
        items=normal(seed + 2, sum(SIZES), model.dim),
        item_biases=normal(seed + 3, sum(SIZES)),
        users=users if model.solve else normal(seed + 4, clients, model.dim),
        user_biases=torch.zeros(clients, dtype=REAL) if model.solve else normal(seed + 5, clients),
        neighbours=normal(seed + 6, sum(met), model.dim),
        met=groups_of(met),
        weights=weights,
    )


def model_of(gnn: str, **changes: Any) -> StarModel:
    return StarModel.of(RatingConfig(gnn=gnn, dim=DIM, **changes))


def reference_of(gnn: str, model: StarModel) -> Reference:
    return Reference(gnn, model.residual, model.bias, model.solve, model.carries)


def client_of(inputs: Inputs, k: int) -> Client:
    """The k-th client's own inputs, which autograd follows."""
    mine, met = slice(*inputs.rated.cuts[k]), slice(*inputs.met.cuts[k])

    def leaf(x: Tensor) -> Tensor:
        return x.detach().clone().requires_grad_()

    return Client(
        ratings=inputs.ratings[mine],
        items=leaf(inputs.items[mine]),
        item_biases=leaf(inputs.item_biases[mine]),
        user=leaf(inputs.users[k]),
        user_bias=leaf(inputs.user_biases[k]),
        neighbours=leaf(inputs.neighbours[met]),
        weights={name: leaf(w[k]) for name, w in inputs.weights.items()},
    )


def gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


@pytest.mark.parametrize("met", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("gnn", NETWORKS)
def test_each_clients_gradient_is_that_of_her_star_alone(
    gnn: str, way: dict[str, Any], met: bool
) -> None:
    model = model_of(gnn, neighbours="fixed" if met else "none", **way)
    reference, inputs = reference_of(gnn, model), some_inputs(model)
    found = client_gradients(model, inputs, absolute=False, mean=False)
    for k in range(len(SIZES)):
        client = client_of(inputs, k)
        errors = reference.errors(client)
        (errors**2 / 2).sum().backward()  # type: ignore[no-untyped-call]
        mine, near = slice(*inputs.rated.cuts[k]), slice(*inputs.met.cuts[k])
        torch.testing.assert_close(found.errors[mine], errors.detach())
        torch.testing.assert_close(found.items[mine], gradient(client.items))
        torch.testing.assert_close(found.item_biases[mine], gradient(client.item_biases))
        torch.testing.assert_close(found.neighbours[near], gradient(client.neighbours))
        assert set(found.weights) == set(client.weights)
        for name, weights in client.weights.items():
            torch.testing.assert_close(found.weights[name][k], gradient(weights))
        if not model.solve:  # where nothing of hers is a parameter
            torch.testing.assert_close(found.users[k], gradient(client.user))
            torch.testing.assert_close(found.user_biases[k], gradient(client.user_bias))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("mean", [False, True])
def test_the_loss_is_squared_or_absolute_and_a_sum_or_a_mean(absolute: bool, mean: bool) -> None:
    model = model_of("gat", user_fit="steps", residual=False)
    reference, inputs = reference_of("gat", model), some_inputs(model)
    found = client_gradients(model, inputs, absolute=absolute, mean=mean)
    for k in range(len(SIZES)):
        client = client_of(inputs, k)
        errors = reference.errors(client)
        losses = errors.abs() if absolute else errors**2 / 2
        (losses.mean() if mean else losses.sum()).backward()  # type: ignore[no-untyped-call]
        mine = slice(*inputs.rated.cuts[k])
        torch.testing.assert_close(found.items[mine], gradient(client.items))
        torch.testing.assert_close(found.weights["hears"][k], gradient(client.weights["hears"]))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("gnn", NETWORKS)
def test_an_unrated_item_is_predicted_by_the_whole_star(gnn: str, way: dict[str, Any]) -> None:
    model = model_of(gnn, neighbours="fixed", **way)
    reference, inputs = reference_of(gnn, model), some_inputs(model)
    items, biases = normal(30, 6, DIM), normal(31, 6)
    groups = groups_of((2, 0, 1, 3, 0))
    with torch.no_grad():
        found = model.rate(inputs, model.represent(inputs), items, biases, groups)
        for row, owner in enumerate(groups.owners.tolist()):
            expected = reference.predicted(client_of(inputs, owner), items[row], biases[row])
            torch.testing.assert_close(found[row], expected)


@pytest.mark.parametrize(
    "way", [{"user_fit": "solve"}, {"user_fit": "steps", "rating_edges": True}]
)
@pytest.mark.parametrize("gnn", NETWORKS)
def test_no_rating_leaks_into_its_own_prediction(gnn: str, way: dict[str, Any]) -> None:
    model = model_of(gnn, **way)
    inputs = some_inputs(model)
    before = inputs.ratings - model.errors(inputs)
    changed = inputs.ratings.clone()
    changed[6] += 1.0  # of the client with seven ratings, rows 7 to 13, none
    changed[9] += 1.0
    after = changed - model.errors(replace(inputs, ratings=changed))
    moved = (after - before).abs() > 1e-9
    assert not moved[9]
    assert moved[[7, 8, 10, 11, 12, 13]].all()
    assert not moved[:5].any()


def test_a_carried_rating_would_leak_if_it_were_not_left_out() -> None:
    model = model_of("gcn", user_fit="steps", rating_edges=True)
    inputs = some_inputs(model)
    changed = inputs.ratings.clone()
    changed[9] += 1.0

    def leaky(ratings: Tensor) -> Tensor:
        given = replace(inputs, ratings=ratings)
        found = model.represent(given)  # the whole star, as for an unrated item
        return model.rate(given, found, inputs.items, inputs.item_biases, inputs.rated)

    assert abs(float((leaky(changed) - leaky(inputs.ratings))[9])) > 1e-3


@pytest.mark.parametrize("gnn", NETWORKS)
def test_a_client_computes_the_same_in_whatever_company(gnn: str) -> None:
    model = model_of(gnn, neighbours="fixed")
    inputs = some_inputs(model)
    together = client_gradients(model, inputs, absolute=False, mean=False)
    for k in range(len(SIZES)):
        mine, near = slice(*inputs.rated.cuts[k]), slice(*inputs.met.cuts[k])
        alone = replace(
            inputs,
            ratings=inputs.ratings[mine],
            rated=groups_of(SIZES[k : k + 1]),
            items=inputs.items[mine],
            item_biases=inputs.item_biases[mine],
            users=inputs.users[k : k + 1],
            user_biases=inputs.user_biases[k : k + 1],
            neighbours=inputs.neighbours[near],
            met=groups_of(NEIGHBOURS[k : k + 1]),
            weights={name: w[k : k + 1] for name, w in inputs.weights.items()},
        )
        found = client_gradients(model, alone, absolute=False, mean=False)
        torch.testing.assert_close(found.items, together.items[mine])
        for name, weights in found.weights.items():
            torch.testing.assert_close(weights[0], together.weights[name][k])


@pytest.mark.parametrize("bias", [True, False])
def test_without_embeddings_a_rating_is_a_sum_of_biases(bias: bool) -> None:
    model = StarModel.of(RatingConfig(dim=0, bias=bias, user_fit="steps"))
    inputs = some_inputs(model)
    assert model.shapes() == {}
    owners = inputs.rated.owners
    expected = inputs.ratings - inputs.item_biases - inputs.user_biases[owners]
    torch.testing.assert_close(model.errors(inputs), expected)
    found = client_gradients(model, inputs, absolute=False, mean=False)
    torch.testing.assert_close(found.item_biases, -expected)


def test_without_embeddings_the_user_solves_for_her_bias() -> None:
    model = StarModel.of(RatingConfig(dim=0))
    inputs = some_inputs(model)
    rest = inputs.ratings - inputs.item_biases
    mine = slice(*inputs.rated.cuts[3])
    found = model.represent(inputs).biases[3]
    ridge = rest[mine].sum() / found - 7
    assert 0 < float(ridge)
    others = (rest[mine].sum() - rest[mine]) / (6 + ridge)
    torch.testing.assert_close(model.errors(inputs)[mine], rest[mine] - others)


def test_weights_of_neighbours_and_ratings_exist_where_they_are_used() -> None:
    plain = model_of("gcn", user_fit="steps").shapes()
    assert set(plain) == {"convolution"}
    assert RATING_WEIGHTS in model_of("gcn", user_fit="steps", rating_edges=True).shapes()
    assert NEIGHBOUR_WEIGHTS in model_of("gcn", user_fit="steps", neighbours="fixed").shapes()
    assert "ridge" in model_of("gcn").shapes()


def test_neighbours_change_nothing_before_their_weights_do() -> None:
    model = model_of("ggnn", neighbours="fixed")
    inputs = some_inputs(model)
    zero = {**inputs.weights, NEIGHBOUR_WEIGHTS: 0 * inputs.weights[NEIGHBOUR_WEIGHTS]}
    silent = replace(inputs, weights=zero)
    other = replace(silent, neighbours=inputs.neighbours + 1)
    torch.testing.assert_close(model.errors(silent), model.errors(other))
    assert not torch.equal(model.errors(inputs), model.errors(silent))


def test_client_linear_gives_each_client_the_gradient_of_her_rows() -> None:
    groups = groups_of((2, 0, 3))
    x, weights = normal(1, 5, 4), normal(2, 4, 2).expand(3, 4, 2).detach().requires_grad_()
    out = client_linear(x, weights, groups)
    g = normal(3, 5, 2)
    (found,) = torch.autograd.grad((out * g).sum(), weights)
    torch.testing.assert_close(out.detach(), x @ weights[0].detach())
    for k, (first, end) in enumerate(groups.cuts):
        torch.testing.assert_close(found[k], x[first:end].T @ g[first:end])


def test_secrets_of_a_client_are_in_no_repr() -> None:
    inputs = some_inputs(model_of("gcn"))
    text = repr(inputs)
    private = {f.name for f in fields(inputs)} - {"rated", "met"}
    assert not any(f"{name}=" in text for name in private)
