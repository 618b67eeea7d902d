"""FedGNN over Flower: the model of one process, nodes that leave, what it keeps and says."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import UserConfig

from mpc.core.errors import AbortError, ParameterError
from recsys.data.rating_catalogue import resolve
from recsys.errors import PrivacyRefusal
from recsys.fedgnn import FedGNNLearner
from recsys.flower.federation import secagg_config
from recsys.flower.fedgnn import measures
from recsys.flower.fedgnn_ledger import build_ledger
from recsys.flower.fedgnn_node import batch_members, encoding_of, layout_of
from recsys.flower.fedgnn_task import Task
from recsys.metrics import model_digest
from recsys.ratings.registry import load_rating_model
from recsys.report.rating_ledger import build_rating_ledger
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from secagg.flower.keyring import write_identity
from secagg.full.identity import Identity
from secagg.full.messages import Step
from secagg.signed_roster import Entry, SignedRoster
from tests.recsys.flower.fedgnn_runs import (
    ITEMS,
    NODE_IDS,
    NODES,
    NOISE,
    SET,
    SMALL,
    STEPS,
    USERS,
    WAYS,
    Plain,
    grid_of,
    in_one_process,
    over_flower,
    trained,
    wary_app,
)
from tests.support.cli import Run
from tests.support.flower_grid import Fault, LocalGrid

# The same model.


@pytest.mark.parametrize("way", WAYS)
def test_the_model_is_that_of_one_process(way: str) -> None:
    """To the last bit: sums of integers are exact, and every coin belongs to a user."""
    model, (found, _) = in_one_process(way), trained(way)
    arrays, expected = found.state.best_arrays, model.files.arrays
    shared = {name: expected[name] for name in arrays}
    assert set(expected) - set(arrays) == model.files.private
    assert model_digest(arrays) == model_digest(shared)


@pytest.mark.parametrize("way", WAYS)
def test_its_errors_are_those_of_one_process(way: str) -> None:
    """They are sums of squares in steps of a sixteenth at most, over 600 ratings and four nodes."""
    model, (found, _) = in_one_process(way), trained(way)
    best = model.learner_.state.best
    assert best is not None
    assert found.validation == pytest.approx(best.rmse, abs=1e-3)
    assert found.test == pytest.approx(model.evaluate(model.parts_.test), abs=1e-3)
    losses = [record.loss for record in found.state.history]
    assert losses == pytest.approx([record.loss for record in model.history_], abs=1e-3)


def test_the_loss_falls() -> None:
    for way in ("sums", "steps", "biases"):
        losses = [record.loss for record in trained(way)[0].state.history]
        assert losses == sorted(losses, reverse=True)


def test_users_hold_what_they_hold_in_one_process() -> None:
    """Their embeddings are on their own node, and nobody else's are."""
    model, (_, grid) = in_one_process("steps"), trained("steps")
    for index, node in enumerate(NODE_IDS):
        held = grid.state(node).array_records["privrec.own"]["users"].numpy()
        mine = np.arange(USERS) % NODES == index
        assert np.array_equal(held[mine], model.learner_.state["users"][mine])
        moved = held != model.learner_.state["users"]
        assert moved[~mine].any(axis=1).all()


def batches_in_one_process(way: dict[str, Any], batches: int) -> FedGNNLearner:
    """A learner whose cohorts are what the nodes draw."""
    plain = Plain({**SMALL, **way})
    config, sim = plain.settings.train, SimulationRng(0)
    learner = FedGNNLearner(in_one_process("sums").parts_, config, sim, MemoryRun())
    active = learner.devices.active
    learner.cohorts = [
        np.sort(
            np.concatenate(
                [
                    batch_members(active[active % NODES == node], batch, batches, sim)
                    for node in range(NODES)
                ]
            )
        )
        for batch in range(batches)
    ]
    return learner


