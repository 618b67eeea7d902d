"""What the rows of an experiment show, task by task, and how their settings come together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recsys.config import BY_ID
from recsys.report.rating_ledger import NO_EPSILON as NO_RATING_EPSILON
from recsys.search import Settings
from recsys.tasks import RATING, Config, Task, whole
from recsys.variants import Variant

NO_EPSILON = dict.fromkeys(("headline", "bit", "user", "rounds", "scope")) | {"note": "no model"}
"""The epsilon of a row without any model."""


@dataclass(frozen=True)
class Figures:
    """Fields of outcomes, by what is made of them.

    spread: a mean and a standard deviation over the seeds.  of_seed: one of each seed.
    facts: the same for all rows.  no_epsilon: of a row without any model.
    gaps: (row, other row, what their difference tells).
    """

    spread: tuple[str, ...]
    of_seed: tuple[str, ...]
    facts: tuple[str, ...]
    no_epsilon: Mapping[str, Any]
    gaps: tuple[tuple[str, str, str], ...]


_VISITS = Figures(
    spread=("auc", "auc_user_mean", "validation_auc", "seconds", "bytes_per_user"),
    of_seed=(
        *("auc", "validation_auc", "seconds", "epochs", "best_epoch"),
        *("model_digest", "clipped", "diverged", "history"),
    ),
    facts=(
        *("data", "users", "pois"),
        *("train_pairs", "validation_pairs", "test_pairs", "notes"),
    ),
    no_epsilon=NO_EPSILON,
    gaps=(
        ("prirec", "fm", "PriRec against the central FM"),
        ("prirec", "prirec-random", "nearest neighbours against random ones"),
        ("prirec", "prirec-n0", "neighbours against none"),
        ("prirec", "prirec-", "dynamic features against none"),
        ("fm", "mf", "features against ids alone"),
        ("dmf", "mf", "decentralised against central matrix factorization"),
    ),
)

_RATINGS = Figures(
    spread=(
        *("rmse", "validation_rmse", "constant_rmse", "seconds", "bytes_per_user", "fallbacks"),
    ),
    of_seed=(
        *("rmse", "validation_rmse", "seconds", "epochs", "best_epoch", "fallbacks"),
        *("model_digest", "clipped", "diverged", "history"),
    ),
    facts=(
        *("data", "users", "items", "constant_rmse"),
        *("train_ratings", "validation_ratings", "test_ratings", "notes"),
    ),
    no_epsilon=NO_RATING_EPSILON,
    gaps=(
        ("fedgnn-gcn", "bias", "the network against two biases"),
        ("fedgnn-gcn", "svdpp", "federated against the central SVD++"),
        ("fedgnn-gcn", "gcmc", "a user's own graph against the whole one"),
        ("fedgnn-gcn", "fedmf", "the network against federated factors"),
        ("fedgnn-gat", "fedgnn-gcn", "attention against convolution"),
        ("fedgnn-gcn", "fedgnn-ldp", "the price of noise on every upload"),
        ("fedgnn-paper", "global-mean", "the paper's hyper-parameters against a constant"),
    ),
)


def figures_of(task: Task) -> Figures:
    """What the rows of a task show."""
    return _RATINGS if task is RATING else _VISITS


def row_config(
    task: Task, variant: Variant, seed: int, base: Mapping[str, Any], found: Settings
) -> Config:
    """The settings of one training of a row, in the order in which they win.

    base: what all rows share, as ``to_dict`` of the task's configuration has it.  found: by a
    search.  A row is what its variant says, whatever else is set. Ratings: what was given for all
    rows wins over a search, and that over a preset and the model's own settings, since a base
    holds nothing else. Visits: a base holds every setting, so that what a search has found wins.
    """
    if task is RATING:
        below = task.unflat(task.completed(variant.settings))
        values = {**below, **whole(found), **base, **task.unflat(variant.settings)}
        return task.config.from_dict({**values, "seed": seed})
    values = {**base, **found, **variant.settings, "seed": seed}
    if variant.model in BY_ID:
        values["features"] = None
    if variant.model == "prirec-" and values.get("features") == "all":
        values["features"] = "static"
    if "regions" in values and values["regions"] is not None:
        values["regions"] = int(values["regions"])
    return task.config.from_dict(values)
