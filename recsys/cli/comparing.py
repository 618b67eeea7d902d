"""What ``privrec compare`` does: plan, run, tell."""

import json
from collections.abc import Mapping
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
from recsys.cli.settings import Settings
from recsys.cli.task_choice import check_task
from recsys.experiment.compare import Plan, compare
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.source import load_source
from recsys.report.compare_page import comparison_page
from recsys.report.compare_text import comparison_lines
from recsys.report.rating_compare_page import rating_comparison_page
from recsys.report.rating_compare_text import rating_comparison_lines
from recsys.tasks import DATA, RATING

KIND = "compare"


def start_comparison(
    settings: Settings,
    named: Mapping[str, Any],
    *,
    rows: tuple[str, ...],
    seeds: int,
    trials: int,
    workers: int | None,
    out: Path | None,
    console: Console,
    force: bool,
) -> None:
    """Compare anew in ``out``, by default a new folder below runs/. named: settings as given."""
    count, task = count_workers(workers), settings.task
    check_task(task, settings.data, "these models learn")
    name, digest = load_source(task, settings.data)  # a mistake there is told before a folder is
    shared = _shared(settings, named)
    plan = Plan(settings.data, task.unflat(shared), rows, seeds, trials, task)
    folder = out or new_folder(f"{KIND}-{name}")
    with opened(KIND, folder, {**_stored(plan), DIGEST: digest}, force=force) as experiment:
        text = effective(
            {DATA: settings.data, **shared}, models=",".join(rows), seeds=seeds, trials=trials
        )
        experiment.write_public("config.toml", text)
        _compare(plan, experiment, count, console)


def continue_comparison(folder: Path, workers: int | None, console: Console) -> None:
    """Go on with the comparison in ``folder``, under its own plan."""
    count = count_workers(workers)
    with opened(KIND, folder, None, force=False) as experiment:
        plan = _plan(experiment.plan)
        check_data(experiment.plan)
        console.note(f"{experiment.done} trainings of {folder} are done")
        _compare(plan, experiment, count, console)


def _compare(plan: Plan, experiment: ExperimentFolder, workers: int, console: Console) -> None:
    told = Progress(console, plan.trainings, plan.label, plan.task)
    with bench(experiment, workers, told) as trainings:
        result = compare(plan, trainings)
    result["out"] = str(experiment.path)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    experiment.write_public("compare.json", text.encode())
    rating = plan.task is RATING
    page = rating_comparison_page(result, plan) if rating else comparison_page(result, plan)
    experiment.write_public("report.html", page)
    lines = rating_comparison_lines(result) if rating else comparison_lines(result)
    console.result(lines, result)


def _shared(settings: Settings, named: Mapping[str, Any]) -> dict[str, Any]:
    """The flat settings that all rows have: model and seed are a row's own.

    What nobody set is left to each model, so that a row keeps its own tuned values. For ratings
    that goes for presets too, so nothing is there but what was named.
    The default of a comparison is to simulate, that of a training is not.
    """
    values = settings.task.flat(settings.train)
    if settings.task is RATING:
        values = {name: value for name, value in values.items() if name in named}
    if "mode" not in named:
        values["mode"] = "simulate"
    return {name: value for name, value in values.items() if name not in ("model", "seed")}


def _stored(plan: Plan) -> dict[str, Any]:
    return with_task(
        plan.task,
        {
            "kind": KIND,
            "data": plan.data,
            "base": dict(plan.base),
            "rows": list(plan.rows),
            "seeds": plan.seeds,
            "trials": plan.trials,
        },
    )


def _plan(stored: Mapping[str, Any]) -> Plan:
    return Plan(
        stored["data"],
        stored["base"],
        tuple(stored["rows"]),
        stored["seeds"],
        stored["trials"],
        task_in(stored),
    )
