"""Settings of the FedGNN app and the tasks of its rounds: what they take and refuse."""

from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.errors import DataError
from recsys.flower.federation import secagg_config
from recsys.flower.fedgnn import catalogue_of
from recsys.flower.fedgnn_node import batch_members
from recsys.flower.fedgnn_settings import FedGNNSettings
from recsys.flower.fedgnn_task import Catalogue, Task
from recsys.simulation import SimulationRng
from tests.recsys.flower.fedgnn_runs import ITEMS, SET, USERS


def test_names_are_those_of_the_command_with_either_dash() -> None:
    found = FedGNNSettings.read(
        {"learning-rate": 0.5, "min_cohort": 20, "train-deadline": 30, "nodes": 5}
    )
    assert (found.train.learning_rate, found.train.min_cohort) == (0.5, 20)
    assert (found.train_deadline, found.nodes) == (30.0, 5)


def test_a_preset_stands_below_what_is_given_and_none_switches_off() -> None:
    noisy = FedGNNSettings.read({"preset": "default-ldp", "epochs": 3}).train
    assert (noisy.aggregate, noisy.clip, noisy.epochs, noisy.pseudo) == ("clear", 0.1, 3, 1000)
    quiet = FedGNNSettings.read({"preset": "default-ldp", "laplace": "none", "clip": "none"}).train
    assert (quiet.laplace, quiet.clip) == (None, None)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"rounds": 3}, "unknown setting 'rounds'"),
        ({"model": "pmf"}, "this app trains fedgnn"),
        ({"preset": "paper"}, "neighbours must be none"),
        ({"neighbours": "trainable"}, "neighbours must be none"),
        ({"mode": "simulate"}, "mode has no meaning"),
        ({"secagg": "pads"}, "secagg has no meaning"),
        ({"drop-rate": 0.1}, "drop_rate has no meaning"),
        ({"ring-bits": 40}, "ring_bits has no meaning"),
        ({"nodes": 2}, "nodes must"),
        ({"nodes": "5"}, "nodes must be a whole number"),
        ({"out": 3}, "out must be text"),
        ({"wait": True}, "wait must be a number"),
        ({"epochs": 0}, "epochs must"),
        ({"catalogue": "items.txt"}, "lowest below highest"),
        ({"catalogue": "items.txt", "lowest": 1, "highest": 5}, "node-users and node-ratings"),
        ({"pseudo": 5}, "pseudo must be 0 with aggregate secure"),
    ],
)
def test_settings_without_a_meaning_are_refused(run: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        FedGNNSettings.read(run)


def test_settings_of_secagg_are_checked_there() -> None:
    config = secagg_config(FedGNNSettings.read({"nodes": 7, "corrupt": 0.2, "grace": 3}))
    assert (config.min_clients, config.corrupt, config.grace) == (7, 0.2, 3.0)
    assert secagg_config(FedGNNSettings.read({})).grace is None
    for run, problem in (
        ({"variant": "malicious"}, "roster and operator"),
        ({"operator": "xyz"}, "hexadecimal digits"),
        ({"dropout": 0.9, "corrupt": 0.2}, "must be less than 1"),
    ):
        with pytest.raises(ParameterError, match=problem):
            secagg_config(FedGNNSettings.read(run))


def test_the_catalogue_is_that_of_the_set_and_its_bounds_hold_for_any_partition() -> None:
    catalogue, users, ratings = catalogue_of(FedGNNSettings.read({"data": SET, "nodes": 7}))
    assert len(catalogue.items) == ITEMS
    assert (catalogue.low, catalogue.high) == (1.0, 5.0)
    assert users == -(-USERS // 7)
    assert users <= ratings <= users * ITEMS
    with pytest.raises(DataError, match="looked at 'nowhere'"):
        catalogue_of(FedGNNSettings.read({"data": "nowhere"}))
    mine = {"catalogue": "no.txt", "lowest": 1, "highest": 5, "node-users": 1, "node-ratings": 9}
    with pytest.raises(DataError, match="an item id in each line"):
        catalogue_of(FedGNNSettings.read(mine))


def test_a_task_comes_back_from_plain_values() -> None:
    catalogue = Catalogue(("a", "b"), 1.0, 5.0)
    task = Task(3.5, 2, 1, 4, True, "validation", 2, 1, False, 7, 99)
    assert Task.from_dict(task.to_dict(catalogue)) == (task, catalogue)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 4},
        {"epoch": -1},
        {"held_out": "all"},
        {"batches": 0},
        {"items": ["a", "a"]},
        {"low": 5.0},
        {"more": 1},
        {"items": None},
    ],
)
def test_what_is_no_task_is_refused(changes: dict[str, Any]) -> None:
    values = Task(batches=4).to_dict(Catalogue(("a", "b"), 1.0, 5.0))
    with pytest.raises(ParameterError):
        Task.from_dict({**values, **changes})


@pytest.mark.parametrize("size", [0, 1, 2, 5, 17])
def test_over_all_batches_every_user_of_a_node_computes_once(size: int) -> None:
    sim = SimulationRng(5)
    active = np.arange(3, 3 + 2 * size, 2, dtype=np.int32)
    parts = [batch_members(active, batch, 4, sim) for batch in range(4)]
    assert sorted(np.concatenate(parts)) == list(active)
    assert all((np.diff(part) > 0).all() for part in parts)
    sizes = [part.size for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_nodes_of_one_user_are_spread_over_the_batches() -> None:
    sim = SimulationRng(5)
    found = [
        [batch_members(np.array([user], dtype=np.int32), b, 4, sim).size for b in range(4)]
        for user in range(400)
    ]
    assert np.array(found).sum(axis=0).min() > 60  # of 100 expected: below 10^-6 for a fair coin
