"""What models of visits and of ratings have in common: settings, arrays, lists of what is new."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, StateError
from mpc.core.local import LocalNetwork
from recsys.engine import LOCAL, Engine
from recsys.metrics import model_digest
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.training import Arrays

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class Settings(Protocol):
    """A configuration, as far as all models need it."""

    @property
    def model(self) -> str:
        """Which model it is of."""

    @property
    def seed(self) -> int | None:
        """None where coins are the system's."""


class Files(Protocol):
    """A trained model's arrays, and whom they are of."""

    @property
    def arrays(self) -> Arrays:
        """What was learned, by name."""

    @property
    def user_ids(self) -> Sequence[str]:
        """Everybody's external id, by row."""

    def user_index(self, ids: Sequence[object]) -> Rows:
        """Rows of external user ids; -1 for unknown ones."""


ConfigT = TypeVar("ConfigT", bound=Settings)
FilesT = TypeVar("FilesT", bound=Files)


class TrainedModel(ABC, Generic[ConfigT, FilesT]):
    """Base of all models. Fitted attributes of its subclasses end in an underscore.

    models: the values of ``config.model`` that the class trains, its default first.
    scales_out: whether an engine may do the users' work elsewhere.
    """

    models: ClassVar[tuple[str, ...]]
    scales_out: ClassVar[bool] = False

    def __init__(self, config: ConfigT | None = None) -> None:
        self.config = config or self._default(self.models[0])
        if self.config.model not in self.models:
            raise ParameterError(
                f"{type(self).__name__} trains {' or '.join(self.models)}, "
                f"got model {self.config.model!r}"
            )
        self._files: FilesT | None = None
        self._engine: Engine | None = None

    @staticmethod
    @abstractmethod
    def _default(model: str) -> ConfigT:
        """The settings of ``model`` where none are given."""

    @property
    def files(self) -> FilesT:
        """The trained model's arrays, by who holds them. StateError before ``fit``."""
        if self._files is None:
            raise StateError("the model is not trained yet", remedy="call fit or load first")
        return self._files

    @property
    def model_digest(self) -> str:
        """SHA-256 over the model arrays alone: equal models, equal digest."""
        return model_digest(self.files.arrays)

    @property
    def traffic(self) -> LocalNetwork | None:
        """What the protocols sent, or None where nothing was."""
        return getattr(getattr(self, "learner_", None), "traffic", None)

    def _use(self, engine: Engine | None) -> None:
        """Take the engine of a training. ParameterError where the model has no work for it."""
        if engine is not None and engine.remote and not self.scales_out:
            raise ParameterError(
                f"{self.config.model} trains in one process, and has no work for the engine "
                f"{engine.name}",
                remedy=f"choose the engine {LOCAL}, or the model prirec, prirec- or fedgnn",
            )
        self._engine = engine

    def _coins(self, run: Run) -> SimulationRng:
        """The experiment's coins: of the configured seed, else of the run's own."""
        seed = run.experiment_seed() if self.config.seed is None else self.config.seed
        return SimulationRng(seed)

    def _best_new(
        self,
        user: object,
        k: int,
        *,
        of: int,
        known: Callable[[int], Rows],
        score: Callable[[Rows, Rows], Floats],
        data: str,
    ) -> tuple[Rows, Floats]:
        """The ``k`` rows with the highest scores among those new to ``user``, and the scores.

        of: how many rows there are.  known: the rows that are not new to a user's row.  data: what
        named her, for an error.  Fewer come back if fewer are new.
        Raises ParameterError for an unknown user or k < 1.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ParameterError(f"k must be an integer of at least 1, got {k!r}")
        files = self.files
        row = int(files.user_index([user])[0])
        if row < 0:
            raise ParameterError(
                f"user {str(user)!r} was not in the training data of {len(files.user_ids)} users",
                # Nobody else's id is named: who trained is for each user to tell.
                remedy=f"name a user as the {data} did that the model was trained on",
            )
        new = np.setdiff1d(np.arange(of, dtype=np.int32), known(row))
        scores = score(np.full(new.size, row, dtype=np.int32), new)
        best = np.lexsort((new, -scores))[:k]  # ties by index, so that the list is reproducible
        return new[best], scores[best]
