"""What every rating model offers, with scikit-learn's habits: fit, predict, save, load."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import StateError
from recsys.data.rating_split import split_ratings
from recsys.data.ratings import Floats, Indices, RatingParts, Ratings, Triples
from recsys.engine import Engine
from recsys.errors import DataError, DivergenceError
from recsys.model_parts import of_one_model
from recsys.ratings.config import RatingConfig
from recsys.ratings.files import RatingFiles, read_rating_model, write_rating_model
from recsys.ratings.scoring import RatingScorer
from recsys.run import MemoryRun, Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.trained_model import TrainedModel
from recsys.training import EpochRecord, Learner, Progress, train


class RatingLearner(Learner, Protocol):
    """A rating model in training. ``epoch`` returns the mean squared error of its samples."""

    clock: Stopwatch
    scorer: RatingScorer


@dataclass(frozen=True)
class RatingPredictions:
    """value (n,): the predicted rating, clamped to the range of the set.

    known_user, known_item (n,): False marks a fallback: the user or the item has no training
    rating, and the model answers without what it would have learned of it.
    """

    value: Floats
    known_user: NDArray[np.bool_]
    known_item: NDArray[np.bool_]

    @property
    def fallbacks(self) -> int:
        """How many predictions rest on a fallback."""
        return int((~(self.known_user & self.known_item)).sum())


@dataclass(frozen=True)
class RatedItem:
    """One item of a top-k list. value: the predicted rating."""

    item: str
    value: float


class RatingModel(TrainedModel[RatingConfig, RatingFiles]):
    """Base of FedGNN and its baselines."""

    _scorer: RatingScorer | None = None

    @staticmethod
    def _default(model: str) -> RatingConfig:
        return RatingConfig(model=model)

    @abstractmethod
    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> RatingLearner:
        """The learner of this model."""

    @abstractmethod
    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> RatingScorer:
        """The scorer of a stored model, from its tables. KeyError for one that is missing."""

    def fit(
        self,
        data: Ratings | RatingParts,
        *,
        run: Run | None = None,
        progress: Progress | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Train on ``data``, early stopping on its validation part; returns ``self``.

        run: where secrets and checkpoints live (default: in memory).  progress: called after every
        epoch.  engine: where users' work is done, for a model that ``scales_out`` (default: here).
        Sets ``parts_``, ``learner_`` and ``history_``.
        Raises DataError where no rating is left to train on, PrivacyRefusal, ParameterError for
        settings that do not suit the data, DivergenceError, and EngineError.
        """
        self._files = None  # a fit that fails leaves no older model behind
        self._use(engine)
        run = run or MemoryRun()
        sim = self._coins(run)
        parts = (
            data if isinstance(data, RatingParts) else split_ratings(data, self.config.split, sim)
        )
        if not len(parts.train):
            raise DataError(
                f"{parts.name}: no rating to train on, of {parts.n_users} users and "
                f"{parts.n_items} items",
                remedy="bring more ratings",
            )
        learner = self._learner(parts, sim, run)
        # Set before training, so that ``progress`` can read what the run has cost so far.
        self.parts_, self.learner_ = parts, learner
        self.history_: list[EpochRecord] = learner.state.history

        def validate() -> float | None:
            with learner.clock.step("validation"):
                return rmse(parts.validation, self._clamped(learner.state.arrays, parts.validation))

        train(
            learner,
            validate,
            run,
            epochs=self._epochs(),
            patience=self.config.patience,
            progress=progress,
            measure="rmse",
            # A hundred times what predicting 0 for everything would cost.
            hopeless=100 * float(np.mean(np.square(parts.train.values))) or math.inf,
        )
        self._scorer = learner.scorer
        self._files = RatingFiles(
            arrays=learner.state.best_arrays,
            private=learner.state.private,
            tables=learner.scorer.tables,
            train=parts.train,
            user_ids=parts.user_ids,
            item_ids=parts.item_ids,
            low=parts.low,
            high=parts.high,
        )
        return self

    def _epochs(self) -> int:
        """Epochs at most; 1 where a single one trains to the end."""
        return self.config.epochs

    def _clamped(self, arrays: Mapping[str, Floats], pairs: Triples) -> Floats:
        parts = self.parts_
        scores = self.learner_.scorer.score(arrays, pairs.users, pairs.items)
        if not np.isfinite(scores).all():
            raise DivergenceError("a predicted rating is no longer finite")
        return np.clip(scores, parts.low, parts.high)

    def score(self, users: Indices, items: Indices) -> Floats:
        """Clamped ratings for index pairs, -1 for unknown: float64 (n,)."""
        files = self.files
        if self._scorer is None:  # set wherever the files are
            raise StateError("the model is not trained yet")
        scores = self._scorer.score(files.arrays, users, items)
        return np.clip(scores, files.low, files.high)

    def evaluate(self, pairs: Triples) -> float | None:
        """RMSE on ``pairs`` (indices of the training data), in rating units; None without any."""
        return rmse(pairs, self.score(pairs.users, pairs.items))

    def predict(self, pairs: Sequence[tuple[object, object]]) -> RatingPredictions:
        """Rate (user id, item id) pairs, external ids of any kind; never fails on unknown ids."""
        files = self.files
        users = files.user_index([user for user, _ in pairs])
        items = files.item_index([item for _, item in pairs])
        return RatingPredictions(
            self.score(users, items),
            np.isin(users, files.train.users),
            np.isin(items, files.train.items),
        )

    def recommend(self, user: object, k: int = 10) -> list[RatedItem]:
        """The ``k`` items with the highest predicted ratings among those she has not rated.

        Raises ParameterError for an unknown user or k < 1. Fewer come back if fewer are left.
        """
        files = self.files
        items, scores = self._best_new(
            user, k, of=len(files.item_ids), known=files.rated, score=self.score, data="ratings"
        )
        return [
            RatedItem(files.item_ids[item], float(score))
            for item, score in zip(items, scores, strict=True)
        ]

    def save(self, folder: Path | str) -> None:
        """Write the model below ``folder``: recommender/, users/ (private) and public/."""
        write_rating_model(Path(folder), self.files, self.config)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read a model that ``save`` wrote. DataError if a file is missing or damaged."""
        files, config = read_rating_model(Path(folder))
        model = cls(config)
        with of_one_model(Path(folder)):
            model._scorer = model._stored_scorer(files.tables)
        model._files = files
        return model


def rmse(pairs: Triples, predicted: Floats) -> float | None:
    """Root of the mean squared error in rating units; None without pairs."""
    if not len(pairs):
        return None
    return float(np.sqrt(np.mean((pairs.values - predicted) ** 2)))
