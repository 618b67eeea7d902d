"""Decentralized matrix factorization: gradients, the sparse tables against a dense reference."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.array_files import pack_arrays
from recsys.baselines.dmf import DMF, GRADIENTS, DMFLearner
from recsys.baselines.mf import BATCH
from recsys.config import TrainConfig
from recsys.data.city import synthetic_city
from recsys.data.prepare import Pairs, Prepared
from recsys.errors import DataError, DivergenceError
from recsys.models.dmf import NeighbourScorer, look_up
from recsys.network import UserNetwork
from recsys.report.costs import costs_of
from recsys.report.ledger import INFINITY, build_ledger
from recsys.simulation import SimulationRng
from tests.recsys.test_mf import central_differences, copies
from tests.recsys.worlds import KnownKeysRun, built, city, everyone, pairs, small, world
from tests.support.cli import QUICK, Run

Floats = NDArray[np.float64]

ROWS = [(0, 0, 1), (0, 1, -1), (0, 2, 1), (1, 0, 1), (1, 1, 1), (2, 1, -1)]


def config(**changes: Any) -> TrainConfig:
    return small(model="dmf", **changes)


def learner(prepared: Prepared, **changes: Any) -> DMFLearner:
    return DMFLearner(prepared, config(**changes), SimulationRng(0))


def scattered(made: DMFLearner, scale: float = 1.0) -> DMFLearner:
    """The same learner with parameters far from zero."""
    rng = np.random.default_rng(1)
    for name in ("user_factors", "global_factors", "local_factors"):
        made.state[name][...] = scale * rng.standard_normal(made.state[name].shape)
    return made


def all_pairs(users: int, pois: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    grid = np.indices((users, pois)).reshape(2, -1).astype(np.int32)
    return grid[0], grid[1]


# The arithmetic


def loss(made: DMFLearner, arrays: dict[str, Floats], rows: list[tuple[int, int, int]]) -> float:
    """Eq. 2 as it is written, with the penalty of what each sample's own user holds."""
    scores = made.scorer.tables
    total = 0.0
    for user, poi, label in rows:
        key = user * arrays["poi_start"].shape[0] + poi
        u = arrays["user_factors"][user]
        p = arrays["global_factors"][scores["touched"].tolist().index(key)]
        q = arrays["local_factors"][scores["own"].tolist().index(key)]
        score = sum(u[k] * (p[k] + q[k]) for k in range(u.size))
        total += float(np.log1p(np.exp(-label * score)))
        total += made.config.penalty_v * float((u * u).sum() + (p * p).sum() + (q * q).sum())
    return total


@pytest.mark.parametrize("name", ["user_factors", "global_factors", "local_factors"])
def test_a_step_without_neighbours_is_the_finite_difference_of_eq_2(name: str) -> None:
    """Users with several samples in the batch included; each sample counts its penalty."""
    prepared = world(ROWS, users=4, pois=4)
    made = scattered(learner(prepared, neighbours=0, penalty_v=0.05, learning_rate_v=0.1))
    before = copies(made.state.arrays)
    expected = central_differences(lambda: loss(made, before, ROWS), before[name])
    made.epoch(0)
    assert before[name] - made.state[name] == pytest.approx(0.1 * expected, rel=1e-6, abs=1e-8)


def test_a_message_is_the_derivative_by_the_senders_own_copy() -> None:
    prepared = world(ROWS, users=4, pois=4)
    made = scattered(learner(prepared, neighbours=2, penalty_v=0.05))
    arrays = copies(made.state.arrays)
    sample = 4
    at = arrays["global_factors"]
    expected = central_differences(lambda: loss(made, arrays, [ROWS[sample]]), at)
    row = made.scorer.tables["touched"].tolist().index(1 * 4 + 1)
    messages, _ = made.step(np.array([sample]))
    assert messages.senders.tolist() == [1]
    assert messages.pois.tolist() == [1]
    assert messages.gradients[0] == pytest.approx(expected[row], rel=1e-6, abs=1e-8)


