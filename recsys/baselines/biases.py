"""Predictors without factors: the training mean, a user's mean, and user plus item bias.

Source: Koren, "Factorization meets the neighborhood" (KDD 2008), section 2.1, for b_ui = mu + b_u +
    b_i; Funk's shrinkage of means towards the global one.
Model: the recommender holds all ratings. They are here because the papers' tables leave them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Floats, Indices, RatingParts
from recsys.ratings.config import MEANS
from recsys.ratings.model import RatingModel
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

_SWEEPS = 1000
_SETTLED = 1e-10
PENALTY = 5.0
"""Ratings of average value that every user and item is given beforehand."""


@dataclass(frozen=True)
class BiasScorer:
    """mean + user bias + item bias; what is unknown has no bias."""

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """None: the biases are learned."""
        return {}

    def score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """See ``RatingScorer.score``."""
        user = np.where(users >= 0, arrays["user_bias"][users], 0.0)
        item = np.where(items >= 0, arrays["item_bias"][items], 0.0)
        rated: Floats = arrays["mean"][0] + user + item
        return rated


class BiasLearner:
    """Ridge regression on user and item indicators, by alternating exact solutions."""

    def __init__(self, parts: RatingParts, model: str, penalty: float) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = BiasScorer()
        self._train = parts.train
        self._model = model
        self._penalty = penalty
        self.state = State.start(
            {
                "mean": np.array([parts.train.values.mean()]),
                "user_bias": np.zeros(parts.n_users),
                "item_bias": np.zeros(parts.n_items),
            },
            private=("user_bias",),
        )

    def epoch(self, number: int) -> float:
        """Everything at once: further epochs change nothing to speak of."""
        train, state = self._train, self.state
        with self.clock.step("biases"):
            rest = train.values - state["mean"][0]
            if self._model == "user-mean":
                state["user_bias"][:] = _shrunken(train.users, rest, state["user_bias"].size, 0.0)
            elif self._model == "bias":
                self._settle(rest)
        error = train.values - self.scorer.score(state.arrays, train.users, train.items)
        return float(np.mean(error**2))

    def _settle(self, rest: Floats) -> None:
        """Solve for the users, then for the items, until no bias moves by 1e-10."""
        train, state = self._train, self.state
        for _ in range(_SWEEPS):
            before = state["item_bias"].copy()
            for name, index, other, indices in (
                ("user_bias", train.users, "item_bias", train.items),
                ("item_bias", train.items, "user_bias", train.users),
            ):
                residual = rest - state[other][indices]
                state[name][:] = _shrunken(index, residual, state[name].size, self._penalty)
            if np.abs(state["item_bias"] - before).max() < _SETTLED:
                return


def _shrunken(index: Indices, values: Floats, size: int, penalty: float) -> Floats:
    """Mean of the values of each index, with ``penalty`` zeros added; 0 where there are none."""
    total = np.bincount(index, weights=values, minlength=size)
    count = np.bincount(index, minlength=size) + penalty
    mean: Floats = np.divide(total, count, out=np.zeros(size), where=count > 0)
    return mean


class Biases(RatingModel):
    """``global-mean``, ``user-mean`` and ``bias``. penalty: see ``PENALTY``."""

    models = MEANS

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> BiasLearner:
        penalty = PENALTY if self.config.penalty is None else self.config.penalty
        return BiasLearner(parts, self.config.model, penalty)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> BiasScorer:
        return BiasScorer()
