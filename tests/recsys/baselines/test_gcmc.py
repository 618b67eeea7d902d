"""GC-MC against its equations, level by level and node by node."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recsys.baselines import gcmc
from recsys.baselines._network_learner import Schedule, parameters
from recsys.baselines._product_head import rating_tables
from recsys.baselines._torch import NO_DROPOUT, Dropout, tensors
from recsys.baselines.gcmc import LEVELS, Autoencoder, GCMCLearner
from recsys.data.rating_split import split_ratings
from recsys.models.graphs import Pairs
from recsys.ratings.config import RatingConfig
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import low_rank
from tests.recsys.baselines.networks import (
    ROWS,
    SIZES,
    check_gradients,
    config,
    everyone,
    few,
    network,
    wide,
)

VALUES = (1.0, 2.0, 3.0, 4.0, 5.0)


def learner(**changes: Any) -> GCMCLearner:
    return GCMCLearner(few(), config("gcmc", dim=3, **changes), SimulationRng(0))


def random_arrays() -> dict[str, NDArray[np.float64]]:
    made = wide(parameters(learner().state.arrays))
    return {name: array.detach().numpy() for name, array in made.items()}


def encoded(arrays: dict[str, NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Equations 1 to 3, one node and one level after the other."""
    of_users = [(user, item, value) for user, item, value in ROWS]
    of_items = [(item, user, value) for user, item, value in ROWS]
    rows = []
    for size, edges, senders in (
        (SIZES[0], of_users, arrays["items"]),
        (SIZES[1], of_items, arrays["users"]),
    ):
        found = []
        for node in range(size):
            near = [(sender, VALUES.index(value)) for to, sender, value in edges if to == node]
            channels = np.zeros(senders.shape[1:])
            for sender, level in near:
                channels[level] += senders[sender, level] / len(near)
            found.append(np.maximum(channels.reshape(-1), 0.0) @ arrays["dense"])
        rows.append(np.array(found))
    return rows


def test_the_encoder_is_that_of_the_paper() -> None:
    arrays = random_arrays()
    values = {name: torch.from_numpy(array) for name, array in arrays.items()}
    found = Autoencoder(rating_tables(few())).represent(values, NO_DROPOUT)
    for ours, theirs in zip(found, encoded(arrays), strict=True):
        assert ours.numpy() == pytest.approx(theirs, rel=1e-6)


def test_the_rating_is_expected_under_a_softmax_of_bilinear_forms() -> None:
    """By the running averages alone; who has no rating is answered by mean and biases."""
    made, arrays = learner(), random_arrays()
    state = made.state.arrays | {f"average.{name}": array for name, array in arrays.items()}
    users, items = everyone()
    found = made.scorer.score(state, users, items).reshape(SIZES)
    u, v = encoded(arrays)
    q = np.einsum("sr,sde->rde", arrays["mixture"], arrays["bases"])
    forms = np.exp(np.einsum("ud,rde,ie->uir", u, q, v))
    expected = (forms / forms.sum(axis=2, keepdims=True)) @ np.array(VALUES)
    assert found[:4, :4] == pytest.approx(expected[:4, :4], rel=1e-4)
    biases = state["mean"] + state["user_bias"][:, np.newaxis] + state["item_bias"]
    assert found[4] == pytest.approx(biases[4])
    assert found[:, 4:] == pytest.approx(biases[:, 4:])
    for name in arrays:
        state[name][...] = 0.0
    again = made.scorer.score(state, users, items).reshape(SIZES)
    assert again[:4, :4] == pytest.approx(found[:4, :4])


def test_the_objective_is_the_cross_entropy_of_the_levels() -> None:
    made = learner()
    values = tensors(parameters(made.state.arrays))
    arrays = {name: array for name, array in made.state.arrays.items() if "." not in name}
    u, v = encoded(arrays)
    q = np.einsum("sr,sde->rde", arrays["mixture"], arrays["bases"])
    logits = np.einsum("ud,rde,ie->uir", u, q, v)
    chances = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    expected = [-np.log(chances[user, item, VALUES.index(value)]) for user, item, value in ROWS]
    found, squared = made.objective(values, np.arange(len(ROWS)), NO_DROPOUT)
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-5)
    errors = [value - chances[user, item] @ np.array(VALUES) for user, item, value in ROWS]
    assert squared == pytest.approx(np.sum(np.square(errors)), rel=1e-5)


def test_gradients_are_those_of_the_objective() -> None:
    check_gradients(learner())


def test_dropout_takes_whole_nodes_then_entries() -> None:
    class Recorder(Dropout):
        shapes: list[tuple[int, ...]] = []  # noqa: RUF012 - one object, one test

        def __call__(self, x: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
            self.shapes.append(shape or tuple(x.shape))
            return x

    drop = Recorder()
    values = tensors(parameters(learner().state.arrays))
    Autoencoder(rating_tables(few())).represent(values, drop)
    users, items = SIZES
    hidden = len(VALUES) * 4
    assert drop.shapes == [(items, 1, 1), (users, hidden), (users, 1, 1), (items, hidden)]


def test_averages_run_behind_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcmc, "SCHEDULE", Schedule(rate=0.1, average=0.25))
    made = learner()
    means = {name: made.state[name].copy() for name in ("users", "items", "dense", "mixture")}
    for number, stays in enumerate((2 / 11, 0.25, 0.25)):
        made.epoch(number)
        means = {name: stays * a + (1 - stays) * made.state[name] for name, a in means.items()}
        for name, expected in means.items():
            assert made.state[f"average.{name}"] == pytest.approx(expected)


def test_many_values_are_ten_levels() -> None:
    """The set's ratings take a new value nearly every time."""
    parts = split_ratings(low_rank(), RatingConfig().split, SimulationRng(0))
    made = Autoencoder(rating_tables(parts))
    assert np.unique(parts.train.values).size > 1000
    assert made.levels.size == LEVELS
    trained = network("gcmc", epochs=2).fit(parts)
    train = trained.parts_.train
    scores = trained.learner_.scorer.score(trained.files.arrays, train.users, train.items)
    assert scores.min() >= made.levels[0]
    assert scores.max() <= made.levels[-1]


def test_penalty_center_and_bias_change_nothing() -> None:
    plain, other = (
        network("gcmc", epochs=1, **changes).fit(few()).model_digest
        for changes in ({}, {"penalty": 3.0, "center": False, "bias": False})
    )
    assert plain == other


def test_logits_of_no_pair_are_none() -> None:
    made = Autoencoder(rating_tables(few()))
    values = tensors(parameters(learner().state.arrays))
    none = np.zeros(0, dtype=np.int32)
    rows = made.represent(values, NO_DROPOUT)
    assert made.logits(values, rows, Pairs(none, none)).shape == (0, 5)
