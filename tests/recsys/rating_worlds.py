"""Small rating sets, and a federated model of a few lines, for tests of commands and reports."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from recsys.baselines.biases import BiasScorer
from recsys.batches import draw_cohorts
from recsys.data.ratings import RatingParts, Ratings, Triples
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.ratings.aggregate import open_aggregation
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Gradients
from recsys.ratings.model import RatingModel
from recsys.ratings.pseudo import PseudoItems, pseudo_keys
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State
from tests.recsys.worlds import KeepingRun

SET = "synthetic-ratings:60x30,per_user=12"
QUICK = ("--data", SET, "--epochs", "3", "--cohort", "30")
"""A run of a few hundredths of a second."""

USERS, ITEMS = 60, 30


def small(**changes: Any) -> RatingConfig:
    """Settings of a short training on ``SET``."""
    quick: dict[str, Any] = {"epochs": 3, "cohort": 30, "mode": "simulate", "dim": 0}
    return RatingConfig(**{**quick, **changes})


def ratings_of(rows: list[tuple[int, int, float]]) -> Triples:
    """(user, item, rating) in the order that ``Triples`` promises."""
    ordered = sorted(rows)
    users, items, values = (np.array([row[at] for row in ordered]) for at in range(3))
    return Triples(users.astype(np.int32), items.astype(np.int32), values.astype(np.float64))


def world(
    train: list[tuple[int, int, float]],
    *,
    test: list[tuple[int, int, float]],
    validation: list[tuple[int, int, float]] = [],  # noqa: B006 - never changed
    users: int,
    items: int,
    name: str = "by-hand",
) -> RatingParts:
    """Parts made by hand, of ratings from 1 to 5."""
    return RatingParts(
        name=name,
        train=ratings_of(train),
        validation=ratings_of(validation) if validation else _empty(),
        test=ratings_of(test) if test else _empty(),
        user_ids=tuple(f"u{user}" for user in range(users)),
        item_ids=tuple(f"i{item}" for item in range(items)),
        low=1.0,
        high=5.0,
    )


def _empty() -> Triples:
    none = np.zeros(0, dtype=np.int32)
    return Triples(none, none, np.zeros(0))


class FederatedLearner:
    """Biases of items by summed gradients; a user's own bias never leaves her."""

    def __init__(
        self, parts: RatingParts, config: RatingConfig, sim: SimulationRng, run: Run
    ) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = BiasScorer()
        self.traffic = LocalNetwork()
        self._train, self._starts = parts.train, parts.train.starts(parts.n_users)
        self.cohorts = draw_cohorts(parts.n_users, config.cohort, sim)
        self.pseudo: PseudoItems | None = None
        if config.pseudo:
            keys = pseudo_keys(parts.n_users, sim, run, seeded=config.seed is not None)
            self.pseudo = PseudoItems(
                *(parts.train, parts.n_users, parts.n_items),
                *(config.pseudo, keys, config.pseudo_items),
            )
        with self.clock.step("key agreement"):
            self.aggregation = open_aggregation(
                *(config, self.cohorts, parts.n_items, config.dim + 1, 0),
                *(sim, run, self.traffic, self.pseudo),
            )
        self._width, self._epochs = config.dim + 1, config.epochs
        self.state = State.start(
            {
                "mean": np.array([parts.train.values.mean()]),
                "user_bias": np.zeros(parts.n_users),
                "item_bias": np.zeros(parts.n_items),
            },
            private=("user_bias",),
        )

    def epoch(self, number: int) -> float:
        """One round of every cohort."""
        train, state = self._train, self.state
        self.aggregation.begin(number, self._epochs)
        error = train.values - self.scorer.score(state.arrays, train.users, train.items)
        for cohort, members in enumerate(self.cohorts):
            with self.clock.step("sums"):
                found = self.aggregation.sum(cohort, number, self._gradients(members, error))
            state["item_bias"][:] += 0.02 * found.items[:, -1]
        step = np.bincount(train.users, weights=error, minlength=state["user_bias"].size)
        state["user_bias"][:] += 0.02 * step
        return float(np.mean(error**2))

    def _gradients(self, members: NDArray[np.int32], error: NDArray[np.float64]) -> Gradients:
        starts = self._starts
        active = members[starts[members + 1] > starts[members]]
        rows = np.concatenate([np.arange(starts[user], starts[user + 1]) for user in active])
        values = np.zeros((rows.size, self._width))
        values[:, -1] = error[rows]
        sizes = starts[active + 1] - starts[active]
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        weights = np.zeros((active.size, 0))
        return Gradients(active, ends, self._train.items[rows], values, weights)


class Federated(RatingModel):
    """Stands in for FedGNN where the network is beside the point."""

    models = ("fedgnn",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> FederatedLearner:
        return FederatedLearner(parts, self.config, sim, run)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> BiasScorer:
        return BiasScorer()


def fitted(
    cls: type[RatingModel] = Federated, data: Ratings | None = None, **changes: Any
) -> RatingModel:
    """A model of ``data``, by default of ``SET``, split as the seed 5 says."""
    config = small(**{"model": cls.models[0], **changes})
    return cls(config).fit(data or ratings(), run=KeepingRun())


def ratings() -> Ratings:
    """What ``SET`` names."""
    return synthetic_ratings(SyntheticRatingsConfig(users=USERS, items=ITEMS, per_user=12))
