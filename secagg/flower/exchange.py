"""One step with Flower: messages out, answers in, by a deadline; who did not answer, and why.

    done = exchange(grid, messages, take, deadline=60, quorum=8, grace=5)
    done.missing                  # {node: reason}

Source: Flower 1.42's ``Grid``: ``push_messages``, ``pull_messages``.
Model: the grid is the server's own, and Flower tells who sent what; what an answer holds comes from
    anyone. Each message takes one answer, the first; others are not looked at. Errors that the
    SuperLink makes itself carry its own node id, so an answer belongs to the node whose message it
    replies to.
Leaks: nothing.
Differs: Flower's ``send_and_receive`` looks every 3 s and returns late or silent nodes as nothing.
    Here the first look comes at once, then at growing distances, and a step may end at a quorum.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.serverapp import Grid

from mpc.core.errors import ToolkitError
from secagg.flower.records import Code, reason

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.2
_GROWTH = 1.5

Take = Callable[[int, Message], None]
"""Takes the answer of a node; a ToolkitError says why it is none."""


@dataclass(frozen=True)
class Clock:
    """Seconds since some start, and how to wait. A test has its own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass
class Exchanged:
    """answered: nodes, in order of their answers.  missing: why there is none, by node.

    declined: what clients said themselves, of those missing.
    """

    answered: list[int] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)
    declined: dict[int, Code] = field(default_factory=dict)
    seconds: float = 0.0


def exchange(
    grid: Grid,
    messages: Sequence[Message],
    take: Take,
    *,
    deadline: float,
    quorum: int,
    grace: float | None = None,
    clock: Clock | None = None,
) -> Exchanged:
    """Send ``messages``, one for each of their nodes, and hand each answer to ``take``.

    deadline: seconds until nothing is taken any more.  quorum: with so many answers taken, those
    still missing have ``grace`` seconds; None lets them have the whole deadline.
    """
    clock = Clock() if clock is None else clock
    start = clock.now()
    done, until, pause = Exchanged(), start + deadline, FIRST_PAUSE
    waiting = _push(grid, messages, done)
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is None:  # to something else, or a second one
                continue
            _take(node, reply, take, done)
        now = clock.now()
        if grace is not None and len(done.answered) >= quorum:
            until = min(until, now + grace)
        if not waiting or now >= until:
            break
        clock.sleep(min(pause, until - now))
        pause = min(pause * _GROWTH, LONGEST_PAUSE)
    done.seconds = clock.now() - start
    for node in waiting.values():
        done.missing[node] = f"no answer within {done.seconds:.3g} s"
    return done


def _push(grid: Grid, messages: Sequence[Message], done: Exchanged) -> dict[str, int]:
    """Who is asked in which message; who could not be reached is missing at once."""
    ids = list(grid.push_messages(messages))
    nodes = [message.metadata.dst_node_id for message in messages]
    if len(ids) != len(nodes):
        # The in-memory grid leaves unknown nodes out; each message has got its id either way.
        accepted = set(ids)
        ids = [message.metadata.message_id for message in messages]
        ids = [name if name in accepted else "" for name in ids]
    waiting = {name: node for name, node in zip(ids, nodes, strict=True) if name}
    for node in set(nodes).difference(waiting.values()):
        done.missing[node] = "Flower does not know this node, or could not take its message"
    return waiting


def _take(node: int, reply: Message, take: Take, done: Exchanged) -> None:
    if reply.has_error():
        done.missing[node] = reason(reply.error)
        with suppress(ValueError):  # a code of Flower's own
            done.declined[node] = Code(reply.error.code)
        return
    try:
        take(node, reply)
    except ToolkitError as error:
        done.missing[node] = str(error)
    else:
        done.answered.append(node)
