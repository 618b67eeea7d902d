"""FedGNN in training: what it learns, rounds, the server's step, devices, neighbours, fallbacks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import recsys.fedgnn
import recsys.models.star_round
from mpc.core.errors import AbortError, ParameterError
from recsys.baselines.biases import Biases
from recsys.data.ratings import Ratings, Triples
from recsys.errors import DataError, DivergenceError, PrivacyRefusal
from recsys.fedgnn import (
    DECAY_ROUNDS,
    OWN,
    WEIGHT_PENALTY,
    FedGNN,
    FedGNNLearner,
    initial_weights,
    merged,
)
from recsys.models.star_devices import Dropout, unflat
from recsys.models.star_model import RIDGE, client_gradients
from recsys.models.star_round import local_rates
from recsys.ratings.config import NETWORKS, RatingConfig
from recsys.ratings.expansion import Neighbourhood, find_neighbours
from recsys.ratings.gradients import RoundSum
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import COLD_ITEM, low_rank
from tests.recsys.fedgnn_cases import (
    WAYS,
    Watched,
    config,
    crowd,
    fitted,
    learner_of,
    named,
    new_learner,
    watched,
)
from tests.recsys.rating_worlds import ratings_of, world
from tests.recsys.worlds import KeepingRun


@cache
def trained(gnn: str) -> FedGNN:
    return fitted(gnn=gnn, epochs=60, patience=20, dim=4)


@cache
def of_biases() -> Biases:
    return Biases(RatingConfig(model="bias", seed=0, penalty=1.0)).fit(low_rank())


def on_known_items(model: FedGNN | Biases) -> float:
    """Test RMSE without the item that nobody rated in training."""
    test = model.parts_.test
    found = model.evaluate(test.part(test.items != COLD_ITEM))
    assert found is not None
    return found


# What it learns.


@pytest.mark.parametrize("gnn", NETWORKS)
def test_it_beats_two_biases_by_far(gnn: str) -> None:
    """Two biases leave more than .7, the noise has a deviation of .2."""
    assert on_known_items(of_biases()) > 0.7
    assert on_known_items(trained(gnn)) < 0.5


@pytest.mark.parametrize("gnn", NETWORKS)
def test_gradient_steps_on_the_devices_learn_too(gnn: str) -> None:
    way: dict[str, Any] = {"user_fit": "steps", "penalty": 0.5, "user_rate": 0.1}
    assert on_known_items(fitted(gnn=gnn, epochs=60, patience=20, dim=4, **way)) < 0.65


def test_biases_alone_are_no_worse_than_by_ridge_regression() -> None:
    assert (
        on_known_items(fitted(dim=0, epochs=40, patience=40)) < on_known_items(of_biases()) + 0.01
    )


def test_from_ratings_to_predictions_in_python() -> None:
    """Ratings made by hand, the real protocols, without a seed."""
    triples = ratings_of(
        [(user, item, 1.0 + (user * item) % 5) for user in range(20) for item in range(8)]
    )
    users, items = [f"u{k}" for k in range(20)], [f"i{k}" for k in range(9)]
    ratings = Ratings("by hand", triples, None, users, items, low=1.0, high=5.0)
    model = FedGNN(RatingConfig(epochs=2, dim=3)).fit(ratings)
    assert len(model.history_) == 2
    predicted = model.predict([("u0", "i0"), ("u19", "i8")])
    assert ((predicted.value >= 1) & (predicted.value <= 5)).all()
    assert predicted.known_item.tolist() == [True, False]
    assert "i8" in {listed.item for listed in model.recommend("u3", k=9)}
    traffic = model.traffic
    assert traffic is not None
    assert traffic.bytes > 0


def test_other_models_are_not_its_to_train() -> None:
    with pytest.raises(ParameterError, match="FedGNN trains fedgnn, got model 'pmf'"):
        FedGNN(RatingConfig(model="pmf"))


@pytest.mark.parametrize("way", [{"gnn": "gcn"}, {"gnn": "gat", "user_fit": "steps"}], ids=named)
def test_the_loss_is_that_of_the_ratings_as_they_were_met(way: dict[str, Any]) -> None:
    """The first epoch, with steps of nothing: predictions of the model at the start."""
    found = fitted(learning_rate=1e-300, user_rate=1e-300, epochs=1, cohort=200, **way)
    parts, learner = found.parts_, learner_of(found)
    predicted = learner.scorer.score(learner.state.arrays, parts.train.users, parts.train.items)
    assert found.history_[0].loss == pytest.approx(np.mean((parts.train.values - predicted) ** 2))


@pytest.mark.parametrize("gnn", NETWORKS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_learning_rate_far_too_large_is_divergence(gnn: str, optimizer: str) -> None:
    """Also where it first shows in a user's equations."""
    with pytest.raises(DivergenceError, match="training diverged in epoch"):
        fitted(gnn=gnn, optimizer=optimizer, learning_rate=1e18)


