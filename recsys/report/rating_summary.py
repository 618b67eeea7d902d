"""The outcome of training a rating model: as the row that ``--json`` prints, and in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from recsys.engine import LOCAL
from recsys.ratings.config import CENTRAL, MEANS
from recsys.ratings.model import RatingModel, rmse
from recsys.ratings.variants import RATING_VARIANTS
from recsys.report.costs import Costs
from recsys.report.rating_ledger import build_rating_ledger
from recsys.report.rating_uploads import aggregation_of, uploads_of
from recsys.report.summary import Summary, best_epoch, of_a_run, under

_SUMS = {
    "secure": "secure sums",
    "clear": "uploads in the clear",
    "paillier": "sums under encryption",
}

AT_THE_CONSTANT = 0.002
"""RMSE by which a model must beat the training mean to be told from it."""


@dataclass(frozen=True)
class RatingSummary(Summary):
    """See ``Summary``; of a model that predicts ratings. It opens with what privacy there was."""

    def lines(self) -> list[str]:
        """A readable summary."""
        return [
            self.ledger.headline,
            "",
            f"data     {self.data}",
            f"model    {self.ran}",
            *(f"note     {note}" for note in self.row["model_notes"]),
            f"result   {self.result()}",
            f"         {self.against_constant()}",
            f"digest   {self.row['model_digest']}",
            "",
            *self.costs_and_releases(),
            "",
            *self.next_steps(),
        ]

    def result(self) -> str:
        """The measures in one line."""
        row = self.row
        fallbacks = row["fallbacks"]
        known = "" if not fallbacks else f"; {fallbacks:,} of them of unknown users or items"
        return (
            f"test RMSE {shown_rmse(row['rmse'])} over {row['test_ratings']:,} ratings{known}, "
            f"validation RMSE {shown_rmse(row['validation_rmse'])} in epoch {row['best_epoch']} of "
            f"{row['epochs']}"
        )

    def against_constant(self) -> str:
        """What the model adds to the constant predictor, the mean of the training ratings."""
        return against_constant(self.row["rmse"], self.row["constant_rmse"])


def against_constant(found: float | None, constant: float | None) -> str:
    """One sentence about a test RMSE beside that of the training mean alone."""
    if found is None or constant is None:
        return "there is no test rating to compare with the constant predictor"
    figures = f"test RMSE {found:.4f}, the training mean alone has {constant:.4f}"
    if abs(found - constant) <= AT_THE_CONSTANT:
        return f"it ends at the constant predictor: {figures}"
    if found > constant:
        return f"it is worse than the constant predictor: {figures}"
    return f"it beats the constant predictor by {constant - found:.4f}: {figures}"


def summarise_ratings(
    model: RatingModel,
    costs: Costs,
    folder: Path,
    notes: Sequence[str] = (),
    engines: Sequence[str] = (LOCAL,),
) -> RatingSummary:
    """Measure a model that ``fit`` has just trained, on the test part of its data.

    engines: names of those that did the users' work.
    """
    parts, history, config = model.parts_, model.history_, model.config
    ledger = replace(build_rating_ledger(model), engines=tuple(engines))
    best = best_epoch(model)
    uploads = uploads_of(model, costs)
    row = {
        "model": config.model,
        "rmse": model.evaluate(parts.test),
        "rmse_sd": None,  # of one run
        "seconds": costs.seconds,
        "bytes_per_user": uploads.per_user,
        "bytes_counted": uploads.counted,
        "upload_bytes": uploads.upload,
        "epsilon": ledger.epsilon(),
        "mode": "central" if config.model in (*CENTRAL, *MEANS) else config.mode,
        "model_digest": model.model_digest,
        "epochs": len(history),
        "best_epoch": best,
        "validation_rmse": history[best - 1].rmse,
        "constant_rmse": constant_rmse(model),
        "data": parts.name,
        "users": parts.n_users,
        "items": parts.n_items,
        "train_ratings": len(parts.train),
        "validation_ratings": len(parts.validation),
        "test_ratings": len(parts.test),
        "fallbacks": fallbacks(model),
        **of_a_run(costs, config.seed, folder, notes, engines),
        "model_notes": _model_notes(model),
        "guesses": None if ledger.guesses is None else ledger.guesses.to_dict(),
    }
    return RatingSummary(
        row=row,
        title=RATING_VARIANTS[config.model].title,
        data=_data_line(model),
        ran=_ran(model) + under(engines),
        costs=costs,
        ledger=ledger,
        notes=tuple(notes),
        folder=folder,
        first_user=parts.user_ids[int(parts.train.users[0])],
    )


def _model_notes(model: RatingModel) -> list[str]:
    """What the learner has to say: a side without a graph, too few pseudo-interacted items."""
    learner = model.learner_
    notes = list(getattr(learner, "notes", ()))
    pseudo = getattr(learner, "pseudo", None)
    return notes if pseudo is None else [*notes, *pseudo.coverage().notes()]


def constant_rmse(model: RatingModel) -> float | None:
    """RMSE of the mean training rating on the test part; None without test ratings."""
    parts = model.parts_
    return rmse(parts.test, np.full(len(parts.test), parts.train.values.mean()))


def fallbacks(model: RatingModel) -> int:
    """Test ratings whose user or item has no training rating."""
    parts = model.parts_
    known = np.isin(parts.test.users, parts.train.users)
    return int((~(known & np.isin(parts.test.items, parts.train.items))).sum())


def shown_rmse(value: float | None) -> str:
    """An RMSE for a reader: four decimals, or that there is none."""
    return "undefined" if value is None else f"{value:.4f}"


def _data_line(model: RatingModel) -> str:
    parts = model.parts_
    return (
        f"{parts.name}: {parts.n_users:,} users, {parts.n_items:,} items, ratings to train "
        f"{len(parts.train):,}, to validate {len(parts.validation):,}, to test "
        f"{len(parts.test):,}; from {parts.low:g} to {parts.high:g}"
    )


def _ran(model: RatingModel) -> str:
    config = model.config
    title = RATING_VARIANTS[config.model].title
    if config.model in MEANS:
        return title
    what = f"{title}: {f'd = {config.dim}' if config.dim else 'biases alone'}"
    if config.model in CENTRAL:
        return what
    if config.model == "fedgnn" and config.dim:
        network = {"none": "no neighbours"}.get(
            config.neighbours, f"{config.neighbours} neighbours"
        )
        what += f", {config.gnn.upper()}, {network}"
    aggregation = aggregation_of(model)
    how = config.aggregate if aggregation is None else aggregation.describe().aggregate
    sums = _SUMS.get(how, how)
    noise = "" if config.laplace is None else f", clip {config.clip:g} and noise {config.laplace:g}"
    return f"{what}, mode {config.mode}, {sums}{noise}, {config.cohort:,} users a round"
