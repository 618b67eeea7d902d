"""Flower's quickstart with FedAvg, in numpy: clients fit one linear model to data of their own.

The loss is quadratic and steps are short, so two models that differ a little do not move apart:
what secure aggregation adds in a round is still there after the next ones, and no more than that.
"""

from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from tests.secagg.flower.by_hand import arrays

FEATURES, OUTPUTS, LOCAL_STEPS, RATE = 6, 3, 4, 0.1

Model = dict[str, NDArray[Any]]

INITIAL: Model = {
    "weight": np.zeros((FEATURES, OUTPUTS), np.float32),
    "bias": np.zeros(OUTPUTS, np.float64),
    "scale": np.ones((), np.float32),
    "steps": np.zeros((), np.int64),
}
"""Arrays of several shapes and dtypes; "steps" counts, as the layers of some networks do."""

FLOATS = ("weight", "bias", "scale")


def data(partition: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """A client's examples: as many as it is large, around one truth and a shift of its own."""
    rng = np.random.default_rng(partition)
    x = rng.uniform(-1, 1, (examples(partition), FEATURES))
    truth = np.arange(FEATURES * OUTPUTS).reshape(FEATURES, OUTPUTS) / 10
    return x, x @ truth + 0.1 * partition + rng.normal(0, 0.05, (len(x), OUTPUTS))


def examples(partition: int) -> int:
    return 12 + 5 * partition


def fit(model: Model, partition: int) -> tuple[Model, float]:
    """Some steps of gradient descent; the model in its own dtypes, and the loss before them."""
    x, y = data(partition)
    weight, bias, scale = (model[name].astype(np.float64) for name in FLOATS)
    losses = []
    for _ in range(LOCAL_STEPS):
        gap = x @ weight + bias - y
        losses.append(float((gap**2).mean()))
        weight = weight - RATE * x.T @ gap / len(x)
        bias = bias - RATE * gap.mean(axis=0)
        scale = scale - RATE * (scale - 0.5)
    moved = {"weight": weight, "bias": bias, "scale": scale, "steps": model["steps"] + LOCAL_STEPS}
    return {k: np.asarray(moved[k]).astype(INITIAL[k].dtype) for k in INITIAL}, losses[0]


# The message API.


def train(message: Message, ctx: Context) -> Message:
    model = {name: array.numpy() for name, array in message.content.array_records["arrays"].items()}
    partition = int(ctx.node_config["partition-id"])
    moved, loss = fit(model, partition)
    metrics = MetricRecord({"num-examples": examples(partition), "loss": loss, "own": partition})
    return Message(RecordDict({"arrays": arrays(moved), "metrics": metrics}), reply_to=message)


def evaluate(message: Message, ctx: Context) -> Message:
    model = {name: array.numpy() for name, array in message.content.array_records["arrays"].items()}
    partition = int(ctx.node_config["partition-id"])
    x, y = data(partition)
    loss = float(((x @ model["weight"] + model["bias"] - y) ** 2).mean())
    metrics = MetricRecord({"num-examples": examples(partition), "loss": loss})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def app(*mods: Any) -> ClientApp:
    made = ClientApp(mods=list(mods))
    made.train()(train)
    made.evaluate()(evaluate)
    return made


def initial() -> ArrayRecord:
    return arrays(INITIAL)


# The legacy API, whose arrays have no names.

ORDER = tuple(INITIAL)


class LegacyClient(NumPyClient):
    """The same client."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def fit(self, parameters: list[NDArray[Any]], config: object) -> Any:
        moved, loss = fit(dict(zip(ORDER, parameters, strict=True)), self.partition)
        return [moved[name] for name in ORDER], examples(self.partition), {"loss": loss}

    def evaluate(self, parameters: list[NDArray[Any]], config: object) -> Any:
        x, y = data(self.partition)
        loss = float(((x @ parameters[0] + parameters[1] - y) ** 2).mean())
        return loss, examples(self.partition), {}


def client_fn(context: Context) -> Client:
    return LegacyClient(int(context.node_config["partition-id"])).to_client()


def legacy_app(*mods: Any) -> ClientApp:
    return ClientApp(client_fn=client_fn, mods=list(mods))
