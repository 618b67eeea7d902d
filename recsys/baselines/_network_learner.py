"""How the networks among the baselines train: what an epoch is, and Adam.

The parameters are float64 arrays of the state; a step computes with float32 copies of them. Coins
for batches belong to (user, item, pass), those for dropout to the epoch: a run that resumes draws
what it would have.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpc.core.errors import ParameterError
from recsys.baselines._torch import Dropout, Values, one_thread, tensors
from recsys.data.ratings import Floats, RatingParts
from recsys.models.adam import adam_step
from recsys.ratings.config import RatingConfig
from recsys.ratings.scoring import RatingScorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import Arrays, State

Rows = NDArray[np.intp]

_PIECE = 1 << 15
"""Entries that Adam changes at once, so that they stay in the cache."""


@dataclass(frozen=True)
class Schedule:
    """How a network learns unless the settings say otherwise.

    rate, penalty: where ``RatingConfig`` has None.  passes: over all ratings in an epoch, each in
    ``batches`` steps.  average: share of the running averages of all parameters that stays from
    step to step; less in the beginning.
    """

    rate: float
    penalty: float = 0.0
    passes: int = 1
    batches: int = 1
    average: float | None = None


class NetworkLearner(ABC):
    """Adam on mini-batches: every pass over the ratings deals them into batches by coins.

    trained, fixed: arrays of the state by name; Adam changes the former and keeps two moments of
    each.
    """

    def __init__(
        self,
        parts: RatingParts,
        config: RatingConfig,
        sim: SimulationRng,
        scorer: RatingScorer,
        schedule: Schedule,
        *,
        trained: Arrays,
        fixed: Arrays,
    ) -> None:
        self.clock = Stopwatch()
        self.scorer: RatingScorer = scorer
        self._train, self._config, self._sim = parts.train, config, sim
        # Adam changes flat views of them.
        trained = {name: np.ascontiguousarray(array) for name, array in trained.items()}
        self._trained = tuple(trained)
        self._schedule = schedule
        self._rate = schedule.rate if config.learning_rate is None else config.learning_rate
        self._penalty = schedule.penalty if config.penalty is None else config.penalty
        moments = {
            f"{moment}.{name}": np.zeros_like(array)
            for moment in ("first", "second")
            for name, array in trained.items()
        }
        if schedule.average is not None:
            moments |= {f"average.{name}": array.copy() for name, array in trained.items()}
        self.state = State.start({**fixed, **trained, **moments})

    @abstractmethod
    def objective(self, values: Values, rows: Rows, drop: Dropout) -> tuple[Tensor, float]:
        """What a step makes smaller for the training ratings ``rows``, rising, at least one.

        Also returns the sum of their squared errors. values: ``parameters`` of the state.
        """

    def epoch(self, number: int) -> float:
        """The passes of the schedule; the learning rate decays from epoch to epoch."""
        train, passes, batches = self._train, self._schedule.passes, self._schedule.batches
        rate = self._rate * self._config.decay**number
        drop = Dropout(self._config.dropout, self._sim.generator("dropout", number))
        total = 0.0
        with self.clock.step("training"), one_thread():
            for pass_ in range(number * passes, (number + 1) * passes):
                coins = self._sim.coins("batches", train.users, train.items, pass_)
                dealt = coins % np.uint64(batches)
                for batch in range(batches):
                    rows = np.flatnonzero(dealt == batch)
                    if rows.size:
                        total += self._step(rows, drop, rate, pass_ * batches + batch + 1)
        return total / (passes * len(train))

    def _step(self, rows: Rows, drop: Dropout, rate: float, number: int) -> float:
        values = tensors(parameters(self.state.arrays))
        leaves = [values[name].requires_grad_() for name in self._trained]
        objective, squared = self.objective(values, rows, drop)
        slopes = torch.autograd.grad(objective, leaves)
        for name, slope in zip(self._trained, slopes, strict=True):
            self._adam(name, slope.reshape(-1).numpy(), rate, number)
        if self._schedule.average is not None:
            stays = min(self._schedule.average, (1 + number) / (10 + number))
            for name in self._trained:
                average = torch.from_numpy(self.state[f"average.{name}"])
                average.lerp_(torch.from_numpy(self.state[name]), 1 - stays)
        return squared

    def _adam(self, name: str, slopes: NDArray[Any], rate: float, number: int) -> None:
        names = (name, f"first.{name}", f"second.{name}")
        values, first, second = (self.state[part].reshape(-1) for part in names)
        for start in range(0, slopes.size, _PIECE):
            at = slice(start, start + _PIECE)
            adam_step(values[at], slopes[at], first[at], second[at], rate=rate, step=number)


def parameters(arrays: Mapping[str, Floats]) -> Arrays:
    """The arrays that a network reads; a point in the name marks all others."""
    return {name: array for name, array in arrays.items() if "." not in name}


def averages(arrays: Mapping[str, Floats]) -> Arrays:
    """The running averages, by the names of what they are averages of."""
    mark = "average."
    return {name.removeprefix(mark): a for name, a in arrays.items() if name.startswith(mark)}


def check_dim(config: RatingConfig) -> int:
    """The length of a representation; ParameterError for 0."""
    if not config.dim:
        raise ParameterError(
            f"dim must be at least 1 for {config.model}, got 0",
            remedy="train the model bias for biases alone",
        )
    return config.dim
