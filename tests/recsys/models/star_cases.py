"""Stars of a few clients with arbitrary numbers, for the batched model and for the plain one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recsys.models.star import REAL, Groups
from recsys.models.star_model import RIDGE, ClientGradients, Inputs, StarModel
from recsys.ratings.config import RatingConfig
from tests.recsys.models.star_reference import Client, Reference

DIM = 3

SIZES = (1, 4, 2, 7, 1)
"""Items of each client: ragged, and single ones at both ends."""

NEIGHBOURS = (0, 2, 3, 0, 1)
"""Neighbours of each."""

NETWORKS = ("gcn", "gat", "ggnn")

WAYS: tuple[dict[str, Any], ...] = (
    {"user_fit": "solve"},
    {"user_fit": "steps"},
    {"user_fit": "steps", "rating_edges": True},
)
"""How a user comes to her embedding, and what her edges carry."""


def normal(seed: int, *shape: int) -> Tensor:
    """Numbers that are the same in every run."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(REAL)


def groups_of(sizes: Sequence[int]) -> Groups:
    return Groups(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def model_of(gnn: str, **changes: Any) -> StarModel:
    return StarModel.of(RatingConfig(**{"gnn": gnn, "dim": DIM, **changes}))


def reference_of(gnn: str, model: StarModel) -> Reference:
    name = gnn if model.network else None
    return Reference(name, model.residual, model.bias, model.solve, model.carries, RIDGE[1])


def some_inputs(
    model: StarModel,
    seed: int = 0,
    *,
    sizes: Sequence[int] = SIZES,
    met: Sequence[int] = NEIGHBOURS,
    masked: bool = False,
) -> Inputs:
    """Inputs of as many clients as there are sizes, of which no number is special."""
    clients, items, dim = len(sizes), sum(sizes), model.dim
    met = met if model.met else (0,) * clients
    weights = {
        name: (0.5 * normal(seed + 10 + at, *shape)).expand(clients, *shape)
        for at, (name, shape) in enumerate(model.shapes().items())
    }
    no_users = torch.zeros((clients, dim), dtype=REAL)
    no_biases = torch.zeros(clients, dtype=REAL)
    return Inputs(
        ratings=normal(seed + 1, items),
        rated=groups_of(sizes),
        items=normal(seed + 2, items, dim),
        item_biases=normal(seed + 3, items),
        users=no_users if model.solve else normal(seed + 4, clients, dim),
        user_biases=no_biases if model.solve else normal(seed + 5, clients),
        neighbours=normal(seed + 6, sum(met), dim),
        met=groups_of(met),
        weights=weights,
        item_masks=_dropped(seed + 7, items, dim) if masked else None,
        user_masks=_dropped(seed + 8, clients, dim) if masked else None,
    )


def _dropped(seed: int, rows: int, dim: int) -> Tensor:
    """A third of the entries is left out."""
    kept = np.random.default_rng(seed).random((rows, dim)) > 1 / 3
    return torch.from_numpy(1.5 * kept).to(REAL)


def alone(inputs: Inputs, clients: Sequence[int]) -> Inputs:
    """The inputs of these clients, in this order."""
    rows = _rows(inputs.rated, clients)
    near = _rows(inputs.met, clients)
    at = list(clients)
    items, users = inputs.item_masks, inputs.user_masks
    return Inputs(
        ratings=inputs.ratings[rows],
        rated=groups_of([inputs.rated.cuts[k][1] - inputs.rated.cuts[k][0] for k in at]),
        items=inputs.items[rows],
        item_biases=inputs.item_biases[rows],
        users=inputs.users[at],
        user_biases=inputs.user_biases[at],
        neighbours=inputs.neighbours[near],
        met=groups_of([inputs.met.cuts[k][1] - inputs.met.cuts[k][0] for k in at]),
        weights={name: weights[at] for name, weights in inputs.weights.items()},
        item_masks=None if items is None else items[rows],
        user_masks=None if users is None else users[at],
    )


def gradients_of(found: ClientGradients, inputs: Inputs, clients: Sequence[int]) -> list[Tensor]:
    """All that ``found`` has of these clients, in this order."""
    rows, near, at = _rows(inputs.rated, clients), _rows(inputs.met, clients), list(clients)
    return [
        found.errors[rows],
        found.items[rows],
        found.item_biases[rows],
        found.users[at],
        found.user_biases[at],
        found.neighbours[near],
        *(weights[at] for weights in found.weights.values()),
    ]


def _rows(groups: Groups, clients: Sequence[int]) -> list[int]:
    return [row for k in clients for row in range(*groups.cuts[k])]


def client_of(inputs: Inputs, k: int) -> Client:
    """The k-th client's own inputs, which autograd follows."""
    mine, met = slice(*inputs.rated.cuts[k]), slice(*inputs.met.cuts[k])
    items, users = inputs.item_masks, inputs.user_masks

    def leaf(x: Tensor) -> Tensor:
        return x.detach().clone().requires_grad_()

    return Client(
        ratings=inputs.ratings[mine],
        items=leaf(inputs.items[mine]),
        item_biases=leaf(inputs.item_biases[mine]),
        user=leaf(inputs.users[k]),
        user_bias=leaf(inputs.user_biases[k]),
        neighbours=leaf(inputs.neighbours[met]),
        weights={name: leaf(w[k]) for name, w in inputs.weights.items()},
        item_masks=torch.ones_like(inputs.items[mine]) if items is None else items[mine],
        user_mask=torch.ones_like(inputs.users[k]) if users is None else users[k],
    )


def loss_of(errors: Tensor, *, absolute: bool, mean: bool) -> Tensor:
    losses = errors.abs() if absolute else errors**2 / 2
    return losses.mean() if mean else losses.sum()


def gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad
