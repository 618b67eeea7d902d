"""Worker processes for jobs: one BLAS thread each, gone when the caller is gone.

The numbers do not depend on how many workers there are: each job draws its own coins.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait

from mpc.core.errors import StateError
from recsys.experiment.job import Job, run
from recsys.experiment.outcome import Outcome

# Read by the linear algebra libraries when a process loads them. As many processes as cores with
# as many threads each would only get in each other's way.
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


class Pool:
    """Runs jobs in ``workers`` processes; ``run`` may be called from several threads at once."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor
        self._turn = threading.Lock()
        self._open = True
        self._waiting: set[Future[Outcome]] = set()

    def run(self, job: Job) -> Outcome:
        """The outcome of ``job``, whose errors are raised here. StateError after ``cancel``."""
        with self._turn:
            if not self._open:
                raise StateError("the pool of workers was cancelled")
            future = self._executor.submit(run, job)
            self._waiting.add(future)
        try:
            return future.result()
        finally:
            with self._turn:
                self._waiting.discard(future)

    def cancel(self) -> None:
        """Cut off what is running. Whoever waits for it gets an error, and so does a later run."""
        with self._turn:
            self._open = False
            waiting = set(self._waiting)
        # A pool notices dead workers and gives their error to everyone; one that was shut down
        # first may not. Where each job has a process of its own, the next one may just begin.
        while waiting:
            for child in multiprocessing.active_children():
                child.terminate()
            waiting = futures.wait(waiting, timeout=0.05).not_done


@contextmanager
def open_pool(workers: int, *, fresh: bool = False) -> Iterator[Pool]:
    """A pool that ends with the block; if the block raises, running jobs are cut off.

    fresh: a new process for each job, so that its peak memory is its own.
    """
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    executor = ProcessPoolExecutor(
        workers,
        # A fork would copy whatever threads and locks this process has.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_follow_parent,
        max_tasks_per_child=1 if fresh else None,
    )
    pool = Pool(executor)
    try:
        yield pool
    except BaseException:
        pool.cancel()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _follow_parent() -> None:
    """Leave Ctrl-C to the caller, and end when the caller is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def end() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
