"""The Flower app of the tests that run real processes, in simulation and deployment.

Each node moves the model half-way towards a vector of its own. The server trains as often as it is
told, through ``SecureGrid`` or not, and writes down the models and what became of each round. A node
leaves a mark when it is asked and when it has answered, and waits where it finds a hold: so a test
can end a node at any moment.

Run config: ``nodes``, ``rounds``, ``told`` (the file that the server writes), ``marks`` (a folder, or
empty), ``plain`` (without secure aggregation), and what ``SecAggConfig`` takes.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from mpc.core.errors import WireError
from secagg.flower import Policy, SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.records import read_request

SHAPES = {"matrix": (4, 5), "bias": (5,)}
CLIP = 8.0
LOSS = 4.0
"""The largest loss that is averaged."""

HOLD_SECONDS = 240.0
APPEAR_SECONDS = 60.0

Model = dict[str, NDArray[np.float64]]


def aim(node: int) -> Model:
    """The vector of a node, by its partition."""
    rng = np.random.default_rng(node)
    return {name: rng.uniform(-3, 3, shape) for name, shape in SHAPES.items()}


def weight(node: int) -> int:
    """A node's number of examples."""
    return 3 + 7 * node


def loss(node: int) -> float:
    return 0.25 * (node + 1)


def trained(model: Mapping[str, NDArray[Any]], node: int) -> Model:
    """The model after a node's training."""
    return {name: (model[name] + target) / 2 for name, target in aim(node).items()}


def averaged(model: Mapping[str, NDArray[Any]], nodes: list[int]) -> Model:
    """What FedAvg makes of the nodes' models, without any aggregation to be secure."""
    total = sum(map(weight, nodes))
    moved = {node: trained(model, node) for node in nodes}
    return {name: sum(weight(n) * moved[n][name] for n in nodes) / total for name in SHAPES}


class Marks:
    """What happens at nodes, as empty files in a folder that processes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, node: int, round: int, step: int, moment: str) -> Path:
        """The mark that a node leaves; moment: "asked" or "answered"."""
        return self.folder / f"{node}.{round}.{step}.{moment}"

    def hold(self, node: int, round: int, step: int, moment: str) -> None:
        """Have a node wait at a moment: before it looks at a request, or with its reply in hand."""
        self.path(node, round, step, f"{moment}.hold").touch()

    def pass_by(self, node: int, round: int, step: int, moment: str, note: bytes) -> None:
        """A node is at a moment; it goes on unless it is held."""
        self.path(node, round, step, moment).write_bytes(note)
        deadline = time.monotonic() + HOLD_SECONDS
        while self.path(node, round, step, f"{moment}.hold").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody ended this node")
            time.sleep(0.02)


class MarkedApp(ClientApp):
    """An app whose nodes leave marks, each with the name of the session."""

    def __call__(self, message: Message, context: Context) -> Message:
        folder = context.run_config["marks"]
        try:
            request = read_request(message.content)
        except WireError:
            return super().__call__(message, context)
        if not folder:
            return super().__call__(message, context)
        marks, node = Marks(Path(str(folder))), int(context.node_config["partition-id"])
        at = (node, request.round, request.step)
        marks.pass_by(*at, "asked", request.session)
        reply = super().__call__(message, context)
        marks.pass_by(*at, "answered", request.session)
        return reply


def train(message: Message, context: Context) -> Message:
    """A node's training."""
    node = int(context.node_config["partition-id"])
    arrays = message.content.array_records["arrays"]
    model = trained({name: array.numpy() for name, array in arrays.items()}, node)
    content = {
        "arrays": ArrayRecord({name: Array(value) for name, value in model.items()}),
        "metrics": MetricRecord({"num-examples": weight(node), "loss": loss(node), "shoe": 43.0}),
    }
    return Message(RecordDict(content), reply_to=message)


client_app = MarkedApp(mods=[SecAggMod(Policy())])
client_app.train()(train)

malicious_client_app = MarkedApp(mods=[SecAggMod(Policy(variant="malicious", durable=True))])
malicious_client_app.train()(train)

plain_client_app = ClientApp()
plain_client_app.train()(train)

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    wait_for(grid, int(config["nodes"]))
    secure = None if config["plain"] else SecureGrid(grid, config_of(config))
    models: list[dict[str, Any]] = []

    def keep(_: int, model: ArrayRecord) -> None:
        models.append({name: array.numpy().tolist() for name, array in model.items()})

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    start = time.monotonic()
    result = strategy.start(
        grid=secure or grid,
        initial_arrays=ArrayRecord(
            {name: Array(np.zeros(shape)) for name, shape in SHAPES.items()}
        ),
        num_rounds=int(config["rounds"]),
        evaluate_fn=keep,
    )
    metrics = {r: dict(record) for r, record in result.train_metrics_clientapp.items()}
    told = {
        "models": models,
        "metrics": metrics,
        "seconds": time.monotonic() - start,
        "nodes": sorted(grid.get_node_ids()),
        "outcomes": [] if secure is None else [outcome(one) for one in secure.outcomes],
    }
    Path(str(config["told"])).write_text(json.dumps(told))


def wait_for(grid: Grid, nodes: int) -> None:
    """Until so many nodes have appeared."""
    deadline = time.monotonic() + APPEAR_SECONDS
    while len(set(grid.get_node_ids())) < nodes:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{nodes} nodes did not appear")
        time.sleep(0.2)


def config_of(config: Mapping[str, Any]) -> SecAggConfig:
    """Of a run config, what it says about secure aggregation."""
    malicious = {}
    if config["variant"] == "malicious":
        operator = bytes.fromhex(str(config["operator"]))
        malicious = {"roster": str(config["roster"]), "operator": operator}
    return SecAggConfig(
        variant=config["variant"],
        dropout=float(config["dropout"]),
        corrupt=float(config["corrupt"]),
        clip=CLIP,
        max_weight=1_000,
        metrics={"loss": LOSS},
        deadline=float(config["deadline"]),
        train_deadline=float(config["deadline"]),
        **malicious,
    )


def outcome(one: Any) -> dict[str, Any]:
    """A round's outcome as JSON."""
    return {
        "round": one.round,
        "survivors": list(one.survivors),
        "missing": [[gone.step, gone.node, gone.reason] for gone in one.missing],
        "seconds": dict(one.seconds),
        "aborted": one.aborted,
    }


def run_config(folder: Path, **changes: Any) -> dict[str, Any]:
    """The run config of a test, with a folder of its own; ``changes`` by name, ``_`` for ``-``."""
    told = {"nodes": 3, "rounds": 2, "told": str(folder / "told.json"), "marks": "", "plain": False}
    secure = {"variant": "semi-honest", "dropout": 0.3, "corrupt": 0.1, "deadline": 60.0}
    return {**told, **secure, "roster": "", "operator": "", **changes}
