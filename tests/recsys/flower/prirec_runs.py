"""PriRec trained over a grid of nodes in this process, and by ``recsys.prirec`` in one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Error, Message
from numpy.typing import NDArray

from recsys.data.catalogue import resolve
from recsys.data.prepare import Prepared, prepare
from recsys.features import assemble
from recsys.flower.prirec import OUR_ARRAYS, client_app, run_training
from recsys.flower.prirec_messages import Exchange, Table
from recsys.flower.prirec_records import content_of, read_content, unpack_table
from recsys.flower.prirec_server import Trained
from recsys.flower.prirec_settings import PriRecSettings
from recsys.models.fm import Floats
from recsys.prirec import PriRecLearner
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from secagg.flower import Policy, SecAggMod
from tests.recsys.worlds import seeded_coins
from tests.support.flower_grid import NODE_UNAVAILABLE, Deliver, LocalGrid, node_id

SET = "synthetic-city:64x40,pois_per_user=10"
NODES = 8
NODE_IDS = [node_id(index) for index in range(NODES)]

SMALL: dict[str, Any] = {
    "data": SET,
    "nodes": 3,
    "seed": 0,
    "epochs": 3,
    "neighbours": 8,
    "network": "random",
}

WAYS: Mapping[str, dict[str, Any]] = {
    "one-round": {},
    "three-rounds": {"rounds": 3, "epochs": 2},
    "homes": {"network": "geographic", "weights": "exponential", "neighbours": 4},
    "three-counts": {"dynamic": "three", "epochs": 2, "epsilon": 4.0},
    "average": {"dynamic": "average", "epochs": 2},
    "static": {"model": "prirec-", "epochs": 2},
    "unmixed": {"neighbours": 0, "epochs": 2},
    "wide": {"ring-bits": 64, "frac-bits": 24, "epochs": 2},
}


def app() -> Any:
    return client_app(mods=[SecAggMod(Policy())])


def grid_of(run: Mapping[str, Any], nodes: int | Mapping[int, Any] = NODES) -> LocalGrid:
    return LocalGrid(app, nodes, run_config=dict(run))


def over_flower(grid: LocalGrid) -> Trained:
    return run_training(grid, PriRecSettings.read(grid.run_config))


# Who stands between the grid and its nodes.

Query = Callable[[int, str, Message, Deliver], Message | None]
"""(index of the node, name of the trip, message, what runs the node) -> what comes back."""


def between(grid: LocalGrid, query: Query) -> None:
    """Let ``query`` handle every trip that is no secure sum."""

    def handler(index: int) -> Callable[[Message, Deliver], Message | None]:
        def handle(message: Message, deliver: Deliver) -> Message | None:
            return query(index, message.metadata.message_type.partition(".")[2], message, deliver)

        return handle

    for index, node in enumerate(NODE_IDS):
        if node in grid.configs:
            grid.on(node, None, handler(index))


def unfinished(index: int, trip: str, message: Message, deliver: Deliver) -> Message | None:
    """The last trip reaches nobody, so that nodes still hold what they had."""
    return unreached(message) if trip == "finish" else deliver(message)


def unreached(message: Message) -> Message:
    """What the SuperLink says at once of a node that is not there."""
    return Message(Error(NODE_UNAVAILABLE, "not there"), reply_to=message)


def exchange_in(message: Message) -> tuple[Exchange, Table]:
    """What an exchange asks."""
    data, told = read_content(message.content)
    return Exchange.from_bytes(data), told


def with_arrays(message: Message, told: Table) -> Message:
    """The same message with other arrays; in place, for a grid that delivers copies."""
    data, _ = read_content(message.content)
    message.content = content_of(data, told)
    return message


def held(grid: LocalGrid, index: int) -> Table:
    """The arrays of a node, if it has not finished."""
    record = grid.state(NODE_IDS[index])[OUR_ARRAYS]
    assert isinstance(record, ArrayRecord)
    return unpack_table(record["all"].data)


def models(grid: LocalGrid) -> Floats:
    """Everybody's linear models by number, (users, D + 1)."""
    arrays = [held(grid, index) for index in range(len(grid.configs))]
    ids = np.concatenate([a["ids"] for a in arrays])
    w: Floats = np.concatenate([a["w"] for a in arrays])[np.argsort(ids)]
    return w


# The same in one process.


@dataclass(frozen=True)
class Faults:
    """gone: by aggregation round, nodes that are not in its sum.  silent: by epoch, nodes that its
    exchange does not reach.  unheard: by epoch, (sender, receiver) of letters that do not arrive.
    """

    gone: Mapping[int, tuple[int, ...]]
    silent: Mapping[int, tuple[int, ...]]
    unheard: Mapping[int, tuple[tuple[int, int], ...]]

    @classmethod
    def none(cls) -> "Faults":
        return cls({}, {}, {})


class Reference(PriRecLearner):
    """``recsys.prirec`` with the faults of nodes: user u is on node u modulo their number."""

    faults = Faults.none()
    nodes = NODES
    _epoch = 0

    def epoch(self, number: int) -> float:
        self._epoch = number
        return super().epoch(number)

    def _mix(self, receivers: NDArray[np.int32]) -> Floats:
        mixed = super()._mix(receivers)
        kept = [user for user in receivers.tolist() if self._keeps(user)]
        mixed[kept] = self.state["w"][kept]
        return mixed

    def _keeps(self, user: int) -> bool:
        home, epoch = user % self.nodes, self._epoch
        senders = set((self.network.neighbours[user] % self.nodes).tolist()) - {home}
        if 0 < len(senders) < 3 or home in self.faults.silent.get(epoch, ()):
            return True
        missing = set(self.faults.silent.get(epoch - 1, ()))
        missing |= {a for a, b in self.faults.unheard.get(epoch, ()) if b == home}
        return bool(epoch) and bool(senders & missing)

    def gone(self, cohort: int, round_: int) -> NDArray[np.intp]:
        nodes = self.faults.gone.get(round_, ())
        return np.flatnonzero(np.isin(self.cohorts[cohort] % self.nodes, nodes))


def in_one_process(
    run: Mapping[str, Any], faults: Faults | None = None, nodes: int = NODES
) -> Reference:
    """Trained, all users in one cohort."""
    settings = PriRecSettings.read(run)
    config = replace(settings.train, mode="simulate", cohort=10**6)
    sim, prepared = SimulationRng(config.seed or 0), prepared_of(run)
    features = assemble(prepared, config, sim, lambda *asked: seeded_coins(sim, *asked))
    learner = Reference(prepared, features, config, sim, MemoryRun())
    learner.faults = faults or Faults.none()
    learner.nodes = nodes
    learner.sums._drop_outs = learner  # type: ignore[assignment]
    for epoch in range(config.epochs):
        learner.epoch(epoch)
    return learner


@cache
def trained(way: str) -> tuple[Trained, LocalGrid]:
    """A training that no test changes; its nodes have not finished."""
    grid = grid_of({**SMALL, **WAYS[way]})
    between(grid, unfinished)
    return over_flower(grid), grid


@cache
def expected(way: str) -> Reference:
    return in_one_process({**SMALL, **WAYS[way]})


def prepared_of(run: Mapping[str, Any]) -> Prepared:
    """All users' data."""
    settings = PriRecSettings.read(run)
    sim = SimulationRng(settings.train.seed or 0)
    return prepare(resolve(settings.data), settings.train.prepare, sim)
