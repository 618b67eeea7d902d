"""One training of an experiment, described by plain values and done in a process of its own."""

import hashlib
import json
import platform
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.experiment.outcome import Outcome, Wanted
from recsys.experiment.rating_job import check_rating_job, run_rating_job
from recsys.experiment.visit_job import check_visit_job, run_visit_job
from recsys.ratings.config import RatingConfig
from recsys.ratings.registry import libraries_of
from recsys.tasks import Config


@dataclass(frozen=True)
class Job:
    """Train ``config``, which has a seed, on the data set called ``data``."""

    data: str
    config: Config
    wanted: Wanted = "test"

    @property
    def seed(self) -> int:
        """The seed of all coins. ParameterError if the configuration has none."""
        if self.config.seed is None:
            raise ParameterError("a training of an experiment needs a seed, got none")
        return self.config.seed

    @cached_property
    def key(self) -> str:
        """A name for the outcome: the same for the same training under the same versions."""
        names = ["privrec", "numpy", "scipy", "scikit-learn"]
        if isinstance(self.config, RatingConfig):
            names += libraries_of(self.config.model)
        versions = [platform.python_version(), *(metadata.version(name) for name in names)]
        values = [self.data, self.config.to_dict(), self.wanted, versions]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def check_job(job: Job) -> None:
    """Refuse now what would be refused when its turn comes, as far as settings alone tell.

    Raises ParameterError, DataError, PrivacyRefusal and MissingLibraryError.
    """
    _ = job.seed
    if isinstance(job.config, TrainConfig):
        check_visit_job(job.data, job.config)
    else:
        check_rating_job(job.data, job.config)


def run(job: Job) -> Outcome:
    """Do the training, and measure it as far as the job wants.

    A training that diverges has an outcome too: ``diverged`` says how, the validation measure is
    None. ``seconds`` leave out the preparation of the data, which a worker keeps for its next job.
    Raises what preparation and training raise otherwise: DataError, ParameterError, PrivacyRefusal.
    """
    if isinstance(job.config, TrainConfig):
        return run_visit_job(job.data, job.config, job.seed, job.wanted)
    return run_rating_job(job.data, job.config, job.seed, job.wanted)
