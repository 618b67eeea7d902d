"""The training loop: early stopping, the best epoch, divergence, and resuming where it ended."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.data.prepare import PrepareConfig
from recsys.errors import DivergenceError
from recsys.prirec import PriRec
from recsys.recommender import Recommender
from recsys.run import Snapshot
from recsys.training import HOPELESS, EpochRecord, State, train
from tests.recsys.worlds import KeepingRun, KnownKeysRun, city, small

VALIDATED = PrepareConfig(validation_fraction=0.2)


class Scripted:
    """A learner whose parameters are the number of epochs that it ran, 0 at the start."""

    def __init__(self, losses: list[float] | None = None) -> None:
        self.state = State.start({"w": np.zeros(1), "v": np.zeros((1, 1))}, private=("w",))
        self.epochs: list[int] = []
        self._losses = losses or []

    def epoch(self, number: int) -> float:
        self.epochs.append(number)
        self.state.arrays["w"] += 1
        self.state.arrays["v"] += 1
        return self._losses[number] if number < len(self._losses) else 0.5


def run_of(
    areas: list[float | None],
    *,
    epochs: int = 100,
    patience: int = 3,
    learner: Scripted | None = None,
    run: KeepingRun | None = None,
) -> Scripted:
    learner = learner or Scripted()
    told: Iterator[float | None] = iter(areas[len(learner.state.history) :])
    train(
        learner,
        lambda: next(told),
        run or KeepingRun(),
        epochs=epochs,
        patience=patience,
    )
    return learner


@pytest.mark.parametrize(
    ("areas", "best", "stopped"),
    [
        ([0.5, 0.6, 0.7, 0.6, 0.65, 0.69, 0.9], 3, 6),  # three epochs without a better one
        ([0.5, 0.4, 0.45, 0.51, 0.4, 0.4, 0.4, 0.9], 4, 7),  # a late better one counts
        ([0.7, 0.7, 0.7, 0.7, 0.9], 1, 4),  # as good is not better
        ([0.9, 0.1, 0.1, 0.1, 0.95], 1, 4),
    ],
)
def test_training_stops_after_patience_and_the_best_epoch_is_the_model(
    areas: list[float | None], best: int, stopped: int
) -> None:
    learner = run_of(areas)
    assert learner.epochs == list(range(stopped))
    assert learner.state.best == EpochRecord(best, 0.5, areas[best - 1])
    assert learner.state.best_arrays["w"].tolist() == [best]
    assert learner.state.best_arrays["v"].tolist() == [[best]]
    assert learner.state["w"].tolist() == [stopped]
    assert learner.state.history == [
        EpochRecord(number + 1, 0.5, area) for number, area in enumerate(areas[:stopped])
    ]


def test_epochs_are_a_limit_whatever_the_patience() -> None:
    learner = run_of([0.1 * number for number in range(1, 9)], epochs=5)
    assert learner.epochs == list(range(5))
    assert learner.state.best_arrays["w"].tolist() == [5]


def test_without_a_validation_part_the_last_epoch_is_the_model() -> None:
    learner = run_of([None] * 9, epochs=9, patience=1)
    assert len(learner.epochs) == 9
    assert learner.state.best_arrays["w"].tolist() == [9]


def test_the_best_parameters_are_copies() -> None:
    learner = run_of([0.9, 0.1, 0.1], epochs=3)
    learner.state.arrays["w"] += 100
    assert learner.state.best_arrays["w"].tolist() == [1]


@pytest.mark.parametrize("boundary", range(1, 7))
def test_a_resumed_training_stops_where_it_would_have(boundary: int) -> None:
    areas: list[float | None] = [0.5, 0.6, 0.7, 0.6, 0.65, 0.69, 0.9]
    first = KeepingRun()
    whole = run_of(areas, run=first)
    start = first.snapshots[boundary - 1]
    learner = Scripted()
    learner.state.history.extend([EpochRecord(0, 0, None)] * boundary)  # overwritten
    resumed = run_of(areas, learner=learner, run=KeepingRun(start))
    assert resumed.epochs == list(range(boundary, 6))
    assert resumed.state.history == whole.state.history
    assert resumed.state.best == whole.state.best
    assert resumed.state.best_arrays["w"].tolist() == whole.state.best_arrays["w"].tolist()


def test_progress_is_told_each_epoch_after_it_is_stored() -> None:
    run, told = KeepingRun(), []

    def progress(record: EpochRecord) -> None:
        told.append((record.epoch, len(run.snapshots)))

    train(Scripted(), lambda: 0.5, run, epochs=2, patience=9, progress=progress)
    assert told == [(1, 1), (2, 2)]


def test_snapshots_are_separated_by_who_holds_what() -> None:
    for private, names in ((("w",), {"w", "best_w"}), ((), set())):
        run, learner = KeepingRun(), Scripted()
        learner.state = State.start(learner.state.arrays, private)
        train(learner, lambda: 0.5, run, epochs=1, patience=1)
        (snapshot,) = run.snapshots
        assert set(snapshot.users) == names
        assert set(snapshot.recommender) == {"w", "v", "best_w", "best_v"} - names


def test_a_snapshot_of_another_model_is_refused() -> None:
    arrays = {name: np.zeros(2) for name in ("w", "v", "best_w", "best_v")}
    progress: dict[str, Any] = {"history": [], "best": None}
    for users in (arrays, {}):
        with pytest.raises(ParameterError, match=r"no array w of shape \(1,\).*that it began with"):
            run_of([0.5], run=KeepingRun(Snapshot(users, {}, progress)))


def test_a_snapshot_shows_no_numbers() -> None:
    snapshot = Snapshot({"w": np.array([0.123])}, {"v": np.array([0.456])}, {})
    assert "0.123" not in repr(snapshot)
    assert "0.456" not in repr(snapshot)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (math.nan, "a parameter or the loss is no longer finite"),
        (math.inf, "a parameter or the loss is no longer finite"),
        (HOPELESS * 1.01, "the mean loss is 752, beyond the 744 that no useful model has"),
    ],
)
def test_a_hopeless_loss_is_divergence_in_its_epoch(loss: float, reason: str) -> None:
    """Also if an earlier epoch validated better, so that early stopping cannot hide it."""
    with pytest.raises(DivergenceError, match=f"training diverged in epoch 3: {reason}") as caught:
        run_of([0.9, 0.8, 0.7], learner=Scripted([0.5, 0.6, loss]))
    assert caught.value.epoch == 3
    assert "learning rate" in caught.value.remedy


@pytest.mark.parametrize("name", ["w", "v"])
def test_a_parameter_that_is_not_finite_is_divergence_and_is_not_stored(name: str) -> None:
    class Breaks(Scripted):
        def epoch(self, number: int) -> float:
            loss = super().epoch(number)
            if number == 1:
                self.state[name][0] = math.nan
            return loss

    run = KeepingRun()
    with pytest.raises(DivergenceError, match="training diverged in epoch 2"):
        run_of([0.5, 0.6], learner=Breaks(), run=run)
    assert len(run.snapshots) == 1


def test_an_error_in_the_arithmetic_gets_the_epoch_added() -> None:
    class Leaves(Scripted):
        def epoch(self, number: int) -> float:
            raise DivergenceError("out of range")

    with pytest.raises(DivergenceError, match="training diverged in epoch 1: out of range"):
        run_of([0.5], learner=Leaves())


@pytest.mark.parametrize("steps", [{"learning_rate": 1e6}, {"learning_rate_v": 3.0}])
def test_a_learning_rate_far_too_large_is_divergence_without_warnings(
    steps: dict[str, Any],
) -> None:
    for model in (
        FM(TrainConfig(model="fm", seed=0, epochs=30, **steps)),
        PriRec(small(mode="float", epochs=30, **steps)),
    ):
        with pytest.raises(DivergenceError, match="training diverged in epoch"):
            model.fit(city())
        # The failed attempt leaves no model behind.
        with pytest.raises(Exception, match="not trained yet"):
            _ = model.files


TRAINERS = [
    pytest.param(PriRec, small(epochs=5, prepare=VALIDATED, patience=2), id="simulate"),
    pytest.param(PriRec, small(epochs=4, mode="protocol", prepare=VALIDATED), id="protocol"),
    pytest.param(PriRec, small(epochs=3, mode="protocol", relay=True), id="relay"),
    pytest.param(PriRec, small(epochs=3, mix="update", seed=None), id="no seed"),
    pytest.param(PriRec, small(epochs=3, mode="float"), id="float"),
    pytest.param(FM, TrainConfig(model="fm", seed=3, epochs=5, prepare=VALIDATED), id="fm"),
]


@pytest.mark.parametrize(("kind", "config"), TRAINERS)
def test_resuming_at_every_epoch_gives_the_same_digest(
    kind: type[Recommender], config: TrainConfig
) -> None:
    """Kept: seed and memo keys of the run, as on disk. Pads and shares are new each time."""
    run = KnownKeysRun()
    whole = kind(config).fit(city(), run=run)
    assert len(run.snapshots) == len(whole.history_)
    for snapshot in run.snapshots:
        again = KnownKeysRun(start=snapshot)
        resumed = kind(config).fit(city(), run=again)
        assert resumed.model_digest == whole.model_digest
        assert resumed.history_ == whole.history_
        assert len(again.snapshots) + len(snapshot.progress["history"]) == len(whole.history_)


def test_a_run_that_was_over_stays_over() -> None:
    run = KeepingRun()
    config = small(epochs=40, patience=1, prepare=VALIDATED)
    whole = PriRec(config).fit(city(), run=run)
    assert len(whole.history_) < 40
    after = KeepingRun(run.snapshots[-1])
    assert PriRec(config).fit(city(), run=after).model_digest == whole.model_digest
    assert after.snapshots == []


def test_more_epochs_go_on_where_fewer_ended() -> None:
    run = KeepingRun()
    PriRec(small(epochs=2)).fit(city(), run=run)
    longer = PriRec(small(epochs=4)).fit(city(), run=KeepingRun(run.snapshots[-1]))
    assert longer.model_digest == PriRec(small(epochs=4)).fit(city()).model_digest


def test_losses_fall_and_epochs_count_from_one() -> None:
    history = PriRec(replace(small(), epochs=6)).fit(city()).history_
    assert [record.epoch for record in history] == list(range(1, 7))
    assert all(later.loss < earlier.loss for earlier, later in pairwise(history))
    assert all(record.auc is None for record in history)
