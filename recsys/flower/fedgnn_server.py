"""The recommender of FedGNN over a federation: rounds, steps, early stopping, what it keeps.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1, lines 1 to 6, 13, 14, 19 and 20.
Model: as ``recsys.flower.fedgnn``.
Leaks: to everybody items, weights, the training mean and how good each model was; to the
    recommender the sums of each round.
Differs: a model is judged in the round that trains the next one, by the same nodes. A round that
    gives no sum is repeated: it has told nothing. Users who fit by steps then move twice.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from mpc.core.errors import AbortError
from recsys.data.ratings import Floats, Triples
from recsys.errors import PrivacyRefusal
from recsys.fedgnn import first_shared, initial_weights, server_step
from recsys.flower.fedgnn_task import (
    ERRORS,
    HELD_OUT,
    HELD_OUT_ERRORS,
    RATINGS,
    TOTAL,
    USERS,
    Catalogue,
    HeldOut,
    Task,
)
from recsys.flower.rounds import Total
from recsys.models.star_model import StarModel
from recsys.models.star_scorer import StarScorer
from recsys.ratings.config import RatingConfig
from recsys.ratings.files import RatingFiles
from recsys.ratings.gradients import RoundSum
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng
from recsys.training import Progress, State, train

SHARED = ("items", "weights")
"""What nodes get, and answer with."""

MOST_FAILURES = 3
"""Rounds in a row without a sum that end a training."""

Ask = Callable[[Mapping[str, Floats], Task], Total | None]
"""Has every node work on a task; the sum of what they find, or None where a round gave none."""

_NOBODY = Triples(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training gave.

    state: the recommender's arrays, and the learning curve.  users, ratings, batches: of an epoch.
    rounds: with a sum; failed: without one.  uploads: sums of gradients that a user is in, at most.
    smallest: the fewest nodes in a sum; asked: the fewest of which they were.
    validation, test: RMSE of the best model; None without such ratings, or without that round.
    ended: why there were no more rounds, where nodes went away before the end; else empty.
    """

    state: State = field(repr=False)
    catalogue: Catalogue = field(repr=False)
    users: int
    ratings: int
    batches: int
    rounds: int
    failed: int
    uploads: int
    smallest: int
    asked: int
    validation: float | None
    test: float | None
    ended: str = ""

    @property
    def epochs(self) -> int:
        """How many there were."""
        return len(self.state.history)

    @property
    def best_epoch(self) -> int:
        """From 1, the one whose arrays are the model."""
        return 0 if self.state.best is None else self.state.best.epoch

    def files(self, config: RatingConfig) -> RatingFiles:
        """The model as the recommender holds it: of no user."""
        return RatingFiles(
            arrays=self.state.best_arrays,
            private=frozenset(),
            tables=StarScorer(StarModel.of(config), _NOBODY, 0).tables,
            train=_NOBODY,
            user_ids=(),
            item_ids=self.catalogue.items,
            low=self.catalogue.low,
            high=self.catalogue.high,
        )


