"""PMF: users and items as normal vectors whose products are the ratings, without biases.

Source: Mnih and Salakhutdinov, "Probabilistic matrix factorization" (NIPS 2007), equations 1 to 4:
    the maximum of the posterior is the least sum of squared errors and squared norms.
Model: the recommender holds all ratings.
Differs: ratings less their mean instead of their logistic image. Mini-batches without momentum,
    of as many ratings as there are users, so that a batch seldom holds two of one user, with
    factors that start near zero: from a start as large as the factors in the end, what was noise
    at first never leaves those directions that the ratings say little about. A rating brings its
    penalty with it, so that a row is pulled to zero as often as it occurs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import RatingParts
from recsys.models.rating_factors import FactorScorer, centre, first_rows
from recsys.models.rows import RowSums
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

LEARNING_RATE = 0.02
PENALTY = 0.08


class PMFLearner:
    """Stochastic gradient descent on half the squared error, and half the penalties."""

    def __init__(self, parts: RatingParts, config: RatingConfig, sim: SimulationRng) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = FactorScorer()
        self._config = config
        self._rate = LEARNING_RATE if config.learning_rate is None else config.learning_rate
        self._penalty = PENALTY if config.penalty is None else config.penalty
        self._train = train = parts.train
        self._batch = parts.n_users
        self._sim = sim
        shape = config.dim, config.init_scale, sim
        self.state = State.start(
            {
                "mean": centre(train, config.center),
                "users": first_rows("users", train.users, parts.n_users, *shape),
                "items": first_rows("items", train.items, parts.n_items, *shape),
            }
        )

    def epoch(self, number: int) -> float:
        """One pass over all ratings in random order."""
        train = self._train
        rate = self._rate * self._config.decay**number
        total = 0.0
        with self.clock.step("gradients"):
            order = self._sim.order("order", train.users, train.items, number)
            for start in range(0, order.size, self._batch):
                total += self._step(order[start : start + self._batch], rate)
        return total / len(train)

    def _step(self, part: NDArray[np.intp], rate: float) -> float:
        """One step by the gradients of a batch; the sum of its squared errors before it."""
        train, state, d = self._train, self.state, self._config.dim
        users, items = train.users[part], train.items[part]
        # The last column, of biases, stays zero.
        p, q = state["users"][:, :d], state["items"][:, :d]
        pu, qi = p[users], q[items]
        errors = train.values[part] - state["mean"][0] - np.einsum("nd,nd->n", pu, qi)
        of_users = errors[:, np.newaxis] * qi - self._penalty * pu
        of_items = errors[:, np.newaxis] * pu - self._penalty * qi
        RowSums(users).add(p, rate * of_users)
        RowSums(items).add(q, rate * of_items)
        return float(errors @ errors)


class PMF(RatingModel):
    """``PMF(RatingConfig(model="pmf", **START["pmf"])).fit(ratings)``."""

    models = ("pmf",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> PMFLearner:
        return PMFLearner(parts, self.config, sim)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> FactorScorer:
        return FactorScorer()
