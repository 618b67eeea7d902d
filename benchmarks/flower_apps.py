"""Two Flower apps for ``benchmarks.flower_secagg``: under Flower's SecAgg+ and under ours.

Each client holds a fixed vector and a weight, and the model is their weighted mean. Run by

    python -m benchmarks.flower_apps SIDE CLIENTS DIM ROUNDS

in a process of its own, which simulates all clients over Ray and prints one line of JSON. Only that
process loads Flower.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from numpy.typing import NDArray

from secagg.flower import SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.records import RECORD
from secagg.full.messages import Step

CLIP = 8.0
WEIGHTS = 4
"""Clients' weights are 1 to this, in turn."""

STEPS = {
    "setup": "advertise keys",
    "share_keys": "share keys",
    "collect_masked_vectors": "masked vectors",
    "unmask": "unmask",
    Step.ADVERTISE_KEYS: "advertise keys",
    Step.SHARE_KEYS: "share keys",
    Step.MASKED_INPUT: "masked vectors",
    Step.UNMASKING: "unmask",
}
"""What the steps are called here, of Flower's stages and of ours."""

Array = NDArray[np.float32]


def vector(client: int, dim: int) -> Array:
    """A client's vector, entries in [-1, 1]."""
    return np.random.default_rng(client).uniform(-1, 1, dim).astype(np.float32)


def weight(client: int) -> int:
    return 1 + client % WEIGHTS


def threshold(clients: int) -> int:
    """Shares that give a secret back, on both sides: more than two thirds."""
    return 2 * clients // 3 + 1


class Watched:
    """What happens at the server in each round: seconds of each exchange, and its own work.

    An exchange lasts from the first message that leaves to the last reply that comes. The server's
    own work is all other time of the round (for it may use several threads), and of the exchanges
    the processor time of its thread outside of Flower's grid (for it may work while it waits).
    """

    def __init__(self) -> None:
        self.rounds: list[dict[str, Any]] = []
        self.models: list[NDArray[Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._steps: dict[str, list[float]] = {}
        self._step = ""
        self._start = time.perf_counter()
        self._meanwhile = self._outside = 0.0

    def round_ends(self, model: NDArray[Any]) -> None:
        """A strategy has the model of a round, or the first one."""
        seconds = time.perf_counter() - self._start
        steps = {name: end - start for name, (start, end) in self._steps.items()}
        server = seconds - sum(steps.values()) + self._meanwhile
        self.rounds.append({"steps": steps, "server": server, "round": seconds})
        self.models.append(model)
        self._begin()

    def leave(self, step: str) -> None:
        """Messages of a step leave."""
        self._step, now = step, time.perf_counter()
        self._steps.setdefault(step, [now, now])
        self._outside = time.thread_time()

    def come(self) -> None:
        """Replies have come."""
        self._steps[self._step][1] = time.perf_counter()
        self._pause()
        self._outside = time.thread_time()

    @contextmanager
    def in_grid(self) -> Iterator[None]:
        """Flower's grid is at work, or waits."""
        self._pause()
        yield
        self._outside = time.thread_time()

    def _pause(self) -> None:
        self._meanwhile += time.thread_time() - self._outside


class WatchedGrid(Grid):
    """A grid that notes when messages leave and replies come."""

    def __init__(self, grid: Grid, watched: Watched) -> None:
        self._inner, self._watched = grid, watched

    def set_run(self, run: Any) -> None:
        self._inner.set_run(run)

    @property
    def run(self) -> Any:
        return self._inner.run

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        return self._inner.create_message(*arguments, **options)

    def get_node_ids(self) -> Iterable[int]:
        return self._inner.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self._inner.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        self._watched.leave(step_of(sent[0].content))
        with self._watched.in_grid():
            return self._inner.push_messages(sent)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        with self._watched.in_grid():
            replies = list(self._inner.pull_messages(message_ids))
        if replies:
            self._watched.come()
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        sent = list(messages)
        if not sent:  # nobody is asked to evaluate
            return []
        self._watched.leave(step_of(sent[0].content))
        with self._watched.in_grid():
            replies = list(self._inner.send_and_receive(sent, timeout=timeout))
        self._watched.come()
        return replies


def step_of(content: RecordDict) -> str:
    """The step that a message belongs to."""
    for name, key in ((RECORD_KEY_CONFIGS, Key.STAGE), (RECORD, "step")):
        record = content.get(name)
        if isinstance(record, ConfigRecord):
            found: Any = record[key]
            return STEPS.get(found, str(found))
    raise SystemExit("a message of no protocol")


class FlowerClient(NumPyClient):
    """The legacy form of a client."""

    def __init__(self, client: int) -> None:
        self.client = client

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> tuple[list[Any], int, Any]:
        return [vector(self.client, parameters[0].size)], weight(self.client), {}


def flower_sides(clients: int, dim: int, rounds: int, watched: Watched) -> tuple[Any, Any]:
    """Apps under Flower's SecAgg+, as its manual has them: the legacy API and a complete graph."""

    def client_fn(context: Context) -> Any:
        return FlowerClient(int(context.node_config["partition-id"])).to_client()

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        def evaluate(_: int, model: list[Any], __: Any) -> None:
            watched.round_ends(model[0])

        strategy = LegacyFedAvg(
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            initial_parameters=ndarrays_to_parameters([np.zeros(dim, np.float32)]),
            evaluate_fn=evaluate,
        )
        legacy = LegacyContext(context, ServerConfig(num_rounds=rounds), strategy)
        workflow = SecAggPlusWorkflow(
            1.0, threshold(clients), max_weight=float(WEIGHTS), clipping_range=CLIP
        )
        DefaultWorkflow(fit_workflow=workflow)(WatchedGrid(grid, watched), legacy)

    return server, ClientApp(client_fn=client_fn, mods=[secaggplus_mod])


def our_sides(clients: int, dim: int, rounds: int, watched: Watched) -> tuple[Any, Any]:
    """Apps under ours: the message API, the same threshold, a complete graph."""
    client = ClientApp(mods=[SecAggMod()])

    @client.train()
    def train(message: Message, context: Context) -> Message:
        mine = int(context.node_config["partition-id"])
        arrays = ArrayRecord([vector(mine, dim)])
        metrics = MetricRecord({"num-examples": weight(mine)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        def evaluate(_: int, model: ArrayRecord) -> None:
            watched.round_ends(model.to_numpy_ndarrays()[0])

        config = SecAggConfig(threshold=threshold(clients), clip=CLIP, max_weight=WEIGHTS)
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients
        )
        strategy.start(
            grid=SecureGrid(WatchedGrid(grid, watched), config),
            initial_arrays=ArrayRecord([np.zeros(dim, np.float32)]),
            num_rounds=rounds,
            evaluate_fn=evaluate,
        )

    return server, client


SIDES = {"flower": flower_sides, "ours": our_sides}


def main(side: str, clients: int, dim: int, rounds: int) -> None:
    """Simulate, check the model of every round, print what the rounds took."""
    watched = Watched()
    server_app, client_app = SIDES[side](clients, dim, rounds, watched)
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 2, "include_dashboard": False},
        },
    )
    weights = np.array([weight(client) for client in range(clients)], float)
    mean = sum(w * vector(c, dim).astype(float) for c, w in enumerate(weights)) / weights.sum()
    errors = [float(np.abs(model - mean).max()) for model in watched.models[1:]]
    print(json.dumps({"rounds": watched.rounds[1:], "errors": errors}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
