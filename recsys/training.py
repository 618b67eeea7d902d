"""The training loop that every model shares: epochs, validation, early stopping, checkpoints."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.errors import DivergenceError
from recsys.run import Run, Snapshot

Floats = NDArray[np.float64]

HOPELESS = -math.log(5e-324)
"""Mean training loss, in nats, above which training counts as diverged: 744.4.

The model then gives its training labels probabilities (their geometric mean) that are too small
for any double.
"""

_REMEDY = "lower the learning rate, or use weights whose rows sum to one (weights 'half')"


@dataclass(frozen=True)
class EpochRecord:
    """One line of the learning curve.

    loss: mean of -ln sigma(y score) over the epoch's training samples, in nats, each taken just
    before its update.  auc: on the validation part, None if that has no pair of both labels.
    """

    epoch: int
    loss: float
    auc: float | None


@dataclass
class State:
    """Parameters now, and those of the best validation epoch so far."""

    w: Floats
    v: Floats
    best_w: Floats
    best_v: Floats
    history: list[EpochRecord]
    best: EpochRecord | None = None

    @classmethod
    def start(cls, w: Floats, v: Floats) -> "State":
        """The state before the first epoch."""
        return cls(w, v, w.copy(), v.copy(), [])


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
    users_hold_w: bool,
    progress: Progress | None = None,
) -> None:
    """Train until ``epochs`` or until ``patience`` epochs brought no better validation AUC.

    Without a usable validation part the last epoch is the model. Afterwards ``state.best_w`` and
    ``best_v`` hold the model. Resumes from the run's snapshot if there is one.
    Raises DivergenceError, with the epoch, where a number is no longer finite or in range, and
    where the mean loss passes ``HOPELESS``: an earlier epoch that validated better would only hide
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
                _check_finite(loss, state)
                record = EpochRecord(number + 1, loss, validate())
            except DivergenceError as error:
                raise DivergenceError(
                    f"training diverged in epoch {number + 1}: {error.message}",
                    epoch=number + 1,
                    remedy=error.remedy or _REMEDY,
                ) from error
        state.history.append(record)
        if _better(record, state.best):
            state.best = record
            state.best_w, state.best_v = state.w.copy(), state.v.copy()
        run.save(_snapshot(state, users_hold_w))
        if progress is not None:
            progress(record)


def _better(record: EpochRecord, best: EpochRecord | None) -> bool:
    if best is None or record.auc is None or best.auc is None:
        return True
    return record.auc > best.auc


def _exhausted(state: State, patience: int) -> bool:
    return state.best is not None and len(state.history) - state.best.epoch >= patience


def _check_finite(loss: float, state: State) -> None:
    if not (math.isfinite(loss) and np.isfinite(state.w).all() and np.isfinite(state.v).all()):
        raise DivergenceError("a parameter or the loss is no longer finite")
    if loss > HOPELESS:
        raise DivergenceError(
            f"the mean loss is {loss:.3g} nats, where guessing costs {math.log(2):.3g}"
        )


def _snapshot(state: State, users_hold_w: bool) -> Snapshot:
    linear = {"w": state.w, "best_w": state.best_w}
    factors = {"v": state.v, "best_v": state.best_v}
    progress: dict[str, Any] = {"history": [asdict(record) for record in state.history]}
    progress["best"] = asdict(state.best) if state.best else None
    if users_hold_w:
        return Snapshot(linear, factors, progress)
    return Snapshot({}, linear | factors, progress)


def _restore(state: State, snapshot: Snapshot | None) -> None:
    if snapshot is None:
        return
    arrays = snapshot.users | snapshot.recommender
    for name in ("w", "v", "best_w", "best_v"):
        own = getattr(state, name)
        if name not in arrays or arrays[name].shape != own.shape:
            raise ParameterError(
                f"the snapshot holds no array {name} of shape {own.shape}",
                remedy="resume a run with the data and settings that it began with",
            )
        setattr(state, name, arrays[name].copy())
    state.history[:] = [EpochRecord(**record) for record in snapshot.progress["history"]]
    best = snapshot.progress["best"]
    state.best = EpochRecord(**best) if best else None
