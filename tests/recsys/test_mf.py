"""Central matrix factorization: gradients, sums over a batch, fallbacks, who holds what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recsys.baselines.mf import BATCH, MF, MFLearner
from recsys.config import TrainConfig
from recsys.data.city import synthetic_city
from recsys.data.prepare import Prepared
from recsys.errors import DivergenceError
from recsys.models.rows import RowSums
from recsys.report.costs import costs_of
from recsys.report.ledger import INFINITY, build_ledger
from recsys.simulation import SimulationRng
from tests.recsys.worlds import KnownKeysRun, city, small, world
from tests.support.cli import QUICK, Run

Floats = NDArray[np.float64]
Arrays = dict[str, Floats]

# One user meets several POIs, one POI several users, and the last user and POI nobody.
ROWS = [(0, 0, 1), (0, 1, -1), (0, 2, 1), (1, 0, 1), (1, 1, 1), (2, 1, -1)]
SETTINGS = {
    "penalty_w": 0.03,
    "penalty_v": 0.05,
    "learning_rate": 0.2,
    "learning_rate_v": 0.1,
}


def config(**changes: Any) -> TrainConfig:
    return small(model="mf", **changes)


def learner(prepared: Prepared, **changes: Any) -> MFLearner:
    """A learner whose parameters are far from zero."""
    made = MFLearner(prepared, config(**changes), SimulationRng(0))
    rng = np.random.default_rng(1)
    for array in made.state.arrays.values():
        array[...] = rng.standard_normal(array.shape)
    return made


def copies(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def loss(arrays: Arrays, rows: list[tuple[int, int, int]], of: TrainConfig) -> float:
    """Eq. 2 as it is written, with the penalty of what each sample uses."""
    total = 0.0
    for user, poi, label in rows:
        b, b_i, c_j = arrays["bias"][0], arrays["user_bias"][user], arrays["poi_bias"][poi]
        u, v = arrays["user_factors"][user], arrays["poi_factors"][poi]
        score = b + b_i + c_j + sum(u[k] * v[k] for k in range(u.size))
        total += float(np.log1p(np.exp(-label * score)))
        total += of.penalty_w * float(b * b + b_i * b_i + c_j * c_j)
        total += of.penalty_v * float((u * u).sum() + (v * v).sum())
    return total


def central_differences(of: Callable[[], float], at: Floats, step: float = 1e-5) -> Floats:
    """Derivative of ``of()`` by the entries of ``at``, which is changed and put back."""
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        kept = at[index]
        at[index] = kept + step
        there = of()
        at[index] = kept - step
        gradient[index] = (there - of()) / (2 * step)
        at[index] = kept
    return gradient


# The arithmetic


@pytest.mark.parametrize("name", ["bias", "user_bias", "poi_bias", "user_factors", "poi_factors"])
def test_a_step_is_the_finite_difference_of_eq_2_over_the_batch(name: str) -> None:
    """Users and POIs that occur more than once in the batch included."""
    assert len(ROWS) <= BATCH
    made = learner(world(ROWS, users=4, pois=4), **SETTINGS)
    before = copies(made.state.arrays)
    expected = central_differences(lambda: loss(before, ROWS, made.config), before[name])
    made.epoch(0)
    rate = 0.2 if "bias" in name else 0.1
    assert before[name] - made.state[name] == pytest.approx(rate * expected, rel=1e-6, abs=1e-8)


def test_a_world_of_one_pair_by_hand() -> None:
    """score = .5 - .25 + .25 + 2 * .5 = 1.5; the slope of a visit is -1 / (1 + e^1.5)."""
    free = {**SETTINGS, "penalty_w": 0.0, "penalty_v": 0.0}
    made = learner(world([(0, 0, 1)], users=1, pois=1), factors=1, **free)
    at = {"bias": 0.5, "user_bias": -0.25, "poi_bias": 0.25, "user_factors": 2, "poi_factors": 0.5}
    for name, value in at.items():
        made.state[name][...] = value
    assert made.epoch(0) == pytest.approx(0.2014132779827524)  # ln(1 + e^-1.5)
    slope = 0.18242552380635635
    moved = {name: float(made.state[name].sum()) - value for name, value in at.items()}
    assert moved == pytest.approx(
        {
            "bias": 0.2 * slope,
            "user_bias": 0.2 * slope,
            "poi_bias": 0.2 * slope,
            "user_factors": 0.1 * slope * 0.5,
            "poi_factors": 0.1 * slope * 2,
        }
    )


def test_a_score_is_the_sum_of_biases_and_the_product_of_factors() -> None:
    made = learner(world(ROWS, users=4, pois=4))
    arrays = made.state.arrays
    users, pois = (part.reshape(-1).astype(np.int32) for part in np.indices((4, 4)))
    expected = (
        arrays["bias"]
        + arrays["user_bias"][:, np.newaxis]
        + arrays["poi_bias"]
        + arrays["user_factors"] @ arrays["poi_factors"].T
    )
    found = made.scorer.score(arrays, users, pois)
    assert found == pytest.approx(expected.reshape(-1))


def test_who_is_in_no_sample_stays_as_she_began() -> None:
    made = learner(world(ROWS, users=4, pois=4), **SETTINGS)
    before = copies(made.state.arrays)
    made.epoch(0)
    for name in ("user_bias", "poi_bias", "user_factors", "poi_factors"):
        assert np.array_equal(made.state[name][3], before[name][3])
        assert not np.array_equal(made.state[name], before[name])


def test_the_loss_is_the_mean_over_samples_before_their_update() -> None:
    made = learner(world(ROWS, users=4, pois=4), penalty_w=0.0, penalty_v=0.0)
    expected = loss(copies(made.state.arrays), ROWS, made.config) / len(ROWS)
    assert made.epoch(0) == pytest.approx(expected)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_changes_of_one_row_add_up_however_often_it_occurs(rows: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = np.array(rows, dtype=np.int32)
    for shape in ((), (3,)):
        target = rng.standard_normal((6, *shape))
        changes = rng.standard_normal((index.size, *shape))
        expected = target.copy()
        for row, change in zip(rows, changes, strict=True):
            expected[row] += change
        untouched = target[5].copy()
        RowSums(index).add(target, changes)
        assert target == pytest.approx(expected)
        assert np.array_equal(target[5], untouched)


# The recommender


@pytest.fixture(scope="module")
def model() -> MF:
    return MF(config()).fit(city())


def test_unknown_users_and_pois_are_scored_as_documented(model: MF) -> None:
    """Bias and POI bias alone for an unknown user; the mean of all POIs for an unknown POI."""
    arrays, ids = model.files.arrays, model.files.poi_ids
    found = model.predict([("nobody", ids[4]), ("u1", "new"), ("nobody", "new")])
    user = model.files.user_ids.index("u1")
    mean_bias, mean_poi = arrays["poi_bias"].mean(), arrays["poi_factors"].mean(axis=0)
    b = arrays["bias"][0]
    own = arrays["user_bias"][user] + arrays["user_factors"][user] @ mean_poi
    assert found.score == pytest.approx(
        [b + arrays["poi_bias"][4], b + mean_bias + own, b + mean_bias]
    )
    assert found.fallbacks == 3


def test_the_recommender_holds_every_array(model: MF, tmp_path: Path) -> None:
    model.save(tmp_path)
    with np.load(tmp_path / "recommender" / "model.npz") as held:
        assert {f"model.{name}" for name in model.files.arrays} <= set(held.files)
    assert model.files.private == frozenset()


def test_a_saved_model_comes_back_as_it_was(model: MF, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = MF.load(tmp_path)
    assert again.model_digest == model.model_digest
    asked = [("u1", model.files.poi_ids[3]), ("nobody", "nowhere")]
    assert np.array_equal(again.predict(asked).score, model.predict(asked).score)
    assert again.recommend("u1", k=5) == model.recommend("u1", k=5)


def test_resuming_at_every_epoch_gives_the_same_digest() -> None:
    run, settings = KnownKeysRun(), config(epochs=4, seed=None)
    whole = MF(settings).fit(city(), run=run)
    assert len(run.snapshots) == 4
    for snapshot in run.snapshots:
        assert not snapshot.users
        resumed = MF(settings).fit(city(), run=KnownKeysRun(start=snapshot))
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


def test_mf_finds_what_users_like_on_the_embedded_city() -> None:
    found = MF(TrainConfig(model="mf", seed=0, epochs=15)).fit(synthetic_city())
    area, mean = found.evaluate(found.prepared_.test)
    assert area is not None
    assert mean is not None
    assert min(area, mean) > 0.75


def test_a_learning_rate_far_too_large_is_divergence() -> None:
    with pytest.raises(DivergenceError, match="training diverged in epoch"):
        MF(config(epochs=30, learning_rate_v=1e6)).fit(city())


# What it tells about itself


def test_the_ledger_says_that_all_check_ins_are_collected(model: MF) -> None:
    ledger = build_ledger(MF(config(seed=None)).fit(city()))
    (release,) = ledger.releases
    assert release.what == "all check-ins"
    assert release.note == "The matrix of visits is factorized centrally."
    assert ledger.headline == "worst release: all check-ins, epsilon = infinity per user"
    assert ledger.epsilon()["headline"] == INFINITY
    assert not any("machine" in line or "features" in line for line in ledger.lines())


def test_nothing_is_sent(model: MF) -> None:
    costs = costs_of(model, 1.0)
    assert not costs.traffic
    assert set(costs.steps) == {"features", "gradients"}


def test_the_command_trains_it_and_loads_it_again(run: Run) -> None:
    row = run("train", "mf", *QUICK, "--out", "out", "--json").row
    assert row["mode"] == "central"
    assert row["bytes_per_user"] is None
    assert row["features"] == 0
    assert run("recommend", "--model", "out", "--user", "u0", "-k", "3").code == 0
