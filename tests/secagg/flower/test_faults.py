"""Nodes that die, come late or answer twice, at any step: the right mean of the rest, or none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.mod import fixedclipping_mod
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg
from hypothesis import given, settings
from hypothesis import strategies as st

from secagg.flower import SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.exchange import Clock as GridClock
from secagg.flower.records import RECORD, VECTOR, Code, reason
from secagg.full.messages import Step
from tests.secagg.flower.by_hand import (
    CLIP,
    METRICS,
    MODEL,
    OPERATOR_KEY,
    Keys,
    app,
    arrays,
    grid_of,
    mean,
    train,
    train_content,
)
from tests.support.flower_grid import Clock, Deliver, Fault, LocalGrid, altered

N, DEADLINE = 5, 60.0
CLIENTS = tuple(range(1, N + 1))
THRESHOLD = 3
MOST_LOST = N - THRESHOLD
STEPS = {
    "semi-honest": (Step.ADVERTISE_KEYS, Step.SHARE_KEYS, Step.MASKED_INPUT, Step.UNMASKING),
    "malicious": tuple(step for step in Step if step <= Step.UNMASKING),
}
CASES = [(variant, step) for variant, steps in STEPS.items() for step in steps]


class World:
    """Five nodes under a ``SecureGrid``, and the time that passes there."""

    def __init__(
        self,
        folder: Path,
        variant: Any = "semi-honest",
        make_app: Any = app,
        **more: Any,
    ) -> None:
        malicious = variant == "malicious"
        keys = Keys(folder, CLIENTS) if malicious else None
        self.clock = Clock()
        self.nodes = grid_of(N, make_app, keys=keys, clock=self.clock)
        self.ids = list(self.nodes.configs)
        signed = {"roster": folder / "roster.bin", "operator": OPERATOR_KEY.public}
        self.config = SecAggConfig(
            variant=variant,
            clip=CLIP,
            max_weight=100,
            metrics=METRICS,
            corrupt=0.0,
            threshold=THRESHOLD,
            deadline=DEADLINE,
            train_deadline=DEADLINE,
            **(signed if malicious else {}),  # type: ignore[arg-type]
            **more,
        )
        clock = GridClock(now=self.clock, sleep=self.clock.sleep)
        self.grid = SecureGrid(self.nodes, self.config, clock=clock)

    def round(self, who: Sequence[int] | None = None) -> list[Message]:
        """A round of the living nodes."""
        alive = [n for n in self.ids if n not in self.nodes.dead] if who is None else who
        content = train_content()
        return list(self.grid.send_and_receive([Message(content, n, "train") for n in alive]))

    def check(self, survivors: Sequence[int]) -> None:
        """The last round's mean is that of these partitions, and everybody has got it."""
        outcome = self.grid.outcomes[-1]
        assert outcome.aborted is None
        assert sorted(self.ids.index(node) for node in outcome.survivors) == sorted(survivors)

    def run(self, survivors: Sequence[int], who: Sequence[int] | None = None) -> None:
        """A round with the right mean of these partitions."""
        replies = self.round(who)
        self.check(survivors)
        assert sorted(reply.metadata.src_node_id for reply in replies) == sorted(
            self.ids[p] for p in survivors
        )
        for reply in replies:
            means = reply.content.array_records["arrays"]
            assert reply.content.metric_records["metrics"]["num-examples"] == 1
            for name, right in mean(survivors).items():
                gap = np.abs(means[name].numpy() - right).max()
                assert gap <= 2.0**-16 + float(np.finfo(MODEL[name].dtype).eps) * CLIP

    def fails(self) -> str:
        """A round without a mean; why there is none."""
        assert self.round() == []
        outcome = self.grid.outcomes[-1]
        assert outcome.aborted is not None
        assert outcome.survivors == ()
        return outcome.aborted

    def asked(self, step: Step) -> int:
        return sum(passed.step == step for passed in self.nodes.passed)


EVERYBODY = tuple(range(N))


def rest(*gone: int) -> tuple[int, ...]:
    return tuple(p for p in EVERYBODY if p not in gone)


def expected(fault: Fault, step: Step, gone: int) -> tuple[int, ...]:
    """Whose updates are in the mean, if one node meets ``fault`` in ``step``."""
    if fault is Fault.RESTARTED and step is Step.ADVERTISE_KEYS:
        return EVERYBODY  # it had nothing to lose yet
    answers = step if fault is Fault.FORGETS else step - 1
    return EVERYBODY if answers >= Step.MASKED_INPUT else rest(gone)