def test_batches_are_cohorts_that_nodes_draw_among_their_users() -> None:
    way = {"cohort": 20, "mode": "simulate"}
    run = {**SMALL, "cohort": 20}
    learner = batches_in_one_process({"cohort": 20}, 3)
    assert sorted(np.concatenate(learner.cohorts)) == list(learner.devices.active)
    order = SimulationRng(0).order("order of cohorts", np.arange(3), 0)
    plain = Plain(run)
    server = plain.server()
    server.train()
    asked = [task.batch for task in plain.tasks if task.epoch == 0 and task.batch >= 0]
    assert asked == list(order), way
    # The sums of the first batch, from the very same gradients.
    first = plain.tasks[1]
    members = learner.cohorts[first.batch]
    total = plain.ask({n: server.state[n] for n in ("items", "weights")}, first)
    assert total is not None
    assert total.figures["users"] == members.size
    assert total.figures["ratings"] == learner.devices.sizes[members].sum()


def test_over_flower_and_by_plain_sums_it_is_the_same_with_batches() -> None:
    run = {**SMALL, "cohort": 20}
    one, other = over_flower(grid_of(run)), Plain(run).server().train()
    assert one.batches == other.batches == 3
    assert model_digest(one.state.best_arrays) == model_digest(other.state.best_arrays)


def test_with_identities_against_a_malicious_server_it_is_the_same(tmp_path: Path) -> None:
    operator, entries = Identity.generate(), []
    configs: dict[int, UserConfig] = {}
    for index, node in enumerate(NODE_IDS):
        mine = Identity.generate()
        write_identity(tmp_path / f"{index}.key", mine)
        entries.append(Entry(index, f"node {index}", mine.public))
        configs[node] = {
            "partition-id": index,
            "num-partitions": NODES,
            "secagg-identity": str(tmp_path / f"{index}.key"),
            "secagg-state": str(tmp_path / f"{index}.marks"),
            "secagg-roster": str(tmp_path / "roster"),
            "secagg-operator": operator.public.hex(),
        }
    SignedRoster.sign(entries, operator).write(tmp_path / "roster")
    run = {
        **SMALL,
        "variant": "malicious",
        "roster": str(tmp_path / "roster"),
        "operator": operator.public.hex(),
    }
    found = over_flower(LocalGrid(wary_app, configs, run_config=run))
    expected = trained("sums")[0].state.best_arrays
    assert model_digest(found.state.best_arrays) == model_digest(expected)
    with pytest.raises(AbortError, match="3 rounds in a row"):
        over_flower(LocalGrid(wary_app, configs, run_config=SMALL))


# Nodes that leave.


def test_a_node_that_leaves_is_not_in_the_sum_and_everybody_else_is() -> None:
    """Rounds: 0 counts, 1 and 2 train; the first node's masked vector of round 1 is lost."""
    grid = grid_of(SMALL)
    grid.on(NODE_IDS[0], Step.MASKED_INPUT, Fault.LOST, round=1)
    found = over_flower(grid)
    expected = Plain(SMALL, gone={1: (0,)}).server().train()
    assert (found.smallest, found.failed) == (NODES - 1, 0)
    assert model_digest(found.state.best_arrays) == model_digest(expected.state.best_arrays)
    whole = trained("sums")[0]
    assert model_digest(found.state.best_arrays) != model_digest(whole.state.best_arrays)


def test_a_node_that_is_dead_leaves_the_training_to_the_others() -> None:
    grid = grid_of(SMALL)
    grid.on(NODE_IDS[3], Step.MASKED_INPUT, Fault.KILLED, round=1)
    found = over_flower(grid)
    assert found.smallest == NODES - 1
    assert found.epochs == SMALL["epochs"]
    assert found.test is not None


def test_a_round_without_a_sum_is_repeated_and_moves_nothing() -> None:
    run = {**SMALL, "cohort": 20}
    plain, whole = Plain(run, gone={2: None, 5: None, 6: None}), Plain(run)
    found, expected = plain.server().train(), whole.server().train()
    assert (found.failed, found.rounds) == (3, expected.rounds)
    assert found.uploads == expected.uploads == SMALL["epochs"]
    assert model_digest(found.state.best_arrays) == model_digest(expected.state.best_arrays)
    assert plain.tasks[2] == plain.tasks[3]
    assert [task for at, task in enumerate(plain.tasks) if at not in (2, 5, 6)] == whole.tasks


def test_three_rounds_in_a_row_without_a_sum_end_it() -> None:
    plain = Plain(SMALL, gone=dict.fromkeys(range(99)))
    with pytest.raises(AbortError, match="3 rounds in a row"):
        plain.server().train()
    assert len(plain.tasks) == 3


