"""FCF: federated collaborative filtering, where item gradients travel in the clear.

Source: Ammad-ud-din et al., "Federated collaborative filtering for privacy-preserving personalized
    recommendation system" (arXiv:1901.09888, 2019), algorithm 1: devices as in
    ``recsys.models.devices``, Adam on the server.
Model: the recommender is honest but curious and sees every upload. Ratings stay on the devices, as
    far as that goes: see Leaks.
Leaks: to the recommender, in each round, which items a user rated, and for each of them the vector
    -error * (her factors, 1). Its last entry is the error, the rest gives her factors, and her bias
    is the sum of the errors divided by the penalty: so he reads her ratings off a single upload.
    ``clip`` and ``laplace`` put noise on it, as in ``recsys.ratings.aggregate_clear``. The mean
    rating leaks as in ``recsys.ratings.aggregate_mean``.
Error: gradients are rounded to 2^-frac_bits without bias, and cut at ``bound``.
Differs: explicit ratings, less their mean, instead of weighted clicks, so that only rated items
    have a gradient; biases (``bias`` False leaves them out). A round has one cohort, not all users.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from recsys.batches import draw_cohorts
from recsys.data.ratings import RatingParts, Triples
from recsys.models.adam import adam_step
from recsys.models.devices import Devices
from recsys.models.rating_factors import (
    FactorScorer,
    first_rows,
    rating_matrix,
    ridge_penalty,
)
from recsys.ratings.aggregate import Aggregation, open_aggregation
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Floats
from recsys.ratings.model import RatingModel
from recsys.ratings.pseudo import pseudo_keys
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

LEARNING_RATE = 0.01
PENALTY = 8.0


class FCFLearner:
    """Rounds of cohorts: every member solves for herself, then the server moves the items."""

    private: tuple[str, ...] = ("users",)

    def __init__(
        self, parts: RatingParts, config: RatingConfig, sim: SimulationRng, run: Run
    ) -> None:
        if config.pseudo:
            raise ParameterError(
                f"{config.model} uploads no pseudo-interacted items, got pseudo {config.pseudo}",
                remedy="leave pseudo out, or train fedgnn",
            )
        self.clock = Stopwatch()
        self.traffic = LocalNetwork()
        self.scorer: RatingScorer = FactorScorer()
        self._config = config
        self._rate = LEARNING_RATE if config.learning_rate is None else config.learning_rate
        self._penalty = ridge_penalty(config, PENALTY)
        self._sim = sim
        self._train = train = parts.train
        # Who rated nothing has no device that takes part.
        self._active = np.unique(train.users)
        self._cohorts = [
            self._active[part] for part in draw_cohorts(self._active.size, config.cohort, sim)
        ]
        self.aggregation = self._aggregation(parts, run)
        shape = parts.n_items, config.dim, config.init_scale, sim
        items = first_rows("items", train.items, *shape)
        users = np.zeros((parts.n_users, config.dim + 1))
        moments = {name: np.zeros_like(items) for name in ("first_moment", "second_moment")}
        mean = np.array([self._mean(parts.n_users)])
        self.state = State.start(
            {"mean": mean, "users": users, "items": items, **moments}, private=self.private
        )
        centred = Triples(train.users, train.items, train.values - mean)
        ratings = rating_matrix(centred, parts.n_users, parts.n_items)
        self.devices = Devices(ratings, users, items, self._penalty, config.bias)

    def epoch(self, number: int) -> float:
        """Every cohort once, in random order; then all users solve for the items as they are."""
        order = self._sim.order("order of cohorts", np.arange(len(self._cohorts)), number)
        total = 0.0
        for place, cohort in enumerate(order):
            members = self._cohorts[cohort]
            with self.clock.step("devices"):
                gradients, errors = self.devices.gradients(members)
                total += errors
            with self.clock.step("aggregation"):
                rows = self.aggregation.sum(int(cohort), number, gradients).items
            with self.clock.step("items"):
                self._move_items(rows, members.size, number, number * len(order) + place + 1)
        with self.clock.step("devices"):
            self.devices.solve(self._active)
        return total / len(self._train)

    def _move_items(self, rows: Floats, members: int, number: int, step: int) -> None:
        state, items = self.state, self.state["items"]
        # A cohort carries its share of the penalty.
        rows = rows + self._penalty * members / self._active.size * items
        rate = self._rate * self._config.decay**number
        if self._config.optimizer == "sgd":
            items -= rate * rows
        else:
            moments = state["first_moment"], state["second_moment"]
            adam_step(items, rows, *moments, rate=rate, step=step)

    def _mean(self, n_users: int) -> float:
        if not self._config.center:
            return 0.0
        train = self._train
        sums = np.bincount(train.users, weights=train.values, minlength=n_users)
        counts = np.bincount(train.users, minlength=n_users)
        return self.aggregation.mean(sums.astype(np.float64), counts.astype(np.int64))

    def _aggregation(self, parts: RatingParts, run: Run) -> Aggregation:
        config = replace(self._config, aggregate="clear", secagg="pads", drop_rate=0.0)
        keys = None
        if config.laplace is not None:
            keys = pseudo_keys(parts.n_users, self._sim, run, seeded=config.seed is not None)
        shape = parts.n_items, config.dim + 1, 0
        return open_aggregation(
            config, self._cohorts, *shape, self._sim, run, self.traffic, keys=keys
        )


class FCF(RatingModel):
    """``FCF(RatingConfig(model="fcf")).fit(ratings)``; ``aggregate``, ``secagg`` are not read."""

    models = ("fcf",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> FCFLearner:
        return FCFLearner(parts, self.config, sim, run)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> FactorScorer:
        return FactorScorer()
