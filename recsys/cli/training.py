"""What ``privrec train`` does: prepare, fit, measure, write; new or resumed."""

import time
from collections.abc import Mapping
from pathlib import Path

from mpc.core.errors import ParameterError, ToolkitError
from recsys.cli.console import Console
from recsys.cli.failures import InterruptedRunError
from recsys.cli.folders import new_folder
from recsys.cli.settings import DATA, Settings, build
from recsys.data.catalogue import DataSet, find
from recsys.data.checkins import CheckIns
from recsys.data.prepare import prepare
from recsys.profiles import user_profiles
from recsys.recommender import Recommender
from recsys.registry import recommender_class
from recsys.report.costs import Costs, costs_of
from recsys.report.ledger import shown
from recsys.report.page import write_report
from recsys.report.run_folder import RunFolder, data_digest, holds_run
from recsys.report.summary import Summary, summarise
from recsys.report.table import byte_size
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import EpochRecord


def start_run(settings: Settings, out: Path | None, console: Console, *, force: bool) -> None:
    """Train anew in ``out``, by default a new folder below runs/."""
    source = find(settings.data)
    checkins = source.load()
    folder = out or new_folder(f"{settings.train.model.replace('-', '-minus')}-{checkins.name}")
    with RunFolder(folder, settings=settings.flat(), force=force) as run:
        try:
            summary = _train(run, settings, source, checkins, console)
        except ToolkitError:
            run.discard()  # a mistake in the input leaves no folder behind
            raise
        except KeyboardInterrupt:
            raise _interrupted(run) from None
    console.result(summary.lines(), summary.json())


def continue_run(folder: Path, given: Mapping[str, object], console: Console) -> None:
    """Go on with the run in ``folder``. given: options on the command line.

    They must agree with the run's own settings, except for ``data``: where the check-ins lie may
    have changed, and the run knows their digest.
    """
    if not holds_run(folder):
        raise ParameterError(
            f"{folder} holds no run to go on with", remedy="name the --out folder of a run"
        )
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
        source = find(settings.data)
        try:
            summary = _train(run, settings, source, source.load(), console)
        except KeyboardInterrupt:
            raise _interrupted(run) from None
    console.result(summary.lines(), summary.json())


def _train(
    run: RunFolder, settings: Settings, source: DataSet, checkins: CheckIns, console: Console
) -> Summary:
    config = settings.train
    start = time.perf_counter()
    spent = Costs() if run.spent is None else Costs.from_dict(run.spent)
    sim = SimulationRng(run.experiment_seed() if config.seed is None else config.seed)
    clock = Stopwatch()
    with clock.step("preparation"):
        prepared = prepare(checkins, config.prepare, sim)
        profiles, notes = user_profiles(source, config.feature_kind, prepared.n_users, sim)
    notes = [*prepared.notes, *notes, *run.changed_versions()]
    for note in notes:
        console.note(f"note: {note}")
    user_features = None if profiles is None else profiles.values
    run.check_data(data_digest(prepared, user_features))
    model = recommender_class(config.model)(config)

    def costs() -> Costs:
        here = costs_of(model, time.perf_counter() - start)
        return spent + Costs(steps=clock.seconds) + here

    def progress(record: EpochRecord) -> None:
        console.progress(_epoch_line(record, model, costs()))

    run.meter = lambda: costs().to_dict()
    if run.checkpoints:
        console.note(f"going on after epoch {run.checkpoints} of {run.path}")
    model.fit(prepared, user_features=user_features, run=run, progress=progress)
    total = costs()
    model.save(run.path)
    summary = summarise(model, total, run.path, notes)
    write_report(run, model, summary)
    return summary


def _interrupted(run: RunFolder) -> InterruptedRunError:
    done = run.checkpoints
    kept = f"epoch {done} is kept" if done else "no epoch is done yet"
    return InterruptedRunError("train", run.path, kept)


def _epoch_line(record: EpochRecord, model: Recommender, costs: Costs) -> str:
    config = model.config
    auc = "-" if record.auc is None else f"{record.auc:.4f}"
    parts = [
        f"epoch {record.epoch:3d}/{config.epochs}",
        f"loss {record.loss:.4f}",
        f"validation AUC {auc}",
    ]
    if costs.traffic:
        parts.append(byte_size(costs.bytes))
    if model.features_.counts:
        nominal = " (nominal)" if config.seed is not None else ""
        parts.append(f"epsilon {shown(config.epsilon)}{nominal} per user-POI pair")
    return "  ".join(parts)
