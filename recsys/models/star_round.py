"""One round on the devices of FedGNN's users, in chunks that any process can work on.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1, line 8.
Model: a local computation of each user. A chunk is told what is public and what its own members
    hold, and says what they send and how their own rows moved.
Error: none beside double precision. Other chunks may round the last bits of a gradient otherwise,
    so the configuration says how large they are.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recsys.baselines._torch import one_thread
from recsys.models.star_devices import Devices, Dropout
from recsys.models.star_model import ClientGradients, Inputs, StarModel, client_gradients
from recsys.ratings.aggregate_part import Adder
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Gradients, PartSum
from recsys.training import Arrays

PUBLIC = ("mean", "items", "weights")
"""Arrays that every device is sent."""

_PROBED = 8
"""Users whose gradients a probe looks at."""


@dataclass(frozen=True, eq=False)
class StarShared:
    """What a worker keeps for the whole training: everybody's ratings, and the settings.

    adder: adds up a chunk's uploads where they were made; None where the sum needs each of them.
    """

    config: RatingConfig
    devices: Devices = field(repr=False)
    dropout: Dropout | None
    adder: Adder | None

    def probe(self) -> bytes:
        """See ``recsys.engine.Shared``: some users' gradients by made-up parameters."""
        devices, model = self.devices, self.devices.model
        members = devices.active[:_PROBED]
        n_items = int(devices.ratings.items.max(initial=-1)) + 1
        weights = sum(int(np.prod(shape)) for shape in model.shapes().values())
        shapes = {"items": (n_items, model.dim + 1), "weights": (weights,)}
        arrays: Arrays = {name: _made_up(*shape) for name, shape in shapes.items()}
        arrays["mean"] = np.array([devices.ratings.values.mean()])
        with one_thread():
            inputs = devices.inputs(members, arrays)
            sent = devices.upload(members, _gradients(self.config, model, inputs))
        return hashlib.sha256(sent.rows.tobytes() + sent.weights.tobytes()).digest()


@dataclass(frozen=True, eq=False)
class StarChunk:
    """Some members of a cohort in a round.

    members: int32 (c,), rising.  absent: those of them who drop out of the sum.  round: the epoch.
    own: the rows that they hold, by name of the state's array, in their order.
    """

    members: NDArray[np.int32]
    absent: NDArray[np.int32]
    round: int
    own: Arrays = field(repr=False)


@dataclass(frozen=True, eq=False)
class StarPart:
    """What came of a chunk.

    moved: those of the members' rows that the round changes.  squares: the sum of their squared
    errors.  uploads, added: what each of them sends, or the sum of it where there is an adder.
    """

    moved: Arrays = field(repr=False)
    squares: float
    uploads: Gradients | None = field(default=None, repr=False)
    added: PartSum | None = field(default=None, repr=False)


def star_round(shared: StarShared, public: Arrays, chunk: StarChunk) -> StarPart:
    """The round of a chunk's members. public: the arrays of ``PUBLIC`` as they are now."""
    own = {name: rows.copy() for name, rows in chunk.own.items()}
    # PyTorch takes no arrays that it must not write to, as they may be in a worker.
    arrays = {**public, **own, "weights": public["weights"].copy()}
    config, places = shared.config, np.arange(chunk.members.size)
    sent, squares = client_round(
        config, shared.devices, chunk.members, arrays, shared.dropout, chunk.round, places
    )
    moving = ("users", "neighbours") if config.neighbours == "trainable" else ("users",)
    moved = {name: rows for name, rows in own.items() if name in moving}
    if shared.adder is None:
        return StarPart(moved, squares, uploads=sent)
    added = shared.adder.add(chunk.round, sent.without(chunk.absent))
    return StarPart(moved, squares, added=added)


def client_round(
    config: RatingConfig,
    devices: Devices,
    members: NDArray[np.int32],
    arrays: Arrays,
    dropout: Dropout | None,
    epoch: int,
    places: NDArray[np.intp] | None = None,
) -> tuple[Gradients, float]:
    """Line 8 on the devices of ``members``: what they upload, and the sum of their squared errors.

    Reads ``mean``, ``items`` and ``weights``, and changes in place what never leaves the devices.
    places: the members' rows in what they hold; by default rows are of all users.
    """
    model = devices.model
    with one_thread():
        inputs = devices.inputs(members, arrays, dropout, epoch, places)
        found = _gradients(config, model, inputs)
        upload = devices.upload(members, found)
        local_step(config, model, members if places is None else places, arrays, inputs, found)
    return upload, float(found.errors.square().sum())


def local_step(
    config: RatingConfig,
    model: StarModel,
    places: NDArray[np.signedinteger[Any]],
    arrays: Arrays,
    inputs: Inputs,
    found: ClientGradients,
) -> None:
    """What never leaves the devices moves there: rows of ``users`` and ``neighbours``, in place."""
    rates = local_rates(config, model, inputs)
    if "users" in arrays:
        biases = found.user_biases if config.bias else torch.zeros_like(found.user_biases)
        if config.reduction == "sum":
            # A sum of many errors would carry the bias beyond their mean.
            biases = biases / inputs.rated.sizes
        steps = torch.cat([rates * found.users, config.user_rate * biases.unsqueeze(1)], dim=1)
        arrays["users"][places] -= steps.numpy()
    if config.neighbours == "trainable":
        given = arrays["neighbours"][places]
        there = np.arange(given.shape[1]) < arrays["neighbour_counts"][places, np.newaxis]
        given[there] -= (rates[inputs.met.owners] * found.neighbours).numpy()
        arrays["neighbours"][places] = given


def local_rates(config: RatingConfig, model: StarModel, inputs: Inputs) -> Tensor:
    """Each client's step for her embedding, (c, 1): ``user_rate``, or less where that is unsafe.

    A step beyond the inverse of its curvature may raise a squared loss; the curvature of a product
    with vectors is at most the sum of their squares.
    """
    rates = torch.full_like(inputs.user_biases, config.user_rate)
    if config.loss == "squared":
        with torch.no_grad():
            curvature = inputs.rated.sum(model.rated(inputs).square().sum(1))
        if config.reduction == "mean":
            curvature = curvature / inputs.rated.sizes
        rates = torch.minimum(rates, 1 / curvature.clamp(min=1e-9))
    return rates.unsqueeze(1)


def _gradients(config: RatingConfig, model: StarModel, inputs: Inputs) -> ClientGradients:
    absolute, mean = config.loss == "absolute", config.reduction == "mean"
    return client_gradients(model, inputs, absolute=absolute, mean=mean)


def _made_up(*shape: int) -> NDArray[np.float64]:
    return 0.1 * np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape)
