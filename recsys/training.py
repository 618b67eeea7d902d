"""The training loop that every model shares: epochs, validation, early stopping, checkpoints."""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.errors import DivergenceError
from recsys.run import Run, Snapshot

Floats = NDArray[np.float64]
Arrays = dict[str, Floats]

HOPELESS = -math.log(5e-324)
"""Mean training loss, in nats, above which training counts as diverged: 744.4.

The model then gives its training labels probabilities (their geometric mean) that are too small
for any double.
"""

_REMEDY = {
    "auc": "lower the learning rate, or use weights whose rows sum to one (weights 'half')",
    "rmse": "lower the learning rate, or raise the penalty",
}


@dataclass(frozen=True)
class EpochRecord:
    """One line of the learning curve.

    loss: mean over the epoch's training samples, each taken just before its update; of
    -ln sigma(y score), in nats, for visits, and of the squared error for ratings.
    auc: on the validation part, None if that has no pair of both labels.  rmse: of ratings on the
    validation part, None if that is empty. A model has one of the two.
    """

    epoch: int
    loss: float
    auc: float | None = None
    rmse: float | None = None

    @property
    def merit(self) -> float | None:
        """The measure of the validation part, larger being better; None without one."""
        return self.auc if self.rmse is None else -self.rmse


@dataclass
class State:
    """Parameters by name, now and at the best validation epoch so far.

    arrays: float64 of any shapes, changed in place and never replaced, so that a learner may keep
    references.  private: names of those that only the users hold.
    """

    arrays: Arrays
    private: frozenset[str]
    best_arrays: Arrays
    history: list[EpochRecord] = field(default_factory=list)
    best: EpochRecord | None = None

    @classmethod
    def start(cls, arrays: Arrays, private: Iterable[str] = ()) -> "State":
        """The state before the first epoch."""
        best = {name: array.copy() for name, array in arrays.items()}
        return cls(arrays, frozenset(private), best)

    def __getitem__(self, name: str) -> Floats:
        return self.arrays[name]


class Learner(Protocol):
    """A model in training: one epoch of updates to ``state``."""

    state: State

    def epoch(self, number: int) -> float:
        """Run epoch ``number`` (from 0) in place and return the mean training loss."""


Progress = Callable[[EpochRecord], None]


def train(
    learner: Learner,
    validate: Callable[[], float | None],
    run: Run,
    *,
    epochs: int,
    patience: int,
    progress: Progress | None = None,
    measure: Literal["auc", "rmse"] = "auc",
    hopeless: float = HOPELESS,
) -> None:
    """Train until ``epochs`` or until ``patience`` epochs brought no better validation measure.

    validate: the ``measure`` of the validation part under the present parameters, or None.

    Without a usable validation part the last epoch is the model. Afterwards ``state.best_arrays``
    holds the model. Resumes from the run's snapshot if there is one.
    Raises DivergenceError, with the epoch, where a number is no longer finite or in range, and
    where the mean loss passes ``hopeless``: an earlier epoch that validated better would only hide
    that.  ParameterError for the snapshot of another model.
    """
    state = learner.state
    _restore(state, run.load())
    while len(state.history) < epochs and not _exhausted(state, patience):
        number = len(state.history)
        # What overflows is reported below, as what it is.
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                loss = learner.epoch(number)
                _check_finite(loss, state, hopeless)
                record = EpochRecord(number + 1, loss, **{measure: validate()})
            except DivergenceError as error:
                raise DivergenceError(
                    f"training diverged in epoch {number + 1}: {error.message}",
                    epoch=number + 1,
                    remedy=error.remedy or _REMEDY[measure],
                ) from error
        state.history.append(record)
        if _better(record, state.best):
            state.best = record
            _overwrite(state.best_arrays, state.arrays)
        run.save(_snapshot(state))
        if progress is not None:
            progress(record)


def _better(record: EpochRecord, best: EpochRecord | None) -> bool:
    if best is None or record.merit is None or best.merit is None:
        return True
    return record.merit > best.merit


def _exhausted(state: State, patience: int) -> bool:
    return state.best is not None and len(state.history) - state.best.epoch >= patience


def _check_finite(loss: float, state: State, hopeless: float) -> None:
    if not (math.isfinite(loss) and all(np.isfinite(a).all() for a in state.arrays.values())):
        raise DivergenceError("a parameter or the loss is no longer finite")
    if loss > hopeless:
        raise DivergenceError(
            f"the mean loss is {loss:.3g}, beyond the {hopeless:.3g} that no useful model has"
        )


def _overwrite(target: Arrays, source: Arrays) -> None:
    for name, array in source.items():
        target[name][...] = array


def _stored(state: State) -> Arrays:
    """All arrays under the names that a snapshot gives them."""
    return state.arrays | {f"best_{name}": array for name, array in state.best_arrays.items()}


def _snapshot(state: State) -> Snapshot:
    private = state.private | {f"best_{name}" for name in state.private}
    users: Arrays = {}
    recommender: Arrays = {}
    for name, array in _stored(state).items():
        (users if name in private else recommender)[name] = array
    progress: dict[str, Any] = {"history": [asdict(record) for record in state.history]}
    progress["best"] = asdict(state.best) if state.best else None
    return Snapshot(users, recommender, progress)


def _restore(state: State, snapshot: Snapshot | None) -> None:
    if snapshot is None:
        return
    arrays = snapshot.users | snapshot.recommender
    own = _stored(state)
    for name, array in own.items():
        if name not in arrays or arrays[name].shape != array.shape:
            raise ParameterError(
                f"the snapshot holds no array {name} of shape {array.shape}",
                remedy="resume a run with the data and settings that it began with",
            )
    _overwrite(own, {name: arrays[name] for name in own})
    state.history[:] = [EpochRecord(**record) for record in snapshot.progress["history"]]
    best = snapshot.progress["best"]
    state.best = EpochRecord(**best) if best else None
