"""An experiment on disk: what is refused, what a kill leaves, who may work on it."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.catalogue import resolve
from recsys.errors import DataError
from recsys.experiment.folder import ExperimentFolder, holds_experiment
from recsys.experiment.job import Job
from recsys.experiment.source import checkins_digest
from tests.recsys.experiments import CITY
from tests.support.processes import python

PLAN = {"kind": "test", "points": [1, 2]}
JOB = Job(CITY, TrainConfig(seed=0))


def start(path: Path, *, force: bool = False) -> None:
    ExperimentFolder(path, plan=PLAN, force=force).close()


def test_a_plan_and_outcomes_come_back(tmp_path: Path) -> None:
    with ExperimentFolder(tmp_path / "x", plan=PLAN) as folder:
        assert folder.outcome(JOB) is None
        folder.keep(JOB, {"auc": 0.5})
    with ExperimentFolder(tmp_path / "x") as folder:
        assert {name: folder.plan[name] for name in PLAN} == PLAN
        assert folder.outcome(JOB) == {"auc": 0.5}
        assert folder.done == 1


def test_outcomes_belong_to_their_settings() -> None:
    keys = {
        job.key
        for job in (
            JOB,
            Job(CITY, TrainConfig(seed=1)),
            Job(CITY, TrainConfig(seed=0, epochs=3)),
            Job("synthetic-city", TrainConfig(seed=0)),
            Job(CITY, TrainConfig(seed=0), "validation"),
        )
    }
    assert len(keys) == 5
    assert Job(CITY, TrainConfig(seed=0)).key == JOB.key


def test_a_training_of_an_experiment_has_a_seed() -> None:
    with pytest.raises(ParameterError, match="needs a seed"):
        _ = Job(CITY, TrainConfig()).seed


def test_a_second_experiment_is_refused_and_force_replaces_it(tmp_path: Path) -> None:
    start(tmp_path / "x")
    with ExperimentFolder(tmp_path / "x") as folder:
        folder.keep(JOB, {"auc": 0.5})
    with pytest.raises(ParameterError, match="holds an experiment already") as error:
        start(tmp_path / "x")
    assert error.value.remedy == "--resume that one, or --force a new one"
    (tmp_path / "x" / "mine.txt").write_text("kept")
    start(tmp_path / "x", force=True)
    with ExperimentFolder(tmp_path / "x") as folder:
        assert folder.done == 0
    assert (tmp_path / "x" / "mine.txt").read_text() == "kept"


def test_foreign_files_and_nothing_to_resume_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("kept")
    with pytest.raises(ParameterError, match="is not empty and holds no experiment"):
        start(tmp_path / "full")
    with pytest.raises(ParameterError, match="holds no experiment to go on with"):
        ExperimentFolder(tmp_path / "full")
    with pytest.raises(ParameterError, match="holds no experiment to go on with"):
        ExperimentFolder(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="is a file"):
        start(tmp_path / "file")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        ExperimentFolder(tmp_path / "x", plan=PLAN),
        pytest.raises(ParameterError, match="in use by another process"),
    ):
        ExperimentFolder(tmp_path / "x")


def test_a_discarded_experiment_leaves_what_was_there_before(tmp_path: Path) -> None:
    with ExperimentFolder(tmp_path / "a" / "b", plan=PLAN) as folder:
        folder.keep(JOB, {"auc": 0.5})
        folder.write_public("config.toml", b"")
        folder.discard()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine.txt").write_text("kept")
    with ExperimentFolder(tmp_path, plan=PLAN, force=True) as folder:
        folder.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_half_written_outcomes_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    start(tmp_path / "x")
    jobs = tmp_path / "x" / "public" / "jobs"
    (jobs / f".{JOB.key}.json.0011.tmp").write_text('{"format": 1, "outc')
    with ExperimentFolder(tmp_path / "x") as folder:
        assert folder.done == 0
        assert list(jobs.iterdir()) == []


def test_the_digest_of_check_ins_sees_every_change_but_the_name() -> None:
    data = resolve(CITY)
    same = checkins_digest(data)
    assert checkins_digest(replace(data, name="other")) == same
    order = np.arange(data.users.size)
    changed = (
        {"users": data.users[::-1].copy()},
        {"pois": data.pois[::-1].copy()},
        {"lat": data.lat + 1e-9},
        {"lon": -data.lon},
        {"counts": data.counts + 1},
        {"category": np.full_like(data.category, -1)},
        {"order": None},
        {"order": order[::-1].copy()},
        {"user_ids": tuple(reversed(data.user_ids))},
        {"poi_ids": tuple(reversed(data.poi_ids))},
        {"category_names": tuple(reversed(data.category_names))},
    )
    digests = {checkins_digest(replace(data, **change)) for change in changed}
    assert len(digests - {same}) == len(changed)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"outcome": {}}', '{"format": 9}'])
def test_damaged_files_are_named(tmp_path: Path, text: str) -> None:
    start(tmp_path / "x")
    path = tmp_path / "x" / "public" / "jobs" / f"{JOB.key}.json"
    path.write_text(text)
    with ExperimentFolder(tmp_path / "x") as folder, pytest.raises(DataError, match=path.name):
        folder.outcome(JOB)
    (tmp_path / "x" / "public" / "plan.json").write_text(text)
    with pytest.raises(DataError, match=r"plan\.json"):
        ExperimentFolder(tmp_path / "x")
    assert holds_experiment(tmp_path / "x")


COMPARE = (
    *("-m", "recsys", "compare", "--data", CITY, "--epochs", "3", "--workers", "2"),
    *("--models", "fm,prirec-n0", "--seeds", "2", "--trials", "3", "--json", "-q"),
)


def command(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        python(*arguments),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == process.pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the comparison without an interruption."""
    process = command(*COMPARE, "--out", "whole", folder=tmp_path_factory.mktemp("whole"))
    digest: str = json.loads(process.communicate(timeout=120)[0])["result_digest"]
    return digest


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_comparison_that_is_cut_short_goes_on_to_the_same_result(
    tmp_path: Path, how: signal.Signals, whole: str
) -> None:
    process = command(*COMPARE, "--out", "cut", folder=tmp_path)
    jobs = tmp_path / "cut" / "public" / "jobs"
    wait_for(lambda: process.poll() is not None or len(list(jobs.glob("*.json"))) >= 2)
    workers = workers_of(process)
    os.kill(process.pid, how)
    _, told = process.communicate(timeout=60)
    if how is not signal.SIGKILL:
        assert process.returncode == 130
        assert "go on with: privrec compare --resume cut" in told
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    kept = len(list(jobs.glob("*.json")))
    assert 2 <= kept < 10
    resumed = command(
        *("-m", "recsys", "compare", "--resume", "cut", "--json", "-q"), folder=tmp_path
    )
    assert json.loads(resumed.communicate(timeout=120)[0])["result_digest"] == whole
    assert len(list(jobs.glob("*.json"))) == 10
