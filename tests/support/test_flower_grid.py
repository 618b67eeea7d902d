"""The grid of this process does what Flower's engines do with messages, states and faults."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from tests.support.flower_grid import (
    CLIENT_RAISED,
    MESSAGE_UNAVAILABLE,
    NODE_UNAVAILABLE,
    SUPERLINK,
    Clock,
    Deliver,
    Fault,
    LocalGrid,
)


def counting() -> ClientApp:
    """Counts the messages that it got, in its state; raises where it is told to."""
    made = ClientApp()

    @made.train()
    def train(message: Message, ctx: Context) -> Message:
        before = ctx.state.config_records.get("seen", ConfigRecord({"n": 0}))
        ctx.state["seen"] = ConfigRecord({"n": int(before["n"]) + 1})  # type: ignore[arg-type]
        if "raise" in message.content:
            raise ValueError("as told")
        return Message(RecordDict({"seen": ctx.state["seen"]}), reply_to=message)

    return made


def asked(grid: LocalGrid, node: int, *records: str, ttl: float = 100.0) -> Message | None:
    """The reply that can be pulled at once."""
    content = RecordDict({name: ConfigRecord({"a": 1}) for name in records})
    ids = list(grid.push_messages([Message(content, node, "train", ttl=ttl)]))
    replies = list(grid.pull_messages(ids))
    return replies[0] if replies else None


def seen(reply: Message | None) -> Any:
    assert reply is not None
    return reply.content.config_records["seen"]["n"]


def made(n: int = 1, **options: Any) -> tuple[LocalGrid, int]:
    grid = LocalGrid(counting, n, **options)
    return grid, next(iter(grid.get_node_ids()))


def test_state_lives_from_message_to_message_and_by_node() -> None:
    grid, node = made(2)
    other = list(grid.get_node_ids())[1]
    assert [seen(asked(grid, node)) for _ in range(3)] == [1, 2, 3]
    assert seen(asked(grid, other)) == 1


@pytest.mark.parametrize(("engine", "after"), [("simulation", 1), ("deployment", 2)])
def test_what_becomes_of_the_state_of_a_client_that_raised(engine: Any, after: int) -> None:
    grid, node = made(engine=engine)
    reply = asked(grid, node, "raise")
    assert reply is not None
    assert (reply.error.code, reply.metadata.src_node_id) == (CLIENT_RAISED, node)
    assert "as told" in str(reply.error.reason)
    assert seen(asked(grid, node)) == after


@pytest.mark.parametrize(
    ("fault", "replies", "counted", "alive"),
    [
        (Fault.LOST, False, 0, True),
        (Fault.MUTE, False, 1, True),
        (Fault.KILLED, False, 0, False),
        (Fault.FORGETS, True, 0, True),
        (Fault.RESTARTED, True, 1, True),
    ],
)
def test_faults(fault: Fault, replies: bool, counted: int, alive: bool) -> None:
    grid, node = made()
    asked(grid, node)
    grid.on(node, None, fault)
    before = 0 if fault is Fault.RESTARTED else 1
    reply = asked(grid, node)
    assert (reply is not None) == replies
    assert grid.state(node).config_records["seen"]["n"] == before + counted
    assert (node in grid.get_node_ids()) == alive


def test_the_superlink_speaks_for_nodes_under_its_own_id() -> None:
    clock = Clock()
    grid, node = made(clock=clock)
    grid.on(node, None, Fault.UNAVAILABLE)
    reply = asked(grid, node)
    assert reply is not None
    assert (reply.error.code, reply.metadata.src_node_id) == (NODE_UNAVAILABLE, SUPERLINK)
    unknown = asked(grid, 5)
    assert unknown is not None
    assert (unknown.error.code, unknown.metadata.src_node_id) == (MESSAGE_UNAVAILABLE, SUPERLINK)


def test_a_message_that_never_arrives_expires_with_its_time() -> None:
    clock = Clock()
    grid, node = made(clock=clock)
    grid.on(node, None, Fault.EXPIRED)
    ids = list(grid.push_messages([Message(RecordDict(), node, "train", ttl=30.0)]))
    clock.sleep(29.0)
    assert not list(grid.pull_messages(ids))
    clock.sleep(1.5)
    assert [reply.error.code for reply in grid.pull_messages(ids)] == [MESSAGE_UNAVAILABLE]


def test_a_late_reply_is_there_when_it_is_due_and_once() -> None:
    clock = Clock()
    grid, node = made(clock=clock)
    grid.delay(node, None, 7.0)
    ids = list(grid.push_messages([Message(RecordDict(), node, "train")]))
    assert not list(grid.pull_messages(ids))
    clock.sleep(7.0)
    assert [seen(reply) for reply in grid.pull_messages(ids)] == [1]
    assert not list(grid.pull_messages(ids))


def test_who_stands_in_the_middle_may_answer_with_anything() -> None:
    grid, node = made()
    first = asked(grid, node)
    assert first is not None

    def replayed(message: Message, deliver: Deliver) -> Message | None:
        deliver(message)
        return first

    grid.on(node, None, replayed)
    assert seen(asked(grid, node)) == 1
    assert grid.state(node).config_records["seen"]["n"] == 2


def test_content_is_carried_and_not_shared() -> None:
    grid, node = made()
    content = RecordDict({"arrays": ArrayRecord({"a": Array(np.zeros(3))})})
    message = Message(content, node, "train")
    list(grid.push_messages([message]))
    request = grid.passed[0].request
    assert request.content is not content
    assert np.array_equal(request.content.array_records["arrays"]["a"].numpy(), np.zeros(3))
    assert message.metadata.message_id == request.metadata.message_id
