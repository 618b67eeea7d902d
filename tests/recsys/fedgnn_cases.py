"""FedGNN on small sets, and a watch on what its aggregation is asked for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import RatingParts, Ratings
from recsys.fedgnn import FedGNN, FedGNNLearner
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Gradients, RoundSum
from recsys.run import MemoryRun, Run
from recsys.simulation import SimulationRng
from tests.recsys.baselines.cases import low_rank
from tests.recsys.rating_worlds import world

SMALL: dict[str, Any] = {
    "mode": "simulate",
    "seed": 0,
    "dim": 4,
    "cohort": 20,
    "epochs": 3,
    "penalty": 2.0,
    "bias_penalty": 2.0,
    "learning_rate": 0.03,
}

PAPER_LIKE: dict[str, Any] = {
    "gnn": "gat",
    "user_fit": "steps",
    "optimizer": "sgd",
    "loss": "absolute",
    "reduction": "mean",
    "bias": False,
    "residual": False,
    "dropout": 0.2,
    "aggregate": "clear",
    "pseudo": 5,
    "clip": 0.1,
    "laplace": 0.05,
    "neighbours": "fixed",
    "expand_after": 2,
    "match_items": 4,
}
"""The preset ``paper`` but for its size."""

WAYS: tuple[dict[str, Any], ...] = (
    {"gnn": "gcn"},
    {"gnn": "gat"},
    {"gnn": "ggnn"},
    {"gnn": "gcn", "user_fit": "steps", "rating_edges": True, "dropout": 0.2},
    {"gnn": "gat", "user_fit": "steps", "residual": False, "optimizer": "sgd"},
    {"gnn": "ggnn", "neighbours": "fixed", "expand_after": 1, "match_items": 4},
    {"gnn": "gcn", "neighbours": "trainable", "expand_after": 1, "match_items": 4},
    {"gnn": "gcn", "aggregate": "clear", "pseudo": 5, "clip": 0.1, "laplace": 0.05},
    {"gnn": "gcn", "aggregate": "clear", "pseudo": 5, "pseudo_items": "resampled"},
    PAPER_LIKE,
    {"gnn": "gcn", "dim": 0},
)


def named(way: dict[str, Any]) -> str:
    return "paper-like" if way is PAPER_LIKE else "-".join(map(str, way.values()))


def config(**changes: Any) -> RatingConfig:
    return RatingConfig(**{**SMALL, **changes})


def fitted(
    data: Ratings | RatingParts | None = None, run: Run | None = None, **changes: Any
) -> FedGNN:
    return FedGNN(config(**changes)).fit(data or low_rank(), run=run)


def learner_of(model: FedGNN) -> FedGNNLearner:
    found = model.learner_
    assert isinstance(found, FedGNNLearner)
    return found


def new_learner(parts: RatingParts, run: Run | None = None, **changes: Any) -> FedGNNLearner:
    """Before its first epoch."""
    settings = config(**changes)
    return FedGNNLearner(parts, settings, SimulationRng(settings.seed or 0), run or MemoryRun())


def crowd(users: int, items: int = 12) -> RatingParts:
    """Everybody rated five items; every third rating is 5, the others are 2."""
    rows = [
        (user, (7 * user + k) % items, 5.0 if (user + k) % 3 == 0 else 2.0)
        for user in range(users)
        for k in range(5)
    ]
    return world(rows, test=[], users=users, items=items)


class Watched:
    """Sums like the learner's own aggregation, and keeps what it was asked for and answered."""

    def __init__(self, learner: FedGNNLearner) -> None:
        self._inner = learner.aggregation
        self.rounds: list[tuple[int, int, NDArray[np.int32]]] = []
        self.uploads: list[Gradients] = []
        self.sums: list[RoundSum] = []
        learner.aggregation = self  # type: ignore[assignment]

    def begin(self, round_: int, end: int) -> None:
        self._inner.begin(round_, end)

    def sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        self.rounds.append((cohort, round_, gradients.members))
        self.uploads.append(gradients)
        self.sums.append(self._inner.sum(cohort, round_, gradients))
        return self.sums[-1]


def watched(epochs: int, parts: RatingParts, **changes: Any) -> Watched:
    """What a training of so many epochs asks for."""
    learner = new_learner(parts, epochs=epochs, **changes)
    watch = Watched(learner)
    for number in range(epochs):
        learner.epoch(number)
    return watch
