"""NGCF: messages over three hops of the graph of users and items, with products of both ends.

Source: Wang, He, Wang, Feng and Chua, "Neural graph collaborative filtering" (SIGIR 2019),
    equations 7 to 9, and message dropout.
Model: the recommender holds all ratings.
Differs: squared error of ratings, with biases, instead of a ranking loss; the graph is that of the
    training ratings, whatever their values. The penalty weighs on the embeddings at the start, as
    often as they are rated, and not on the weights; dropout falls on what a layer puts out. Every
    step takes all edges.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import leaky_relu

from recsys.baselines._network_learner import Schedule, check_dim
from recsys.baselines._product_head import (
    ProductLearner,
    ProductNetwork,
    ProductScorer,
    first_biases,
    rating_tables,
)
from recsys.baselines._torch import Dropout, Values, glorot
from recsys.data.ratings import Floats, Indices, RatingParts
from recsys.models.graphs import Sparse, propagate
from recsys.models.rating_factors import first_rows
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.training import Arrays

HOPS = 3
SLOPE = 0.2
"""Of the activation below zero."""

SCHEDULE = Schedule(rate=0.01, penalty=1.0, batches=20)


class Propagation(ProductNetwork):
    """Rows of all layers side by side; who has no rating has zeros, and sends nothing.

    Node u is user u, and node n_users + i is item i.
    """

    def __init__(self, tables: Mapping[str, NDArray[Any]]) -> None:
        self.tables = dict(tables)
        self._users, items = (int(size) for size in tables["sizes"])
        nodes = self._users + items
        rows, columns = tables["users"], self._users + tables["items"]
        degree = np.bincount(np.append(rows, columns), minlength=nodes)
        weights = 1 / np.sqrt(degree[rows] * degree[columns])
        ends = np.append(rows, columns), np.append(columns, rows)
        self._graph = Sparse.of(*ends, np.tile(weights, 2), (nodes, nodes))

    def represent(self, values: Values, drop: Dropout) -> tuple[Tensor, Tensor]:
        """Equation 7 for every hop, then equation 9."""
        layers = [torch.cat([values["users"], values["items"]])]
        for hop in range(HOPS):
            own = layers[-1]
            near = propagate(self._graph, own)
            sums = (own + near) @ values["sums"][hop] + (own * near) @ values["products"][hop]
            layers.append(drop(leaky_relu(sums, SLOPE)))
        rows = torch.cat(layers, dim=1)
        return rows[: self._users], rows[self._users :]

    def penalty(
        self, values: Values, rows: tuple[Tensor, Tensor], shares: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Mean over the ratings of both embeddings' squared norms."""
        users, items = (values[name].square().sum(dim=1) for name in ("users", "items"))
        return shares[0] @ users + shares[1] @ items


def first_parameters(parts: RatingParts, config: RatingConfig, sim: SimulationRng) -> Arrays:
    """Embeddings of users and items, (., d), and both weights of each hop, (hops, d, d)."""
    dim, train = check_dim(config), parts.train

    def embeddings(name: str, rated: Indices, size: int) -> Floats:
        return first_rows(name, rated, size, dim, config.init_scale, sim)[:, :dim]

    return {
        "users": embeddings("users", train.users, parts.n_users),
        "items": embeddings("items", train.items, parts.n_items),
        "sums": glorot(sim, "sums", HOPS, dim, dim),
        "products": glorot(sim, "products", HOPS, dim, dim),
    }


class NGCF(RatingModel):
    """``NGCF(RatingConfig(model="ngcf", **START["ngcf"])).fit(ratings)``."""

    models = ("ngcf",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> ProductLearner:
        return ProductLearner(
            parts,
            self.config,
            sim,
            Propagation(rating_tables(parts)),
            SCHEDULE,
            trained=first_parameters(parts, self.config, sim),
            start=first_biases(parts, self.config),
        )

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> ProductScorer:
        return ProductScorer(Propagation(tables))