def test_one_visit_of_one_user_by_hand() -> None:
    """u = 2, p = .5, q = .25: score 1.5, slope -1 / (1 + e^1.5). Her neighbour's copy: p = 1."""
    free = {"factors": 1, "penalty_v": 0.0, "learning_rate_v": 0.1, "neighbours": 1}
    made = learner(world([(0, 0, 1)], users=2, pois=1), **free)
    assert made.network.neighbours.tolist() == [[1], [0]]
    assert made.scorer.tables["touched"].tolist() == [0, 1]
    assert made.scorer.tables["own"].tolist() == [0]
    made.state["user_factors"][...] = np.array([[2], [3]])
    made.state["global_factors"][...] = np.array([[0.5], [1]])
    made.state["local_factors"][...] = 0.25
    assert made.epoch(0) == pytest.approx(0.2014132779827524)  # ln(1 + e^-1.5)
    slope = 0.18242552380635635
    step = 0.1 * slope * 2
    assert made.state["user_factors"][:, 0] == pytest.approx([2 + 0.1 * slope * 0.75, 3])
    assert made.state["global_factors"][:, 0] == pytest.approx([0.5 + step, 1 + step])
    assert made.state["local_factors"][:, 0] == pytest.approx([0.25 + step])


def test_messages_about_one_pair_add_up_in_a_batch() -> None:
    """Users 0 and 1 both send of POI 0 to user 2, who also trains on it."""
    rows = [(0, 0, 1), (1, 0, 1), (2, 0, -1)]
    made = scattered(learner(world(rows, users=3, pois=2), neighbours=2, learning_rate_v=0.1))
    before = made.state["global_factors"].copy()
    messages, _ = made.step(np.arange(3))
    total = messages.gradients.sum(axis=0)
    assert before - made.state["global_factors"] == pytest.approx(np.tile(0.1 * total, (3, 1)))


class Dense:
    """The same training with a row for every pair of a user and a POI, sample by sample."""

    def __init__(self, start: dict[str, Floats], network: UserNetwork, of: TrainConfig) -> None:
        users, pois = start["user_factors"].shape[0], start["poi_start"].shape[0]
        self.u = start["user_factors"].copy()
        self.p = np.tile(start["poi_start"], (users, 1, 1))
        self.q = np.zeros((users, pois, of.factors))
        self.network, self.rate, self.shrink = network, of.step_v, 2 * of.penalty_v

    def batch(self, samples: Pairs, part: NDArray[np.intp]) -> None:
        """All steps of a batch, each from the parameters at its start."""
        u, p, q = self.u.copy(), self.p.copy(), self.q.copy()
        for index in part:
            i, j, y = (
                int(column[index]) for column in (samples.users, samples.pois, samples.labels)
            )
            score = float(u[i] @ (p[i, j] + q[i, j]))
            slope = -y / (1 + np.exp(y * score))
            sent = slope * u[i] + self.shrink * p[i, j]
            self.u[i] -= self.rate * (slope * (p[i, j] + q[i, j]) + self.shrink * u[i])
            self.q[i, j] -= self.rate * (slope * u[i] + self.shrink * q[i, j])
            for taker in (i, *self.network.neighbours[i]):
                self.p[taker, j] -= self.rate * sent

    def scores(self) -> Floats:
        products: Floats = np.einsum("ik,ijk->ij", self.u, self.p + self.q)
        return products.reshape(-1)


@pytest.mark.parametrize("network", ["geographic", "random"])
@pytest.mark.parametrize("neighbours", [0, 1, 3])
def test_the_sparse_tables_are_the_dense_training(network: str, neighbours: int) -> None:
    prepared, _, sim = built(city(), config())
    settings = config(network=network, neighbours=neighbours, init_scale=0.3, penalty_v=0.01)
    made = DMFLearner(prepared, settings, sim)
    dense = Dense(made.state.arrays, made.network, settings)
    train = prepared.train
    assert len(train) > 2 * BATCH
    for epoch in range(2):
        made.epoch(epoch)
        order = sim.order("order", train.users, train.pois, epoch)
        for start in range(0, order.size, BATCH):
            dense.batch(train, order[start : start + BATCH])
    users, pois = all_pairs(prepared.n_users, prepared.n_pois)
    found = made.scorer.score(made.state.arrays, users, pois)
    assert found == pytest.approx(dense.scores(), rel=1e-9, abs=1e-12)
    assert made.state["user_factors"] == pytest.approx(dense.u)


# Who holds what


def test_rows_are_the_pairs_that_are_trained_or_received() -> None:
    prepared, _, sim = built(city(), config())
    made = DMFLearner(prepared, config(neighbours=3), sim)
    own, heard = set(), set()
    for user, poi in zip(prepared.train.users, prepared.train.pois, strict=True):
        own.add((int(user), int(poi)))
        heard |= {(int(friend), int(poi)) for friend in made.network.neighbours[user]}
    for table, expected in (("own", own), ("touched", own | heard)):
        keys = made.scorer.tables[table]
        assert [divmod(key, prepared.n_pois) for key in keys.tolist()] == sorted(expected)
    assert made.state["local_factors"].shape[0] == len(own)
    assert made.state["global_factors"].shape[0] == len(own | heard)


