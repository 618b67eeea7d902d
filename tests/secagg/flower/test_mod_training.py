"""What a client makes of its training: what fails is a drop-out, and what it says stays here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord
from numpy.typing import NDArray

from secagg.flower.mod import SecAggMod
from secagg.flower.records import Code
from secagg.flower.store import STATE_PATH
from secagg.flower.turn import OnClipped
from secagg.full.messages import Step
from tests.secagg.flower.by_hand import (
    CLIP,
    MODEL,
    DeclinedError,
    Round,
    app,
    arrays,
    code_of,
    grid_of,
    mean,
    train,
    trained,
)

N = 4
SECRET = "patient 271828"


Change = Callable[[Message], None]


def changed(change: Change, at: int = 0) -> Callable[[Message, Context], Message]:
    """The training function, with its reply changed on one node."""

    def changing(message: Message, ctx: Context) -> Message:
        reply = train(message, ctx)
        if ctx.node_config["partition-id"] == at:
            change(reply)
        return reply

    return changing


def with_arrays(**named: NDArray[Any] | None) -> Change:
    def change(reply: Message) -> None:
        every: dict[str, Any] = {**trained(0), **named}
        kept = {name: array for name, array in every.items() if array is not None}
        reply.content["arrays"] = arrays(kept)

    return change


def with_metric(name: str, value: Any) -> Change:
    def change(reply: Message) -> None:
        metrics = dict(reply.content.metric_records["metrics"])
        metrics.pop(name, None)
        if value is not None:
            metrics[name] = value
        reply.content["metrics"] = MetricRecord(metrics)

    return change


def with_record(name: str, record: Any) -> Change:
    def change(reply: Message) -> None:
        reply.content.pop(name, None)
        if record is not None:
            reply.content[name] = record

    return change


def raises(error: BaseException) -> Change:
    def change(reply: Message) -> None:
        raise error

    return change


FAILURES: dict[str, Change] = {
    "an exception": raises(ValueError(SECRET)),
    "an exit": raises(SystemExit(SECRET)),
    "a missing array": with_arrays(bias=None),
    "one more array": with_arrays(more=np.zeros(2)),
    "another shape": with_arrays(bias=np.zeros(3)),
    "another kind of number": with_arrays(bias=np.zeros(2, np.complex128)),
    "not a number": with_arrays(bias=np.array([np.nan, 0.0])),
    "infinity": with_arrays(bias=np.array([np.inf, 0.0])),
    "too large for the dtype": with_arrays(scale=np.array(1e30)),
    "no weight": with_metric("num-examples", None),
    "a weight above the largest": with_metric("num-examples", 101),
    "a negative weight": with_metric("num-examples", -1),
    "half a weight": with_metric("num-examples", 0.5),
    "weights": with_metric("num-examples", [1, 2]),
    "no metric": with_metric("loss", None),
    "a metric that is no number": with_metric("loss", float("nan")),
    "several metrics": with_metric("loss", [1.0, 2.0]),
    "no arrays": with_record("arrays", None),
    "two records of arrays": with_record("more", ArrayRecord({"a": Array(np.zeros(1))})),
    "no metrics": with_record("metrics", None),
    "two records of metrics": with_record("more", MetricRecord({"a": 1})),
    "bytes that are no array": with_record(
        "arrays", ArrayRecord({"bias": Array("float32", (2,), "torch", SECRET.encode())})
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_a_drop_out_of_this_round_alone(name: str) -> None:
    failing = [True]

    def make() -> Any:
        return app(changed(FAILURES[name]) if failing else train)

    round = Round(grid_of(N, make)).upto(Step.MASKED_INPUT)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.FAILED
    with pytest.raises(DeclinedError) as declined:  # nothing is trained a second time
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.STALE
    round.mask(2, 3, 4)
    means = round.unmask()
    assert np.abs(means["bias"] - mean(range(1, N))["bias"]).max() <= 2.0**-16
    failing.clear()
    again = Round(round.grid, round=1).upto(Step.UNMASKING)
    assert np.abs(again.unmask()["bias"] - mean(range(N))["bias"]).max() <= 2.0**-16


@pytest.mark.parametrize("name", FAILURES)
def test_nothing_of_a_failure_leaves_the_node(name: str, told: pytest.LogCaptureFixture) -> None:
    round = Round(grid_of(N, lambda: app(changed(FAILURES[name])))).upto(Step.MASKED_INPUT)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert str(declined.value) == Code.FAILED.error().reason
    assert "training failed" in told.text
    assert SECRET not in told.text
    assert "0.123456789" not in told.text


def test_the_log_says_where_training_raised_and_not_what(told: pytest.LogCaptureFixture) -> None:
    round = Round(grid_of(N, lambda: app(changed(FAILURES["an exception"])))).upto(
        Step.MASKED_INPUT
    )
    with pytest.raises(DeclinedError):
        round.clients[1].mask(round.server.delivery(1))
    assert "ValueError" in told.text
    assert "test_mod_training.py" in told.text


def test_an_error_that_training_replies_with_is_not_passed_on() -> None:
    def failing(message: Message, ctx: Context) -> Message:
        return Message(Error(7, SECRET), reply_to=message)

    round = Round(grid_of(N, lambda: app(failing))).upto(Step.MASKED_INPUT)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.FAILED
    assert SECRET not in str(declined.value)


def test_an_interrupt_is_not_held_up() -> None:
    def interrupted(message: Message, ctx: Context) -> Message:
        raise KeyboardInterrupt

    round = Round(grid_of(N, lambda: app(interrupted))).upto(Step.MASKED_INPUT)
    with pytest.raises(KeyboardInterrupt):
        round.clients[1].mask(round.server.delivery(1))


@pytest.mark.parametrize(
    ("declared", "given", "value"),
    [
        (np.float64, np.float32, 1.5),
        (np.float32, np.float64, 1.5),
        (np.float64, np.int64, 3),  # a strategy has made floats of integers
        (np.float16, np.uint8, 3),
    ],
)
def test_numbers_may_come_back_in_another_dtype(
    declared: Any, given: Any, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL, "bias", np.zeros(2, declared))
    change = with_arrays(bias=np.full(2, value, given))

    def every(message: Message, ctx: Context) -> Message:
        reply = train(message, ctx)
        change(reply)
        return reply

    round = Round(grid_of(N, lambda: app(every))).upto(Step.UNMASKING)
    assert np.array_equal(round.unmask()["bias"], np.full(2, value))


def test_integers_are_averaged_exactly_and_never_made_of_floats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.secagg.flower.by_hand.CLIP", {"*": CLIP, "bias": 2**31})
    monkeypatch.setitem(MODEL, "bias", np.zeros(2, np.int64))
    wrong = changed(with_arrays(bias=np.zeros(2, np.float64)), at=0)
    large = changed(with_arrays(bias=np.full(2, 2**31 - 1, np.int32)), at=1)

    def both(message: Message, ctx: Context) -> Message:
        return (wrong if ctx.node_config["partition-id"] == 0 else large)(message, ctx)

    round = Round(grid_of(N, lambda: app(both))).upto(Step.MASKED_INPUT)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.FAILED
    round.mask(2, 3, 4)
    total = 2 * (2**31 - 1) + 3 * int(trained(2)["bias"][0]) + 4 * int(trained(3)["bias"][0])
    assert round.unmask()["bias"][0] == total / 9


def test_integers_that_do_not_fit_the_declared_ones_are_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.secagg.flower.by_hand.CLIP", {"*": CLIP, "bias": 100})
    monkeypatch.setitem(MODEL, "bias", np.zeros(2, np.int8))
    wide = changed(with_arrays(bias=np.full(2, 256, np.int64)))
    round = Round(grid_of(N, lambda: app(wide))).upto(Step.MASKED_INPUT)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.FAILED


# What was clipped.


def clipping(on_clipped: OnClipped) -> Round:
    wide = changed(with_arrays(dense=np.full((3, 2), 100.0, np.float32)))
    make = lambda: app(wide, SecAggMod(on_clipped=on_clipped))  # noqa: E731
    return Round(grid_of(N, make)).upto(Step.MASKED_INPUT)


def test_what_was_clipped_is_told_on_this_node_alone() -> None:
    seen: list[dict[str, int]] = []
    round = clipping(seen.append)
    round.mask()
    assert seen[0] == {"dense": 6, "bias": 0, "scale": 0, "metric:loss": 0}
    assert all(not any(counts.values()) for counts in seen[1:])
    means, right = round.unmask(), mean(range(N))["dense"]
    assert np.abs(means["dense"] - (right + (CLIP - trained(0)["dense"]) / 10)).max() < 2.0**-15


def test_a_client_that_wants_nothing_clipped_can_leave_the_round() -> None:
    def strict(counts: dict[str, int]) -> None:
        if any(counts.values()):
            raise ValueError

    round = clipping(strict)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].mask(round.server.delivery(1))
    assert code_of(declined.value) is Code.FAILED
    round.mask(2, 3, 4)


def test_a_weight_of_zero_takes_part_without_counting() -> None:
    none = changed(with_metric("num-examples", 0))
    round = Round(grid_of(N, lambda: app(none))).upto(Step.UNMASKING)
    means = round.unmask()
    assert np.abs(means["bias"] - mean(range(1, N))["bias"]).max() <= 2.0**-16


def test_records_that_training_adds_stay_on_the_node(tmp_path: Path) -> None:
    more = changed(with_record("more", ConfigRecord({"note": SECRET})))
    config = {1: {STATE_PATH: str(tmp_path / "marks")}}
    round = Round(grid_of(N, lambda: app(more), more=config)).upto(Step.UNMASKING)
    round.unmask()
    assert all(SECRET not in str(passed.reply) for passed in round.grid.passed)
