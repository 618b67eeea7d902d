"""What ``privrec sweep`` does: plan, run, tell."""

import json
from collections.abc import Collection, Mapping
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
from recsys.config import TrainConfig
from recsys.data.catalogue import find
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.source import checkins_digest
from recsys.experiment.sweep import POIS, Plan, sizes, sweep
from recsys.report.sweep_page import sweep_page
from recsys.report.sweep_text import sweep_lines

KIND = "sweep"

SIZE_EPOCHS = 3
SIZE_NEIGHBOURS = 30
"""N of the paper's Figure 7."""


def start_sweep(
    settings: Settings,
    named: Collection[str],
    *,
    kind: str,
    values: tuple[int | float, ...],
    users: int | None,
    seeds: int,
    pois: int | None,
    workers: int | None,
    out: Path | None,
    console: Console,
    force: bool,
) -> None:
    """Sweep anew in ``out``, by default a new folder below runs/.

    named: the settings that were given, so that others take this command's defaults.
    """
    count = _workers(kind, workers)
    train = _own_defaults(settings.train, named, kind)
    plan = Plan(
        kind,
        None if kind == "size" else settings.data,
        {n: value for n, value in train.to_dict().items() if n not in ("model", "seed")},
        values if users is None else sizes(users),
        seeds,
        POIS if pois is None else pois,
    )
    folder = out or new_folder(f"{KIND}-{kind}")
    stored = _stored(plan)
    if plan.data is not None:  # a mistake in the data is told before a folder is made
        stored[DIGEST] = checkins_digest(find(plan.data).load())
    with opened(KIND, folder, stored, force=force) as experiment:
        text = effective(Settings(settings.data, train), kind=kind, values=plan.values, seeds=seeds)
        experiment.write_public("config.toml", text)
        _sweep(plan, experiment, count, console)


def continue_sweep(folder: Path, workers: int | None, console: Console) -> None:
    """Go on with the sweep in ``folder``, under its own plan."""
    with opened(KIND, folder, None, force=False) as experiment:
        plan = _plan(experiment.plan)
        check_data(experiment.plan)
        console.note(f"{experiment.done} trainings of {folder} are done")
        _sweep(plan, experiment, _workers(plan.kind, workers), console)


def _sweep(plan: Plan, experiment: ExperimentFolder, workers: int, console: Console) -> None:
    jobs = plan.jobs()
    names = {job.key: _label(plan, *point) for point, job in jobs.items()}

    def label(job: Job) -> str:
        return names[job.key]

    fresh = plan.kind == "size"
    told = Progress(console, len(jobs), label)
    with bench(experiment, workers, told, fresh=fresh) as trainings:
        result = sweep(plan, trainings)
    result["out"] = str(experiment.path)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    experiment.write_public("sweep.json", text.encode())
    experiment.write_public("report.html", sweep_page(result))
    console.result(sweep_lines(result), result)


def _workers(kind: str, workers: int | None) -> int:
    # Trainings that share a machine would measure each other.
    return 1 if kind == "size" and workers is None else count_workers(workers)


def _own_defaults(train: TrainConfig, named: Collection[str], kind: str) -> TrainConfig:
    """The settings, with this command's defaults where nothing was given."""
    own: dict[str, Any] = {"mode": "protocol" if kind == "size" else "simulate"}
    prepare = train.prepare
    if kind == "size":
        own |= {"epochs": SIZE_EPOCHS, "neighbours": SIZE_NEIGHBOURS}
        if "min_visitors" not in named:
            prepare = replace(prepare, min_visitors=0)
    changes = {name: value for name, value in own.items() if name not in named}
    return replace(train, prepare=prepare, **changes)


def _label(plan: Plan, row: str, value: int | float | None, seed: int) -> str:
    point = "" if value is None else f"  {plan.shape.setting} {value:g}"
    return f"{row:13s}{point}  seed {seed}"


def _stored(plan: Plan) -> dict[str, Any]:
    return {
        "kind": KIND,
        "what": plan.kind,
        "data": plan.data,
        "base": dict(plan.base),
        "values": list(plan.values),
        "seeds": plan.seeds,
        "pois": plan.pois,
    }


def _plan(stored: Mapping[str, Any]) -> Plan:
    values = () if stored["what"] == "iterations" else tuple(stored["values"])
    return Plan(
        stored["what"], stored["data"], stored["base"], values, stored["seeds"], stored["pois"]
    )
