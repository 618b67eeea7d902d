"""sRGCNN against its equations in dense matrices, and what graphs are good for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recsys.baselines import srgcnn
from recsys.baselines._network_learner import parameters
from recsys.baselines._product_head import ProductLearner
from recsys.baselines._torch import NO_DROPOUT, tensors
from recsys.baselines.srgcnn import FEATURES, ORDER, SRGCNN, STEPS, Diffusion
from recsys.data.ratings import Graph, RatingParts
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import COLD_USER, graph, low_rank
from tests.recsys.baselines.networks import (
    SIZES,
    check_gradients,
    config,
    everyone,
    few,
    like_minded,
    network,
    wide,
)

Floats = NDArray[np.float64]

EDGES = [(0, 1), (1, 2), (0, 4), (2, 2)]
"""Of users; user 3 has no neighbour, and user 4, who rated nothing, has one."""


def parts(edges: list[tuple[int, int]] | None = None) -> RatingParts:
    return replace(few(), user_graph=graph(EDGES if edges is None else edges))


def learner(of: RatingParts, **changes: Any) -> ProductLearner:
    made = SRGCNN(config("srgcnn", **{"dim": 2, "penalty": 0.3, **changes}))
    return made._learner(of, SimulationRng(0), MemoryRun())


def adjacency(of: Graph | None, size: int) -> Floats:
    """D^(-1/2) A D^(-1/2), zeros in the row of whom has no neighbour."""
    matrix = np.zeros((size, size))
    if of is not None:
        matrix[of.source, of.target] = matrix[of.target, of.source] = 1.0
        np.fill_diagonal(matrix, 0.0)
    degree = np.maximum(1, matrix.sum(axis=0))
    return matrix / np.sqrt(np.outer(degree, degree))


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def diffused(arrays: dict[str, Floats], x: Floats, near: Floats, side: str) -> Floats:
    """Filters, gates and steps, from dense matrices; the Laplacian less the identity is -near."""
    own = {name.removeprefix(f"{side}_"): a for name, a in arrays.items() if name.startswith(side)}
    known = x.any(axis=1) | near.any(axis=1)
    h = c = np.zeros((len(x), FEATURES))
    for _ in range(STEPS):
        terms = [np.eye(len(x)), -near]
        while len(terms) < ORDER:
            terms.append(-2 * near @ terms[-1] - terms[-2])
        blocks = np.split(own["filter"], ORDER)
        filtered = sum((t @ x @ w for t, w in zip(terms, blocks, strict=True)), own["filter_bias"])
        of_features, of_hidden = np.split(own["gates"], 2)
        gates = np.maximum(filtered, 0.0) @ of_features + h @ of_hidden + own["gates_bias"]
        forget, write, show, new = np.split(gates, 4, axis=1)
        c = sigmoid(forget) * c + sigmoid(write) * np.tanh(new)
        h = sigmoid(show) * np.tanh(c)
        x = x + np.tanh(c @ own["step"] + own["step_bias"])
    return np.where(np.reshape(known, (-1, 1)), x, 0.0)


def test_the_diffusion_is_that_of_dense_matrices() -> None:
    made = learner(parts())
    values = wide(parameters(made.state.arrays))
    arrays = {name: value.detach().numpy() for name, value in values.items()}
    tables = made.scorer.tables
    found = Diffusion(tables).represent(values, NO_DROPOUT)
    for ours, side, near in zip(
        found,
        ("users", "items"),
        (adjacency(parts().user_graph, SIZES[0]), adjacency(None, SIZES[1])),
        strict=True,
    ):
        theirs = diffused(arrays, tables[f"{side}.factors"], near, side)
        assert ours.detach().numpy() == pytest.approx(theirs, rel=1e-4, abs=1e-5)


def test_it_starts_as_the_identity() -> None:
    made = learner(parts())
    rows = Diffusion(made.scorer.tables).represent(tensors(made.state.arrays), NO_DROPOUT)
    for ours, side in zip(rows, ("users", "items"), strict=True):
        assert ours.numpy() == pytest.approx(made.scorer.tables[f"{side}.factors"], rel=1e-6)


def test_factors_come_near_what_mean_and_biases_leave() -> None:
    """With as many of them as there are users they leave nothing, unrated pairs being zeros."""
    made = learner(few(), dim=5)
    arrays, tables, train = made.state.arrays, made.scorer.tables, few().train
    rest = np.zeros(SIZES)
    known = arrays["mean"] + arrays["user_bias"][train.users] + arrays["item_bias"][train.items]
    rest[train.users, train.items] = train.values - known
    assert tables["users.factors"] @ tables["items.factors"].T == pytest.approx(rest, abs=1e-9)


def test_a_rating_is_mean_biases_and_the_product_of_rows() -> None:
    made = learner(parts())
    arrays, tables = made.state.arrays, made.scorer.tables
    u = diffused(arrays, tables["users.factors"], adjacency(parts().user_graph, 5), "users")
    v = diffused(arrays, tables["items.factors"], adjacency(None, 6), "items")
    biases = arrays["mean"] + arrays["user_bias"][:, np.newaxis] + arrays["item_bias"]
    found = made.scorer.score(arrays, *everyone()).reshape(SIZES)
    assert found == pytest.approx(biases + u @ v.T, rel=1e-5)


def test_the_penalty_is_the_energy_of_neighbours_apart() -> None:
    """Edge by edge; the identity for whom has no neighbour."""
    rng = np.random.default_rng(2)
    u, v = rng.standard_normal((5, 2)), rng.standard_normal((6, 2))
    degree = np.array([2, 2, 1, 0, 1])
    energy = float(u[3] @ u[3])
    for one, other in EDGES[:3]:
        gap = u[one] / np.sqrt(degree[one]) - u[other] / np.sqrt(degree[other])
        energy += float(gap @ gap)
    rows = torch.from_numpy(u), torch.from_numpy(v)
    none = torch.zeros(0), torch.zeros(0)
    found = Diffusion(learner(parts()).scorer.tables).penalty({}, rows, none)
    assert float(found) == pytest.approx(energy / 5 + (v * v).sum() / 6, rel=1e-6)


def test_gradients_are_those_of_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srgcnn, "FEATURES", 3)
    check_gradients(learner(parts()))


def test_sides_without_a_graph_are_noted() -> None:
    told = "no graph of {} came with the set: each is a node by itself"
    assert learner(few()).notes == (told.format("users"), told.format("items"))
    assert learner(parts()).notes == (told.format("items"),)


def test_who_rated_nothing_takes_after_her_neighbours() -> None:
    """Without any she is unknown."""
    alone = low_rank()
    tied = replace(alone, user_graph=like_minded())
    asked = [(f"u{COLD_USER}", f"i{item}") for item in range(5)]
    unknown = [("nobody", f"i{item}") for item in range(5)]
    found = network("srgcnn", epochs=3).fit(tied)
    apart = np.abs(found.predict(asked).value - found.predict(unknown).value)
    assert apart.max() > 1e-3
    assert found.predict(asked).fallbacks == 5  # whatever her neighbours lend her
    without = network("srgcnn", epochs=3).fit(alone)
    assert without.predict(asked).value == pytest.approx(without.predict(unknown).value)
