"""An experiment on disk: its plan, and the outcome of each training as soon as there is one.

    public/plan.json        what is to be done; makes the folder an experiment, replaced never
    public/jobs/KEY.json    one outcome for each training that is done
    public/KIND.json, public/report.html
    .lock                   held by the process that works on it

Model: the process may be killed at any instant; trainings that were not done are repeated from
    their beginning, to the same numbers.
Leaks: nothing but figures over all users of seeded runs, which have no privacy to lose.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpc.core.errors import ParameterError
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome
from recsys.report.held_folder import HeldFolder, as_json, check_empty, read_json

FORMAT = 1

_PLAN = Path("public") / "plan.json"


class ExperimentFolder(HeldFolder):
    """Open the experiment that ``folder`` holds, or start one.

    plan: plain values, with the experiment's ``kind``, for a new one only.
    force: replace an experiment that is there, and start beside other files.
    Raises ParameterError for a folder in use, one with other files, one that holds an experiment
    already (new) or none (resumed); DataError for damaged files.
    """

    def __init__(
        self, folder: Path | str, *, plan: Mapping[str, Any] | None = None, force: bool = False
    ) -> None:
        path = Path(folder)
        if not force:
            _check_free(path, new=plan is not None)
        super().__init__(path)
        try:
            if plan is not None:
                self._start(plan, force=force)
            self.plan: dict[str, Any] = _read(self.path / _PLAN)
            for leftover in self._jobs.glob(".*.tmp"):  # of a killed process
                leftover.unlink()
        except BaseException:
            self.close()
            raise

    def discard(self) -> None:
        """Delete the experiment, outcomes too, and the folders that were made for it."""
        self._clear()
        self._remove((self._jobs, self._jobs.parent))

    @property
    def done(self) -> int:
        """How many trainings are done."""
        return len(list(self._jobs.glob("*.json")))

    def outcome(self, job: Job) -> Outcome | None:
        """The outcome of ``job``, None if it is not done. DataError if its file is damaged."""
        path = self._jobs / f"{job.key}.json"
        if not path.exists():
            return None
        outcome: Outcome = _read(path)["outcome"]
        return outcome

    def keep(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of ``job``, durably."""
        text = as_json({"format": FORMAT, "outcome": outcome})
        self.write_public(f"jobs/{job.key}.json", text)

    @property
    def _jobs(self) -> Path:
        return self.path / "public" / "jobs"

    def _start(self, plan: Mapping[str, Any], *, force: bool) -> None:
        if force and holds_experiment(self.path):
            self._clear()
        self._jobs.mkdir(parents=True, exist_ok=True)
        self.write_public("plan.json", as_json({"format": FORMAT, **plan}))

    def _clear(self) -> None:
        kind = str(_read(self.path / _PLAN).get("kind"))
        (self.path / _PLAN).unlink()  # first: without it there is no experiment
        shutil.rmtree(self._jobs, ignore_errors=True)
        for name in (f"{kind}.json", "report.html", "config.toml"):
            (self.path / "public" / name).unlink(missing_ok=True)


def holds_experiment(folder: Path) -> bool:
    """Whether ``folder`` holds an experiment that was started."""
    return (folder / _PLAN).is_file()


def _check_free(folder: Path, *, new: bool) -> None:
    if holds_experiment(folder):
        if new:
            raise ParameterError(
                f"{folder} holds an experiment already",
                remedy="--resume that one, or --force a new one",
            )
    elif new:
        check_empty(folder, "experiment")
    else:
        raise ParameterError(
            f"{folder} holds no experiment to go on with",
            remedy="name the --out folder of a comparison or a sweep",
        )


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, FORMAT, "format", "delete it and --resume, or start anew")
