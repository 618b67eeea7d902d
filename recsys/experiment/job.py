"""One training of an experiment, described by plain values and done in a process of its own."""

import hashlib
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.catalogue import find
from recsys.data.checkins import CheckIns
from recsys.data.features import FeatureTable
from recsys.data.prepare import PrepareConfig, Prepared, prepare
from recsys.errors import DivergenceError
from recsys.models import fm
from recsys.prirec import PriRec, check_neighbours
from recsys.profiles import user_profiles
from recsys.recommender import Recommender
from recsys.registry import recommender_class
from recsys.report.costs import Costs, costs_of
from recsys.report.summary import summarise
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import EpochRecord

Wanted = Literal["validation", "test", "curve"]
"""What an outcome holds: no figure of the test part; all of them; also the test loss by epoch."""

Outcome = dict[str, Any]
"""Plain values, as JSON gives them back."""


@dataclass(frozen=True)
class Job:
    """Train ``config``, which has a seed, on the data set called ``data``."""

    data: str
    config: TrainConfig
    wanted: Wanted = "test"

    @property
    def seed(self) -> int:
        """The seed of all coins. ParameterError if the configuration has none."""
        if self.config.seed is None:
            raise ParameterError("a training of an experiment needs a seed, got none")
        return self.config.seed

    @cached_property
    def key(self) -> str:
        """A name for the outcome: the same for the same training under the same versions."""
        names = ("privrec", "numpy", "scipy", "scikit-learn")
        versions = [platform.python_version(), *(metadata.version(name) for name in names)]
        values = [self.data, self.config.to_dict(), self.wanted, versions]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def check_job(job: Job) -> None:
    """Refuse now what would be refused when its turn comes, as far as settings alone tell.

    Raises ParameterError, DataError and PrivacyRefusal.
    """
    _ = job.seed
    find(job.data)
    if job.config.model in PriRec.models:
        check_neighbours(job.config, job.config.neighbours)


def run(job: Job) -> Outcome:
    """Do the training, and measure it as far as the job wants.

    A training that diverges has an outcome too: ``diverged`` says how, ``validation_auc`` is None.
    ``seconds`` leave out the preparation of the data, which a worker keeps for its next job.
    Raises what preparation and training raise otherwise: DataError, ParameterError, PrivacyRefusal.
    """
    clock = Stopwatch()
    config = job.config
    with clock.step("preparation"):
        prepared = _prepared(job.data, config.prepare, job.seed)
        profiles, notes = _profiles(job.data, config.feature_kind, prepared.n_users, job.seed)
    start = time.perf_counter()
    model = recommender_class(config.model)(config)
    test_losses: list[float] = []

    def progress(record: EpochRecord) -> None:
        if job.wanted == "curve":
            test_losses.append(_test_loss(model))

    try:
        model.fit(
            prepared,
            user_features=None if profiles is None else profiles.values,
            progress=progress,
        )
    except DivergenceError as error:
        return {
            "validation_auc": None,
            "seconds": time.perf_counter() - start,
            "diverged": error.message,
        }
    if job.wanted == "validation":
        return _validated(model, time.perf_counter() - start)
    costs = Costs(steps=dict(clock.seconds)) + costs_of(model, time.perf_counter() - start)
    return _measured(model, costs, [*prepared.notes, *notes], test_losses)


def _validated(model: Recommender, seconds: float) -> Outcome:
    best = model.learner_.state.best
    return {
        "validation_auc": None if best is None else best.auc,
        "loss": None if best is None else best.loss,
        "best_epoch": None if best is None else best.epoch,
        "epochs": len(model.history_),
        "seconds": seconds,
        "diverged": None,
    }


def _measured(
    model: Recommender, costs: Costs, notes: Sequence[str], test_losses: list[float]
) -> Outcome:
    summary = summarise(model, costs, Path(), notes)
    losses: list[float | None] = [*test_losses] or [None] * len(model.history_)
    return {
        **summary.row,
        "diverged": None,
        "loss": model.history_[summary.row["best_epoch"] - 1].loss,
        "history": [
            {"epoch": record.epoch, "loss": record.loss, "auc": record.auc, "test_loss": loss}
            for record, loss in zip(model.history_, losses, strict=True)
        ],
        "ledger": summary.ledger.to_dict(),
    }


def _test_loss(model: Recommender) -> float:
    """Mean loss in nats of the test part under the parameters as they are now."""
    test, learner = model.prepared_.test, model.learner_
    scores = learner.scorer.score(learner.state.arrays, test.users, test.pois)
    return float(np.mean(fm.loss(scores, test.labels)))


@lru_cache(maxsize=1)
def _checkins(data: str) -> CheckIns:
    return find(data).load()


@lru_cache(maxsize=2)
def _prepared(data: str, config: PrepareConfig, seed: int) -> Prepared:
    """One split for all models of a seed."""
    return prepare(_checkins(data), config, SimulationRng(seed))


@lru_cache(maxsize=2)
def _profiles(
    data: str, feature_kind: str, users: int, seed: int
) -> tuple[FeatureTable | None, list[str]]:
    return user_profiles(find(data), feature_kind, users, SimulationRng(seed))
