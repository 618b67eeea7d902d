"""FedGNN trained over a grid of nodes in this process, and by ``recsys.fedgnn`` in one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from recsys.data.rating_catalogue import find_ratings
from recsys.data.ratings import Floats
from recsys.fedgnn import FedGNN
from recsys.flower.fedgnn import client_app, figures_of, run_training
from recsys.flower.fedgnn_node import FedGNNNode, Found
from recsys.flower.fedgnn_server import FedGNNServer, Trained
from recsys.flower.fedgnn_settings import FedGNNSettings
from recsys.flower.fedgnn_task import Catalogue, Task
from recsys.flower.node_memory import NodeMemory
from recsys.flower.rounds import Total
from recsys.training import Arrays
from secagg.flower import Policy, SecAggMod
from tests.support.flower_grid import LocalGrid, node_id

SET = "synthetic-ratings:60x30,per_user=12"
USERS, ITEMS = 60, 30
NODES = 4

SMALL: dict[str, Any] = {
    "data": SET,
    "nodes": 3,
    "grace": 0.01,
    "seed": 0,
    "dim": 4,
    "epochs": 2,
    "cohort": 1000,
    "penalty": 2.0,
    "bias-penalty": 2.0,
    "learning-rate": 0.03,
}
"""Everybody in one batch, as in a cohort of ``recsys.fedgnn`` that nobody fills."""

NOISE: dict[str, Any] = {"clip": 0.1, "laplace": 0.05}

STEPS: dict[str, Any] = {
    "gnn": "gat",
    "user-fit": "steps",
    "optimizer": "sgd",
    "dropout": 0.2,
    "learning-rate": 0.3,
}

WAYS: Mapping[str, dict[str, Any]] = {
    "sums": {},
    "sums-noise": NOISE,
    "uploads-noise-pseudo": {"aggregate": "clear", "pseudo": 5, **NOISE},
    "steps": STEPS,
    "biases": {"dim": 0},
}


def app() -> Any:
    return client_app(mods=[SecAggMod(Policy())])


def wary_app() -> Any:
    """Of nodes that take part in the malicious variant alone."""
    return client_app(mods=[SecAggMod(Policy(variant="malicious"))])


def grid_of(run: Mapping[str, Any], nodes: int | Mapping[int, Any] = NODES) -> LocalGrid:
    return LocalGrid(app, nodes, run_config=dict(run))


def over_flower(grid: LocalGrid) -> Trained:
    return run_training(grid, FedGNNSettings.read(grid.run_config))


@cache
def trained(way: str) -> tuple[Trained, LocalGrid]:
    """A training that no test changes."""
    grid = grid_of({**SMALL, **WAYS[way]})
    return over_flower(grid), grid


@cache
def in_one_process(way: str) -> FedGNN:
    """The same by ``recsys.fedgnn``, each user's noise drawn by herself there too."""
    config = FedGNNSettings.read({**SMALL, **WAYS[way]}).train
    return FedGNN(replace(config, secagg="pads")).fit(find_ratings(SET).load())


class Plain:
    """Nodes without Flower and without secrets: ``ask`` of ``FedGNNServer`` by plain sums.

    gone: by number of the round, from 0, the nodes that are not in its sum; None for no sum at all.
    """

    def __init__(
        self,
        run: Mapping[str, Any],
        nodes: int = NODES,
        gone: Mapping[int, tuple[int, ...] | None] | None = None,
    ) -> None:
        self.settings = FedGNNSettings.read(run)
        self.catalogue = catalogue()
        self.memories = [NodeMemory(bytes([node]) * 32, {}, None) for node in range(nodes)]
        self.configs: list[dict[str, Any]] = [
            {"partition-id": node, "num-partitions": nodes} for node in range(nodes)
        ]
        self.gone = gone or {}
        self.tasks: list[Task] = []

    def found(self, node: int, arrays: Mapping[str, Floats], task: Task) -> Found:
        copies: Arrays = {name: array.copy() for name, array in arrays.items()}
        one = FedGNNNode(
            self.settings, task, self.catalogue, self.configs[node], self.memories[node]
        )
        return one.answer(copies)

    def ask(self, arrays: Mapping[str, Floats], task: Task) -> Total | None:
        gone = self.gone.get(len(self.tasks), ())
        self.tasks.append(task)
        found = [self.found(node, arrays, task) for node in range(len(self.configs))]
        if gone is None:
            return None
        there = [one for node, one in enumerate(found) if node not in gone]
        summed = {name: np.sum([one.arrays[name] for one in there], axis=0) for name in arrays}
        names = figures_of(self.settings.train, task, self.catalogue).most
        figures = {name: sum(one.figures[name] for one in there) for name in names}
        return Total(len(there), len(found), summed, figures)

    def server(self) -> FedGNNServer:
        task = Task(node_users=USERS, node_ratings=USERS * ITEMS)
        return FedGNNServer(self.settings.train, self.catalogue, self.ask, task)


def catalogue() -> Catalogue:
    found = find_ratings(SET).load()
    return Catalogue(tuple(found.item_ids), found.low, found.high)


NODE_IDS = [node_id(index) for index in range(NODES)]
