"""The mod in Flower's chain: what it lets through, what it keeps to itself, where it must stand."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod, message_size_mod
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from secagg.flower.mod import SecAggMod
from secagg.flower.policy import Policy
from secagg.flower.records import HELLO, RECORD, VECTOR, Code
from secagg.flower.store import STATE_PATH
from secagg.full.messages import Step
from tests.secagg.flower.by_hand import (
    MODEL,
    DeclinedError,
    Keys,
    Round,
    app,
    code_of,
    grid_of,
    mean,
    stored,
    train,
    train_content,
)
from tests.support.flower_grid import LocalGrid

N = 4
VARIANTS = ("semi-honest", "malicious")


def round_of(variant: Any, folder: Path, **more: Any) -> Round:
    keys = Keys(folder, tuple(range(1, N + 1))) if variant == "malicious" else None
    return Round(grid_of(N, keys=keys, **more), variant=variant, keys=keys)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_mean_is_that_of_the_training_functions_results(variant: str, tmp_path: Path) -> None:
    round = round_of(variant, tmp_path).upto(Step.UNMASKING)
    means = round.unmask()
    for name, right in mean(range(N)).items():
        assert np.abs(means[name] - right).max() <= 2.0**-16
    losses = sum((p + 1) * 0.5 * p for p in range(N)) / sum(p + 1 for p in range(N))
    assert abs(means["metric:loss"] - losses) <= 2.0**-16


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_leaves_a_node_but_records_of_the_protocol(variant: str, tmp_path: Path) -> None:
    round = round_of(variant, tmp_path).upto(Step.UNMASKING)
    round.unmask()
    for passed in round.grid.passed:
        assert passed.reply is not None
        expected = {RECORD, VECTOR} if passed.step == Step.MASKED_INPUT else {RECORD}
        assert set(passed.reply.content) == expected
        numbers = passed.reply.content.config_records[RECORD]
        assert set(numbers) <= {"version", "step", "round", "client", "session", "data"}


def test_training_sees_the_user_s_records_alone_once_in_a_round(tmp_path: Path) -> None:
    seen: list[tuple[list[str], list[str], str]] = []

    def watching(message: Message, ctx: Context) -> Message:
        seen.append((list(message.content), list(ctx.state), message.metadata.message_type))
        ctx.state["own"] = ConfigRecord({"a": 1})
        return train(message, ctx)

    round = Round(grid_of(N, lambda: app(watching))).upto(Step.MASKED_INPUT)
    assert not seen
    round.mask()
    round.unmask()
    assert seen == [(["arrays", "config"], [], "train")] * N
    assert set(round.grid.state(round.node(1))) == {"own", RECORD}


def test_a_training_function_that_replaces_its_state_loses_none_of_ours() -> None:
    def replacing(message: Message, ctx: Context) -> Message:
        ctx.state = RecordDict()
        return train(message, ctx)

    Round(grid_of(N, lambda: app(replacing))).upto(Step.UNMASKING).unmask()


def test_a_plain_train_message_is_not_trained_on() -> None:
    def never(message: Message, ctx: Context) -> Message:
        raise AssertionError

    grid = grid_of(N, lambda: app(never))
    reply = grid.deliver(grid.forged(train_content(), next(iter(grid.configs))))
    assert reply is not None
    assert reply.error.code == Code.UNWILLING
    assert not stored(grid, 1)


@pytest.mark.parametrize("kind", ["evaluate", "query"])
def test_other_messages_pass_through_without_our_state(kind: str) -> None:
    seen: list[set[str]] = []

    def noted(message: Message, ctx: Context) -> Message:
        seen.append(set(ctx.state))
        return Message(RecordDict({"metrics": MetricRecord({"seen": 1})}), reply_to=message)

    def make() -> ClientApp:
        made = ClientApp(mods=[SecAggMod()])
        made.train()(train)
        made.evaluate()(noted)
        made.query()(noted)
        return made

    round = Round(grid_of(N, make)).upto(Step.MASKED_INPUT)
    before = stored(round.grid, 1)
    reply = round.grid.deliver(round.grid.forged(train_content(), round.node(1), kind=kind))
    assert reply is not None
    assert reply.content.metric_records["metrics"]["seen"] == 1
    assert seen == [set()]
    assert stored(round.grid, 1) == before
    round.mask()


def observer(message: Message, ctx: Context, call_next: Any) -> Message:
    """A mod that changes nothing."""
    return call_next(message, ctx)  # type: ignore[no-any-return]


@pytest.mark.parametrize("where", ["app", "function"])
def test_a_mod_before_ours_is_refused(where: str) -> None:
    def make() -> ClientApp:
        if where == "app":
            return app(train, observer, SecAggMod())
        made = ClientApp(mods=[observer])
        made.train(mods=[SecAggMod()])(train)
        return made

    round = Round(grid_of(N, make))
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].advertise()
    assert code_of(declined.value) is Code.MISPLACED
    assert not stored(round.grid, 1)


@pytest.mark.parametrize(
    ("other", "code"),
    [(fixedclipping_mod, 6), (message_size_mod, 2)],  # a mod's precondition; a mod that raised
)
def test_a_mod_of_flower_s_before_ours_fails_before_anything_is_masked(
    other: Any, code: int
) -> None:
    round = Round(grid_of(N, lambda: app(train, other, SecAggMod())))
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].advertise()
    assert declined.value.code == code
    assert not stored(round.grid, 1)


@pytest.mark.parametrize("where", ["app", "function"])
def test_mods_after_ours_work_on_what_is_masked_later(where: str) -> None:
    def make() -> ClientApp:
        if where == "app":
            return app(train, SecAggMod(), message_size_mod, fixedclipping_mod)
        made = ClientApp(mods=[SecAggMod()])
        made.train(mods=[message_size_mod, fixedclipping_mod])(train)
        return made

    norm = 0.125
    content = train_content()
    content.config_records["config"]["clipping_norm"] = norm
    round = Round(grid_of(N, make), content=content).upto(Step.UNMASKING)
    means = round.unmask()
    # Flower's clipping leaves arrays without dimensions as they are.
    updates = [means[name] for name, array in MODEL.items() if array.ndim]
    length = np.sqrt(sum(float((update**2).sum()) for update in updates))
    assert 0 < length <= norm


def test_the_mod_goes_to_worker_processes(tmp_path: Path) -> None:
    named = {STATE_PATH: str(tmp_path / "{partition-id}")}
    made = SecAggMod(Policy(threshold=0.5), print, node_config=named)
    again = pickle.loads(pickle.dumps(made))
    assert again.policy == made.policy
    Round(grid_of(N, lambda: app(train, again))).upto(Step.UNMASKING).unmask()


def test_a_simulation_s_nodes_find_their_files_by_partition(tmp_path: Path) -> None:
    def make() -> ClientApp:
        named = {STATE_PATH: str(tmp_path / "{partition-id}.marks")}
        return app(train, SecAggMod(Policy(durable=True), node_config=named))

    Round(grid_of(N, make)).upto(Step.UNMASKING).unmask()
    assert {path.name for path in tmp_path.glob("*.marks")} == {f"{p}.marks" for p in range(N)}


def test_what_a_node_says_itself_counts_more_than_the_app(tmp_path: Path) -> None:
    named = {STATE_PATH: str(tmp_path / "app")}
    more = {1: {STATE_PATH: str(tmp_path / "node")}}
    round = Round(grid_of(N, lambda: app(train, SecAggMod(node_config=named)), more=more))
    round.clients[1].advertise()
    assert (tmp_path / "node").exists()
    assert not (tmp_path / "app").exists()


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="Policy"):
        SecAggMod("malicious")  # type: ignore[arg-type]


values = st.one_of(st.integers(-5, 2**33), st.binary(max_size=40), st.booleans(), st.text())


@given(st.dictionaries(st.text(max_size=8), values, max_size=4), st.data())
def test_whatever_a_message_holds_it_is_declined_and_nothing_else(
    more: dict[str, Any], data: st.DataObject
) -> None:
    grid: LocalGrid = grid_of(3)
    proper: dict[str, Any] = {
        "version": 1,
        "step": data.draw(st.integers(HELLO, 5)),
        "round": 0,
        "client": 1,
        "session": bytes(16),
        "data": data.draw(st.binary(min_size=1, max_size=40)),
    }
    kept = {name: value for name, value in proper.items() if data.draw(st.booleans())}
    content = train_content()
    content[RECORD] = ConfigRecord({**kept, **more})
    reply = grid.deliver(grid.forged(content, next(iter(grid.configs))))
    assert reply is not None
    assert Code(reply.error.code)


def test_a_state_that_was_damaged_is_no_state_to_go_on_with() -> None:
    round = Round(grid_of(N)).upto(Step.SHARE_KEYS)
    node, state = round.node(1), round.grid.state(round.node(1))
    state.config_records[RECORD]["data"] = b"damaged"
    round.grid.store(node, state)
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].share_keys(round.server.roster(1))
    assert code_of(declined.value) is Code.FAILED
    assert stored(round.grid, 1) == b"damaged"


def test_what_is_not_ours_to_expect_ends_the_session_without_a_word(
    monkeypatch: pytest.MonkeyPatch, told: pytest.LogCaptureFixture
) -> None:
    round = Round(grid_of(N)).upto(Step.SHARE_KEYS)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"of the secret {31000 + 415}")

    with monkeypatch.context() as patched:
        patched.setattr("secagg.full.client.Client.share_keys", broken)
        with pytest.raises(DeclinedError) as declined:
            round.clients[1].share_keys(round.server.roster(1))
    assert code_of(declined.value) is Code.REFUSED
    assert "RuntimeError" in told.text
    assert "31415" not in str(declined.value) + told.text
    with pytest.raises(DeclinedError) as declined:
        round.clients[1].share_keys(round.server.roster(1))
    assert code_of(declined.value) is Code.REFUSED
