"""Rows of models side by side: each searched alike on validation, then tested over seeds.

Source: PriRec (Chen et al., 2020), section 4.2.
Differs: rows for MF, DMF, a random network and no network, beside the paper's three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.config import BY_ID, TrainConfig
from recsys.errors import DivergenceError
from recsys.experiment.bench import Bench
from recsys.experiment.job import Job, Outcome, check_job
from recsys.experiment.statistics import MAX_SEEDS, digest_of, mean, sd
from recsys.search import ENOUGH, Found, Settings, search
from recsys.variants import VARIANTS, Variant, find_variant

GAPS = (
    ("prirec", "fm", "PriRec against the central FM"),
    ("prirec", "prirec-random", "nearest neighbours against random ones"),
    ("prirec", "prirec-n0", "neighbours against none"),
    ("prirec", "prirec-", "dynamic features against none"),
    ("fm", "mf", "features against ids alone"),
    ("dmf", "mf", "decentralised against central matrix factorization"),
)
"""(row, other row, what their difference tells)."""

NO_EPSILON = dict.fromkeys(("headline", "bit", "user", "rounds", "scope")) | {"note": "no model"}
"""The epsilon of a row without any model."""


@dataclass(frozen=True)
class Plan:
    """What is compared. data: name of the set.  base: settings of all rows, without model and seed.

    rows: names of ``recsys.variants``.  seeds: how many, from 0.  trials: trainings of each row's
    search; 0 takes the models' own settings.
    """

    data: str
    base: Mapping[str, Any]
    rows: tuple[str, ...] = tuple(VARIANTS)
    seeds: int = 3
    trials: int = 0
    variants: tuple[Variant, ...] = field(init=False)

    def __post_init__(self) -> None:
        integer("seeds", self.seeds, 1, MAX_SEEDS)
        integer("trials", self.trials, 0, 2**31 - 1)
        if not self.rows or len(set(self.rows)) < len(self.rows):
            raise ParameterError(f"models must be named once each, got {', '.join(self.rows)!r}")
        object.__setattr__(self, "variants", tuple(find_variant(name) for name in self.rows))
        for variant in self.variants:
            check_job(Job(self.data, self.config(variant, 0)))

    @property
    def trainings(self) -> int:
        """How many trainings the whole comparison takes."""
        return len(self.rows) * (min(self.trials, ENOUGH) + self.seeds)

    def config(
        self, variant: Variant, seed: int, found: Settings | None = None, mode: str | None = None
    ) -> TrainConfig:
        """The settings of a row's training, with those that a search has found."""
        values = {**self.base, **(found or {}), **variant.settings, "seed": seed}
        if variant.model in BY_ID:
            values["features"] = None
        if variant.model == "prirec-" and values.get("features") == "all":
            values["features"] = "static"
        if mode is not None:
            values["mode"] = mode
        if "regions" in values and values["regions"] is not None:
            values["regions"] = int(values["regions"])
        return TrainConfig.from_dict(values)


@dataclass(frozen=True)
class Row:
    """One row: what the search found, and the outcome of each seed, diverged ones too."""

    variant: Variant
    found: Found | None
    outcomes: tuple[Outcome, ...]

    @property
    def diverged(self) -> list[int]:
        """The seeds under which training diverged."""
        return [seed for seed, outcome in enumerate(self.outcomes) if outcome["diverged"]]

    @property
    def sound(self) -> Outcome:
        """The first outcome that did not diverge, empty if all did."""
        return next((outcome for outcome in self.outcomes if not outcome["diverged"]), {})

    def to_dict(self) -> dict[str, Any]:
        """The row that ``--json`` prints; figures of several seeds are means.

        A mean is None where a seed has no figure: a row that diverged under one of them has no AUC.
        """
        first = self.sound
        spread: dict[str, float | None] = {}
        for name in ("auc", "auc_user_mean", "validation_auc", "seconds", "bytes_per_user"):
            figures = [outcome.get(name) for outcome in self.outcomes]
            spread |= {name: mean(figures), f"{name}_sd": sd(figures)}
        return {
            "model": self.variant.name,
            "title": self.variant.title,
            **spread,
            "epsilon": first.get("epsilon", NO_EPSILON),
            "mode": first.get("mode"),
            "features": first.get("features"),
            "diverged": self.diverged,
            "settings": None if self.found is None else self.found.settings,
            "trials": [] if self.found is None else trials(self.found),
            "seeds": [
                {
                    "seed": seed,
                    **{
                        name: outcome.get(name)
                        for name in (
                            *("auc", "validation_auc", "seconds", "epochs", "best_epoch"),
                            *("model_digest", "clipped", "diverged", "history"),
                        )
                    },
                }
                for seed, outcome in enumerate(self.outcomes)
            ],
        }


