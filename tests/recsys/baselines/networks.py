"""The networks among the baselines, and what they are tried on besides ``low_rank``."""

from typing import Any

import numpy as np
import torch

from recsys.baselines._network_learner import NetworkLearner, parameters
from recsys.baselines._torch import NO_DROPOUT
from recsys.baselines.gcmc import GCMC
from recsys.baselines.ngcf import NGCF
from recsys.baselines.pinsage import PinSage
from recsys.baselines.srgcnn import SRGCNN
from recsys.data.ratings import Graph, RatingParts
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.search import START
from tests.recsys.baselines.cases import USERS
from tests.recsys.rating_worlds import world

NETWORKS: dict[str, tuple[type[RatingModel], dict[str, Any]]] = {
    "gcmc": (GCMC, {"dim": 24, "dropout": 0.3}),
    "srgcnn": (SRGCNN, {"dim": 2, "penalty": 0.02, "learning_rate": 0.01, "epochs": 12}),
    "pinsage": (PinSage, {"dim": 8, "penalty": 0.02, "learning_rate": 0.03}),
    "ngcf": (NGCF, {"dim": 8, "penalty": 0.1, "learning_rate": 0.02}),
}
"""The models, and what they learn ``low_rank`` by."""

PRODUCTS = tuple(name for name in NETWORKS if name != "gcmc")
"""Those whose ratings are mean + biases + product."""

ROWS = [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 4.0), (1, 2, 2.0), (2, 1, 3.0), (2, 2, 5.0), (3, 3, 1.0)]
SIZES = 5, 6
"""Users and items of ``few``; user 4 and items 4 and 5 have no rating."""


def config(name: str, **changes: Any) -> RatingConfig:
    """Settings of a network: its own, then those of ``NETWORKS``, then ``changes``."""
    own = {"seed": 0, "model": name, **START[name]}
    return RatingConfig(**{**own, **NETWORKS[name][1], **changes})


def network(name: str, **changes: Any) -> RatingModel:
    """The untrained model."""
    return NETWORKS[name][0](config(name, **changes))


def few() -> RatingParts:
    """Seven ratings."""
    users, items = SIZES
    return world(ROWS, test=[], users=users, items=items)


def like_minded() -> Graph:
    """Each user of ``low_rank`` with the three whose tastes are nearest to hers."""
    tastes = np.random.default_rng(7).normal(size=(USERS, 2))
    gaps = ((tastes[:, np.newaxis] - tastes) ** 2).sum(axis=2) + 1e9 * np.eye(USERS)
    near = np.argsort(gaps, axis=1)[:, :3].astype(np.int32)
    return Graph(np.repeat(np.arange(USERS, dtype=np.int32), 3), near.reshape(-1))


def everyone() -> tuple[Any, Any]:
    """Users and items of all pairs of ``few``."""
    users, items = (part.reshape(-1).astype(np.int32) for part in np.indices(SIZES))
    return users, items


def wide(arrays: dict[str, Any], seed: int = 1) -> dict[str, torch.Tensor]:
    """Parameters of these shapes far from zero, float64, with gradients."""
    rng = np.random.default_rng(seed)
    return {
        name: torch.from_numpy(rng.standard_normal(array.shape)).requires_grad_()
        for name, array in arrays.items()
    }


def check_gradients(learner: NetworkLearner) -> None:
    """Of the objective on all ratings of ``few``, against differences; AssertionError if not."""
    values = wide(parameters(learner.state.arrays))
    rows = np.arange(len(ROWS))

    def objective(*inputs: torch.Tensor) -> torch.Tensor:
        return learner.objective(dict(zip(values, inputs, strict=True)), rows, NO_DROPOUT)[0]

    used = torch.autograd.grad(
        objective(*values.values()), list(values.values()), allow_unused=True
    )
    free = [x for x, slope in zip(values.values(), used, strict=True) if slope is None]
    for x in free:
        x.requires_grad_(False)
    # Along a random direction: there are thousands of parameters.
    assert torch.autograd.gradcheck(objective, tuple(values.values()), fast_mode=True)