# Rounds.


@pytest.mark.parametrize("aggregate", ["secure", "clear"])
@pytest.mark.parametrize(("users", "cohort", "rounds"), [(10, 128, 1), (33, 32, 1), (70, 16, 4)])
def test_o22_every_user_takes_part_once_in_every_epoch(
    users: int, cohort: int, rounds: int, aggregate: str
) -> None:
    """Also with fewer users than the cohort size, and nobody is left over."""
    settings = {"cohort": cohort, "aggregate": aggregate, "min_cohort": 3}
    found = watched(3, crowd(users), **settings).rounds
    assert len(found) == 3 * rounds
    for epoch in range(3):
        here = [members for _, number, members in found if number == epoch]
        assert sorted(np.concatenate(here).tolist()) == list(range(users))
        assert all((np.diff(members) > 0).all() for members in here)


def test_o22_training_stops_after_its_epochs() -> None:
    assert len(fitted(crowd(10), epochs=3, cohort=128, min_cohort=3).history_) == 3


def test_cohorts_stay_for_secure_sums_and_are_drawn_anew_in_the_clear() -> None:
    def cohorts(aggregate: str) -> list[dict[int, list[int]]]:
        found = watched(2, crowd(70), cohort=16, aggregate=aggregate).rounds
        return [{c: m.tolist() for c, n, m in found if n == epoch} for epoch in range(2)]

    first, second = cohorts("secure")
    assert first == second
    first, second = cohorts("clear")
    assert first != second


def test_the_order_of_cohorts_changes_from_epoch_to_epoch() -> None:
    found = watched(6, crowd(70), cohort=16).rounds
    orders = {tuple(c for c, n, _ in found if n == epoch) for epoch in range(6)}
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(orders) > 1


def test_o22_one_user_is_refused_and_none_is_an_error() -> None:
    """A secure sum of one user is hers."""
    with pytest.raises(PrivacyRefusal, match="cohort of 1 users"):
        fitted(crowd(1))
    with pytest.raises(PrivacyRefusal, match="cohort of 5 users"):
        fitted(crowd(5), min_cohort=6)
    with pytest.raises(DataError, match="no rating to train on, of 0 users"):
        fitted(world([], test=[], users=0, items=0))


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_o26_who_rated_nothing_takes_no_part_and_is_no_division_by_zero(
    way: dict[str, Any],
) -> None:
    """Nor do her rows move, where she has any, or does she get neighbours."""
    parts = crowd(36)
    kept = parts.train.users % 3 > 0
    found = fitted(replace(parts, train=parts.train.part(kept)), epochs=2, **way)
    learner = learner_of(found)
    assert set(np.concatenate(learner.cohorts).tolist()) == {u for u in range(36) if u % 3}
    arrays, idle = learner.state.arrays, np.arange(0, 36, 3)
    if "users" in arrays:
        assert not arrays["users"][idle, -1].any()
        first = new_learner(found.parts_, **way).state["users"]
        assert np.array_equal(arrays["users"][idle], first[idle])
    if "neighbours" in arrays:
        assert not arrays["neighbours"][idle].any()
        assert not arrays["neighbour_counts"][idle].any()
    assert np.isfinite(found.score(parts.train.users, parts.train.items)).all()


class Ticking:
    """A clock that knows which step runs."""

    def __init__(self) -> None:
        self.running: str | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        assert self.running is None, "steps do not nest"
        self.running = name
        yield
        self.running = None