def test_a_pair_that_nobody_trained_has_the_public_start_and_no_local_part() -> None:
    prepared = world([(0, 0, 1), (1, 1, 1)], users=3, pois=3)
    made = learner(prepared, neighbours=0)
    made.epoch(0)
    arrays = made.state.arrays
    users, pois = np.array([0, 2, 2], dtype=np.int32), np.array([2, 0, 1], dtype=np.int32)
    expected = np.einsum("nk,nk->n", arrays["user_factors"][users], arrays["poi_start"][pois])
    assert made.scorer.score(arrays, users, pois) == pytest.approx(expected)


def test_everybody_starts_from_public_vectors() -> None:
    prepared, _, sim = built(city(), config())
    arrays = DMFLearner(prepared, config(), sim).state.arrays
    assert (arrays["user_factors"] == arrays["user_factors"][0]).all()
    assert not arrays["local_factors"].any()
    assert np.abs(arrays["poi_start"]).min() > 0
    made = DMFLearner(prepared, config(), sim)
    start = made.state["poi_start"].copy()
    made.epoch(0)
    assert np.array_equal(made.state["poi_start"], start)


def test_users_hold_all_but_the_public_start(tmp_path: Path) -> None:
    model = DMF(config()).fit(city())
    model.save(tmp_path)
    with np.load(tmp_path / "recommender" / "model.npz") as recommender:
        assert {name for name in recommender.files if name.startswith(("model", "table"))} == {
            "model.poi_start"
        }
    with np.load(tmp_path / "users" / "models.npz") as users:
        assert set(users.files) >= {
            *("model.user_factors", "model.global_factors", "model.local_factors"),
            *("table.touched", "table.own"),
        }


def test_only_the_users_part_of_a_checkpoint_holds_factors() -> None:
    run = KnownKeysRun()
    DMF(config(epochs=1)).fit(city(), run=run)
    (snapshot,) = run.snapshots
    assert set(snapshot.recommender) == {"poi_start", "best_poi_start"}


def test_messages_and_bytes_are_the_formula() -> None:
    model = DMF(config(neighbours=3, factors=4)).fit(city())
    sent = 2 * 3 * len(model.prepared_.train)  # epochs, neighbours, samples
    assert costs_of(model, 1.0).traffic == {GRADIENTS: (sent, sent * (4 + 8 * 4))}


# The recommender


def test_a_user_or_poi_that_nobody_knows_is_a_coin_toss() -> None:
    model = DMF(config()).fit(city())
    found = model.predict([("nobody", model.files.poi_ids[4]), ("u1", "new"), ("nobody", "new")])
    assert found.score.tolist() == [0.0, 0.0, 0.0]
    assert found.probability.tolist() == [0.5, 0.5, 0.5]
    assert found.fallbacks == 3


def test_a_user_without_samples_is_scored_by_what_she_received() -> None:
    rows = [row for row in everyone(6) if row[0]]
    model = DMF(config(neighbours=2)).fit(world(rows, users=6, pois=8))
    found = model.predict([("u0", "p3"), ("u0", "p5")])
    assert found.known_user.tolist() == [False, False]
    assert found.score.all()


def test_a_saved_model_comes_back_as_it_was(tmp_path: Path) -> None:
    model = DMF(config()).fit(city())
    model.save(tmp_path)
    again = DMF.load(tmp_path)
    assert again.model_digest == model.model_digest
    for name, table in model.files.scorer.tables.items():
        assert np.array_equal(again.files.scorer.tables[name], table)
    users, pois = all_pairs(len(model.files.user_ids), len(model.files.poi_ids))
    assert np.array_equal(again.files.score(users, pois), model.files.score(users, pois))
    assert again.recommend("u1", k=5) == model.recommend("u1", k=5)


@pytest.mark.parametrize("table", ["touched", "own"])
def test_a_table_that_is_missing_or_out_of_order_is_refused(tmp_path: Path, table: str) -> None:
    DMF(config()).fit(city()).save(tmp_path)
    path = tmp_path / "users" / "models.npz"
    with np.load(path) as held:
        arrays = dict(held)
    name = f"table.{table}"
    path.write_bytes(pack_arrays({**arrays, name: arrays[name][::-1]}))
    with pytest.raises(DataError, match=f"table {table} must hold int64 keys in rising order"):
        DMF.load(tmp_path)
    path.write_bytes(pack_arrays({key: array for key, array in arrays.items() if key != name}))
    with pytest.raises(DataError, match=f"'{name}' is missing"):
        DMF.load(tmp_path)


