"""Worker processes: how an error and a cancellation end them, and what they leave behind."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mpc.core.errors import StateError
from recsys.config import TrainConfig
from recsys.errors import DataError
from recsys.experiment.bench import Bench
from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome
from recsys.experiment.pool import open_pool
from tests.recsys.experiments import CITY

NOWHERE = Job("no-such-place", TrainConfig(seed=0))
LONG = Job("synthetic-city:3000x1000", TrainConfig(mode="simulate", seed=0, epochs=1000))
QUICK = Job(CITY, TrainConfig(mode="simulate", seed=0, epochs=1, neighbours=3))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_an_error_reaches_the_caller_and_ends_the_others(
    tmp_path: Path, count: int, fresh: bool
) -> None:
    """With one worker the others are still waiting, with two one of them is at work."""
    jobs = [NOWHERE, LONG, LONG]

    def train(folder: ExperimentFolder) -> None:
        with open_pool(count, fresh=fresh) as pool:
            bench = Bench(folder, pool)
            bench.together([partial(bench.run, job) for job in jobs])

    with (
        ExperimentFolder(tmp_path / "x", plan={"kind": "test"}) as folder,
        pytest.raises(DataError, match="no-such-place"),
    ):
        train(folder)
    assert multiprocessing.active_children() == []


def test_a_cancelled_pool_ends_what_runs_and_takes_no_more() -> None:
    with open_pool(1) as pool, ThreadPoolExecutor(1) as thread:
        running = thread.submit(pool.run, LONG)
        time.sleep(0.2)
        pool.cancel()
        assert running.exception() is not None
        with pytest.raises(StateError, match="cancelled"):
            pool.run(QUICK)


@pytest.mark.parametrize(("fresh", "processes"), [(False, 1), (True, 2)])
def test_fresh_workers_serve_one_job_each(fresh: bool, processes: int) -> None:
    with open_pool(1, fresh=fresh) as pool:
        found = {pool._executor.submit(os.getpid).result() for _ in range(2)}
    assert len(found) == processes
    assert os.getpid() not in found


def test_the_environment_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with open_pool(1):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_who_asks_for_a_training_that_runs_waits_for_it(tmp_path: Path) -> None:
    started, counted = threading.Event(), []

    class Slow:
        def run(self, job: Job) -> Outcome:
            counted.append(job)
            started.wait(0.2)  # long enough for the other to ask
            return {"auc": 0.5, "diverged": None}

        def cancel(self) -> None:
            """Nothing to end."""

    with ExperimentFolder(tmp_path / "x", plan={"kind": "test"}) as folder:
        bench = Bench(folder, Slow())
        found = bench.together([lambda: bench.run(QUICK)] * 3)
    assert found == [{"auc": 0.5, "diverged": None}] * 3
    assert counted == [QUICK]
