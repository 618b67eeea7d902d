"""GRALS: the minimum of its objective, with and without graphs, and what a graph is good for."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from recsys.baselines.grals import GRALS, GRAPH, GRALSLearner
from recsys.data.ratings import Graph, RatingParts
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import COLD_USER, USERS, config, graph, low_rank, model
from tests.recsys.rating_worlds import world
from tests.support.differences import Floats, central_differences

ROWS = [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 4.0), (2, 2, 1.0), (3, 1, 2.0), (3, 2, 3.0)]
MEAN = 3.0
USER_EDGES = [(0, 1), (1, 2), (0, 4)]
PENALTY = 0.7


def parts(user_edges: list[tuple[int, int]] | None = None) -> RatingParts:
    """Users 4 and 5 and item 3 have no rating; user 4 has a neighbour."""
    made = world(ROWS, test=[], users=6, items=4)
    return made if user_edges is None else replace(made, user_graph=graph(user_edges))


def learner(of: RatingParts, **changes: Any) -> GRALSLearner:
    settings = config("grals", dim=2, penalty=PENALTY, init_scale=0.5, **changes)
    return GRALSLearner(of, settings, SimulationRng(0))


def loss(users: Floats, items: Floats, edges: list[tuple[int, int]]) -> float:
    """Squared errors, ridge, and differences of neighbours by their degrees, edge by edge."""
    total = PENALTY * float((users**2).sum() + (items**2).sum())
    for user, item, value in ROWS:
        p, q = users[user], items[item]
        total += (value - MEAN - p[-1] - q[-1] - float(p[:-1] @ q[:-1])) ** 2
    degree = np.bincount(np.array(edges, dtype=np.int64).reshape(-1), minlength=6)
    for one, other in edges:
        gap = users[one] / np.sqrt(degree[one]) - users[other] / np.sqrt(degree[other])
        total += PENALTY * GRAPH * float(gap @ gap)
    return total


@pytest.mark.parametrize("edges", [[], USER_EDGES], ids=["no graph", "a graph of users"])
def test_it_converges_to_a_stationary_point(edges: list[tuple[int, int]]) -> None:
    made = learner(parts(edges or None))
    for number in range(2000):
        made.epoch(number)
    arrays = {name: made.state[name] for name in ("users", "items")}
    for at in arrays.values():
        gradient = central_differences(lambda: loss(**arrays, edges=edges), at)
        assert np.abs(gradient).max() < 1e-5
    assert arrays["users"][0].any()


def test_no_epoch_raises_the_objective() -> None:
    made = learner(parts(USER_EDGES))
    found = []
    for number in range(15):
        made.epoch(number)
        found.append(loss(made.state["users"], made.state["items"], USER_EDGES))
    assert all(later <= sooner + 1e-9 for sooner, later in pairwise(found))
    assert found[-1] < found[0]


def test_the_loss_is_the_mean_squared_error_after_the_epoch() -> None:
    made = learner(parts())
    found = made.epoch(0)
    p, q = made.state["users"], made.state["items"]
    errors = [value - MEAN - p[u, -1] - q[i, -1] - p[u, :-1] @ q[i, :-1] for u, i, value in ROWS]
    assert found == pytest.approx(np.mean(np.square(errors)))


def test_a_user_without_ratings_takes_after_her_neighbours() -> None:
    made = learner(parts(USER_EDGES))
    for number in range(30):
        made.epoch(number)
    users = made.state["users"]
    # Half the ridge, half the one edge: her row is the neighbour's, scaled by both degrees.
    assert users[4] == pytest.approx(GRAPH / (1 + GRAPH) * users[0] / np.sqrt(2), rel=1e-6)
    assert users[4].any()
    assert not users[5].any()


def test_sides_without_a_graph_are_noted() -> None:
    told = "no graph of {} came with the set: their half is ridge regression"
    assert learner(parts()).notes == (told.format("users"), told.format("items"))
    assert learner(parts(USER_EDGES)).notes == (told.format("items"),)


def like_minded() -> Graph:
    """Each user of the set linked to the three whose tastes are nearest to hers."""
    rng = np.random.default_rng(7)
    tastes = rng.normal(size=(USERS, 2))
    gaps = ((tastes[:, np.newaxis] - tastes) ** 2).sum(axis=2) + 1e9 * np.eye(USERS)
    near = np.argsort(gaps, axis=1)[:, :3]
    return Graph(np.repeat(np.arange(USERS, dtype=np.int32), 3), near.reshape(-1).astype(np.int32))


def test_a_graph_of_like_minded_users_helps_where_ratings_are_few() -> None:
    """Three tenths of the training ratings; a random graph of as many edges is of no use."""
    data = low_rank()
    assert data.test is not None
    few = data.test | (np.random.default_rng(0).random(data.test.size) < 0.3)
    thin = replace(data, triples=data.triples.part(few), test=data.test[few])
    alike = like_minded()
    mixed = replace(alike, target=np.random.default_rng(1).permutation(alike.target))
    errors = []
    for user_graph in (alike, None, mixed):
        found = model("grals", penalty=1.0).fit(replace(thin, user_graph=user_graph))
        errors.append(found.evaluate(found.parts_.test) or 0.0)
    assert errors[0] < errors[1] - 0.1
    assert errors[0] < errors[2] - 0.1


def test_the_cold_user_of_the_set_is_served_by_the_graph() -> None:
    found = model("grals").fit(replace(low_rank(), user_graph=like_minded()))
    assert found.files.arrays["users"][COLD_USER].any()
    assert isinstance(found, GRALS)
    told = found.predict([(f"u{COLD_USER}", "i3")])
    assert told.fallbacks == 1  # she rated nothing, whatever her neighbours lend her
