"""What a training of an experiment leaves: plain values, as JSON gives them back."""

import math
from typing import Any, Literal

from recsys.tasks import Task
from recsys.training import EpochRecord, State

Wanted = Literal["validation", "test", "curve"]
"""What an outcome holds: no figure of the test part; all of them; also the test loss by epoch."""

Outcome = dict[str, Any]


def diverged(task: Task, seconds: float, how: str) -> Outcome:
    """Of a training that did not come to its end."""
    return {f"validation_{task.measure}": None, "seconds": seconds, "diverged": how}


def validated(task: Task, state: State, seconds: float) -> Outcome:
    """What a search needs to know; no figure of the test part."""
    best = state.best
    return {
        f"validation_{task.measure}": None if best is None else getattr(best, task.measure),
        "loss": None if best is None else shown_loss(task, best),
        "best_epoch": None if best is None else best.epoch,
        "epochs": len(state.history),
        "seconds": seconds,
        "diverged": None,
    }


def shown_loss(task: Task, record: EpochRecord) -> float:
    """The loss of an epoch in its usual unit: nats, or the root of a mean squared error."""
    return math.sqrt(record.loss) if task.measure == "rmse" else record.loss
