"""What the networks are beside the plain reference: matrices, shares, gates, and extremes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recsys.errors import DivergenceError
from recsys.models.star import REAL, Groups, Star
from recsys.models.star_model import client_gradients
from recsys.models.star_networks import NEIGHBOUR_WEIGHTS, Network, network_of
from tests.recsys.models.star_cases import (
    DIM,
    NETWORKS,
    client_of,
    groups_of,
    model_of,
    normal,
    reference_of,
    some_inputs,
)


def one_star(items: int, neighbours: int) -> Star:
    """One user's star."""
    return Star(
        users=normal(1, 1, DIM),
        items=normal(2, items, DIM),
        rated=groups_of([items]),
        neighbours=normal(3, neighbours, DIM),
        met=groups_of([neighbours]),
    )


def weights_of(network: Network, seed: int = 5) -> dict[str, Tensor]:
    """Arbitrary ones of a single client, neighbours' included."""
    shapes = {**network.shapes(DIM), NEIGHBOUR_WEIGHTS: (DIM, DIM)}
    return {name: normal(seed + at, 1, *shape) for at, (name, shape) in enumerate(shapes.items())}


# Graph convolution.


@pytest.mark.parametrize(("items", "neighbours"), [(4, 0), (3, 2), (1, 0), (1, 3)])
def test_a_convolution_is_that_of_the_normalised_adjacency(items: int, neighbours: int) -> None:
    """D^-1/2 (A + I) D^-1/2 X W on the dense star, of which the user is node 0."""
    star, network = one_star(items, neighbours), network_of("gcn", one_way=False)
    weights = weights_of(network)
    weights[NEIGHBOUR_WEIGHTS] = weights["convolution"]
    nodes = torch.cat([star.users, star.items, star.neighbours])
    adjacency = torch.eye(nodes.shape[0], dtype=REAL)
    adjacency[0, :] = adjacency[:, 0] = 1.0
    root = adjacency.sum(1).rsqrt()
    expected = root[:, None] * adjacency * root @ nodes @ weights["convolution"][0]
    torch.testing.assert_close(network.users(weights, star), expected[:1])
    found = network.items(weights, star.items, star.rated, star)
    torch.testing.assert_close(found, expected[1 : items + 1])


def test_a_one_way_convolution_has_no_loops() -> None:
    """The sum with the embeddings takes their place; of degrees the user's alone counts."""
    star, network = one_star(4, 2), network_of("gcn", one_way=True)
    weights = weights_of(network)
    said = star.items.sum(0) @ weights["convolution"][0]
    said = said + star.neighbours.sum(0) @ weights[NEIGHBOUR_WEIGHTS][0]
    torch.testing.assert_close(network.users(weights, star), said.unsqueeze(0) / 6**0.5)
    assert not network.items(weights, star.items, star.rated, star).any()


# Graph attention.


def test_attention_takes_shares_of_what_it_hears() -> None:
    """Where all say the same, nothing else can come out, whatever the scores."""
    network = network_of("gat", one_way=False)
    star = one_star(5, 0)
    equal = replace(star, items=star.users.expand(5, DIM).clone())
    weights = {name: w for name, w in weights_of(network).items() if name != NEIGHBOUR_WEIGHTS}
    said = equal.users @ weights["attention"][0]
    torch.testing.assert_close(network.users(weights, equal), said)
    found = network.items(weights, equal.items, equal.rated, equal)
    torch.testing.assert_close(found, said.expand(5, DIM))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_scores_of_any_size_stay_finite(size: float, seed: int) -> None:
    """An exponential of such a score would not, be it of the user, of an item or a neighbour."""
    network = network_of("gat", one_way=False)
    star, weights = one_star(2, 2), weights_of(network, seed)
    weights["hears"], weights["is_heard"] = (size * weights[n] for n in ("hears", "is_heard"))
    said = torch.cat([star.users, star.items]) @ weights["attention"][0]
    said = torch.cat([said, star.neighbours @ weights[NEIGHBOUR_WEIGHTS][0]])
    found = network.users(weights, star)
    # One score is above all others by far, so one of them is heard alone.
    assert min(float((found - one).abs().max()) for one in said) < 1e-9
    assert torch.isfinite(network.items(weights, star.items, star.rated, star)).all()


# The gated network.


@pytest.mark.parametrize("one_way", [True, False])
def test_a_closed_gate_keeps_the_state_and_an_open_one_replaces_it(one_way: bool) -> None:
    network = network_of("ggnn", one_way=one_way)
    star, weights = one_star(3, 1), weights_of(network)
    biases = weights["gate_biases"].clone()
    for bias, kept in ((-50.0, True), (50.0, False)):
        biases[:, :DIM] = bias
        given = {**weights, "gate_biases": biases}
        users = network.users(given, star)
        items = network.items(given, star.items, star.rated, star)
        assert torch.allclose(users, star.users) == kept
        assert torch.allclose(items, star.items) == kept
        assert kept or max(users.abs().max(), items.abs().max()) <= 1  # of a hyperbolic tangent