def test_all_work_of_an_epoch_is_in_a_step_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = new_learner(crowd(30), neighbours="trainable", expand_after=0, user_fit="steps")
    clock, seen = Ticking(), dict[str, set[str | None]]()
    learner.clock = clock  # type: ignore[assignment]

    def noted(owner: Any, name: str) -> None:
        work = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            seen.setdefault(name, set()).add(clock.running)
            return work(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    noted(learner.aggregation, "begin")
    noted(learner.aggregation, "sum")
    noted(recsys.models.star_round, "client_gradients")
    noted(recsys.fedgnn, "find_neighbours")
    noted(recsys.models.star_round, "local_step")
    noted(recsys.fedgnn, "server_step")
    learner.epoch(0)
    assert seen == {
        "begin": {"aggregation"},
        "sum": {"aggregation"},
        "find_neighbours": {"graph expansion"},
        "client_gradients": {"gradients"},
        "local_step": {"gradients"},
        "server_step": {"server"},
    }


# The server.


def expected_step(
    before: NDArray[Any], gradients: list[NDArray[Any]], optimizer: str, decay: float
) -> NDArray[Any]:
    """``before`` after these gradients, by the rules of the papers, with a rate of .5."""
    values, first, second = before.copy(), np.zeros_like(before), np.zeros_like(before)
    for number, gradient in enumerate(gradients):
        rate = 0.5 * decay**number
        if optimizer == "sgd":
            values -= rate * gradient
            continue
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        unbiased = first / (1 - 0.9 ** (number + 1)), second / (1 - 0.999 ** (number + 1))
        values -= rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return values


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_server_moves_by_the_mean_gradient_and_the_penalties(optimizer: str) -> None:
    """Of embeddings, of biases and of weights; the ridges have none."""
    settings: dict[str, Any] = {"penalty": 3.0, "bias_penalty": 7.0, "learning_rate": 0.5}
    learner = new_learner(crowd(30), optimizer=optimizer, decay=0.5, cohort=128, **settings)
    watch, model = Watched(learner), learner.model
    penalties = {"items": np.append(np.full(4, 3.0), 7.0), "weights": np.ones(16 + 2)}
    unflat(penalties["weights"], model.shapes())["ridge"][:] = 0.0
    penalties["weights"] *= WEIGHT_PENALTY
    start = {name: learner.state[name].copy() for name in penalties}
    gradients: dict[str, list[NDArray[Any]]] = {"items": [], "weights": []}
    for number in range(3):
        before = {name: learner.state[name].copy() for name in penalties}
        learner.epoch(number)
        for name, penalty in penalties.items():
            total = getattr(watch.sums[-1], name)
            gradients[name].append(total / 30 + penalty / 30 * before[name])
            expected = expected_step(start[name], gradients[name], optimizer, 0.5)
            assert learner.state[name] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_mean_is_over_the_clients_of_the_round_and_adam_counts_rounds() -> None:
    """Two cohorts: two steps an epoch, at one rate."""
    settings: dict[str, Any] = {"penalty": 0.0, "bias_penalty": 0.0, "learning_rate": 0.5}
    learner = new_learner(crowd(40), cohort=20, decay=0.5, **settings)
    watch = Watched(learner)
    start = learner.state["items"].copy()
    learner.epoch(0)
    gradients = [summed.items / 20 for summed in watch.sums]
    assert len(gradients) == 2
    assert learner.state["items"] == pytest.approx(expected_step(start, gradients, "adam", 1.0))


@pytest.mark.parametrize("users", [48, 144])
def test_the_rate_decays_with_epochs_and_faster_where_an_epoch_has_many_rounds(users: int) -> None:
    """3 cohorts count as one decay, 9 as nine eighths of one."""
    learner = new_learner(crowd(users), cohort=16, optimizer="sgd", decay=0.5, learning_rate=1.0)
    rounds = len(learner.cohorts)
    assert rounds == users // 16
    items, weights = (np.ones_like(learner.state[name]) for name in ("items", "weights"))
    for number in range(3):
        learner.state["items"][:] = 0.0
        learner._server_step(RoundSum(1, items, weights, None, 0), number, 1)
        expected = 0.5 ** (number * max(1, rounds / DECAY_ROUNDS))
        assert learner.state["items"] == pytest.approx(-expected)


@pytest.mark.parametrize("gnn", NETWORKS)
def test_none_takes_the_networks_own_numbers(gnn: str) -> None:
    own = OWN[gnn]
    none: dict[str, Any] = {"learning_rate": None, "penalty": None, "bias_penalty": None}
    same: dict[str, Any] = {"learning_rate": own.learning_rate, "penalty": own.penalty}
    first = fitted(gnn=gnn, epochs=1, **none)
    second = fitted(gnn=gnn, epochs=1, bias_penalty=own.bias_penalty, **same)
    assert first.model_digest == second.model_digest
    other = fitted(gnn=gnn, epochs=1, bias_penalty=2 * own.bias_penalty + 1, **same)
    assert other.model_digest != first.model_digest


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("aggregate", ["secure", "clear"])
def test_the_mean_rating_is_that_of_the_training_part_or_zero(aggregate: str, center: bool) -> None:
    found = fitted(epochs=1, aggregate=aggregate, center=center)
    expected = found.parts_.train.values.mean() if center else 0.0
    assert found.files.arrays["mean"][0] == pytest.approx(expected, abs=2**-25)


@pytest.mark.parametrize("gnn", NETWORKS)
def test_weights_start_as_stated(gnn: str) -> None:
    learner = new_learner(crowd(20), gnn=gnn, neighbours="fixed", dim=40)
    shapes = learner.model.shapes()
    flat = initial_weights(shapes, SimulationRng(0))
    assert np.array_equal(flat, learner.state["weights"])
    for name, weights in unflat(flat, shapes).items():
        if name in ("neighbours", "gate_biases"):
            assert not weights.any()
        elif name == "ridge":
            assert np.exp(weights) == pytest.approx(RIDGE)
        elif weights.ndim == 2:
            variance = 2 / (weights.shape[0] + weights.shape[1])
            assert np.var(weights) == pytest.approx(variance, rel=0.25)
    assert not np.array_equal(flat, initial_weights(shapes, SimulationRng(1)))


def test_weights_that_neighbours_do_not_need_start_as_without_them() -> None:
    with_, without = (new_learner(crowd(20), neighbours=kind) for kind in ("fixed", "none"))
    rest = without.state["weights"].size
    assert np.array_equal(with_.state["weights"][:rest], without.state["weights"])


# The devices.


def after_a_round(**changes: Any) -> tuple[FedGNNLearner, dict[str, NDArray[Any]], Any]:
    """A learner after one round of all, the arrays before, and the gradients at these."""
    learner = new_learner(crowd(30), cohort=200, user_fit="steps", **changes)
    if "neighbours" in learner.state.arrays:
        rng = np.random.default_rng(0)
        counts = learner.state["neighbour_counts"]
        counts[:] = np.arange(30) % 4
        there = np.arange(10) < counts[:, np.newaxis]
        learner.state["neighbours"][there] = rng.standard_normal((int(there.sum()), 4))
    before = {name: array.copy() for name, array in learner.state.arrays.items()}
    members = np.arange(30, dtype=np.int32)
    found = client_gradients(
        learner.model,
        learner.devices.inputs(members, before),
        absolute=learner.config.loss == "absolute",
        mean=learner.config.reduction == "mean",
    )
    learner.epoch(0)
    return learner, before, found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_user_s_own_row_moves_against_her_gradient(reduction: str, bias: bool) -> None:
    """Her bias by the mean gradient in any case, as a sum would carry it beyond."""
    learner, before, found = after_a_round(user_rate=1e-3, reduction=reduction, bias=bias)
    own = before["users"].copy()
    own[:, :-1] -= 1e-3 * found.users.numpy()
    if bias:
        own[:, -1] -= 1e-3 * found.user_biases.numpy() / (5 if reduction == "sum" else 1)
    assert learner.state["users"] == pytest.approx(own, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("kind", ["fixed", "trainable"])
def test_copies_of_neighbours_move_where_they_are_trainable(kind: str) -> None:
    learner, before, found = after_a_round(neighbours=kind, expand_after=50, user_rate=1e-3)
    expected = before["neighbours"].copy()
    there = np.arange(10) < before["neighbour_counts"][:, np.newaxis]
    if kind == "trainable":
        # Weights that neighbours send through are zero at first, so their first gradient is.
        assert learner.state["weights"][-16:].any()
        assert not found.neighbours.any()
        watch = {name: array.copy() for name, array in learner.state.arrays.items()}
        inputs = learner.devices.inputs(np.arange(30, dtype=np.int32), watch)
        again = client_gradients(learner.model, inputs, absolute=False, mean=False)
        learner.epoch(1)
        expected[there] -= 1e-3 * again.neighbours.numpy()
        assert again.neighbours.any()
    assert learner.state["neighbours"] == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_no_step_of_a_device_is_longer_than_its_curvature_allows(reduction: str) -> None:
    """The largest eigenvalue of the loss in her embedding, of squared errors, bounds it."""
    learner = new_learner(crowd(30), user_fit="steps", reduction=reduction, init_scale=2.0)
    members = np.arange(30, dtype=np.int32)
    inputs = learner.devices.inputs(members, learner.state.arrays)
    vectors = learner.model.rated(inputs).detach()
    rates = local_rates(config(user_rate=1e9, reduction=reduction), learner.model, inputs)
    assert rates.shape == (30, 1)
    for rate, (first, end) in zip(rates.squeeze(1).tolist(), inputs.rated.cuts, strict=True):
        mine = vectors[first:end]
        curvature = mine.T @ mine / (5 if reduction == "mean" else 1)
        assert 0 < rate * float(torch.linalg.eigvalsh(curvature)[-1]) <= 1
        assert rate * float(torch.trace(curvature)) == pytest.approx(1)  # and no shorter than that
    small = local_rates(config(user_rate=1e-9, reduction=reduction), learner.model, inputs)
    assert (small == 1e-9).all()
    absolute = config(user_rate=1e9, loss="absolute", reduction=reduction)
    assert (local_rates(absolute, learner.model, inputs) == 1e9).all()


def test_a_user_rate_of_any_size_lowers_squared_errors() -> None:
    """Of embeddings; the shared parameters stay where they are."""
    still: dict[str, Any] = {"learning_rate": 1e-300, "init_scale": 2.0, "bias": False}
    losses = fitted(
        crowd(30), user_fit="steps", user_rate=1e9, epochs=6, patience=6, **still
    ).history_
    assert all(b.loss < a.loss for a, b in pairwise(losses))


def test_dropout_is_drawn_anew_in_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    masks: list[bytes] = []
    draw = Dropout.masks

    def kept(self: Dropout, *arguments: Any) -> torch.Tensor:
        found = draw(self, *arguments)
        masks.append(found.numpy().tobytes())
        return found

    monkeypatch.setattr(Dropout, "masks", kept)
    learner = new_learner(crowd(30), cohort=200, dropout=0.5)
    for number in (0, 1, 0):
        learner.epoch(number)
    assert len(masks) == 3 * 2
    assert masks[:2] == masks[4:]
    assert not set(masks[:2]) & set(masks[2:4])


def test_dropout_is_for_training_alone() -> None:
    way: dict[str, Any] = {"user_fit": "steps", "rating_edges": True, "epochs": 1}
    with_, without = fitted(dropout=0.5, **way), fitted(**way)
    assert with_.history_[0].loss != without.history_[0].loss
    learner = learner_of(with_)
    pairs = with_.parts_.test
    again = learner_of(without).scorer.score(learner.state.arrays, pairs.users, pairs.items)
    assert np.array_equal(
        again, learner.scorer.score(learner.state.arrays, pairs.users, pairs.items)
    )


# Who holds what.


def test_only_users_hold_what_is_theirs() -> None:
    found = fitted(user_fit="steps", neighbours="fixed", expand_after=1, match_items=4)
    assert found.files.private == {"users", "neighbours", "neighbour_counts"}
    solved = fitted()
    assert solved.files.private == set()
    assert set(solved.files.arrays) - set(found.files.arrays) == set()
    assert set(solved.files.tables) == {"users", "items", "values", "n_users"}


def test_after_training_the_validation_ratings_join_the_stars() -> None:
    whole, part = trained("gcn"), fitted(gnn="gcn", epochs=60, patience=20, full_star=False)
    assert whole.model_digest == part.model_digest
    assert whole.history_ == part.history_
    assert on_known_items(whole) < on_known_items(part)
    rated = whole.files.tables["users"].size
    assert rated == len(whole.parts_.train) + len(whole.parts_.validation)
    steps = fitted(user_fit="steps", epochs=1)
    assert steps.files.tables["users"].size == len(steps.parts_.train)


def test_merged_parts_are_sorted() -> None:
    one = ratings_of([(0, 2, 1.0), (2, 0, 2.0), (2, 5, 3.0)])
    other = ratings_of([(0, 1, 4.0), (1, 9, 5.0), (2, 3, 6.0)])
    found = merged(one, other)
    assert found.users.tolist() == [0, 0, 1, 2, 2, 2]
    assert found.items.tolist() == [1, 2, 9, 0, 3, 5]
    assert found.values.tolist() == [4, 1, 5, 2, 6, 3]


# Neighbours.


def test_neighbours_join_after_t_epochs_and_move_where_they_are_trainable() -> None:
    for kind in ("fixed", "trainable"):
        run = KeepingRun()
        fitted(run=run, neighbours=kind, expand_after=2, epochs=4, match_items=3, patience=4)
        counts = [snapshot.users["neighbour_counts"] for snapshot in run.snapshots]
        given = [snapshot.users["neighbours"] for snapshot in run.snapshots]
        assert not counts[1].any()
        assert (counts[2] == counts[3]).all()
        assert 0 < counts[2].max() <= 10
        assert np.array_equal(given[2], given[3]) == (kind == "fixed")
        unused = np.arange(10) >= counts[3][:, np.newaxis]
        assert not given[3][unused].any()


def test_neighbours_are_heard() -> None:
    """After the expansion their weights move away from zero, and predictions with them."""
    alone = fitted(epochs=4)
    met = fitted(epochs=4, neighbours="fixed", expand_after=2, match_items=4)
    assert alone.history_[:2] == met.history_[:2]
    assert alone.history_[3].rmse != met.history_[3].rmse
    assert met.files.arrays["weights"][-16:].all()


class Expansions:
    """What is handed to every expansion of a training, and what comes back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[NDArray[np.float64]] = []
        self.found: list[Neighbourhood] = []

        def watched_(
            config: RatingConfig, train: Triples, embeddings: NDArray[np.float64], *rest: Any
        ) -> Neighbourhood:
            self.given.append(embeddings.copy())
            self.found.append(find_neighbours(config, train, embeddings, *rest))
            return self.found[-1]

        monkeypatch.setattr(recsys.fedgnn, "find_neighbours", watched_)


@pytest.mark.parametrize(("after", "times"), [(0, 1), (2, 1), (3, 0), (9, 0)])
def test_neighbours_are_sought_once_or_never(
    monkeypatch: pytest.MonkeyPatch, after: int, times: int
) -> None:
    """Never where training ends first."""
    seen = Expansions(monkeypatch)
    learner = learner_of(fitted(neighbours="fixed", expand_after=after, epochs=3, match_items=4))
    assert len(seen.given) == times
    assert (learner.neighbourhood is not None) == bool(times)


def test_what_neighbours_get_is_an_embedding_without_the_bias(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Her own parameters with steps, and where she solves what her whole star makes of her."""
    seen = Expansions(monkeypatch)
    parts = crowd(30)
    parts = replace(parts, train=parts.train.part(parts.train.users != 7))
    for user_fit in ("steps", "solve"):
        way: dict[str, Any] = {"user_fit": user_fit, "neighbours": "fixed", "dropout": 0.3}
        learner = new_learner(parts, expand_after=1, **way)
        learner.epoch(0)
        before = {name: array.copy() for name, array in learner.state.arrays.items()}
        learner.epoch(1)
        given = seen.given[-1]
        assert given.shape == (30, 4)
        if user_fit == "steps":
            assert np.array_equal(given, before["users"][:, :-1])
            continue
        assert not given[7].any()
        members = learner.devices.active
        inputs = learner.devices.inputs(members, before)
        expected = learner.model.represent(inputs).vectors.detach().numpy()
        assert given[members] == pytest.approx(expected, abs=1e-12)


def test_each_user_keeps_what_she_received(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Expansions(monkeypatch)
    learner = new_learner(crowd(30), neighbours="fixed", expand_after=0, most_neighbours=3)
    learner.epoch(0)
    [found] = seen.found
    counts = np.diff(found.starts)
    assert np.array_equal(learner.state["neighbour_counts"], counts)
    assert counts.max() == 3
    for user in range(30):
        mine = found.embeddings[found.starts[user] : found.starts[user + 1]]
        assert np.array_equal(learner.state["neighbours"][user, : counts[user]], mine)


def test_too_few_users_to_match_are_refused() -> None:
    with pytest.raises(AbortError, match="5 users want to find their neighbours"):
        fitted(crowd(5), min_cohort=3, min_group=6, neighbours="fixed", expand_after=0)
