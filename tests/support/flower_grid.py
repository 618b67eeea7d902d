"""A Flower grid in this process, without Ray, sockets or waiting: nodes that fail as they are told.

Messages and states pass through Flower's own serialisation, the app is made anew for each message,
and nothing but ``ctx.state`` and a node's disk survives from one to the next, as in deployment.
What the SuperLink would say in place of a node, this grid says.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict, UserConfig
from flwr.app.message import make_message
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from secagg.flower.records import RECORD

SUPERLINK = 1
"""The node id under which the SuperLink speaks."""

CLIENT_RAISED, MESSAGE_UNAVAILABLE, NODE_UNAVAILABLE = 2, 3, 5

Engine = Literal["simulation", "deployment"]

Deliver = Callable[[Message], Message | None]
"""Runs the node on a message; its reply, or None where none leaves it."""

InTheMiddle = Callable[[Message, Deliver], Message | None]
"""What comes back for a message, from whoever stands between the grid and the node."""

Snapshot = tuple[str, dict[str, bytes]]


class Fault(Enum):
    """What happens to one message and its node."""

    LOST = auto()
    """The message does not arrive."""

    MUTE = auto()
    """The node works and remembers; its reply is lost."""

    KILLED = auto()
    """The node works and dies before anything leaves it. Its disk stays; it answers no more."""

    FORGETS = auto()
    """The reply leaves, and the node dies before its state is stored; then it is there again."""

    RESTARTED = auto()
    """The node has been restarted before the message: its state is empty, its disk stays."""

    UNAVAILABLE = auto()
    """The SuperLink says that the node is not available."""

    EXPIRED = auto()
    """The message does not arrive, and the SuperLink says so when its time is over."""


@dataclass(frozen=True)
class Passed:
    """One message that a node was given, and what left it."""

    node: int
    step: int | None
    round: int | None
    request: Message = field(repr=False)
    reply: Message | None = field(repr=False)


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def step_of(message: Message) -> tuple[int | None, int | None]:
    """The step and the round that a message names; None for one that is not ours."""
    record = message.content.get(RECORD) if message.has_content() else None
    if not isinstance(record, ConfigRecord):
        return None, None
    step, round = record.get("step"), record.get("round")
    return (
        step if isinstance(step, int) else None,
        round if isinstance(round, int) else None,
    )


class LocalGrid(Grid):
    """Nodes in this process.

    make_app: called for every message.  nodes: how many, or the node_config of each by its id.
    engine: whether the state of a client that raised is discarded or kept.  public_keys: what the
    SuperLink knows of the nodes that are registered.  clock: for delays and expiry.
    """

    def __init__(
        self,
        make_app: Callable[[], ClientApp],
        nodes: int | Mapping[int, UserConfig],
        *,
        engine: Engine = "deployment",
        public_keys: Mapping[int, bytes] | None = None,
        run_config: UserConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SUPERLINK, 1
        if isinstance(nodes, int):
            configs: dict[int, UserConfig] = {
                node_id(i): {"partition-id": i, "num-partitions": nodes} for i in range(nodes)
            }
        else:
            configs = dict(nodes)
        self.make_app, self.engine, self.clock = make_app, engine, clock
        self.configs, self.public_keys = configs, dict(public_keys or {})
        self.run_config: UserConfig = dict(run_config or {})
        self.states: dict[int, Snapshot] = {node: _taken(RecordDict()) for node in configs}
        self.passed: list[Passed] = []
        self.dead: set[int] = set()
        self._faults: dict[tuple[int, int | None, int | None], Fault | InTheMiddle] = {}
        self._delays: dict[tuple[int, int | None, int | None], float] = {}
        self._replies: dict[str, tuple[float, Message]] = {}
        self._run = Run.create_empty(1)

    # What a test does to nodes.

    def on(
        self, node: int, step: int | None, fault: Fault | InTheMiddle, *, round: int | None = None
    ) -> None:
        """From now on, what ``node`` meets in ``step``, of one round or of every one."""
        self._faults[node, step, round] = fault

    def delay(
        self, node: int, step: int | None, seconds: float, *, round: int | None = None
    ) -> None:
        """The replies of ``node`` in ``step`` can be pulled only after so many seconds."""
        self._delays[node, step, round] = seconds

    def deliver(self, message: Message) -> Message | None:
        """Run the node on a message, now and without faults."""
        return self._executed(message, stores=True)

    def state(self, node: int) -> RecordDict:
        """A copy of what ``node`` has stored."""
        return _restored(self.states[node])

    def store(self, node: int, state: RecordDict) -> None:
        """Put ``state`` in the place of what ``node`` has stored."""
        self.states[node] = _taken(state)

    def forged(self, content: RecordDict, node: int, *, kind: str = "train") -> Message:
        """A message as the SuperLink would deliver it, for ``deliver``."""
        return self._sent(Message(content, node, kind))

    # Grid.

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message to a node."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are alive."""
        return [node for node in self.configs if node not in self.dead]

    def get_nodes(self) -> Iterable[NodeInfo]:
        """The nodes that are alive, with their keys."""
        return [
            NodeInfo(node_id=node, public_key=self.public_keys.get(node, b""))
            for node in self.get_node_ids()
        ]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run each message's node at once; replies wait until they are pulled."""
        return [self._pushed(self._sent(message)) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there."""
        now, wanted = self.clock(), list(message_ids)
        there = [one for one in wanted if one in self._replies and self._replies[one][0] <= now]
        return [self._replies.pop(one)[1] for one in there]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push all, pull all. What never comes is not waited for."""
        return list(self.pull_messages(self.push_messages(messages)))

    # The way of a message.

    def _sent(self, message: Message) -> Message:
        arrived = _carried(message)
        message.metadata.__dict__["_message_id"] = arrived.metadata.message_id
        return arrived

    def _pushed(self, message: Message) -> str:
        node, (step, round) = message.metadata.dst_node_id, step_of(message)
        fault = self._found(self._faults, node, step, round)
        ready = self.clock() + (self._found(self._delays, node, step, round) or 0.0)
        if node not in self.configs:
            reply: Message | None = _superlink(message, MESSAGE_UNAVAILABLE)
        elif node in self.dead or fault is Fault.LOST:
            reply = None
        elif fault is Fault.UNAVAILABLE:
            reply = _superlink(message, NODE_UNAVAILABLE)
        elif fault is Fault.EXPIRED:
            reply = _superlink(message, MESSAGE_UNAVAILABLE)
            ready = self.clock() + message.metadata.ttl
        elif callable(fault):
            reply = fault(message, self.deliver)
        else:
            reply = self._faulty(message, fault)
        if reply is not None:
            reply = _carried(reply)  # it may be one that has been pulled before
            # Whoever answers, answers this very message.
            reply.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
            self._replies[message.metadata.message_id] = (ready, reply)
        return message.metadata.message_id

    def _faulty(self, message: Message, fault: Fault | None) -> Message | None:
        node = message.metadata.dst_node_id
        if fault is Fault.RESTARTED:
            self.states[node] = _taken(RecordDict())
        keeps = fault not in (Fault.KILLED, Fault.FORGETS)
        reply = self._executed(message, stores=keeps)
        if fault is Fault.KILLED:
            self.dead.add(node)
        return None if fault in (Fault.KILLED, Fault.MUTE) else reply

    def _executed(self, message: Message, *, stores: bool) -> Message | None:
        node = message.metadata.dst_node_id
        context = Context(
            run_id=self._run.run_id,
            node_id=node,
            node_config=dict(self.configs[node]),
            state=_restored(self.states[node]),
            run_config=dict(self.run_config),
        )
        arrived, kept = _carried(message), True
        arrived.metadata.__dict__["_message_id"] = message.metadata.message_id
        try:
            reply = self.make_app()(arrived, context)
        except Exception as error:  # as both engines do
            reason = f"{type(error)}:<'{error}'>"
            reply = Message(Error(CLIENT_RAISED, reason), reply_to=arrived)
            kept = self.engine == "deployment"
        if stores and kept:
            self.states[node] = _taken(context.state)
        reply = _carried(reply)
        self.passed.append(Passed(node, *step_of(message), message, reply))
        return reply

    def _found(
        self, table: Mapping[Any, Any], node: int, step: int | None, round: int | None
    ) -> Any:
        return table.get((node, step, round), table.get((node, step, None)))


def node_id(index: int) -> int:
    """An id such as the SuperLink gives: any 64 bits, in no order."""
    return random.Random(index).getrandbits(64)


def _carried(message: Message) -> Message:
    """The message after it was taken apart and put together again."""
    name, contents = _taken(message)
    arrived = inflate_object_from_contents(name, contents)
    if not isinstance(arrived, Message):
        raise TypeError(type(arrived))
    arrived.metadata.__dict__["_message_id"] = name
    return arrived


def _superlink(message: Message, code: int) -> Message:
    reply = Message(Error(code, "said by the SuperLink"), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = SUPERLINK
    return reply


def _taken(whole: Message | RecordDict) -> Snapshot:
    with no_object_id_recompute():
        parts = get_all_nested_objects(whole)
        return whole.object_id, {name: part.deflate() for name, part in parts.items()}


def _restored(snapshot: Snapshot) -> RecordDict:
    name, contents = snapshot
    state = inflate_object_from_contents(name, dict(contents))
    if not isinstance(state, RecordDict):
        raise TypeError(type(state))
    return state


def altered(reply: Message, content: RecordDict) -> Message:
    """``reply`` with another content."""
    return make_message(reply.metadata, content)
