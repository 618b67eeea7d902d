"""One training on visits to places, and its outcome."""

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from recsys.config import TrainConfig
from recsys.data.catalogue import find
from recsys.data.checkins import CheckIns
from recsys.data.features import FeatureTable
from recsys.data.prepare import PrepareConfig, Prepared, prepare
from recsys.errors import DivergenceError
from recsys.experiment.outcome import Outcome, Wanted, diverged, validated
from recsys.models import fm
from recsys.prirec import PriRec, check_neighbours
from recsys.profiles import user_profiles
from recsys.recommender import Recommender
from recsys.registry import recommender_class
from recsys.report.costs import Costs, costs_of
from recsys.report.summary import summarise
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.tasks import VISITS
from recsys.training import EpochRecord


def check_visit_job(data: str, config: TrainConfig) -> None:
    """See ``recsys.experiment.job.check_job``."""
    find(data)
    if config.model in PriRec.models:
        check_neighbours(config, config.neighbours)


def run_visit_job(data: str, config: TrainConfig, seed: int, wanted: Wanted) -> Outcome:
    """See ``recsys.experiment.job.run``."""
    clock = Stopwatch()
    with clock.step("preparation"):
        prepared = _prepared(data, config.prepare, seed)
        profiles, notes = _profiles(data, config.feature_kind, prepared.n_users, seed)
    start = time.perf_counter()
    model = recommender_class(config.model)(config)
    test_losses: list[float] = []

    def progress(record: EpochRecord) -> None:
        if wanted == "curve":
            test_losses.append(_test_loss(model))

    try:
        model.fit(
            prepared,
            user_features=None if profiles is None else profiles.values,
            progress=progress,
        )
    except DivergenceError as error:
        return diverged(VISITS, time.perf_counter() - start, error.message)
    if wanted == "validation":
        return validated(VISITS, model.learner_.state, time.perf_counter() - start)
    costs = Costs(steps=dict(clock.seconds)) + costs_of(model, time.perf_counter() - start)
    return _measured(model, costs, [*prepared.notes, *notes], test_losses)


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
