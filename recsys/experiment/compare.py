"""Rows of models side by side: each searched alike on validation, then tested over seeds.

Source: PriRec (Chen et al., 2020), section 4.2; FedGNN (Wu et al., 2021), Table 3.
Differs: rows for MF, DMF, a random network and no network, beside the PriRec paper's three; for
    means, biases and noise, beside the FedGNN paper's. A row whose training cannot be done has its
    reason in the place of figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import MissingLibraryError, ParameterError, ToolkitError
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.experiment.bench import Bench
from recsys.experiment.job import Job, check_job
from recsys.experiment.outcome import Outcome, Wanted
from recsys.experiment.rows import figures_of, row_config
from recsys.experiment.statistics import MAX_SEEDS, digest_of, mean, sd
from recsys.report.rating_paper import paper_rmse
from recsys.search import Found, Settings, Space, search
from recsys.tasks import RATING, VISITS, Config, Task
from recsys.variants import VARIANTS, Variant, find_variant


@dataclass(frozen=True)
class Plan:
    """What is compared. data: name of the set.  base: settings of all rows, without model and seed.

    rows: names of the task's variants.  seeds: how many, from 0.  trials: trainings of each row's
    search; 0 takes the models' own settings.
    """

    data: str
    base: Mapping[str, Any]
    rows: tuple[str, ...] = tuple(VARIANTS)
    seeds: int = 3
    trials: int = 0
    task: Task = VISITS
    variants: tuple[Variant, ...] = field(init=False)
    _labels: dict[str, str] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        integer("seeds", self.seeds, 1, MAX_SEEDS)
        integer("trials", self.trials, 0, 2**31 - 1)
        if not self.rows or len(set(self.rows)) < len(self.rows):
            raise ParameterError(f"models must be named once each, got {', '.join(self.rows)!r}")
        found = tuple(find_variant(name, self.task.variants) for name in self.rows)
        object.__setattr__(self, "variants", found)
        for variant in self.variants:
            try:
                check_job(Job(self.data, self.config(variant, 0)))
            except MissingLibraryError:
                continue  # its row says so

    def space(self, variant: Variant) -> Space | None:
        """What is searched for a row, None for nothing.

        Of ratings, settings that were given for all rows are not searched.
        """
        space = self.task.space(variant.model) if variant.searched else None
        return space.without(self.base) if space is not None and self.task is RATING else space

    @property
    def trainings(self) -> int:
        """How many trainings the whole comparison takes."""
        spaces = [self.space(variant) for variant in self.variants]
        trials = sum(min(self.trials, space.enough) for space in spaces if space is not None)
        return trials + len(self.variants) * self.seeds

    def config(
        self, variant: Variant, seed: int, found: Settings | None = None, mode: str | None = None
    ) -> Config:
        """The settings of a row's training, with those that a search has found."""
        base = self.base if mode is None else {**self.base, "mode": mode}
        return row_config(self.task, variant, seed, base, found or {})

    def job(self, variant: Variant, config: Config, wanted: Wanted = "test") -> Job:
        """A training of a row, whose ``label`` is known from now on."""
        job = Job(self.data, config, wanted)
        what = "search" if wanted == "validation" else f"seed {job.seed}"
        self._labels.setdefault(job.key, f"{variant.name:13s}  {what}")
        return job

    def label(self, job: Job) -> str:
        """Which row a training belongs to, and whether it searches or tests."""
        return self._labels[job.key]


