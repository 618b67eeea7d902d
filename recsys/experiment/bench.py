"""Where the trainings of an experiment happen: each done once, kept, and told to whoever waits."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from recsys.experiment.folder import ExperimentFolder
from recsys.experiment.job import Job
from recsys.experiment.outcome import Outcome

T = TypeVar("T")

_MOST_WAITING = 64  # threads that wait for trainings; more tasks than that take turns
Told = Callable[[Job, Outcome], None]


class Workers(Protocol):
    """Where trainings run; ``recsys.experiment.pool.Pool`` has processes."""

    def run(self, job: Job) -> Outcome:
        """The outcome of ``job``."""

    def cancel(self) -> None:
        """End what is running; whoever waits for it gets an error."""


class Bench:
    """``run`` may be called from several threads; a training that is done is not repeated."""

    def __init__(
        self, folder: ExperimentFolder, workers: Workers, told: Told | None = None
    ) -> None:
        self._folder = folder
        self._workers = workers
        self._told = told
        self._turn = threading.Lock()
        self._of_job: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def run(self, job: Job) -> Outcome:
        """The outcome of ``job``, from the folder if it holds it."""
        with self._turn:
            alone = self._of_job[job.key]
        with alone:  # whoever else wants this very training waits for it
            outcome = self._folder.outcome(job)
            if outcome is None:
                outcome = self._workers.run(job)
                self._folder.keep(job, outcome)
        if self._told is not None:
            with self._turn:
                self._told(job, outcome)
        return outcome

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of ``tasks``, which wait for trainings side by side.

        An error of one, or Ctrl-C, ends the trainings of all and is raised.
        """
        with ThreadPoolExecutor(min(max(1, len(tasks)), _MOST_WAITING)) as threads:
            waiting = [threads.submit(task) for task in tasks]
            try:
                done, _ = wait(waiting, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
            except BaseException:
                self._workers.cancel()
                raise
            return [each.result() for each in waiting]
