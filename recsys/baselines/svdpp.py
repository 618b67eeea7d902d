"""SVD++ by scikit-surprise: factors and biases, and which items a user rated at all.

Source: Koren, "Factorization meets the neighborhood" (KDD 2008), equation 15; trained by Hug,
    "Surprise: A Python library for recommender systems" (JOSS 5(52), 2020), whose order of samples
    is user by user.
Model: the recommender holds all ratings.
Error: none beyond the library's: predictions are recomputed from its parameters.
Differs: no early stopping, since the library trains all ``epochs`` in one call, from a start of its
    own; so the number of epochs is a setting to search. Ratings are always centred.
    A step costs d times the number of items that the user rated, so a user who rated twice as many
    costs four times as much: five minutes for 40 epochs with 8 factors on MovieLens 1M, and
    four times that with 32.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from surprise import SVDpp as Trainer
from surprise import Trainset

from recsys.data.ratings import Floats, RatingParts, Triples
from recsys.models.rating_factors import FactorScorer, predicted
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

LEARNING_RATE = 0.01
PENALTY = 0.1


class SVDppLearner:
    """The single epoch is a whole training. ``users`` holds p_u + |N(u)|^(-1/2) sum of y_j."""

    def __init__(self, parts: RatingParts, config: RatingConfig, sim: SimulationRng) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = FactorScorer()
        self._parts = parts
        self._config = config
        # The library draws its start, an experiment coin, from a generator seeded by 32 bits.
        self._seed = int(sim.coins("svd++ start", 0)) >> 32
        self.state = State.start(
            {
                "mean": np.zeros(1),
                "users": np.zeros((parts.n_users, config.dim + 1)),
                "items": np.zeros((parts.n_items, config.dim + 1)),
            }
        )

    def epoch(self, number: int) -> float:
        """Train to the end; the mean squared error then."""
        config, state, train = self._config, self.state, self._parts.train
        rate, penalty = config.learning_rate, config.penalty
        trainer = Trainer(
            n_factors=config.dim,
            n_epochs=config.epochs,
            init_std_dev=config.init_scale,
            lr_all=LEARNING_RATE if rate is None else rate,
            reg_all=PENALTY if penalty is None else penalty,
            random_state=self._seed,
            cache_ratings=True,
        )
        with self.clock.step("surprise"):
            trainset = self._trainset()
            trainer.fit(trainset)
        state["mean"][0] = trainset.global_mean
        implicit = _implicit(train, trainer.yj, self._parts.n_users)
        # Rows that no rating has touched still hold their start, which means nothing.
        seen_users, seen_items = np.unique(train.users), np.unique(train.items)
        users = np.column_stack([trainer.pu + implicit, trainer.bu])
        items = np.column_stack([trainer.qi, trainer.bi])
        state["users"][seen_users] = users[seen_users]
        state["items"][seen_items] = items[seen_items]
        rows = state["users"][train.users], state["items"][train.items]
        return float(np.mean((train.values - state["mean"] - predicted(*rows)) ** 2))

    def _trainset(self) -> Trainset:
        parts, train = self._parts, self._parts.train
        by_user: dict[int, list[tuple[int, float]]] = {u: [] for u in range(parts.n_users)}
        by_item: dict[int, list[tuple[int, float]]] = {i: [] for i in range(parts.n_items)}
        columns = (train.users.tolist(), train.items.tolist(), train.values.tolist())
        for user, item, value in zip(*columns, strict=True):
            by_user[user].append((item, value))
            by_item[item].append((user, value))
        sizes = parts.n_users, parts.n_items, len(train)
        return Trainset(by_user, by_item, *sizes, (parts.low, parts.high), {}, {})


def _implicit(train: Triples, y: Floats, n_users: int) -> Floats:
    """|N(u)|^(-1/2) times the sum of y_j over the items that u rated; zeros without any."""
    starts = train.starts(n_users)
    counts = np.diff(starts)
    rated = np.flatnonzero(counts)
    total = np.zeros((n_users, y.shape[1]))
    if y.shape[1]:
        total[rated] = np.add.reduceat(y[train.items], starts[rated], axis=0)
    scaled: Floats = total / np.sqrt(np.maximum(counts, 1))[:, np.newaxis]
    return scaled


class SVDpp(RatingModel):
    """``SVDpp(RatingConfig(model="svdpp", epochs=20)).fit(ratings)``; needs the extra ``gnn``."""

    models = ("svdpp",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> SVDppLearner:
        return SVDppLearner(parts, self.config, sim)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> FactorScorer:
        return FactorScorer()

    def _epochs(self) -> int:
        return 1
