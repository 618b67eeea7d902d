"""The Flower app of the tests that run real processes, in simulation and deployment.

Each node moves the model half-way towards a vector of its own. The server trains as often as it is
told, and writes down the models and what became of each round. A node leaves a mark when it is
asked and when it has answered, and waits where it finds a hold: so a test can end a node at any
moment.

Run config: ``nodes``, ``rounds``, ``told`` (the file that the server writes), ``marks`` (a folder,
or empty), ``doubled`` (every message comes twice), and what ``SecAggConfig`` takes.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from secagg.flower import Policy, SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.records import read_request

SHAPES = {"matrix": (4, 5), "bias": (5,)}
CLIP = 8.0
LOSS = 4.0
"""The largest loss that is averaged."""

UNIT = 2.0**-16
"""Of a sum, by default: a mean is less than one off."""

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


def averaged(model: Mapping[str, NDArray[Any]], nodes: Sequence[int]) -> Model:
    """What FedAvg makes of the nodes' models, without any aggregation to be secure."""
    total = sum(map(weight, nodes))
    moved = {node: trained(model, node) for node in nodes}
    return {
        name: np.sum([weight(n) * moved[n][name] for n in nodes], axis=0) / total for name in SHAPES
    }


def averaged_loss(nodes: Sequence[int]) -> float:
    """The same for the metric that is averaged."""
    return sum(weight(node) * loss(node) for node in nodes) / sum(map(weight, nodes))


def largest_gap(models: Sequence[Mapping[str, Any]], rounds: Sequence[Sequence[int]]) -> float:
    """How far a run's models lie from FedAvg's, each compared with a step from the one before.

    rounds: the nodes whose updates are in each.
    """
    gaps = []
    for before, after, nodes in zip(models[:-1], models[1:], rounds, strict=True):
        wanted = averaged({name: np.array(value) for name, value in before.items()}, nodes)
        gaps += [np.abs(np.array(after[name]) - wanted[name]).max() for name in SHAPES]
    return float(max(gaps))


class Marks:
    """What happens at nodes, as small files in a folder that processes share.

    round: of the training, from 1.  moment: "asked", before a node looks at a request, or
    "answered", with its reply in hand.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, node: int, round: int, step: int, moment: str) -> Path:
        """The mark that a node leaves: the session in hexadecimal digits, and our own round."""
        return self.folder / f"{node}.{round}.{step:d}.{moment}"

    def hold(self, node: int, round: int, step: int, moment: str) -> Path:
        """As long as this file exists, the node waits there, once it has left its mark."""
        return self.at(node, round, step, f"{moment}.hold")

    def done(self, rounds: int) -> Path:
        """The mark that the server leaves once it has so many rounds."""
        return self.folder / f"server.{rounds}"

    def training_round(self) -> int:
        """The round that the server is in, for messages do not tell."""
        return max(int(path.suffix[1:]) for path in self.folder.glob("server.*[0-9]")) + 1

    def pause(self, rounds: int) -> Path:
        """As long as this file exists, the server waits there."""
        return self.folder / f"server.{rounds}.hold"

    def pass_by(self, node: int, round: int, step: int, moment: str, note: str) -> None:
        """A node is there."""
        mark = self.at(node, round, step, moment)
        # Whoever sees the mark is to see its note too.
        mark.with_suffix(".new").write_text(note)
        mark.with_suffix(".new").rename(mark)
        wait_while(self.hold(node, round, step, moment))


def wait_while(hold: Path) -> None:
    """Until a file is gone."""
    deadline = time.monotonic() + HOLD_SECONDS
    while hold.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody took {hold.name} away")
        time.sleep(0.02)


class MarkedApp(ClientApp):
    """An app whose nodes leave marks where the run config names a folder for them."""

    def __call__(self, message: Message, context: Context) -> Message:
        folder = context.run_config["marks"]
        if not folder or message.metadata.message_type != MessageType.TRAIN:
            return super().__call__(message, context)
        marks, request = Marks(Path(str(folder))), read_request(message.content)
        node, round = int(context.node_config["partition-id"]), marks.training_round()
        note = f"{request.session.hex()} {request.round}"
        marks.pass_by(node, round, request.step, "asked", note)
        reply = super().__call__(message, context)
        marks.pass_by(node, round, request.step, "answered", note)
        return reply


def train(message: Message, context: Context) -> Message:
    """A node's training."""
    node = int(context.node_config["partition-id"])
    arrays = message.content.array_records["arrays"]
    model = trained({name: array.numpy() for name, array in arrays.items()}, node)
    arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    metrics = MetricRecord({"num-examples": weight(node), "loss": loss(node), "shoe": 43.0})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


client_app = MarkedApp(mods=[SecAggMod(Policy())])
client_app.train()(train)

malicious_client_app = MarkedApp(mods=[SecAggMod(Policy(variant="malicious", durable=True))])
malicious_client_app.train()(train)


class DoublingGrid(Grid):
    """A SuperLink that hands every message over twice, and keeps what the second ones give."""

    def __init__(self, grid: Grid) -> None:
        self._inner = grid
        self._copies: list[str] = []
        self.codes: list[int] = []

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        given = list(messages)
        self.look()  # before Flower forgets them
        copies = [
            Message(
                RecordDict(dict(one.content)),
                dst_node_id=one.metadata.dst_node_id,
                message_type=one.metadata.message_type,
                ttl=one.metadata.ttl,
                group_id=one.metadata.group_id,
            )
            for one in given
        ]
        sent = list(self._inner.push_messages(given))
        self._copies += self._inner.push_messages(copies)
        return sent

    def look(self) -> None:
        """Take what has come back for copies so far."""
        for reply in self._inner.pull_messages(self._copies):
            self._copies.remove(reply.metadata.reply_to_message_id)
            self.codes.append(reply.error.code if reply.has_error() else 0)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._inner.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self._inner.send_and_receive(messages, timeout=timeout)

    def get_node_ids(self) -> Iterable[int]:
        return self._inner.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self._inner.get_nodes()

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        return self._inner.create_message(*arguments, **options)

    def set_run(self, run: Any) -> None:
        self._inner.set_run(run)

    @property
    def run(self) -> Any:
        return self._inner.run


server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    wait_for(grid, int(config["nodes"]))
    doubling = DoublingGrid(grid)
    transport = doubling if config["doubled"] else grid
    secure = SecureGrid(transport, config_of(config))
    models: list[dict[str, Any]] = []

    def keep(rounds: int, model: ArrayRecord) -> None:
        models.append({name: array.numpy().tolist() for name, array in model.items()})
        if config["marks"]:
            marks = Marks(Path(str(config["marks"])))
            marks.done(rounds).touch()
            wait_while(marks.pause(rounds))

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    result = strategy.start(
        grid=secure,
        initial_arrays=ArrayRecord(
            {name: Array(np.zeros(shape)) for name, shape in SHAPES.items()}
        ),
        num_rounds=int(config["rounds"]),
        evaluate_fn=keep,
    )
    doubling.look()
    told = {
        "models": models,
        "metrics": [dict(one) for one in result.train_metrics_clientapp.values()],
        "outcomes": [outcome(one) for one in secure.outcomes],
        "doubled": doubling.codes,
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
    malicious: dict[str, Any] = {}
    if config["variant"] == "malicious":
        operator = bytes.fromhex(str(config["operator"]))
        malicious |= {"roster": str(config["roster"]), "operator": operator}
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
        "survivors": len(one.survivors),
        "missing": [[gone.step, gone.reason] for gone in one.missing],
        "seconds": dict(one.seconds),
        "aborted": one.aborted,
    }
