"""The batched model against stars node by node: gradients, leaving out, whose inputs count."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recsys.models.star_model import RIDGE, Inputs, StarModel, client_gradients
from recsys.models.star_networks import NEIGHBOUR_WEIGHTS, RATING_WEIGHTS
from recsys.ratings.config import RatingConfig
from tests.recsys.models.star_cases import (
    DIM,
    NETWORKS,
    SIZES,
    WAYS,
    alone,
    client_of,
    gradient,
    gradients_of,
    groups_of,
    loss_of,
    model_of,
    normal,
    reference_of,
    some_inputs,
)

HEARD = [
    {"residual": residual, "bias": bias} for residual, bias in product((True, False), repeat=2)
]


def named(way: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in way.items())


def check_every_gradient(
    gnn: str, model: StarModel, inputs: Inputs, *, absolute: bool = False, mean: bool = False
) -> None:
    """Errors, and gradients by all inputs, are those of one client after the other."""
    reference = reference_of(gnn, model)
    found = client_gradients(model, inputs, absolute=absolute, mean=mean)
    assert list(found.weights) == list(inputs.weights)
    for k in range(inputs.users.shape[0]):
        client = client_of(inputs, k)
        errors = reference.errors(client)
        loss_of(errors, absolute=absolute, mean=mean).backward()  # type: ignore[no-untyped-call]
        own = client.items, client.item_biases, client.user, client.user_bias, client.neighbours
        expected = [errors.detach(), *(gradient(x) for x in (*own, *client.weights.values()))]
        expected[3], expected[4] = expected[3].unsqueeze(0), expected[4].unsqueeze(0)
        expected[6:] = [weights.unsqueeze(0) for weights in expected[6:]]
        torch.testing.assert_close(gradients_of(found, inputs, [k]), expected)


# Gradients.


@pytest.mark.parametrize("neighbours", ["none", "trainable"])
@pytest.mark.parametrize("heard", HEARD, ids=named)
@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("gnn", NETWORKS)
def test_each_clients_gradient_is_that_of_her_star_alone(
    gnn: str, way: dict[str, Any], heard: dict[str, Any], neighbours: str
) -> None:
    """By items, biases, the user, her bias, her neighbours, and all weights; with dropout too."""
    model = model_of(gnn, neighbours=neighbours, **way, **heard)
    for masked in (False, True):
        check_every_gradient(gnn, model, some_inputs(model, masked=masked))


@st.composite
def stars(draw: st.DrawFn) -> tuple[str, StarModel, Inputs]:
    """Any network on stars of any sizes, down to single items."""
    gnn, way = draw(st.sampled_from(NETWORKS)), draw(st.sampled_from(WAYS))
    model = model_of(
        gnn,
        neighbours=draw(st.sampled_from(["none", "fixed"])),
        residual=draw(st.booleans()),
        bias=draw(st.booleans()),
        dim=draw(st.integers(1, 4)),
        **way,
    )
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    met = draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)))
    masked, seed = draw(st.booleans()), draw(st.integers(0, 2**16))
    return gnn, model, some_inputs(model, seed, sizes=sizes, met=met, masked=masked)


@given(case=stars(), absolute=st.booleans(), mean=st.booleans())
def test_sizes_losses_and_reductions_are_those_of_the_reference(
    case: tuple[str, StarModel, Inputs], absolute: bool, mean: bool
) -> None:
    """The loss is squared or absolute, and a sum or a mean over a client's own items."""
    gnn, model, inputs = case
    check_every_gradient(gnn, model, inputs, absolute=absolute, mean=mean)


@given(case=stars(), data=st.data())
def test_order_and_grouping_of_clients_change_nothing(
    case: tuple[str, StarModel, Inputs], data: st.DataObject
) -> None:
    _, model, inputs = case
    clients = data.draw(st.permutations(range(inputs.users.shape[0])))
    cut = data.draw(st.integers(0, len(clients)))
    together = client_gradients(model, inputs, absolute=False, mean=True)
    for part in (clients[:cut], clients[cut:]):
        if part:
            given_ = alone(inputs, part)
            found = client_gradients(model, given_, absolute=False, mean=True)
            mine = gradients_of(found, given_, range(len(part)))
            torch.testing.assert_close(mine, gradients_of(together, inputs, part))


