"""sRGCNN: factors of users and items that a recurrent network diffuses along two graphs.

Source: Monti, Bronstein and Bresson, "Geometric matrix completion with recurrent multi-graph neural
    networks" (NIPS 2017), section 3, the separable variant: Chebyshev filters of order 4 on the
    factors, an LSTM over the steps of the diffusion, and the Dirichlet energies of both factors.
Model: the recommender holds all ratings, and both graphs.
Differs: the factors begin with the largest singular vectors of what mean and biases leave, and the
    network at the identity. Five steps instead of ten; an LSTM with tanh, where the authors' code
    takes the sigmoid; both energies per row. Without neighbours the Laplacian is the identity, the
    filters a dense layer, and the energy a ridge. Who has no rating is described by her neighbours.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recsys.baselines._network_learner import Schedule, check_dim
from recsys.baselines._product_head import (
    ProductLearner,
    ProductNetwork,
    ProductScorer,
    first_biases,
)
from recsys.baselines._torch import Dropout, Values, glorot, one_thread
from recsys.data.ratings import Graph, RatingParts, Triples
from recsys.models.graphs import Sparse, chebyshev, propagate
from recsys.models.rating_factors import rating_matrix
from recsys.models.singular import singular_rows
from recsys.ratings.model import RatingModel
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.training import Arrays

ORDER = 5
"""Chebyshev polynomials, from degree 0."""

STEPS = 5
FEATURES = 32
SCHEDULE = Schedule(rate=0.003, penalty=0.2, passes=10)
ALONE = "no graph of {} came with the set: each is a node by itself"
_SIDES = ("users", "items")


class Diffusion(ProductNetwork):
    """tables: for either side ``factors`` (n, d) and ``edges`` (2, m), after its name."""

    def __init__(self, tables: Mapping[str, NDArray[Any]]) -> None:
        self.tables = dict(tables)
        self._factors, self._graphs, self._known = {}, {}, {}
        for side in _SIDES:
            factors, edges = tables[f"{side}.factors"], tables[f"{side}.edges"]
            self._factors[side] = torch.from_numpy(factors)
            graph = Sparse.shifted_laplacian(Graph(edges[0], edges[1]), len(factors))
            self._graphs[side] = graph
            known = factors.any(axis=1) | (np.diff(graph.matrix.indptr) > 0)
            self._known[side] = torch.from_numpy(known.astype(np.float32))[:, None]

    def represent(self, values: Values, drop: Dropout) -> tuple[Tensor, Tensor]:
        """The factors after ``STEPS`` steps."""
        return self._diffuse(values, drop, "users"), self._diffuse(values, drop, "items")

    def _diffuse(self, values: Values, drop: Dropout, side: str) -> Tensor:
        own = {name: values[f"{side}_{name}"] for name in _shapes(0)}
        graph, x = self._graphs[side], self._factors[side].to(own["step"].dtype)
        hidden = cell = x.new_zeros((x.shape[0], FEATURES))
        for _ in range(STEPS):
            terms = chebyshev(graph, x, ORDER)
            features = torch.relu(terms @ own["filter"] + own["filter_bias"])
            gates = torch.cat([drop(features), hidden], dim=1) @ own["gates"] + own["gates_bias"]
            forget, write, show, new = torch.split(gates, FEATURES, dim=1)
            cell = forget.sigmoid() * cell + write.sigmoid() * new.tanh()
            hidden = show.sigmoid() * cell.tanh()
            x = x + torch.tanh(cell @ own["step"] + own["step_bias"])
        return x * self._known[side]

    def penalty(
        self, values: Values, rows: tuple[Tensor, Tensor], shares: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Both Dirichlet energies, x' L x, for a mean row."""
        graphs = zip(self._graphs.values(), rows, strict=True)
        return torch.stack([(x * (x + propagate(g, x))).sum() / len(x) for g, x in graphs]).sum()


def _shapes(dim: int) -> dict[str, tuple[int, ...]]:
    return {
        "filter": (ORDER * dim, FEATURES),
        "filter_bias": (FEATURES,),
        "gates": (2 * FEATURES, 4 * FEATURES),
        "gates_bias": (4 * FEATURES,),
        "step": (FEATURES, dim),
        "step_bias": (dim,),
    }


def first_parameters(dim: int, sim: SimulationRng) -> Arrays:
    """Of both sides; what makes a step starts with zeros."""
    trained: Arrays = {}
    for side in _SIDES:
        for name, shape in _shapes(dim).items():
            key = f"{side}_{name}"
            drawn = name in ("filter", "gates")
            trained[key] = glorot(sim, key, *shape) if drawn else np.zeros(shape)
    return trained


def first_tables(
    parts: RatingParts, dim: int, start: Arrays, sim: SimulationRng
) -> dict[str, NDArray[Any]]:
    """What ``Diffusion`` is made from: the factors of what ``start`` does not explain."""
    train = parts.train
    known = start["mean"] + start["user_bias"][train.users] + start["item_bias"][train.items]
    rest = Triples(train.users, train.items, train.values - known)
    matrix = rating_matrix(rest, parts.n_users, parts.n_items)
    tables: dict[str, NDArray[Any]] = {}
    graphs = parts.user_graph, parts.item_graph
    for side, factors, graph in zip(_SIDES, singular_rows(matrix, dim, sim), graphs, strict=True):
        ends = [graph.source, graph.target] if graph else []
        tables[f"{side}.factors"] = factors
        tables[f"{side}.edges"] = np.array(ends, dtype=np.int32).reshape(2, -1)
    return tables


class SRGCNN(RatingModel):
    """``SRGCNN(RatingConfig(model="srgcnn", **START["srgcnn"])).fit(ratings)``."""

    models = ("srgcnn",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> ProductLearner:
        dim, start = check_dim(self.config), first_biases(parts, self.config)
        graphs = zip(_SIDES, (parts.user_graph, parts.item_graph), strict=True)
        with one_thread():
            network = Diffusion(first_tables(parts, dim, start, sim))
        return ProductLearner(
            parts,
            self.config,
            sim,
            network,
            SCHEDULE,
            trained=first_parameters(dim, sim),
            start=start,
            notes=tuple(ALONE.format(side) for side, graph in graphs if graph is None),
        )

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> ProductScorer:
        return ProductScorer(Diffusion(tables))