@dataclass(frozen=True)
class Row:
    """One row: what the search found, and the outcome of each seed, diverged ones too.

    failure: why there are no outcomes, None where there are.
    """

    task: Task
    variant: Variant
    found: Found | None
    outcomes: tuple[Outcome, ...]
    failure: ToolkitError | None = None

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

        A mean is None where a seed has no figure: a row that diverged under one of them has no
        measure.
        """
        first, figures = self.sound, figures_of(self.task)
        spread: dict[str, float | None] = {}
        for name in figures.spread:
            values = [outcome.get(name) for outcome in self.outcomes]
            spread |= {name: mean(values), f"{name}_sd": sd(values)}
        row = {
            "model": self.variant.name,
            "title": self.variant.title,
            **spread,
            "epsilon": self._epsilon() or figures.no_epsilon,
            "mode": first.get("mode"),
        }
        if self.task is VISITS:
            row["features"] = first.get("features")
        else:
            row |= {
                "bytes_counted": first.get("bytes_counted"),
                "guesses": first.get("guesses"),
                "notes": first.get("model_notes", []),
                "digest": digest_of([o.get("model_digest") for o in self.outcomes]),
                "reason": self._reason(),
            }
        return row | {
            "diverged": self.diverged,
            "settings": None if self.found is None else self.found.settings,
            "trials": [] if self.found is None else trials(self.found, self.task),
            "seeds": [
                {"seed": seed, **{name: outcome.get(name) for name in figures.of_seed}}
                for seed, outcome in enumerate(self.outcomes)
            ],
        }

    def _epsilon(self) -> dict[str, Any] | None:
        """That of the seed whose user loses most: those who stop later release more."""
        known: list[dict[str, Any]] = [o["epsilon"] for o in self.outcomes if "epsilon" in o]
        return max(known, key=lambda epsilon: _number(epsilon["user"]), default=None)

    def _reason(self) -> str | None:
        """Why the row has no figure, None where it has one."""
        if self.failure is not None:
            remedy = f" ({self.failure.remedy})" if self.failure.remedy else ""
            return f"{self.failure.message}{remedy}"
        if self.diverged:
            seed = self.diverged[0]
            return f"diverged under seed {seed}: {self.outcomes[seed]['diverged']}"
        return None


def _number(epsilon: float | str | None) -> float:
    return -1.0 if epsilon is None else float(epsilon)  # JSON has the word infinity


def compare(plan: Plan, bench: Bench) -> dict[str, Any]:
    """Search and test every row, all rows at once as far as the bench has workers.

    A row whose chosen settings diverge under one of the seeds has no measure and says so; and so
    does a row of ratings that cannot be trained on these data, or lacks a library.
    Raises DivergenceError, or what kept it from training, if that goes for every row.
    """
    rows = bench.together([partial(_row, plan, variant, bench) for variant in plan.variants])
    sound = [row for row in rows if row.outcomes and not row.diverged]
    if not sound:
        raise _nothing_left(rows)
    first, task = sound[0].sound, plan.task
    shown = [row.to_dict() for row in rows]
    if task is RATING:
        shown = [{**row, "paper_rmse": paper_rmse(row["model"], first["data"])} for row in shown]
    result = {
        "data": {name: first[name] for name in figures_of(task).facts},
        "seeds": plan.seeds,
        "trials": min(plan.trials, task.enough),
        "rows": shown,
        "gaps": gaps(shown, task),
        "result_digest": digest_of(
            [
                [row["model"], seed["seed"], seed[task.measure], seed["model_digest"]]
                for row in shown
                for seed in row["seeds"]
            ]
        ),
    }
    return result if task is VISITS else {"task": task.name, **result}


def _nothing_left(rows: Sequence[Row]) -> ToolkitError:
    for row in rows:
        if row.failure is not None:
            return row.failure
    row = rows[0]
    seed = row.diverged[0]
    return DivergenceError(
        f"{row.variant.name} diverged under seed {seed}: {row.outcomes[seed]['diverged']}",
        remedy="give it more --trials, or a lower --learning-rate",
    )


def _row(plan: Plan, variant: Variant, bench: Bench) -> Row:
    if plan.task is VISITS:  # the data are good for all models or for none
        return _trained(plan, variant, bench)
    try:
        return _trained(plan, variant, bench)
    except (ParameterError, PrivacyRefusal, MissingLibraryError) as error:
        return Row(plan.task, variant, None, (), error)


def _trained(plan: Plan, variant: Variant, bench: Bench) -> Row:
    check_job(Job(plan.data, plan.config(variant, 0)))
    found, space = None, plan.space(variant)
    if plan.trials and space is not None:

        def trial(settings: Settings) -> float | None:
            # One seed, and the sums in the clear: they give the same model as the protocols.
            config = plan.config(variant, 0, settings)
            if config.mode == "protocol":
                config = replace(config, mode="simulate")
            outcome = bench.run(plan.job(variant, config, "validation"))
            measure: float | None = outcome[f"validation_{plan.task.measure}"]
            return measure

        found = search(trial, plan.trials, space)
    best = None if found is None else found.settings
    jobs = [plan.job(variant, plan.config(variant, seed, best)) for seed in range(plan.seeds)]
    return Row(plan.task, variant, found, tuple(bench.run(job) for job in jobs))


def trials(found: Found, task: Task = VISITS) -> list[dict[str, Any]]:
    """The trainings of a search as plain values, in their order."""
    name = f"validation_{task.measure}"
    return [{**settings, name: measure} for settings, measure in found.trials]


def gaps(rows: Sequence[Mapping[str, Any]], task: Task = VISITS) -> list[dict[str, Any]]:
    """The differences that tell something and whose rows are there, in the task's measure.

    gap: above 0 where the row is the better one.  sd: the larger standard deviation of the two
    rows over the seeds, None for a single seed.  beyond_sd: whether the row is better by more than
    that.
    """
    measure, sign = task.measure, -1 if task.lower else 1
    by_name = {row["model"]: row for row in rows}
    found = []
    for name, other, tells in figures_of(task).gaps:
        if name not in by_name or other not in by_name:
            continue
        here, there = by_name[name], by_name[other]
        if here[measure] is None or there[measure] is None:
            continue
        gap = sign * (here[measure] - there[measure])
        spread = f"{measure}_sd"
        larger = None if here[spread] is None else max(here[spread], there[spread])
        found.append(
            {
                "model": name,
                "other": other,
                "tells": tells,
                "gap": gap,
                "sd": larger,
                "beyond_sd": None if larger is None else gap > larger,
            }
        )
    return found
