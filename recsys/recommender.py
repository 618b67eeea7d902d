"""What every recommender offers, with scikit-learn's habits: fit, predict, recommend, save, load.

Source: PriRec (Chen et al., 2020), Algorithm 3 for prediction.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ldp.coins import memo_coins
from recsys.config import TrainConfig
from recsys.data.checkins import CheckIns
from recsys.data.prepare import Pairs, Prepared, prepare
from recsys.dynamic import CoinSource
from recsys.engine import Engine
from recsys.errors import DataError, DivergenceError
from recsys.features import Features, assemble
from recsys.metrics import pooled_auc, user_auc
from recsys.model_files import ModelFiles, read_model, write_model
from recsys.run import MemoryRun, Run
from recsys.scoring import Scorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.trained_model import TrainedModel
from recsys.training import EpochRecord, Learner, Progress, train

Floats = NDArray[np.float64]


class MeasuredLearner(Learner, Protocol):
    """A learner that says where its time went, and how its parameters make a score."""

    clock: Stopwatch
    scorer: Scorer


@dataclass(frozen=True)
class Predictions:
    """probability (n,): of a visit, in (0, 1).  score (n,): its logit.

    known_user, known_poi (n,): False marks a fallback. A user without training visits is scored
    by what mixing gave her, the mean of her neighbours' models. An unknown user is scored by V and
    the POI's public features alone, without a linear model (by FM with the one that it has); an
    unknown POI by the mean POI's features. The baselines without features say in their modules what
    they fall back on.
    """

    probability: Floats
    score: Floats
    known_user: NDArray[np.bool_]
    known_poi: NDArray[np.bool_]

    @property
    def fallbacks(self) -> int:
        """How many predictions rest on a fallback."""
        return int((~(self.known_user & self.known_poi)).sum())


@dataclass(frozen=True)
class Recommendation:
    """One POI of a top-k list. probability: of a visit, in (0, 1)."""

    poi: str
    probability: float
    lat: float
    lon: float
    category: str


class Recommender(TrainedModel[TrainConfig, ModelFiles]):
    """Base of PriRec and its baselines."""

    @staticmethod
    def _default(model: str) -> TrainConfig:
        return TrainConfig(model=model)

    @abstractmethod
    def _learner(
        self, prepared: Prepared, features: Features, sim: SimulationRng, run: Run
    ) -> MeasuredLearner:
        """The learner of this model."""

    def fit(
        self,
        data: CheckIns | Prepared,
        *,
        user_features: Floats | None = None,
        run: Run | None = None,
        progress: Progress | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Train on ``data``, early stopping on its validation part; returns ``self``.

        user_features: float64, a row for each user of the *prepared* data.  run: where secrets
        and checkpoints live (default: in memory).  progress: called after every epoch.
        engine: where users' work is done, for a model that ``scales_out`` (default: here).
        Sets ``prepared_``, ``features_``, ``learner_`` and ``history_``.
        Raises DataError where no pair is left to train on, PrivacyRefusal, ParameterError for
        settings that do not suit the data, DivergenceError, and EngineError.
        """
        self._files = None  # a fit that fails leaves no older model behind
        self._use(engine)
        run = run or MemoryRun()
        sim = self._coins(run)
        prepared = data if isinstance(data, Prepared) else prepare(data, self.config.prepare, sim)
        if not len(prepared.train):
            raise DataError(
                f"{prepared.name}: no pair to train on, of {prepared.n_users} users and "
                f"{prepared.n_pois} POIs",
                remedy="bring more check-ins",
            )
        clock = Stopwatch()
        with clock.step("features"):
            coins = self._privacy_coins(len(prepared.user_ids), sim, run)
            features = assemble(prepared, self.config, sim, coins, user_features)
        learner = self._learner(prepared, features, sim, run)
        learner.clock.seconds = clock.seconds | learner.clock.seconds
        # Set before training, so that ``progress`` can read what the run has cost so far.
        self.prepared_, self.features_, self.learner_ = prepared, features, learner
        self.history_: list[EpochRecord] = learner.state.history

        def validate() -> float | None:
            part = prepared.validation
            scores = learner.scorer.score(learner.state.arrays, part.users, part.pois)
            if not np.isfinite(scores).all():
                raise DivergenceError("a score is no longer finite")
            return pooled_auc(part.labels, scores)

        train(
            learner,
            validate,
            run,
            epochs=self.config.epochs,
            patience=self.config.patience,
            progress=progress,
        )
        self._files = _collect(self.config, prepared, features, learner)
        return self

    def _privacy_coins(self, users: int, sim: SimulationRng, run: Run) -> CoinSource:
        if self.config.seed is not None:
            # A seeded run is reproducible, and says that it gives no privacy.
            return lambda family, rows, pois: sim.coins(f"privacy:{family}", rows[:, None], pois)
        keys = run.memo_keys(users)
        return lambda family, rows, pois: memo_coins(keys[rows], family, pois)

    def evaluate(self, pairs: Pairs) -> tuple[float | None, float | None]:
        """AUC pooled over ``pairs`` (indices of the training data), and the mean of users' AUCs."""
        files = self.files
        scores = files.score(pairs.users, pairs.pois)
        return (
            pooled_auc(pairs.labels, scores),
            user_auc(pairs.users, pairs.labels, scores),
        )

    def predict(self, pairs: Sequence[tuple[object, object]]) -> Predictions:
        """Score (user id, POI id) pairs, external ids of any kind; never fails on unknown ids."""
        files = self.files
        users = files.user_index([user for user, _ in pairs])
        pois = files.poi_index([poi for _, poi in pairs])
        score = files.score(users, pois)
        return Predictions(expit(score), score, files.is_trained(users), pois >= 0)

    def recommend(self, user: object, k: int = 10) -> list[Recommendation]:
        """Algorithm 3: the ``k`` POIs with the highest scores among those new to ``user``.

        New is what she is not known to have visited, held-out visits apart.
        Raises ParameterError for an unknown user or k < 1. Fewer come back if fewer are new.
        """
        files = self.files
        pois, scores = self._best_new(
            user, k, of=len(files.poi_ids), known=files.visited, score=files.score, data="check-ins"
        )
        return [
            Recommendation(
                poi=files.poi_ids[poi],
                probability=float(expit(score)),
                lat=float(files.lat[poi]),
                lon=float(files.lon[poi]),
                category=files.category_of(int(poi)),
            )
            for poi, score in zip(pois, scores, strict=True)
        ]

    def save(self, folder: Path | str) -> None:
        """Write the model below ``folder``: recommender/, users/ (private) and public/."""
        write_model(Path(folder), self.files, self.config)

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read a model that ``save`` wrote. DataError if a file is missing or damaged."""
        files, config = read_model(Path(folder))
        model = cls(config)
        model._files = files
        return model


def _collect(
    config: TrainConfig, prepared: Prepared, features: Features, learner: MeasuredLearner
) -> ModelFiles:
    visits = prepared.visitors
    return ModelFiles(
        arrays=learner.state.best_arrays,
        private=learner.state.private,
        scorer=learner.scorer,
        features=features,
        user_ids=prepared.user_ids,
        poi_ids=prepared.poi_ids,
        lat=prepared.lat,
        lon=prepared.lon,
        category=prepared.category,
        category_names=prepared.category_names,
        visit_users=visits.users,
        visit_pois=visits.pois,
    )