def test_a_training_whose_nodes_go_away_keeps_its_best_model() -> None:
    """Rounds: 0 counts, 1 trains, 2 judges and trains, 3 judges and trains; then nobody answers."""
    run = {**SMALL, "epochs": 9}
    found = Plain(run, gone=dict.fromkeys(range(4, 99))).server().train()
    assert (found.epochs, found.best_epoch, found.test) == (2, 2, None)
    assert "3 rounds in a row" in found.ended
    short = Plain({**SMALL, "epochs": 2}).server().train()
    assert model_digest(found.state.best_arrays) == model_digest(short.state.best_arrays)
    assert measures(found)["ended"] == found.ended


def test_too_few_nodes_are_waited_for_and_then_an_error() -> None:
    with pytest.raises(AbortError, match="2 of 3 nodes are connected"):
        over_flower(grid_of({**SMALL, "wait": 0.1}, 2))


# The best model, not the last.


OVERSHOOTING = {**STEPS, "learning-rate": 9.0, "epochs": 4, "dropout": 0.0}
"""Steps so long that the first model is the best."""


def test_nodes_keep_what_their_users_held_when_the_model_was_best(tmp_path: Path) -> None:
    run = {**SMALL, **OVERSHOOTING}
    plain = Plain(run)
    for node, memory in enumerate(plain.memories):
        memory.folder = tmp_path / str(node)
    found = plain.server().train()
    assert 0 < found.best_epoch < 4
    short = Plain({**run, "epochs": found.best_epoch})
    short.server().train()
    for node in range(NODES):
        mine = np.arange(USERS) % NODES == node
        kept = load_rating_model(tmp_path / str(node)).files.arrays["users"]
        assert np.array_equal(kept, short.memories[node].arrays["users"][mine])
        assert not np.array_equal(kept, plain.memories[node].arrays["users"][mine])


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_restarted_node_goes_on_with_what_is_in_its_folder(
    tmp_path: Path, has_folder: bool
) -> None:
    """Rounds 1 and 2 train. Restarted in round 3, a node misses that, and is back in the last."""

    def config(index: int) -> dict[str, Any]:
        partition = {"partition-id": index, "num-partitions": NODES}
        return partition | ({"privrec-folder": str(tmp_path / str(index))} if has_folder else {})

    grid = grid_of({**SMALL, **STEPS}, {node: config(at) for at, node in enumerate(NODE_IDS)})
    grid.on(NODE_IDS[1], Step.SHARE_KEYS, Fault.RESTARTED, round=3)
    assert over_flower(grid).smallest == NODES - 1
    held = grid.state(NODE_IDS[1]).array_records["privrec.own"]
    if not has_folder:
        assert not held
        return
    mine = np.arange(USERS) % NODES == 1
    expected = in_one_process("steps").learner_.state["users"]
    assert np.array_equal(held["users"].numpy()[mine], expected[mine])


# What it keeps.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training whose nodes have ratings of their own, and its nodes' folders."""
    folder = tmp_path_factory.mktemp("own")
    _own_data(folder)
    return folder


def _own_data(folder: Path, **more: Any) -> None:
    found = resolve(SET)
    (folder / "items.txt").write_text("\n".join(found.item_ids) + "\n")
    triples = found.triples
    configs = {}
    for index, node in enumerate(NODE_IDS):
        lines = ["user,item,rating"]
        for user, item, value in zip(triples.users, triples.items, triples.values, strict=True):
            if user % NODES == index:
                lines.append(f"{found.user_ids[user]},{found.item_ids[item]},{value}")
        path = folder / f"ratings{index}.csv"
        path.write_text("\n".join(lines) + "\n")
        configs[node] = {
            "privrec-data": str(path),
            "privrec-folder": str(folder / f"node{index}"),
            "secagg-state": str(folder / f"marks{index}"),
        }
    run = {name: value for name, value in SMALL.items() if name not in ("data", "seed")}
    run |= {
        "catalogue": str(folder / "items.txt"),
        "lowest": found.low,
        "highest": found.high,
        "node-users": 20,
        "node-ratings": 400,
        "out": str(folder / "model"),
        **more,
    }
    over_flower(grid_of(run, configs))