# One node, each step, each way to go.


@pytest.mark.parametrize(
    ("variant", "step", "fault"),
    [
        (variant, step, fault)
        for variant, step in CASES
        for fault in Fault
        # To the clients that stay, all silence is alike.
        if variant == "semi-honest" or fault in (Fault.KILLED, Fault.FORGETS, Fault.RESTARTED)
    ],
)
def test_a_node_that_fails_at_a_step_costs_its_own_update_at_most(
    variant: str, step: Step, fault: Fault, tmp_path: Path
) -> None:
    at = int(step) % N
    world = World(tmp_path, variant)
    world.nodes.on(world.ids[at], step, fault, round=0)
    world.run(expected(fault, step, at))
    told = {missing.node for missing in world.grid.outcomes[0].missing}
    assert told <= {world.ids[at]}
    # Keys for the next round that left before their node forgot them are of no use to it.
    lost = fault is Fault.KILLED or (fault is Fault.FORGETS and step is Step.UNMASKING)
    world.run(rest(at) if lost else EVERYBODY)


@pytest.mark.parametrize(
    ("variant", "at"), [*(("semi-honest", at) for at in EVERYBODY), ("malicious", 2)]
)
def test_any_node_may_be_killed_in_any_step_of_a_round_that_was_offered(
    variant: str, at: int, tmp_path: Path
) -> None:
    for step in STEPS[variant][1:]:
        folder = tmp_path / step.name
        folder.mkdir()
        world = World(folder, variant)
        world.run(EVERYBODY)
        world.nodes.on(world.ids[at], step, Fault.KILLED, round=1)
        world.run(expected(Fault.KILLED, step, at))


@pytest.mark.parametrize("variant", STEPS)
def test_a_node_that_was_killed_is_missed_by_name_and_by_step(variant: str, tmp_path: Path) -> None:
    for step in STEPS[variant]:
        folder = tmp_path / step.name
        folder.mkdir()
        world = World(folder, variant)
        world.nodes.on(world.ids[2], step, Fault.KILLED)
        world.round()
        missing = world.grid.outcomes[0].missing[0]
        assert (missing.node, missing.step) == (world.ids[2], step.title)
        assert "no answer within" in missing.reason


# Several nodes.

losses = st.dictionaries(
    st.integers(0, N - 1), st.sampled_from(STEPS["semi-honest"]), max_size=N, min_size=2
)


@settings(max_examples=20)
@given(losses, st.sampled_from([Fault.KILLED, Fault.MUTE, Fault.UNAVAILABLE, Fault.EXPIRED]))
def test_several_losses_give_the_right_mean_of_the_rest_or_none(
    tmp_path_factory: pytest.TempPathFactory, lost: dict[int, Step], fault: Fault
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    for at, step in lost.items():
        world.nodes.on(world.ids[at], step, fault, round=0)
    before = [at for at, step in lost.items() if step <= Step.MASKED_INPUT]
    if len(lost) <= MOST_LOST:
        world.run(rest(*before))
    else:
        assert "needed" in world.fails()


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_with_too_few_left_nothing_comes_back_and_nothing_more_is_asked(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant)
    for at in range(MOST_LOST + 1):
        world.nodes.on(world.ids[at], step, Fault.LOST, round=0)
    why = world.fails()
    assert step.title in why
    assert all(not world.asked(later) for later in STEPS[variant] if later > step)
    missing = world.grid.outcomes[0].missing
    assert {gone.node for gone in missing} == set(world.ids[: MOST_LOST + 1])
    world.run(EVERYBODY)


def test_a_strategy_keeps_its_model_where_a_round_has_no_mean(tmp_path: Path) -> None:
    world = World(tmp_path)
    for at in range(MOST_LOST + 1):
        world.nodes.on(world.ids[at], Step.MASKED_INPUT, Fault.LOST, round=1)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=N, min_available_nodes=N)
    models: list[Any] = []

    def evaluate_fn(round: int, arrays: Any) -> None:
        models.append({name: array.numpy() for name, array in arrays.items()})

    initial = train_content().array_records["arrays"]
    strategy.start(world.grid, initial, num_rounds=2, evaluate_fn=evaluate_fn)
    assert [outcome.aborted is None for outcome in world.grid.outcomes] == [True, False]
    for name in MODEL:
        assert np.array_equal(models[1][name], models[2][name])
    assert not np.array_equal(models[0]["bias"], models[1]["bias"])