@pytest.mark.parametrize(
    "table",
    [np.array([1, 1]), np.array([2, 1]), np.array([1.0, 2.0]), np.array([[1], [2]])],
)
def test_only_rising_integer_keys_are_a_table(table: NDArray[Any]) -> None:
    good = np.array([0, 5])
    for tables in ((table, good), (good, table)):
        with pytest.raises(ParameterError, match="in rising order"):
            NeighbourScorer(*tables)
    assert NeighbourScorer(good, np.zeros(0, dtype=np.int64)).tables["touched"] is good


def test_looking_up_finds_what_is_there_and_nothing_else() -> None:
    keys = np.array([-1, 0, 3, 4, 9, 10])
    rows, found = look_up(np.array([0, 4, 9]), keys)
    assert found.tolist() == [False, True, False, True, True, False]
    assert rows.tolist() == [0, 0, 0, 1, 2, 0]
    assert not look_up(np.zeros(0, dtype=np.int64), keys)[1].any()


def test_resuming_at_every_epoch_gives_the_same_digest() -> None:
    run, settings = KnownKeysRun(), config(epochs=4, seed=None)
    whole = DMF(settings).fit(city(), run=run)
    assert len(run.snapshots) == 4
    for snapshot in run.snapshots:
        resumed = DMF(settings).fit(city(), run=KnownKeysRun(start=snapshot))
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_


def test_the_mode_changes_nothing_where_no_protocol_runs() -> None:
    digests = {
        DMF(config(mode=mode)).fit(city()).model_digest
        for mode in ("protocol", "simulate", "float")
    }
    assert len(digests) == 1


def test_neighbours_bring_dmf_above_chance_on_the_embedded_city() -> None:
    areas = []
    for neighbours in (10, 0):
        settings = TrainConfig(model="dmf", seed=0, epochs=12, neighbours=neighbours)
        model = DMF(settings).fit(synthetic_city())
        areas.append(model.evaluate(model.prepared_.test)[0] or 0.0)
    assert areas[0] > 0.7
    assert areas[0] > areas[1] + 0.1


def test_a_learning_rate_far_too_large_is_divergence() -> None:
    with pytest.raises(DivergenceError, match="training diverged in epoch"):
        DMF(config(epochs=30, learning_rate_v=1e6)).fit(city())


def test_more_neighbours_than_users_are_refused() -> None:
    with pytest.raises(ParameterError, match="neighbour"):
        learner(world(everyone(3), users=3, pois=8), neighbours=3)


# What it tells about itself


def ledger_kinds(**changes: Any) -> list[str]:
    ledger = build_ledger(DMF(config(seed=None, **changes)).fit(city()))
    assert ledger.epsilon()["headline"] == INFINITY
    return [release.what.split(" (")[0] for release in ledger.releases]


HOMES = "home locations"
MESSAGES = "POI and gradient of its global factors, for every training sample"
CURVE = "mean training loss and validation AUC, over all users"


def test_every_release_is_listed() -> None:
    assert ledger_kinds() == [HOMES, MESSAGES, CURVE]
    assert ledger_kinds(network="random") == [MESSAGES, CURVE]
    assert ledger_kinds(neighbours=0) == [CURVE]


def test_the_ledger_says_that_gradients_are_unprotected() -> None:
    ledger = build_ledger(DMF(config(seed=None, network="random")).fit(city()))
    (messages,) = [release for release in ledger.releases if release.what == MESSAGES]
    assert messages.sees == "each of the user's 3 neighbours"
    assert messages.rounds == 2
    assert messages.adversary == "no protection"
    assert "names the POI" in messages.note
    assert "tells a visit from a negative" in messages.note
    assert ledger.headline == f"worst release: {MESSAGES}, epsilon = infinity per user"


def test_the_command_trains_it_and_loads_it_again(run: Run) -> None:
    row = run("train", "dmf", *QUICK, "--out", "out", "--json").row
    assert row["mode"] == "plaintext"
    assert row["traffic"][GRADIENTS]["messages"] == 2 * 3 * row["train_pairs"]
    assert row["bytes_per_user"] == row["traffic"][GRADIENTS]["bytes"] / row["users"]
    assert run("recommend", "--model", "out", "--user", "u0", "-k", "3").code == 0
    assert json.loads(Path("out/public/model.json").read_text())["tables"] == ["own", "touched"]


def test_samples_are_sorted_pairs() -> None:
    """What the hand-made worlds above count on: sample n of ``ROWS`` is pair n of training."""
    assert [tuple(map(int, row)) for row in zip(*vars(pairs(ROWS)).values(), strict=True)] == ROWS
