"""Trains under Ray in a process of its own, and prints what came of it as one JSON object.

    python -m tests.recsys.engine_driver FOLDER

A process of its own, because Ray decides where it listens when it is loaded; and one, because it
takes ten seconds to start. ``test_engine_ray`` judges what it prints.
"""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mpc.core.errors import ToolkitError
from recsys.engine import Engine, Shared
from recsys.engine_ray import RayEngine
from recsys.fedgnn import FedGNN, FedGNNLearner
from recsys.prirec import PriRec, PriRecLearner
from recsys.report.run_folder import RunFolder
from tests.recsys import engine_cases as cases
from tests.recsys import engine_work as work

WORKERS = 3
ROUND = "recsys.prirec.prirec_round"
JOINS = "import ray, sys; ray.init(address=sys.argv[1], logging_level=50); ray.shutdown()"


class Few(Engine):
    """So many of an engine's workers; the others wait."""

    name, remote = RayEngine.name, True

    def __init__(self, inner: RayEngine, count: int) -> None:
        self._inner, self._count = inner, count
        self._waiting: list[Any] = []

    def start(self, shared: Shared) -> None:
        self.close()
        inner = self._inner
        inner.start(shared)
        while inner._starting:
            inner._welcome(inner._first_of(inner._starting, 60))
        workers = list(dict.fromkeys(inner._idle))
        self._waiting = [worker for worker in inner._idle if worker in workers[self._count :]]
        inner._idle = deque(worker for worker in inner._idle if worker in workers[: self._count])

    def map(self, function: Callable[..., Any], current: Any, chunks: Sequence[Any]) -> list[Any]:
        return self._inner.map(function, current, chunks)

    def describe(self) -> str:
        return f"{self._count} of them"

    def close(self) -> None:
        self._inner._idle.extend(self._waiting)
        self._waiting = []


def outcome(model: PriRec | FedGNN) -> dict[str, Any]:
    """What must not depend on an engine."""
    learner = model.learner_
    if isinstance(learner, PriRecLearner):
        clipped = learner.sums.clipped
    else:
        assert isinstance(learner, FedGNNLearner)
        clipped = learner.aggregation.clipped
    history = [(each.loss, each.merit) for each in model.history_]
    sent = 0 if model.traffic is None else model.traffic.bytes
    return {"digest": model.model_digest, "history": history, "clipped": clipped, "bytes": sent}


def raised(action: Callable[[], object]) -> dict[str, str]:
    """Class, message and remedy of the error that ``action`` ends in."""
    try:
        action()
    except ToolkitError as error:
        return {"class": type(error).__name__, "message": error.message, "remedy": error.remedy}
    return {}


def surroundings() -> list[str]:
    """What Ray changes in a process."""
    # Ray sets that one itself, whenever it is loaded.
    ours = {name for name in os.environ if name.startswith("RAY_")} - {"RAY_CLIENT_MODE"}
    names = ("HOME", *sorted(ours))
    return [*(f"{name}={os.environ.get(name)}" for name in names), _handler()]


def _handler() -> str:
    return str(signal.getsignal(signal.SIGTERM))


def joins(address: str, *, token: bool) -> int:
    """The exit code of another process that wants to be part of the cluster."""
    env = {k: v for k, v in os.environ.items() if token or not k.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", JOINS, address]
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode


def deaths(engine: RayEngine, folder: Path) -> dict[str, Any]:
    """Workers that are killed in the middle of an epoch."""
    found: dict[str, Any] = {"whole": outcome(cases.trained("prirec", None, epochs=4))}
    with patch(ROUND, work.prirec_round_that_dies):
        found["once"] = outcome(cases.trained("prirec", engine, epochs=4))
    with patch(ROUND, work.prirec_round_that_kills), RunFolder(folder / "run", settings={}) as run:
        found["always"] = raised(lambda: cases.trained("prirec", engine, run, epochs=4))
        found["kept"] = run.checkpoints
    with RunFolder(folder / "run") as run:
        found["resumed"] = outcome(cases.trained("prirec", None, run, epochs=4))
    return found


def main() -> None:
    """Print everything, with nothing else on stdout."""
    folder = Path(sys.argv[1])
    os.environ[work.MARKER] = str(folder / "died")
    told: list[str] = []
    found: dict[str, Any] = {"before": surroundings(), "told": told}
    with RayEngine(WORKERS, tell=told.append) as engine:
        found["local"] = {case: outcome(cases.trained(case, None)) for case in cases.CASES}
        found["ray"] = {case: outcome(cases.trained(case, engine)) for case in cases.CASES}
        found["described"], found["handler"] = engine.describe(), _handler()
        found["few"] = {}
        for count in range(1, WORKERS + 1):
            with Few(engine, count) as few:
                digests = [cases.trained(case, few).model_digest for case in ("prirec", "fedgnn")]
                found["few"][count] = [digests, len(set(few.map(work.process, None, range(12))))]
        engine.start(work.Empty())
        found["echo"] = engine.map(work.echo, 5, range(10))
        found["nothing"] = engine.map(work.echo, 5, ())
        engine.start(work.Odd())
        found["refused"] = raised(lambda: engine.map(work.refuses, None, range(6)))
        found |= deaths(engine, folder)
        address = engine._ray.get_runtime_context().gcs_address
        found["joins"] = [joins(address, token=token) for token in (False, True)]
        assert engine._surroundings is not None
        place = engine._surroundings.folder
        assert place is not None
        found["folder"], found["mode"] = str(place), place.stat().st_mode & 0o777
    found["afterwards"] = surroundings()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
