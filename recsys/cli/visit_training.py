"""A run that learns from visits to places."""

from collections.abc import Sequence

from recsys.cli.epochs import spent
from recsys.config import TrainConfig
from recsys.data.catalogue import find
from recsys.data.prepare import prepare
from recsys.engine import Engine
from recsys.profiles import user_profiles
from recsys.registry import recommender_class
from recsys.report.costs import Costs, costs_of
from recsys.report.page import write_report
from recsys.report.run_folder import RunFolder, data_digest
from recsys.report.summary import Summary, summarise
from recsys.simulation import SimulationRng
from recsys.training import EpochRecord, Progress


class VisitTraining:
    """Implements ``recsys.cli.training.Training``."""

    libraries: Sequence[str] = ()

    def __init__(self, data: str, config: TrainConfig) -> None:
        self._source = find(data)
        self._checkins = self._source.load()
        self._config = config
        self._model = recommender_class(config.model)(config)
        self.name = self._checkins.name

    def prepare(self, sim: SimulationRng) -> list[str]:
        """Split the visits, and draw negatives."""
        config = self._config
        self._prepared = prepare(self._checkins, config.prepare, sim)
        profiles, notes = user_profiles(
            self._source, config.feature_kind, self._prepared.n_users, sim
        )
        self._features = None if profiles is None else profiles.values
        return [*self._prepared.notes, *notes]

    def digest(self) -> str:
        """See ``data_digest``."""
        return data_digest(self._prepared, self._features)

    def fit(self, run: RunFolder, progress: Progress, engine: Engine) -> None:
        """Train the model; ``engine`` does the users' work."""
        self._model.fit(
            self._prepared,
            user_features=self._features,
            run=run,
            progress=progress,
            engine=engine,
        )

    def costs(self, seconds: float) -> Costs:
        """See ``costs_of``."""
        return costs_of(self._model, seconds)

    def epoch_line(self, record: EpochRecord, costs: Costs) -> str:
        """Loss, AUC, bytes and epsilon so far."""
        config = self._config
        auc = "-" if record.auc is None else f"{record.auc:.4f}"
        parts = [
            f"epoch {record.epoch:3d}/{config.epochs}",
            f"loss {record.loss:.4f}",
            f"validation AUC {auc}",
        ]
        epsilon = config.epsilon if self._model.features_.counts else None
        seeded = config.seed is not None
        return "  ".join(parts + spent(costs, epsilon, "user-POI pair", seeded=seeded))

    def write(self, run: RunFolder, costs: Costs, notes: Sequence[str]) -> Summary:
        """Store model and report."""
        self._model.save(run.path)
        summary = summarise(self._model, costs, run.path, notes, run.engines)
        write_report(run, self._model, summary)
        return summary