def test_nodes_with_ratings_of_their_own_train_and_recommend(saved: Path, run: Run) -> None:
    told = run("recommend", "--model", str(saved / "node1"), "--user", "u1", "-k", "3", "--json")
    assert told.code == 0, told.err
    assert len(told.json["rows"]) == 3
    stranger = run("recommend", "--model", str(saved / "node1"), "--user", "u2")
    assert stranger.code == 2
    assert "'u2' was not in the training data of 15 users" in stranger.err


def test_the_recommender_keeps_a_model_of_no_user(saved: Path, run: Run) -> None:
    model = load_rating_model(saved / "model")
    assert len(model.files.user_ids) == 0
    assert len(model.files.item_ids) == ITEMS
    predicted = model.predict([("anybody", model.files.item_ids[0])])
    rows = model.files.arrays
    expected = rows["mean"][0] + rows["items"][0, -1]
    assert predicted.value[0] == pytest.approx(np.clip(expected, 1, 5))
    assert not predicted.known_user[0]
    told = run("recommend", "--model", str(saved / "model"), "--user", "u1")
    assert told.code == 2
    assert "'u1' was not in the training data of 0 users" in told.err


def test_folders_of_nodes_are_for_their_owners_alone(saved: Path) -> None:
    assert (saved / "node0").stat().st_mode & 0o777 == 0o700
    assert (saved / "node0" / "node.npz").stat().st_mode & 0o777 == 0o600


def test_what_it_writes_says_what_was_released(saved: Path) -> None:
    ledger = json.loads((saved / "model" / "public" / "ledger.json").read_text())
    figures = json.loads((saved / "model" / "public" / "metrics.json").read_text())
    assert ledger["headline"] == "no differential privacy: epsilon = infinity"
    assert figures["epochs"] == SMALL["epochs"]
    assert figures["users"] == USERS
    assert figures["model_digest"] == load_rating_model(saved / "model").model_digest
    assert [release["what"][:20] for release in ledger["releases"]] == [
        "sum of the gradients",
        "number of users and ",
        "sums of squared erro",
        "which nodes are conn",
        "ratings, embeddings,",
    ]


def test_a_folder_with_something_else_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("here")
    with pytest.raises(ParameterError, match="holds no model of ratings"):
        over_flower(grid_of({**SMALL, "out": str(tmp_path)}))


# What it refuses.


def test_a_seed_is_refused_where_nodes_have_ratings_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(AbortError, match="3 rounds in a row"):
        _own_data(tmp_path, seed=0)
    plain = Plain(SMALL)
    plain.configs[0] = {"privrec-data": str(tmp_path / "ratings0.csv")}
    with pytest.raises(PrivacyRefusal, match="every coin of a node"):
        plain.found(0, {}, Task(node_users=USERS, node_ratings=999))


def test_small_batches_are_refused() -> None:
    with pytest.raises(PrivacyRefusal, match="a batch of 10 users is below the minimum of 16"):
        Plain({**SMALL, "cohort": 10}).server().train()


@pytest.mark.parametrize(
    ("what", "task"),
    [
        ("users", Task(counts=True, node_users=3, node_ratings=999)),
        ("ratings", Task(counts=True, node_users=USERS, node_ratings=3)),
    ],
)
def test_a_node_beyond_what_was_announced_takes_no_part(what: str, task: Task) -> None:
    with pytest.raises(ParameterError, match=f"more {what} than the 3 that were announced"):
        Plain(SMALL).found(0, {}, task)


def test_noise_costs_what_it_costs_in_one_process() -> None:
    for way in ("sums-noise", "uploads-noise-pseudo"):
        settings = Plain({**SMALL, **WAYS[way]}).settings
        config = settings.train
        found = build_ledger(
            trained(way)[0],
            config,
            secagg_config(settings),
            encoding_of(config, USERS).mechanism,
            layout_of(config, ITEMS).size,
        )
        expected = build_rating_ledger(in_one_process(way))
        assert found.seeded
        assert found.headline == expected.headline
        assert found.cost is not None
        assert expected.cost is not None
        assert found.cost.coordinate == expected.cost.coordinate
    whole = found.releases[0]
    assert math.isinf(whole.epsilon_user)
    assert NOISE["clip"] * 2 / NOISE["laplace"] == pytest.approx(whole.epsilon_unit)
