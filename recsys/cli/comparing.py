"""What ``privrec compare`` does: plan, run, tell."""

import json
from collections.abc import Mapping
from dataclasses import replace
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
)
from recsys.cli.folders import new_folder
from recsys.cli.settings import Settings
from recsys.data.catalogue import find
from recsys.experiment.compare import Plan, compare
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.source import checkins_digest
from recsys.report.compare_page import comparison_page
from recsys.report.compare_text import comparison_lines
from recsys.variants import VARIANTS

KIND = "compare"


def start_comparison(
    settings: Settings,
    *,
    mode: str,
    rows: tuple[str, ...],
    seeds: int,
    trials: int,
    workers: int | None,
    out: Path | None,
    console: Console,
    force: bool,
) -> None:
    """Compare anew in ``out``, by default a new folder below runs/."""
    count = count_workers(workers)
    checkins = find(settings.data).load()  # a mistake in the data is told before a folder is made
    base = replace(settings.train, mode=mode).to_dict()
    plan = Plan(settings.data, _shared(base), rows, seeds, trials)
    folder = out or new_folder(f"{KIND}-{checkins.name}")
    stored = {**_stored(plan), DIGEST: checkins_digest(checkins)}
    with opened(KIND, folder, stored, force=force) as experiment:
        shared = Settings(settings.data, replace(settings.train, mode=mode))
        text = effective(shared, models=",".join(rows), seeds=seeds, trials=trials)
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
    with bench(experiment, workers, Progress(console, plan.trainings, _label)) as trainings:
        result = compare(plan, trainings)
    result["out"] = str(experiment.path)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    experiment.write_public("compare.json", text.encode())
    experiment.write_public("report.html", comparison_page(result, plan))
    console.result(comparison_lines(result), result)


def _shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that all rows have: model and seed are a row's own.

    What nobody set is left to each model, so that a row keeps its own tuned values.
    """
    return {name: value for name, value in values.items() if name not in ("model", "seed")}


def _stored(plan: Plan) -> dict[str, Any]:
    return {
        "kind": KIND,
        "data": plan.data,
        "base": dict(plan.base),
        "rows": list(plan.rows),
        "seeds": plan.seeds,
        "trials": plan.trials,
    }


def _plan(stored: Mapping[str, Any]) -> Plan:
    return Plan(
        stored["data"], stored["base"], tuple(stored["rows"]), stored["seeds"], stored["trials"]
    )


def _label(job: Job) -> str:
    """Which row a training belongs to, and whether it searches or tests."""
    config = job.config
    name = config.model
    for variant in VARIANTS.values():
        # The last that fits: variants with more settings come later.
        if all(getattr(config, key) == value for key, value in variant.settings.items()):
            name = variant.name
    what = "search" if job.wanted == "validation" else f"seed {config.seed}"
    return f"{name:13s}  {what}"