class FedGNNServer:
    """Algorithm 1 where the clients are somewhere else. Implements ``recsys.training.Learner``.

    ask: one round.  task: with the nodes' bounds; what else it says is replaced.
    """

    def __init__(
        self, config: RatingConfig, catalogue: Catalogue, ask: Ask, task: Task | None = None
    ) -> None:
        self._config, self._catalogue, self._ask = config, catalogue, ask
        self._run = MemoryRun()
        seed = self._run.experiment_seed() if config.seed is None else config.seed
        self._sim = SimulationRng(seed)
        self._shapes = StarModel.of(config).shapes()
        weights = initial_weights(self._shapes, self._sim)
        shared = first_shared(config, len(catalogue.items), weights, self._sim)
        self.state = State.start({"mean": np.zeros(1), **shared})
        self._task = Task() if task is None else task
        self._next: Total | None = None
        self._rounds = self._failed = 0
        self._smallest = self._least_asked = 0
        self._uploads: Counter[int] = Counter()
        self._users = self._ratings = 0
        self._batches = 1

    def train(self, progress: Progress | None = None) -> Trained:
        """All rounds.

        Raises PrivacyRefusal for fewer users in a batch than ``min_cohort``, AbortError where
        rounds give no sums before an epoch is done, and DivergenceError.
        """
        config, catalogue = self._config, self._catalogue
        self._count()
        ended, test = "", None
        try:
            train(
                self,
                self._validate,
                self._run,
                epochs=config.epochs,
                patience=config.patience,
                progress=progress,
                measure="rmse",
                hopeless=100 * max(catalogue.low**2, catalogue.high**2, 1.0),
            )
            test = self._finish()
        except AbortError as error:
            if not self.state.history:
                raise
            ended = error.message  # what was learned stays
        best = self.state.best
        return Trained(
            state=self.state,
            catalogue=catalogue,
            users=self._users,
            ratings=self._ratings,
            batches=self._batches,
            rounds=self._rounds,
            failed=self._failed,
            uploads=max(self._uploads.values(), default=0),
            smallest=self._smallest,
            asked=self._least_asked,
            validation=None if best is None else best.rmse,
            test=test,
            ended=ended,
        )

    def epoch(self, number: int) -> float:
        """Every user once, in batches; the mean squared error of the ratings as they were met."""
        errors = ratings = 0.0
        for place, batch in enumerate(self._order(number)):
            task = self._training(number, batch)
            ready, self._next = self._next, None
            total = self._asked(task) if ready is None else ready
            if not total.figures[USERS]:
                continue
            errors += total.figures[ERRORS]
            ratings += total.figures[RATINGS]
            self._step(total, number, number * self._batches + place + 1)
        if not ratings:
            raise AbortError(
                f"nobody trained in epoch {number + 1}", remedy="wait for more of the nodes"
            )
        return errors / ratings

    def _step(self, total: Total, number: int, step: int) -> None:
        arrays = self.state.arrays
        summed = RoundSum(
            clients=round(total.figures[USERS]),
            items=total.arrays["items"],
            weights=total.arrays.get("weights", np.zeros(0)),
            senders=None,
            clipped=0,
        )
        users, batches = self._users, self._batches
        server_step(self._config, self._shapes, arrays, summed, users, batches, number, step)

    def _count(self) -> None:
        """The first round: how many users and ratings there are, and the mean of these."""
        total = self._asked(replace(self._task, counts=True))
        users, ratings = round(total.figures[USERS]), round(total.figures[RATINGS])
        if not ratings:
            raise AbortError("there is no rating to train on", remedy="give the nodes ratings")
        config = self._config
        self._users, self._ratings = users, ratings
        self._batches = max(1, users // config.cohort)
        least = users // self._batches
        if least < config.min_cohort:
            raise PrivacyRefusal(
                f"a batch of {least} users is below the minimum of {config.min_cohort}: the sum of "
                "so few gradients tells too much about each",
                remedy="train with more users or a larger cohort, or lower min-cohort (never below "
                "3)",
            )
        if config.center:
            self.state.arrays["mean"][:] = total.figures[TOTAL] / ratings
            self.state.best_arrays["mean"][:] = self.state.arrays["mean"]

    def _validate(self) -> float | None:
        """How good the model is, in the round that trains the next one, if there is a next one."""
        number = len(self.state.history) + 1
        task = replace(self._present(), held_out="validation", model=number)
        if number < self._config.epochs:
            batch = self._order(number)[0]
            task = replace(self._training(number, batch), held_out="validation", model=number)
        total = self._asked(task)
        if task.batch >= 0:
            self._next = total
        return _rmse(total)

    def _finish(self) -> float | None:
        """The last round: every node gets the best model, and says how good it is on its tests."""
        self._next = None
        held_out: HeldOut = "test"
        task = replace(self._present(), held_out=held_out, finish=True)
        return _rmse(self._asked(task, self.state.best_arrays))

    def _present(self) -> Task:
        best = self.state.best
        return replace(
            self._task,
            mean=float(self.state["mean"][0]),
            batches=self._batches,
            best=0 if best is None else best.epoch,
        )

    def _training(self, number: int, batch: int) -> Task:
        return replace(self._present(), epoch=number, batch=batch)

    def _order(self, number: int) -> list[int]:
        batches = np.arange(self._batches)
        return [int(batch) for batch in self._sim.order("order of cohorts", batches, number)]

    def _asked(self, task: Task, arrays: Mapping[str, Floats] | None = None) -> Total:
        source = self.state.arrays if arrays is None else arrays
        sent = {name: source[name] for name in SHARED if source[name].size}
        for _ in range(MOST_FAILURES):
            total = self._ask(sent, task)
            if total is not None:
                self._count_round(task, total)
                return total
            self._failed += 1
        raise AbortError(
            f"{MOST_FAILURES} rounds in a row gave no sum",
            remedy="see Flower's log for the nodes that are missing, and why",
        )

    def _count_round(self, task: Task, total: Total) -> None:
        self._rounds += 1
        if task.batch >= 0:
            self._uploads[task.batch] += 1
        self._smallest = min(self._smallest or total.nodes, total.nodes)
        self._least_asked = min(self._least_asked or total.asked, total.asked)


def _rmse(total: Total) -> float | None:
    count = round(total.figures[HELD_OUT])
    return math.sqrt(max(total.figures[HELD_OUT_ERRORS], 0.0) / count) if count else None
