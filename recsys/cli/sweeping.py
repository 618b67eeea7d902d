"""What ``privrec sweep`` does: plan, run, tell."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recsys.cli.console import Console
from recsys.cli.experiments import (
    DIGEST,
    Progress,
    bench,
    check_data,
    count_workers,
    effective,
    opened,
    task_in,
    with_task,
)
from recsys.cli.folders import new_folder
from recsys.cli.settings import Given, Settings
from recsys.cli.task_choice import check_task
from recsys.config import TrainConfig
from recsys.experiment import rating_sweep, sweep
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.points import word
from recsys.experiment.rating_sweep import RatingPlan
from recsys.experiment.source import load_source
from recsys.experiment.sweep import Plan
from recsys.report.rating_sweep_page import rating_sweep_page
from recsys.report.rating_sweep_text import rating_sweep_lines
from recsys.report.sweep_page import sweep_page
from recsys.report.sweep_text import sweep_lines
from recsys.tasks import PRESET, RATING, VISITS, Task

KIND = "sweep"

SIZE_EPOCHS = 3
SIZE_NEIGHBOURS = 30
"""N of the paper's Figure 7."""


@dataclass(frozen=True)
class Wish:
    """What is to be varied, and how.

    values: the points; empty takes the kind's own.  users: of the largest set of a sweep over size,
    None for its values.  places: POIs or items of those sets, None for the kind's own.
    """

    kind: str
    values: tuple[int | float | str, ...]
    users: int | None
    seeds: int
    places: int | None


def start_sweep(
    given: Given,
    task: Task,
    wish: Wish,
    *,
    workers: int | None,
    out: Path | None,
    console: Console,
    force: bool,
) -> None:
    """Sweep anew in ``out``, by default a new folder below runs/."""
    count = _workers(wish.kind, workers)
    if task is RATING:  # what the kind sets is as good as given
        own = rating_sweep.own_settings(wish.kind)
        given = replace(given, values={**own, **given.values})
    settings, named = given.settings(task), given.values
    if wish.kind != "size":
        check_task(task, settings.data, "this sweep learns")
    shared = _shared(settings, named, wish.kind)
    plan = _new_plan(settings, shared, wish)
    folder = out or new_folder(f"{KIND}-{wish.kind}")
    stored = with_task(task, _stored(plan))
    if plan.data is not None:  # a mistake in the data is told before a folder is made
        _, stored[DIGEST] = load_source(task, plan.data)
    with opened(KIND, folder, stored, force=force) as experiment:
        text = effective(shared, kind=wish.kind, values=plan.values, seeds=wish.seeds)
        experiment.write_public("config.toml", text)
        _sweep(plan, experiment, count, console)


def continue_sweep(folder: Path, workers: int | None, console: Console) -> None:
    """Go on with the sweep in ``folder``, under its own plan."""
    with opened(KIND, folder, None, force=False) as experiment:
        plan = _plan(experiment.plan)
        check_data(experiment.plan)
        console.note(f"{experiment.done} trainings of {folder} are done")
        _sweep(plan, experiment, _workers(plan.kind, workers), console)


def _sweep(
    plan: Plan | RatingPlan, experiment: ExperimentFolder, workers: int, console: Console
) -> None:
    jobs = plan.jobs()
    names = {job.key: _label(plan, *point) for point, job in jobs.items()}

    def label(job: Job) -> str:
        return names[job.key]

    fresh = plan.kind == "size"
    told = Progress(console, len(jobs), label, _task(plan))
    with bench(experiment, workers, told, fresh=fresh) as trainings:
        if isinstance(plan, RatingPlan):
            result = rating_sweep.rating_sweep(plan, trainings)
        else:
            result = sweep.sweep(plan, trainings)
    result["out"] = str(experiment.path)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    experiment.write_public("sweep.json", text.encode())
    rating = isinstance(plan, RatingPlan)
    page = rating_sweep_page(result) if rating else sweep_page(result)
    experiment.write_public("report.html", page)
    console.result(rating_sweep_lines(result) if rating else sweep_lines(result), result)


def _task(plan: Plan | RatingPlan) -> Task:
    return RATING if isinstance(plan, RatingPlan) else VISITS


def _workers(kind: str, workers: int | None) -> int:
    # Trainings that share a machine would measure each other.
    return 1 if kind == "size" and workers is None else count_workers(workers)


def _shared(settings: Settings, named: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The flat settings of all trainings; for ratings those alone that were given."""
    if isinstance(settings.train, TrainConfig):
        return replace(settings, train=_own_defaults(settings.train, named, kind)).flat()
    values = settings.flat()
    shared = {name: value for name, value in values.items() if name in named}
    return {PRESET: named[PRESET], **shared} if PRESET in named else shared


def _own_defaults(train: TrainConfig, named: Mapping[str, Any], kind: str) -> TrainConfig:
    """The settings, with this command's defaults where nothing was given."""
    own: dict[str, Any] = {"mode": "protocol" if kind == "size" else "simulate"}
    prepare = train.prepare
    if kind == "size":
        own |= {"epochs": SIZE_EPOCHS, "neighbours": SIZE_NEIGHBOURS}
        if "min_visitors" not in named:
            prepare = replace(prepare, min_visitors=0)
    changes = {name: value for name, value in own.items() if name not in named}
    return replace(train, prepare=prepare, **changes)


def _new_plan(settings: Settings, shared: Mapping[str, Any], wish: Wish) -> Plan | RatingPlan:
    task, size = settings.task, wish.kind == "size"
    data = None if size else settings.data
    base = task.unflat(shared)
    if task is RATING:
        if PRESET in shared:
            base[PRESET] = shared[PRESET]
        values = wish.values if wish.users is None else rating_sweep.sizes(wish.users)
        items = rating_sweep.ITEMS if wish.places is None else wish.places
        return RatingPlan(wish.kind, data, base, values, wish.seeds, items)
    base = {name: value for name, value in base.items() if name not in ("model", "seed")}
    numbers = tuple(value for value in wish.values if not isinstance(value, str))
    values = numbers if wish.users is None else sweep.sizes(wish.users)
    pois = sweep.POIS if wish.places is None else wish.places
    return Plan(wish.kind, data, base, values, wish.seeds, pois)


def _label(plan: Plan | RatingPlan, row: str, value: int | float | str | None, seed: int) -> str:
    point = "" if value is None else f"  {plan.shape.setting} {word(value)}"
    return f"{row:13s}{point}  seed {seed}"


def _stored(plan: Plan | RatingPlan) -> dict[str, Any]:
    places = {"items": plan.items} if isinstance(plan, RatingPlan) else {"pois": plan.pois}
    return {
        "kind": KIND,
        "what": plan.kind,
        "data": plan.data,
        "base": dict(plan.base),
        "values": list(plan.values),
        "seeds": plan.seeds,
        **places,
    }


def _plan(stored: Mapping[str, Any]) -> Plan | RatingPlan:
    values = () if stored["what"] == "iterations" else tuple(stored["values"])
    shared = (stored["what"], stored["data"], stored["base"], values, stored["seeds"])
    if task_in(stored) is RATING:
        return RatingPlan(*shared, stored["items"])
    return Plan(*shared, stored["pois"])
