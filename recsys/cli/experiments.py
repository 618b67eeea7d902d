"""What ``privrec compare`` and ``privrec sweep`` share: folder, processes, progress."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, ToolkitError
from recsys.cli.console import Console
from recsys.cli.failures import InterruptedRunError
from recsys.experiment.bench import Bench
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome
from recsys.experiment.pool import open_pool
from recsys.experiment.source import check_source
from recsys.report import toml
from recsys.report.ledger import shown
from recsys.report.table import byte_size
from recsys.tasks import VISITS, Task, find_task

MAX_WORKERS = 256

NOUNS = {"compare": "comparison", "sweep": "sweep"}
"""What the commands make."""

DIGEST = "data_digest"
"""Field of a plan: the SHA-256 of its data, absent where it makes them itself."""

TASK = "task"
"""Field of a plan and of a result: absent for visits, which were there first."""


def count_workers(workers: int | None) -> int:
    """The number of processes: what was asked for, or the cores that this process may use."""
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return integer("workers", workers, 1, MAX_WORKERS)


@contextmanager
def opened(
    command: str, folder: Path, plan: Mapping[str, Any] | None, *, force: bool
) -> Iterator[ExperimentFolder]:
    """The experiment in ``folder``; Ctrl-C and SIGTERM say how to go on with it.

    A new one that fails before its first training is done leaves no folder behind.
    Raises ParameterError if it holds an experiment of another command.
    """
    with ExperimentFolder(folder, plan=plan, force=force) as experiment:
        kind = str(experiment.plan.get("kind"))
        if kind != command:
            raise ParameterError(
                f"{folder} holds a {NOUNS.get(kind, kind)}, not a {NOUNS[command]}",
                remedy=f"go on with: privrec {kind} --resume {folder}",
            )
        try:
            yield experiment
        except ToolkitError:
            if plan is not None and not experiment.done:
                experiment.discard()
            raise
        except KeyboardInterrupt:
            kept = "1 training is" if experiment.done == 1 else f"{experiment.done} trainings are"
            raise InterruptedRunError(command, experiment.path, f"{kept} kept") from None


def check_data(plan: Mapping[str, Any]) -> None:
    """DataError unless the data of an experiment's plan are still those that it began with."""
    if DIGEST in plan:
        check_source(task_in(plan), plan["data"], plan[DIGEST])


def task_in(plan: Mapping[str, Any]) -> Task:
    """The task of a stored plan."""
    return find_task(plan.get(TASK, VISITS.name))


def with_task(task: Task, plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan to be stored, with its task where that has to be said."""
    return dict(plan) if task is VISITS else {TASK: task.name, **plan}


@contextmanager
def bench(
    experiment: ExperimentFolder,
    workers: int,
    told: Callable[[Job, Outcome], None],
    *,
    fresh: bool = False,
) -> Iterator[Bench]:
    """A bench whose trainings run in ``workers`` processes."""
    with open_pool(workers, fresh=fresh) as pool:
        yield Bench(experiment, pool, told)


def effective(settings: Mapping[str, Any], **more: object) -> bytes:
    """public/config.toml: the flat settings that all trainings share, and the experiment's own."""
    values = {name: value for name, value in settings.items() if name != "seed"}
    comment = "".join(f"# {name} = {value}\n" for name, value in more.items())
    return (comment + toml.dump(values)).encode()


class Progress:
    """One line for each training that is done: how many, what, loss, bytes and epsilon."""

    def __init__(
        self, console: Console, expected: int, label: Callable[[Job], str], task: Task = VISITS
    ) -> None:
        self._console = console
        self._expected = expected
        self._label = label
        self._task = task
        self._done = 0
        self._best: dict[str, float] = {}
        self._start = time.monotonic()

    def __call__(self, job: Job, outcome: Outcome) -> None:
        """Tell of ``job``, which is done."""
        self._done += 1
        label = self._label(job)
        parts = [
            f"{self._done:3d}/{self._expected}",
            f"{time.monotonic() - self._start:5.0f} s",
            label,
        ]
        if outcome["diverged"]:
            parts.append("diverged")
        measure = self._task.measure
        validation = f"validation_{measure}"
        for name, text in ((validation, "validation"), (measure, "test")):
            if outcome.get(name) is not None:
                parts.append(f"{text} {measure.upper()} {outcome[name]:.4f}")
        if job.wanted == "validation" and outcome[validation] is not None:
            best = outcome[validation]
            if label in self._best and self._task.better(self._best[label], best):
                best = self._best[label]
            self._best[label] = best
            parts.append(f"best {best:.4f}")
        if outcome.get("loss") is not None:
            parts.append(f"loss {outcome['loss']:.4f}")
        if outcome.get("bytes_per_user"):
            parts.append(f"{byte_size(outcome['bytes_per_user'])} per user")
        epsilon = outcome.get("epsilon") or {}
        for name, unit in (("bit", "user-POI pair"), ("coordinate", "coordinate and round")):
            if epsilon.get(name) is not None:
                parts.append(f"nominal epsilon {shown(epsilon[name])} per {unit}")
        self._console.progress("  ".join(parts))