@pytest.mark.parametrize(
    ("gnn", "settings"),
    [
        ("gcn", {"user_fit": "solve"}),
        ("gat", {"user_fit": "steps", "rating_edges": True, "residual": False}),
        ("ggnn", {"user_fit": "solve", "residual": False}),
    ],
)
def test_gradients_are_finite_differences_of_the_loss(gnn: str, settings: dict[str, Any]) -> None:
    """Central differences of 1e-6, whose error is near 1e-10; of weights that all clients share."""
    model = model_of(gnn, neighbours="fixed", dim=2, **settings)
    inputs = some_inputs(model, sizes=(3, 1), met=(1, 2), masked=True)
    found = client_gradients(model, inputs, absolute=False, mean=False)

    def slopes(values: Tensor, changed: Callable[[Tensor], Inputs]) -> Tensor:
        """Of the loss of all clients, entry by entry of ``values``."""
        slope = torch.empty_like(values)
        for at in range(values.numel()):
            step = torch.zeros_like(values)
            step.view(-1)[at] = 1e-6
            above, below = (model.errors(changed(values + s)) for s in (step, -step))
            slope.view(-1)[at] = ((above**2 - below**2) / 2).sum() / 2e-6
        return slope

    for name in ("items", "item_biases", "users", "user_biases", "neighbours"):
        expected = slopes(getattr(inputs, name), partial(with_part, inputs, name))
        torch.testing.assert_close(getattr(found, name), expected, rtol=1e-6, atol=1e-7)
    for name, weights in inputs.weights.items():
        expected = slopes(weights[0], partial(with_weights, inputs, name))
        torch.testing.assert_close(found.weights[name].sum(0), expected, rtol=1e-6, atol=1e-7)


def with_part(inputs: Inputs, name: str, values: Tensor) -> Inputs:
    changed: dict[str, Any] = {name: values}
    return replace(inputs, **changed)


def with_weights(inputs: Inputs, name: str, shared: Tensor) -> Inputs:
    """With these weights for everybody."""
    clients = inputs.users.shape[0]
    return replace(inputs, weights={**inputs.weights, name: shared.expand(clients, *shared.shape)})


def test_gradients_leave_their_inputs_alone() -> None:
    model = model_of("gat", user_fit="steps")
    inputs = some_inputs(model)
    before = inputs.items.clone()
    found = client_gradients(model, inputs, absolute=False, mean=False)
    assert torch.equal(inputs.items, before)
    assert not inputs.items.requires_grad
    assert not found.errors.requires_grad


# Predictions.


@pytest.mark.parametrize("heard", HEARD, ids=named)
@pytest.mark.parametrize("way", WAYS, ids=named)
@pytest.mark.parametrize("gnn", NETWORKS)
def test_an_unrated_item_is_predicted_by_the_whole_star(
    gnn: str, way: dict[str, Any], heard: dict[str, Any]
) -> None:
    model = model_of(gnn, neighbours="fixed", **way, **heard)
    reference, inputs = reference_of(gnn, model), some_inputs(model)
    items, biases = normal(30, 6, DIM), normal(31, 6)
    groups = groups_of((2, 0, 1, 3, 0))
    with torch.no_grad():
        found = model.rate(inputs, model.represent(inputs), items, biases, groups)
        for row, owner in enumerate(groups.owners.tolist()):
            expected = reference.predicted(client_of(inputs, owner), items[row], biases[row])
            torch.testing.assert_close(found[row], expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("user_fit", ["solve", "steps"])
def test_without_embeddings_a_rating_is_a_sum_of_biases(user_fit: str, bias: bool) -> None:
    """Two biases, of which the user's is her mean, shrunk, where she solves for it."""
    model = StarModel.of(RatingConfig(dim=0, bias=bias, user_fit=user_fit))
    inputs = some_inputs(model)
    assert model.shapes() == {}
    check_every_gradient("none", model, inputs)
    rest, owners = inputs.ratings - inputs.item_biases, inputs.rated.owners
    if user_fit == "steps":
        expected = rest - inputs.user_biases[owners]
    elif bias:
        sums, sizes = inputs.rated.sum(rest)[owners], inputs.rated.sizes[owners]
        expected = rest - (sums - rest) / (sizes - 1 + RIDGE[1])
    else:
        expected = rest
    torch.testing.assert_close(model.errors(inputs), expected)


# A rating has no part in its own prediction.


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2]], ids=named)
@pytest.mark.parametrize("gnn", NETWORKS)
def test_no_rating_leaks_into_its_own_prediction(gnn: str, way: dict[str, Any]) -> None:
    model = model_of(gnn, **way)
    inputs = some_inputs(model)
    before = inputs.ratings - model.errors(inputs)
    changed = inputs.ratings.clone()
    changed[6] += 1.0  # of the client with two ratings, rows 5 and 6
    changed[9] += 1.0  # of the client with seven, rows 7 to 13
    after = changed - model.errors(replace(inputs, ratings=changed))
    moved = (after - before).abs() > 1e-9
    assert not moved[[6, 9]].any()
    assert moved[[5, 7, 8, 10, 11, 12, 13]].all()
    assert not moved[[0, 1, 2, 3, 4, 14]].any()


