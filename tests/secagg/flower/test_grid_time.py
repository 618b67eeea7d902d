"""The server's half over a grid of real nodes: deadlines, and what comes late, twice or astray."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from secagg.full.messages import Step
from tests.secagg.flower.secure_rounds import (
    VARIANTS,
    Session,
    assert_mean,
)

N = 6
EVERYBODY = range(N)
PROTOCOL = [step for step in Step if step <= Step.UNMASKING]


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(variant: str, tmp_path: Path) -> Session:
    return Session(N, variant, tmp_path, dropout=0.34)  # two of six may leave


def test_nobody_is_waited_for_past_a_deadline(variant: str, tmp_path: Path) -> None:
    session = Session(N, variant, tmp_path, dropout=0.34, deadline=10.0, train_deadline=100.0)
    for at, step in enumerate(s for s in PROTOCOL if s != 4 or variant == "malicious"):
        if at < 2:
            session.grid.delay(session.nodes[at], step, 1e6)
    session.train()
    seconds = dict(session.outcome.seconds)
    assert seconds["AdvertiseKeys"] == pytest.approx(10.0)
    assert seconds["ShareKeys"] == pytest.approx(10.0)
    assert seconds["MaskedInputCollection"] == 0.0
    assert session.missing()[0] == ("AdvertiseKeys", "no answer within 10 s")


def test_training_has_a_deadline_of_its_own() -> None:
    slow = Session(N, deadline=10.0, train_deadline=100.0)
    slow.grid.delay(slow.nodes[0], Step.MASKED_INPUT, 99.0)
    assert_mean(slow.train(), EVERYBODY)
    slow.grid.delay(slow.nodes[0], Step.MASKED_INPUT, 101.0)
    assert_mean(slow.train(), [1, 2, 3, 4, 5])
    assert slow.outcome.seconds["MaskedInputCollection"] == pytest.approx(100.0)


def test_with_a_quorum_the_others_have_the_grace_and_no_more() -> None:
    session = Session(N, dropout=0.34, grace=5.0, train_deadline=1000.0)
    session.grid.delay(session.nodes[0], Step.MASKED_INPUT, 500.0)
    session.grid.delay(session.nodes[1], Step.MASKED_INPUT, 4.0)
    assert_mean(session.train(), [1, 2, 3, 4, 5])
    assert session.outcome.seconds["MaskedInputCollection"] == pytest.approx(5.0)


def test_without_a_quorum_there_is_no_grace() -> None:
    session = Session(N, dropout=0.34, grace=5.0, train_deadline=1000.0)
    for node in session.nodes[:3]:
        session.grid.delay(node, Step.MASKED_INPUT, 300.0)
    assert_mean(session.train(), EVERYBODY)
    assert session.outcome.seconds["MaskedInputCollection"] == pytest.approx(300.0, abs=0.3)


def test_the_caller_s_timeout_ends_a_round() -> None:
    session = Session(N, dropout=0.34)
    session.train()
    for node in session.nodes[:5]:
        session.grid.delay(node, Step.SHARE_KEYS, 40.0)
        session.grid.delay(node, Step.MASKED_INPUT, 40.0)
    started = session.clock()
    assert session.train(timeout=60.0) == []
    assert session.clock() - started == pytest.approx(60.0)


def test_messages_live_as_long_as_their_step() -> None:
    session = Session(N, dropout=0.34)
    session.train()
    lives = {one.step: one.request.metadata.ttl for one in session.grid.passed}
    config = session.secure.config
    assert lives.pop(Step.MASKED_INPUT) == config.train_deadline
    assert set(lives.values()) == {config.deadline}


def test_a_late_input_is_not_looked_at() -> None:
    session = Session(N, dropout=0.34)
    session.grid.delay(session.nodes[0], Step.MASKED_INPUT, 1e5, round=0)
    assert_mean(session.train(), [1, 2, 3, 4, 5])
    session.clock.sleep(1e6)
    # Its reply is there now, to a message that nobody asks about any more.
    assert_mean(session.train(), EVERYBODY)


def test_doubled_messages_change_nothing(session: Session) -> None:
    def twice(message: Message, deliver: Any) -> Message:
        first: Message = deliver(message)
        assert deliver(message).has_error()
        return first

    for step in PROTOCOL:
        session.grid.on(session.nodes[0], step, twice)
    for _ in range(2):
        assert_mean(session.train(), EVERYBODY)


def test_a_reply_to_an_earlier_step_is_none() -> None:
    session = Session(N, dropout=0.34)
    kept: list[Message] = []

    def earlier(message: Message, deliver: Any) -> Message | None:
        kept.append(deliver(message))
        return kept[0]

    for step in (Step.SHARE_KEYS, Step.MASKED_INPUT):
        session.grid.on(session.nodes[0], step, earlier, round=0)
    assert_mean(session.train(), [1, 2, 3, 4, 5])
    assert session.missing()[0][1] == "the reply is to another step: 2 of round 0"


def test_a_reply_of_another_node_s_client_is_none() -> None:
    session = Session(N, dropout=0.34)
    kept: dict[int, Message] = {}

    def other(message: Message, deliver: Any) -> Message | None:
        kept[message.metadata.dst_node_id] = deliver(message)
        return deepcopy(kept[session.nodes[0]])

    for node in session.nodes[:2]:
        session.grid.on(node, Step.MASKED_INPUT, other, round=0)
    assert_mean(session.train(), [0, 2, 3, 4, 5])
    assert session.missing()[1][1] == "the reply is by client 1, asked was 2"
