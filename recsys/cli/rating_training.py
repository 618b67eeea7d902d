"""A run that learns from ratings of items."""

import math
from collections.abc import Sequence

from recsys.cli.epochs import spent
from recsys.data.rating_catalogue import find_ratings
from recsys.data.rating_split import split_ratings
from recsys.engine import Engine
from recsys.ratings.config import RatingConfig
from recsys.ratings.registry import libraries_of, rating_class
from recsys.report.costs import Costs, costs_of
from recsys.report.rating_ledger import upload_epsilon
from recsys.report.rating_page import write_rating_report
from recsys.report.rating_summary import RatingSummary, summarise_ratings
from recsys.report.run_folder import RunFolder, parts_digest
from recsys.simulation import SimulationRng
from recsys.training import EpochRecord, Progress


class RatingTraining:
    """Implements ``recsys.cli.training.Training``."""

    libraries: Sequence[str]

    def __init__(self, data: str, config: RatingConfig) -> None:
        # What is wrong with the command comes before what is wrong with the installation.
        found = find_ratings(data)
        self._model = rating_class(config.model)(config)
        self._ratings = found.load()
        self._config = config
        self.name = self._ratings.name
        self.libraries = libraries_of(config.model)

    def prepare(self, sim: SimulationRng) -> list[str]:
        """Split the ratings."""
        self._parts = split_ratings(self._ratings, self._config.split, sim)
        return list(self._parts.notes)

    def digest(self) -> str:
        """See ``parts_digest``."""
        return parts_digest(self._parts)

    def fit(self, run: RunFolder, progress: Progress, engine: Engine) -> None:
        """Train the model; ``engine`` does the users' work."""
        self._model.fit(self._parts, run=run, progress=progress, engine=engine)

    def costs(self, seconds: float) -> Costs:
        """See ``costs_of``."""
        return costs_of(self._model, seconds)

    def epoch_line(self, record: EpochRecord, costs: Costs) -> str:
        """Training and validation RMSE, bytes and epsilon so far."""
        config = self._config
        validation = "-" if record.rmse is None else f"{record.rmse:.4f}"
        parts = [
            f"epoch {record.epoch:3d}/{config.epochs}",
            f"training RMSE {math.sqrt(record.loss):.4f}",
            f"validation RMSE {validation}",
        ]
        epsilon, seeded = upload_epsilon(self._model), config.seed is not None
        return "  ".join(parts + spent(costs, epsilon, "coordinate and round", seeded=seeded))

    def write(self, run: RunFolder, costs: Costs, notes: Sequence[str]) -> RatingSummary:
        """Store model and report."""
        self._model.save(run.path)
        summary = summarise_ratings(self._model, costs, run.path, notes, run.engines)
        write_rating_report(run, self._model, summary)
        return summary
