"""Experiments small enough for a test: a bench without processes, and what it has trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recsys.config import TrainConfig
from recsys.experiment.bench import Bench
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job, run
from recsys.experiment.outcome import Outcome
from recsys.experiment.pool import Pool

CITY = "synthetic-city:40x30,pois_per_user=10"


class Here:
    """Trains in this process, and remembers what."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.cancelled = False

    def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return run(job)

    def cancel(self) -> None:
        self.cancelled = True


def visits(job: Job) -> TrainConfig:
    """The settings of a job, which are of a model of visits."""
    assert isinstance(job.config, TrainConfig)
    return job.config


def base(**changes: Any) -> dict[str, Any]:
    """Settings that all rows share, for trainings of a blink."""
    quick: dict[str, Any] = {"mode": "simulate", "epochs": 2, "neighbours": 3, **changes}
    values = TrainConfig(**quick).to_dict()
    return {name: value for name, value in values.items() if name not in ("model", "seed")}


@contextmanager
def bench(folder: Path, workers: Here | Pool | None = None) -> Iterator[Bench]:
    """A bench on a new experiment in ``folder``."""
    with ExperimentFolder(folder, plan={"kind": "test"}) as experiment:
        yield Bench(experiment, workers or Here())