def compare(plan: Plan, bench: Bench) -> dict[str, Any]:
    """Search and test every row, all rows at once as far as the bench has workers.

    A row whose chosen settings diverge under one of the seeds has no AUC and says so.
    Raises DivergenceError if that goes for every row.
    """
    rows = bench.together([partial(_row, plan, variant, bench) for variant in plan.variants])
    if all(row.diverged for row in rows):
        row = rows[0]
        seed = row.diverged[0]
        raise DivergenceError(
            f"{row.variant.name} diverged under seed {seed}: {row.outcomes[seed]['diverged']}",
            remedy="give it more --trials, or a lower --learning-rate",
        )
    first = next(row for row in rows if not row.diverged).sound
    shown = [row.to_dict() for row in rows]
    return {
        "data": {
            name: first[name]
            for name in (
                *("data", "users", "pois"),
                *("train_pairs", "validation_pairs", "test_pairs", "notes"),
            )
        },
        "seeds": plan.seeds,
        "trials": min(plan.trials, ENOUGH),
        "rows": shown,
        "gaps": gaps(shown),
        "result_digest": digest_of(
            [
                [row["model"], seed["seed"], seed["auc"], seed["model_digest"]]
                for row in shown
                for seed in row["seeds"]
            ]
        ),
    }


def _row(plan: Plan, variant: Variant, bench: Bench) -> Row:
    found = None
    if plan.trials:

        def trial(settings: Settings) -> float | None:
            # One seed, and the sums in the clear: they give the same model as the protocols.
            config = plan.config(variant, 0, settings)
            if config.mode == "protocol":
                config = replace(config, mode="simulate")
            auc: float | None = bench.run(Job(plan.data, config, "validation"))["validation_auc"]
            return auc

        found = search(trial, plan.trials)
    best = None if found is None else found.settings
    jobs = [Job(plan.data, plan.config(variant, seed, best)) for seed in range(plan.seeds)]
    return Row(variant, found, tuple(bench.run(job) for job in jobs))


def trials(found: Found) -> list[dict[str, Any]]:
    """The trainings of a search as plain values, in their order."""
    return [{**settings, "validation_auc": auc} for settings, auc in found.trials]


def gaps(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The differences of ``GAPS`` whose rows are there, in test AUC.

    sd: the larger standard deviation of the two rows over the seeds, None for a single seed.
    beyond_sd: whether the row is above the other by more than that.
    """
    by_name = {row["model"]: row for row in rows}
    found = []
    for name, other, tells in GAPS:
        if name not in by_name or other not in by_name:
            continue
        here, there = by_name[name], by_name[other]
        if here["auc"] is None or there["auc"] is None:
            continue
        gap = here["auc"] - there["auc"]
        spread = None if here["auc_sd"] is None else max(here["auc_sd"], there["auc_sd"])
        found.append(
            {
                "model": name,
                "other": other,
                "tells": tells,
                "gap": gap,
                "sd": spread,
                "beyond_sd": None if spread is None else gap > spread,
            }
        )
    return found
