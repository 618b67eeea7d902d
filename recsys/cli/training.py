"""What ``privrec train`` does: prepare, fit, measure, write; new or resumed."""

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mpc.core.errors import ParameterError, ToolkitError
from recsys.cli.console import Console
from recsys.cli.engines import EngineChoice
from recsys.cli.failures import InterruptedRunError
from recsys.cli.folders import new_folder
from recsys.cli.rating_training import RatingTraining
from recsys.cli.settings import Settings, build
from recsys.cli.task_choice import check_task
from recsys.cli.visit_training import VisitTraining
from recsys.config import TrainConfig
from recsys.engine import Engine
from recsys.errors import EngineError
from recsys.experiment.folder import holds_experiment
from recsys.report.costs import Costs
from recsys.report.run_folder import RunFolder, holds_run
from recsys.report.summary import Summary
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.tasks import DATA
from recsys.training import EpochRecord, Progress


class Training(Protocol):
    """One run of a task, whose data are read when it is made."""

    name: str
    """Of the data."""

    libraries: Sequence[str]
    """Distributions whose versions decide the model's digest, beside those that always do."""

    def prepare(self, sim: SimulationRng) -> list[str]:
        """Split the data; what a reader must know about that."""

    def digest(self) -> str:
        """SHA-256 over all that training sees of the prepared data."""

    def fit(self, run: RunFolder, progress: Progress, engine: Engine) -> None:
        """Train the model; ``engine`` does the users' work."""

    def costs(self, seconds: float) -> Costs:
        """What the training has cost so far, of which the caller took the time."""

    def epoch_line(self, record: EpochRecord, costs: Costs) -> str:
        """An epoch for a reader."""

    def write(self, run: RunFolder, costs: Costs, notes: Sequence[str]) -> Summary:
        """Store the model and its report in ``run``, and sum up."""


def start_run(
    settings: Settings,
    out: Path | None,
    console: Console,
    engine: EngineChoice,
    *,
    force: bool,
) -> None:
    """Train anew in ``out``, by default a new folder below runs/."""
    check_task(settings.task, settings.data, f"{settings.train.model} learns")
    training = _training(settings)
    folder = out or new_folder(f"{settings.train.model.replace('-', '-minus')}-{training.name}")
    with RunFolder(
        folder, settings=settings.flat(), libraries=training.libraries, force=force
    ) as run:
        try:
            summary = _train(run, settings, training, console, engine)
        except EngineError as error:
            raise _failed(run, error) from error
        except ToolkitError:
            run.discard()  # a mistake in the input leaves no folder behind
            raise
        except KeyboardInterrupt:
            raise _interrupted(run) from None
    console.result(summary.lines(), summary.json())


def continue_run(
    folder: Path, given: Mapping[str, object], console: Console, engine: EngineChoice
) -> None:
    """Go on with the run in ``folder``. given: options on the command line.

    They must agree with the run's own settings, except for ``data``: where the data lie may have
    changed, and the run knows their digest.
    """
    if not holds_run(folder):
        remedy = "name the --out folder of a run"
        if holds_experiment(folder):
            remedy += ", or go on with an experiment by privrec compare or sweep --resume"
        raise ParameterError(f"{folder} holds no run to go on with", remedy=remedy)
    with RunFolder(folder) as run:
        own = run.settings
        for name, value in given.items():
            if name != DATA and value != own.get(name):
                raise ParameterError(
                    f"--{name.replace('_', '-')} {value} differs from the run's "
                    f"{own.get(name, 'default')}",
                    remedy="leave it out: a resumed run keeps its settings; or start a new run",
                )
        settings = build({**own, **{n: v for n, v in given.items() if n == DATA}})
        try:
            summary = _train(run, settings, _training(settings), console, engine)
        except EngineError as error:
            raise _failed(run, error) from error
        except KeyboardInterrupt:
            raise _interrupted(run) from None
    console.result(summary.lines(), summary.json())


def _training(settings: Settings) -> Training:
    config = settings.train
    if isinstance(config, TrainConfig):
        return VisitTraining(settings.data, config)
    return RatingTraining(settings.data, config)


def _train(
    run: RunFolder,
    settings: Settings,
    training: Training,
    console: Console,
    choice: EngineChoice,
) -> Summary:
    seed = settings.train.seed
    start = time.perf_counter()
    spent = Costs() if run.spent is None else Costs.from_dict(run.spent)
    sim = SimulationRng(run.experiment_seed() if seed is None else seed)
    clock = Stopwatch()
    with clock.step("preparation"):
        notes = training.prepare(sim)
    notes += run.changed_versions()
    for note in notes:
        console.note(f"note: {note}")
    run.check_data(training.digest())

    def costs() -> Costs:
        return spent + Costs(steps=clock.seconds) + training.costs(time.perf_counter() - start)

    def progress(record: EpochRecord) -> None:
        console.progress(training.epoch_line(record, costs()))

    run.meter = lambda: costs().to_dict()
    run.listener = console.status
    if run.checkpoints:
        console.note(f"going on after epoch {run.checkpoints} of {run.path}")
    run.use_engine(choice.name)
    with choice.open(console.note) as engine:
        training.fit(run, progress, engine)
    return training.write(run, costs(), notes)


def _interrupted(run: RunFolder) -> InterruptedRunError:
    return InterruptedRunError("train", run.path, _kept(run))


def _kept(run: RunFolder) -> str:
    return f"epoch {run.checkpoints} is kept" if run.checkpoints else "no epoch is done yet"


def _failed(run: RunFolder, error: EngineError) -> EngineError:
    # The same error, with what is kept and how to go on.
    remedy = f"go on with: privrec train --resume {shlex.quote(str(run.path))}, under any engine"
    if error.remedy:
        remedy = f"{error.remedy}; {remedy}"
    return EngineError(f"{error.message}; {_kept(run)}", remedy=remedy)