@pytest.mark.parametrize("gnn", NETWORKS)
def test_a_carried_rating_would_leak_if_it_were_not_left_out(gnn: str) -> None:
    model = model_of(gnn, user_fit="steps", rating_edges=True)
    inputs = some_inputs(model)
    changed = inputs.ratings.clone()
    changed[9] += 1.0

    def leaky(ratings: Tensor) -> Tensor:
        given_ = replace(inputs, ratings=ratings)
        found = model.represent(given_)  # the whole star, as for an unrated item
        return model.rate(given_, found, inputs.items, inputs.item_biases, inputs.rated)

    assert abs(float((leaky(changed) - leaky(inputs.ratings))[9])) > 1e-3


@pytest.mark.parametrize("gnn", NETWORKS)
def test_a_fit_that_has_seen_the_rating_is_another(gnn: str) -> None:
    """The twin without leaving out has smaller errors everywhere, which no gradient may follow."""
    model = model_of(gnn)
    inputs, reference = some_inputs(model), reference_of(gnn, model)
    errors = model.errors(inputs)
    for k, (first, end) in enumerate(inputs.rated.cuts):
        seen = reference.seen_errors(client_of(inputs, k))
        assert (seen.abs() < errors[first:end].abs()).all()


# Which weights there are.


def test_weights_of_neighbours_and_ratings_exist_where_they_are_used() -> None:
    plain = model_of("gcn", user_fit="steps").shapes()
    assert set(plain) == {"convolution"}
    assert RATING_WEIGHTS in model_of("gcn", user_fit="steps", rating_edges=True).shapes()
    assert NEIGHBOUR_WEIGHTS in model_of("gcn", user_fit="steps", neighbours="fixed").shapes()
    assert model_of("gcn").shapes()["ridge"] == (2,)
    assert model_of("gcn", bias=False).shapes()["ridge"] == (1,)


@pytest.mark.parametrize("gnn", NETWORKS)
def test_weights_of_neighbours_come_last(gnn: str) -> None:
    """So the others start, and lie in the flat vector, as they do without neighbours."""
    without, with_ = model_of(gnn).shapes(), model_of(gnn, neighbours="fixed").shapes()
    assert list(with_) == [*without, NEIGHBOUR_WEIGHTS]


def test_fixed_and_trainable_neighbours_are_one_model() -> None:
    """What differs is whether their copies move, which is the device's affair."""
    assert model_of("gat", neighbours="fixed") == model_of("gat", neighbours="trainable")


@pytest.mark.parametrize("gnn", ["gcn", "ggnn"])
def test_what_neighbours_say_counts_through_their_own_weights_alone(gnn: str) -> None:
    model = model_of(gnn, neighbours="fixed")
    inputs = some_inputs(model)
    zero = {**inputs.weights, NEIGHBOUR_WEIGHTS: 0 * inputs.weights[NEIGHBOUR_WEIGHTS]}
    silent = replace(inputs, weights=zero)
    other = replace(silent, neighbours=inputs.neighbours + 1)
    torch.testing.assert_close(model.errors(silent), model.errors(other))
    assert not torch.equal(model.errors(inputs), model.errors(silent))


@pytest.mark.parametrize("gnn", NETWORKS)
def test_nobody_met_is_the_model_without_neighbours(gnn: str) -> None:
    """Until the expansion their weights have no gradient, and change nothing."""
    without, with_ = model_of(gnn), model_of(gnn, neighbours="fixed")
    before = some_inputs(with_, met=(0,) * len(SIZES))
    weights = {name: w for name, w in before.weights.items() if name != NEIGHBOUR_WEIGHTS}
    plain = client_gradients(without, replace(before, weights=weights), absolute=False, mean=False)
    found = client_gradients(with_, before, absolute=False, mean=False)
    torch.testing.assert_close(found.errors, plain.errors)
    torch.testing.assert_close(found.items, plain.items)
    assert not found.weights[NEIGHBOUR_WEIGHTS].any()


def test_secrets_of_a_client_are_in_no_repr() -> None:
    model = model_of("gcn")
    inputs = some_inputs(model, masked=True)
    found = client_gradients(model, inputs, absolute=False, mean=False)
    for shown in (inputs, model.represent(inputs), found):
        private = {field.name for field in fields(shown)} - {"rated", "met"}
        assert not any(f"{name}=" in repr(shown) for name in private)