# Who hears whom.


@pytest.mark.parametrize("gnn", NETWORKS)
def test_one_way_items_hear_nothing_and_others_hear_the_user(gnn: str) -> None:
    star = one_star(4, 2)
    other = replace(star, users=star.users + 1)
    for one_way in (True, False):
        network = network_of(gnn, one_way=one_way)
        weights = weights_of(network)
        before, after = (network.items(weights, s.items, s.rated, s) for s in (star, other))
        assert torch.equal(before, after) == one_way


@pytest.mark.parametrize("gnn", NETWORKS)
@pytest.mark.parametrize("one_way", [True, False])
def test_a_user_hears_every_item_and_every_neighbour(gnn: str, one_way: bool) -> None:
    network, star = network_of(gnn, one_way=one_way), one_star(3, 2)
    weights = weights_of(network)
    before = network.users(weights, star)
    for name in ("items", "neighbours"):
        for row in range(getattr(star, name).shape[0]):
            changed = getattr(star, name).clone()
            changed[row] += 1
            assert not torch.equal(network.users(weights, replace(star, **{name: changed})), before)


@pytest.mark.parametrize("gnn", NETWORKS)
def test_items_by_any_groups_are_those_of_their_owners(gnn: str) -> None:
    """Also for clients with no item to look at, and with more than on their stars."""
    network = network_of(gnn, one_way=False)
    users, sizes = normal(1, 3, DIM), (2, 1, 2)
    star = Star(users, normal(2, 5, DIM), groups_of(sizes), normal(3, 0, DIM), groups_of((0,) * 3))
    weights = {name: w.expand(3, *w.shape[1:]) for name, w in weights_of(network).items()}
    rows, groups = normal(9, 5, DIM), groups_of((4, 0, 1))
    found = network.items(weights, rows, groups, star)
    for row, owner in enumerate(groups.owners.tolist()):
        items = star.items[slice(*star.rated.cuts[owner])]
        own = Star(users[[owner]], items, groups_of([len(items)]), star.neighbours, groups_of([0]))
        single = {name: w[:1] for name, w in weights.items()}
        expected = network.items(single, rows[[row]], Groups.single(1), own)
        torch.testing.assert_close(found[[row]], expected)


# What is at the edge.


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("gnn", NETWORKS)
def test_a_star_of_one_item_without_it_is_no_division_by_zero(gnn: str, residual: bool) -> None:
    model = model_of(gnn, user_fit="steps", rating_edges=True, residual=residual)
    inputs = some_inputs(model, sizes=(1, 1), met=(0, 0))
    found = client_gradients(model, inputs, absolute=False, mean=False)
    parts = found.items, found.users, found.errors, *found.weights.values()
    assert all(torch.isfinite(part).all() for part in parts)


def test_an_item_left_out_is_subtracted_without_loss_at_usual_scores() -> None:
    """Of a sum of exponentials less its largest, what is left has lost e^(its lead) * 1e-16."""
    model = model_of("gat", user_fit="steps", rating_edges=True)
    inputs = some_inputs(model)
    louder = {name: 10 * inputs.weights[name] for name in ("hears", "is_heard")}
    inputs = replace(inputs, weights={**inputs.weights, **louder})
    reference = reference_of("gat", model)
    for k, (first, end) in enumerate(inputs.rated.cuts):
        expected = reference.errors(client_of(inputs, k)).detach()
        found = model.errors(inputs)[first:end]
        torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("louder", [100.0, 3000.0])
def test_attention_on_single_items_is_refused_before_what_is_left_is_lost(louder: float) -> None:
    """Beyond that, the difference would be wrong without a word."""
    model = model_of("gat", user_fit="steps", rating_edges=True)
    inputs = some_inputs(model)
    scaled = {name: louder * inputs.weights[name] for name in ("hears", "is_heard")}
    with pytest.raises(DivergenceError, match="attention has gone to single items"):
        model.errors(replace(inputs, weights={**inputs.weights, **scaled}))


def test_the_settings_name_the_network() -> None:
    kinds = {gnn: type(network_of(gnn, one_way=True)).__name__ for gnn in NETWORKS}
    assert kinds == {"gcn": "GCN", "gat": "GAT", "ggnn": "GGNN"}
    for gnn in NETWORKS:
        for residual in (True, False):
            network = model_of(gnn, residual=residual).network
            assert network == network_of(gnn, one_way=residual)
