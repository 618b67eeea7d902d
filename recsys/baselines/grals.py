"""GRALS: matrix factorization whose users and items are smooth along graphs.

Source: Rao, Yu, Ravikumar and Dhillon, "Collaborative filtering with graph information: consistency
    and scalable methods" (NIPS 2015): alternating minimisation, each half by conjugate gradients.
Model: the recommender holds all ratings, and both graphs.
Differs: rows carry a bias, which the graphs smooth too (``bias`` False leaves it out), and ratings
    are centred. The ridge and a normalised Laplacian, ``GRAPH`` times as heavy, share one penalty.
    Where a set has no graph for a side, its half of the minimisation is ridge regression: the
    paper's with the identity for a Laplacian.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recsys.data.ratings import Floats, Graph, RatingParts, Triples
from recsys.models.graph_ridge import laplacian, smooth_ridge
from recsys.models.rating_factors import (
    FactorScorer,
    centre,
    first_rows,
    normal_equations,
    predicted,
    rating_matrix,
    ridge,
    ridge_penalty,
)
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

PENALTY = 5.0
GRAPH = 1.0
"""Weight of the Laplacian, as a multiple of the penalty."""


@dataclass(frozen=True)
class _Side:
    """Users or items. rows, others: names of their arrays.  smooth: the weighted Laplacian."""

    rows: str
    others: str
    ratings: "csr_array[np.float64]"
    smooth: "csr_array[np.float64] | None"


class GRALSLearner:
    """An epoch solves for all users, then for all items.

    notes: one sentence for each side without a graph.
    """

    def __init__(self, parts: RatingParts, config: RatingConfig, sim: SimulationRng) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = FactorScorer()
        self._penalty = ridge_penalty(config, PENALTY)
        self._bias = config.bias
        self._train = train = parts.train
        users, items = parts.n_users, parts.n_items
        mean = centre(train, config.center)
        shape = config.dim, config.init_scale, sim
        self.state = State.start(
            {
                "mean": mean,
                "users": np.zeros((users, config.dim + 1)),
                "items": first_rows("items", train.items, items, *shape),
            }
        )
        centred = Triples(train.users, train.items, train.values - mean)
        ratings = rating_matrix(centred, users, items)
        self._sides = (
            _Side("users", "items", ratings, self._smooth(parts.user_graph, users)),
            _Side("items", "users", csr_array(ratings.T), self._smooth(parts.item_graph, items)),
        )
        self.notes = tuple(
            f"no graph of {side.rows} came with the set: their half is ridge regression"
            for side in self._sides
            if side.smooth is None
        )

    def epoch(self, number: int) -> float:
        """One alternation; the mean squared error after it."""
        state, train = self.state, self._train
        for side in self._sides:
            with self.clock.step(side.rows):
                state[side.rows][...] = self._solved(side)
        rows = state["users"][train.users], state["items"][train.items]
        errors = train.values - state["mean"] - predicted(*rows)
        return float(np.mean(errors**2))

    def _solved(self, side: _Side) -> Floats:
        others = self.state[side.others]
        if side.smooth is None:
            return ridge(side.ratings, others, self._penalty, bias=self._bias)
        grams, right = normal_equations(side.ratings, others, bias=self._bias)
        own = np.arange(grams.shape[1])
        grams[:, own, own] += self._penalty
        return smooth_ridge(grams, right, side.smooth, self.state[side.rows])

    def _smooth(self, graph: Graph | None, size: int) -> "csr_array[np.float64] | None":
        if graph is None:
            return None
        return self._penalty * GRAPH * laplacian(graph, size)


class GRALS(RatingModel):
    """``GRALS(RatingConfig(model="grals")).fit(ratings)``: what was published as a graph helps."""

    models = ("grals",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> GRALSLearner:
        return GRALSLearner(parts, self.config, sim)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> FactorScorer:
        return FactorScorer()
