"""PinSage: items described by the items around them, by two convolutions over random walks.

Source: Ying, He, Chen, Eksombatchai, Hamilton and Leskovec, "Graph convolutional neural networks
    for web-scale recommender systems" (KDD 2018), algorithms 1 and 2: importance pooling and
    normalised layers, two hops, and two dense layers last.
Model: the recommender holds all ratings.
Differs: no content, so that an item's features are an embedding of its own; with ``residual`` it
    is added to what the layers put out, which is then normalised once more. Users have embeddings,
    ratings have biases, and the loss is the squared error instead of a ranking's margin. The
    neighbours are drawn once; every step takes all items. The penalty weighs on the users alone,
    as often as they rate: an item's row has norm 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, relu

from recsys.baselines._network_learner import Schedule, check_dim
from recsys.baselines._product_head import (
    ProductLearner,
    ProductNetwork,
    ProductScorer,
    first_biases,
)
from recsys.baselines._torch import Dropout, Values, glorot
from recsys.data.ratings import RatingParts
from recsys.models.graphs import Sparse, propagate
from recsys.models.rating_factors import first_rows
from recsys.models.walks import visited_most
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.training import Arrays

HOPS = 2
NEIGHBOURS = 50
SCHEDULE = Schedule(rate=0.01, penalty=0.3, batches=20)


class Convolution(ProductNetwork):
    """Items by their neighbours; users by their embeddings.

    tables: ``source``, ``target`` and ``weight`` of the neighbours, ``rated`` (n_items,), whether
    an item has a rating, and ``residual`` (1,).
    """

    def __init__(self, tables: Mapping[str, NDArray[Any]]) -> None:
        self.tables = dict(tables)
        items = tables["rated"].size
        edges = tables["source"], tables["target"]
        self._graph = Sparse.of(*edges, tables["weight"], (items, items))
        self._rated = torch.from_numpy(tables["rated"].astype(np.float32))[:, None]
        self._residual = bool(tables["residual"][0])

    def represent(self, values: Values, drop: Dropout) -> tuple[Tensor, Tensor]:
        """Algorithm 1 for every item and hop, then the dense layers of algorithm 2."""
        x = values["items"]
        for hop in range(HOPS):
            messages = relu(drop(x) @ values["near"][hop] + values["near_bias"][hop])
            both = torch.cat([x, propagate(self._graph, messages)], dim=1)
            x = normalize(relu(both @ values["merge"][hop] + values["merge_bias"][hop]), dim=1)
        x = relu(drop(x) @ values["dense"] + values["dense_bias"]) @ values["last"]
        if self._residual:
            x = x + values["items"]
        return values["users"], normalize(x, dim=1) * self._rated

    def penalty(
        self, values: Values, rows: tuple[Tensor, Tensor], shares: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Mean over the ratings of the user's squared norm."""
        return shares[0] @ values["users"].square().sum(dim=1)


def neighbour_tables(
    parts: RatingParts, config: RatingConfig, sim: SimulationRng
) -> dict[str, NDArray[Any]]:
    """What ``Convolution`` is made from."""
    sizes = parts.n_users, parts.n_items
    source, target, weight = visited_most(parts.train, sizes, NEIGHBOURS, sim)
    rated = np.bincount(parts.train.items, minlength=parts.n_items) > 0
    residual = np.array([config.residual])
    return {
        **{"source": source, "target": target, "weight": weight},
        **{"rated": rated, "residual": residual},
    }


def first_parameters(parts: RatingParts, config: RatingConfig, sim: SimulationRng) -> Arrays:
    """Embeddings (., d), and weights and biases of the layers by hop."""
    dim, train = check_dim(config), parts.train
    shape = dim, config.init_scale, sim
    users = first_rows("users", train.users, parts.n_users, *shape)
    items = first_rows("items", train.items, parts.n_items, *shape)
    return {
        "users": users[:, :dim],
        "items": items[:, :dim],
        "near": glorot(sim, "near", HOPS, dim, dim),
        "near_bias": np.zeros((HOPS, dim)),
        "merge": glorot(sim, "merge", HOPS, 2 * dim, dim),
        "merge_bias": np.zeros((HOPS, dim)),
        "dense": glorot(sim, "dense", dim, dim),
        "dense_bias": np.zeros(dim),
        "last": glorot(sim, "last", dim, dim),
    }


class PinSage(RatingModel):
    """``PinSage(RatingConfig(model="pinsage", **START["pinsage"])).fit(ratings)``."""

    models = ("pinsage",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> ProductLearner:
        network = Convolution(neighbour_tables(parts, self.config, sim))
        return ProductLearner(
            parts,
            self.config,
            sim,
            network,
            SCHEDULE,
            trained=first_parameters(parts, self.config, sim),
            start=first_biases(parts, self.config),
        )

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> ProductScorer:
        return ProductScorer(Convolution(tables))
