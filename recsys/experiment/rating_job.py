"""One training on ratings of items, and its outcome."""

import time
from functools import lru_cache
from pathlib import Path

from recsys.data.rating_catalogue import find_ratings
from recsys.data.rating_split import SplitConfig, split_ratings
from recsys.data.ratings import RatingParts, Ratings
from recsys.errors import DivergenceError
from recsys.experiment.outcome import Outcome, Wanted, diverged, shown_loss, validated
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel, rmse
from recsys.ratings.registry import check_library, rating_class
from recsys.report.costs import Costs, costs_of
from recsys.report.rating_summary import summarise_ratings
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.tasks import RATING
from recsys.training import EpochRecord


def check_rating_job(data: str, config: RatingConfig) -> None:
    """See ``recsys.experiment.job.check_job``."""
    find_ratings(data)
    check_library(config.model)


def run_rating_job(data: str, config: RatingConfig, seed: int, wanted: Wanted) -> Outcome:
    """See ``recsys.experiment.job.run``."""
    clock = Stopwatch()
    with clock.step("preparation"):
        parts = _parts(data, config.split, seed)
    kind = rating_class(config.model)  # loads its libraries, which is no part of the training
    start = time.perf_counter()
    model = kind(config)
    curve: list[float | None] = []

    def progress(record: EpochRecord) -> None:
        if wanted == "curve":
            curve.append(_test_rmse(model))

    try:
        model.fit(parts, progress=progress)
    except DivergenceError as error:
        return diverged(RATING, time.perf_counter() - start, error.message)
    if wanted == "validation":
        return validated(RATING, model.learner_.state, time.perf_counter() - start)
    costs = Costs(steps=dict(clock.seconds)) + costs_of(model, time.perf_counter() - start)
    return _measured(model, costs, curve)


def _measured(model: RatingModel, costs: Costs, curve: list[float | None]) -> Outcome:
    summary = summarise_ratings(model, costs, Path(), model.parts_.notes)
    tested = curve or [None] * len(model.history_)
    return {
        **summary.row,
        "diverged": None,
        "loss": shown_loss(RATING, model.history_[summary.row["best_epoch"] - 1]),
        "history": [
            {
                "epoch": record.epoch,
                "loss": shown_loss(RATING, record),
                "rmse": record.rmse,
                "test_rmse": found,
            }
            for record, found in zip(model.history_, tested, strict=True)
        ],
        "ledger": summary.ledger.to_dict(),
    }


def _test_rmse(model: RatingModel) -> float | None:
    """RMSE of the test part under the parameters as they are now."""
    parts, learner = model.parts_, model.learner_
    scores = learner.scorer.score(learner.state.arrays, parts.test.users, parts.test.items)
    return rmse(parts.test, scores.clip(parts.low, parts.high))


@lru_cache(maxsize=1)
def _ratings(data: str) -> Ratings:
    return find_ratings(data).load()


@lru_cache(maxsize=2)
def _parts(data: str, config: SplitConfig, seed: int) -> RatingParts:
    """One split for all models of a seed."""
    return split_ratings(_ratings(data), config, SimulationRng(seed))