# Time.


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_nobody_is_waited_for_past_the_deadline(variant: str, step: Step, tmp_path: Path) -> None:
    world = World(tmp_path, variant)
    world.nodes.delay(world.ids[1], step, 1e6, round=0)
    world.run(expected(Fault.MUTE, step, 1))
    assert world.clock.now <= DEADLINE + 1e-6
    assert world.grid.outcomes[0].seconds[step.title] == pytest.approx(DEADLINE)


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_with_a_quorum_the_others_have_the_grace_alone(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant, grace=3.0)
    world.nodes.delay(world.ids[1], step, 1e6, round=0)
    world.run(expected(Fault.MUTE, step, 1))
    assert world.clock.now <= 3.0 + 1e-6


def test_all_nodes_late_in_every_step_take_the_steps_deadlines_and_no_more(tmp_path: Path) -> None:
    world = World(tmp_path)
    for node in world.ids:
        for step in STEPS["semi-honest"]:
            world.nodes.delay(node, step, DEADLINE - 1)
    world.run(EVERYBODY)
    assert world.clock.now <= 4 * DEADLINE


def test_a_vector_that_comes_late_is_in_no_mean_and_its_node_in_the_next_round(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.nodes.delay(world.ids[1], Step.MASKED_INPUT, DEADLINE + 1, round=0)
    world.run(rest(1))
    world.clock.sleep(10)
    world.run(EVERYBODY)


def test_a_round_ends_with_the_time_that_the_strategy_gives_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    for node in world.ids[: MOST_LOST + 1]:
        world.nodes.delay(node, Step.SHARE_KEYS, 50)
    messages = [Message(train_content(), node, "train") for node in world.ids]
    assert list(world.grid.send_and_receive(messages, timeout=40)) == []
    assert world.clock.now <= 40 + 1e-6


# Twice, again, and out of place.


def twice_first(message: Message, deliver: Deliver) -> Message | None:
    first = deliver(message)
    deliver(message)
    return first


def twice_last(message: Message, deliver: Deliver) -> Message | None:
    deliver(message)
    return deliver(message)


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_a_message_that_arrives_twice_is_answered_once(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant)
    world.nodes.on(world.ids[3], step, twice_first, round=0)
    world.run(EVERYBODY)
    replies = [p.reply for p in world.nodes.passed if (p.node, p.step) == (world.ids[3], step)]
    answers = [reply for reply in replies if reply is not None and not reply.has_error()]
    assert (len(replies), len(answers)) == (2, 1)
    world.run(EVERYBODY)


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_where_the_second_answer_counts_its_node_is_missing(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant)
    world.nodes.on(world.ids[3], step, twice_last, round=0)
    world.run(expected(Fault.MUTE, step, 3))
    missing = world.grid.outcomes[0].missing[0]
    assert missing.reason == reason(Code.STALE.error())
    world.run(EVERYBODY)


@pytest.mark.parametrize("variant", STEPS)
def test_requests_of_the_last_round_are_stale_in_the_next(variant: str, tmp_path: Path) -> None:
    world = World(tmp_path, variant)
    world.run(EVERYBODY)
    old = [passed for passed in world.nodes.passed if passed.step != 0]

    def replayed(message: Message, deliver: Deliver) -> Message | None:
        for passed in old:
            if passed.node == message.metadata.dst_node_id:
                reply = deliver(passed.request)
                assert reply is not None
                assert reply.error.code == Code.STALE
        return deliver(message)

    for node in world.ids:
        for step in STEPS[variant]:
            world.nodes.on(node, step, replayed, round=1)
    world.run(EVERYBODY)


@pytest.mark.parametrize(("variant", "step"), [c for c in CASES if c[1] > Step.ADVERTISE_KEYS])
def test_answers_of_the_last_round_or_of_another_node_are_none(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant)
    world.run(EVERYBODY)
    old = {p.node: p.reply for p in world.nodes.passed if p.step == step}
    fresh: dict[int, Message | None] = {}

    def from_before(message: Message, deliver: Deliver) -> Message | None:
        return old[message.metadata.dst_node_id]

    def kept(message: Message, deliver: Deliver) -> Message | None:
        fresh[message.metadata.dst_node_id] = deliver(message)
        return fresh[message.metadata.dst_node_id]

    def from_another(message: Message, deliver: Deliver) -> Message | None:
        return fresh[world.ids[0]]

    world.nodes.on(world.ids[0], step, kept, round=1)
    world.nodes.on(world.ids[1], step, from_before, round=1)
    world.nodes.on(world.ids[4], step, from_another, round=1)
    gone = rest(1, 4) if step <= Step.MASKED_INPUT else EVERYBODY
    world.run(gone)
    assert {m.node for m in world.grid.outcomes[1].missing} == {world.ids[1], world.ids[4]}


def garbled(message: Message, deliver: Deliver) -> Message | None:
    """The answer with each of its bytes fields cut by one byte."""
    reply = deliver(message)
    assert reply is not None
    record = reply.content.config_records[RECORD]
    cut = {name: v[:-1] if isinstance(v, bytes) else v for name, v in record.items()}
    content = RecordDict({**reply.content, RECORD: ConfigRecord(cut)})
    content.pop(VECTOR, None)
    return altered(reply, content)


@pytest.mark.parametrize(("variant", "step"), CASES)
def test_an_answer_that_was_damaged_on_its_way_is_none(
    variant: str, step: Step, tmp_path: Path
) -> None:
    world = World(tmp_path, variant)
    world.nodes.on(world.ids[2], step, garbled, round=0)
    world.run(expected(Fault.MUTE, step, 2))
    world.run(EVERYBODY)


# Training, and mods.


@pytest.mark.parametrize("engine", ["simulation", "deployment"])
@pytest.mark.parametrize("raised", [ValueError, SystemExit, MemoryError])
def test_training_that_raises_is_a_drop_out_and_says_nothing(
    raised: type[BaseException], engine: Any, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    failing = [True]

    def sometimes(message: Message, ctx: Context) -> Message:
        if ctx.node_config["partition-id"] == 2 and failing:
            raise raised(f"patient {271000 + 828}")
        return train(message, ctx)

    world = World(tmp_path, make_app=lambda: app(sometimes))
    world.nodes.engine = engine
    world.run(rest(2))
    assert world.grid.outcomes[0].missing[0].reason == reason(Code.FAILED.error())
    assert "271828" not in told.text + str(world.grid.outcomes)
    failing.clear()
    world.run(EVERYBODY)


def test_clipping_before_masking_is_refused_at_every_node(tmp_path: Path) -> None:
    world = World(tmp_path, make_app=lambda: app(train, fixedclipping_mod, SecAggMod()))
    assert "AdvertiseKeys" in world.fails()
    assert not world.asked(Step.SHARE_KEYS)
    assert len(world.grid.outcomes[0].missing) == N


def test_a_mod_before_ours_is_named_to_the_server(tmp_path: Path) -> None:
    def observer(message: Message, ctx: Context, call_next: Any) -> Message:
        return call_next(message, ctx)  # type: ignore[no-any-return]

    world = World(tmp_path, make_app=lambda: app(train, observer, SecAggMod()))
    world.fails()
    assert "first" in world.grid.outcomes[0].missing[0].reason


def test_flower_s_clipping_by_clients_works_after_ours(tmp_path: Path) -> None:
    norm = 0.125

    def strategy() -> DifferentialPrivacyClientSideFixedClipping:
        plain = FedAvg(fraction_evaluate=0.0, min_train_nodes=N, min_available_nodes=N)
        # Too little noise to see; what is tested is the clipping.
        return DifferentialPrivacyClientSideFixedClipping(plain, 1e-9, norm, N)

    initial = {name: array for name, array in MODEL.items() if array.ndim}
    found = []
    world = World(tmp_path, make_app=lambda: app(dense, SecAggMod(), fixedclipping_mod))
    plain = LocalGrid(lambda: app(dense, fixedclipping_mod), N)
    for grid in (world.grid, plain):
        result = strategy().start(grid, arrays(initial), num_rounds=1)
        assert result.arrays is not None
        found.append({name: array.numpy() for name, array in result.arrays.items()})
    for name in initial:
        assert np.abs(found[0][name] - found[1][name]).max() < 2.0**-15
    assert 0 < sum((array**2).sum() for array in found[0].values()) <= norm**2 * 1.001


def dense(message: Message, ctx: Context) -> Message:
    """The training function for a model without numbers that have no dimension."""
    reply = train(message, ctx)
    del reply.content.array_records["arrays"]["scale"]
    return reply
