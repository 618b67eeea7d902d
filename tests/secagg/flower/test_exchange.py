"""One trip: who has answered by when, whose error it is, and who is waited for."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from mpc.core.errors import PeerError, WireError
from secagg.flower.exchange import FIRST_PAUSE, LONGEST_PAUSE, Clock, Exchanged, exchange
from tests.support import flower_grid
from tests.support.flower_grid import SUPERLINK, LocalGrid

N = 4


class Scripted(LocalGrid):
    """A grid whose nodes answer by a script: after so many seconds, with whatever a test says."""

    def __init__(self) -> None:
        self.time = flower_grid.Clock()
        super().__init__(_no_app, N, clock=self.time)
        self.nodes = list(self.configs)
        self.replies: dict[int, list[tuple[float, Message]]] = {node: [] for node in self.nodes}
        self.asked: list[list[str]] = []
        self.looks: list[float] = []
        self.unknown: set[int] = set()
        self.leaves_gaps = False
        self.pushed: list[Message] = []

    def push_messages(self, messages: Any) -> Any:
        self.pushed = [self._sent(message) for message in messages]
        ids = {m.metadata.dst_node_id: m.metadata.message_id for m in self.pushed}
        if self.leaves_gaps:
            return [None if node in self.unknown else name for node, name in ids.items()]
        return [name for node, name in ids.items() if node not in self.unknown]

    def pull_messages(self, message_ids: Any) -> list[Message]:
        wanted = list(message_ids)
        self.asked.append(wanted)
        self.looks.append(self.time())
        found = []
        for message in self.pushed:
            ready = self.replies[message.metadata.dst_node_id]
            for after, reply in [one for one in ready if one[0] <= self.time()]:
                ready.remove((after, reply))
                reply.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
                found.append(reply)
        return found

    def answers(
        self, at: int, after: float = 0.0, content: RecordDict | Error | None = None
    ) -> None:
        """The node in this place answers so many seconds after it was asked."""
        node = self.nodes[at]
        given = RecordDict({"from": ConfigRecord({"node": at})}) if content is None else content
        self.replies[node].append((after, Message(given, reply_to=self.message(node))))

    def message(self, node: int) -> Message:
        return Message(RecordDict(), node, "train", ttl=60.0)

    def trip(self, take: Callable[[int, Message], None] | None = None, **options: Any) -> Exchanged:
        given = {"deadline": 10.0, "quorum": N, **options}
        clock = Clock(self.time, self.time.sleep)
        messages = [self.message(node) for node in self.nodes]
        return exchange(self, messages, take or (lambda node, reply: None), clock=clock, **given)


def _no_app() -> Any:
    raise AssertionError("no node runs here")


@pytest.fixture
def grid() -> Scripted:
    return Scripted()


def test_answers_that_are_there_are_taken_at_once_each_for_its_node(grid: Scripted) -> None:
    taken: dict[int, Any] = {}
    for at in (2, 0, 3, 1):
        grid.answers(at)

    def take(node: int, reply: Message) -> None:
        taken[node] = reply.content.config_records["from"]["node"]

    done = grid.trip(take)
    assert taken == {node: at for at, node in enumerate(grid.nodes)}
    assert sorted(done.answered) == sorted(grid.nodes)
    assert (done.missing, done.seconds) == ({}, 0.0)


def test_a_deadline_ends_the_wait_and_the_last_look_comes_at_it(grid: Scripted) -> None:
    for at, after in enumerate((0.0, 9.99, 10.0, 10.01)):
        grid.answers(at, after)
    done = grid.trip(deadline=10.0)
    assert done.answered == grid.nodes[:3]
    assert done.missing == {grid.nodes[3]: "no answer within 10 s"}
    assert done.seconds == pytest.approx(10.0)


def test_looks_come_at_growing_distances(grid: Scripted) -> None:
    grid.trip(deadline=5.0)
    pauses = [after - before for before, after in pairwise(grid.looks)]
    assert grid.looks[0] == 0.0
    assert pauses[0] == pytest.approx(FIRST_PAUSE)
    assert max(pauses) == pytest.approx(LONGEST_PAUSE)
    assert all(later > 0.999 * pause for pause, later in pairwise(pauses[:-1]))


def test_only_those_who_owe_an_answer_are_asked_about(grid: Scripted) -> None:
    grid.answers(0, 0.0)
    grid.answers(1, 3.0)
    grid.trip(deadline=5.0)
    assert len(grid.asked[0]) == N
    assert len(grid.asked[1]) == N - 1
    assert len(grid.asked[-1]) == N - 2


def test_with_a_quorum_the_rest_has_the_grace(grid: Scripted) -> None:
    for at, after in enumerate((0.0, 1.0, 2.9, 3.5)):
        grid.answers(at, after)
    done = grid.trip(quorum=2, grace=2.0)
    assert done.answered == grid.nodes[:3]
    # A look may come a pause after the quorum is there.
    assert done.seconds == pytest.approx(3.0, abs=LONGEST_PAUSE)


def test_a_grace_does_not_go_past_the_deadline(grid: Scripted) -> None:
    grid.answers(0, 9.0)
    assert grid.trip(quorum=1, grace=100.0).seconds == pytest.approx(10.0)


def test_without_a_grace_everybody_has_the_deadline(grid: Scripted) -> None:
    for at in range(3):
        grid.answers(at)
    assert grid.trip(quorum=1).seconds == pytest.approx(10.0)


def test_a_refused_answer_does_not_count_towards_the_quorum(grid: Scripted) -> None:
    def take(node: int, reply: Message) -> None:
        if node == grid.nodes[0]:
            raise PeerError("not this one", party=1)

    grid.answers(0)
    grid.answers(1, 8.0)
    done = grid.trip(take, quorum=1, grace=0.5)
    assert done.answered == [grid.nodes[1]]
    assert done.missing[grid.nodes[0]] == "not this one"


def test_errors_belong_to_whose_message_they_answer(grid: Scripted) -> None:
    for at, code in ((1, 5), (2, 2)):
        grid.answers(at, 0.0, Error(code, "Traceback ... private 0.5"))
        grid.replies[grid.nodes[at]][0][1].metadata.__dict__["_src_node_id"] = SUPERLINK
    done = grid.trip(deadline=1.0)
    assert done.missing[grid.nodes[1]] == "Flower reports error 5: the node is not there"
    assert done.missing[grid.nodes[2]].startswith("Flower reports error 2: ")
    assert "private" not in repr(done)


def test_a_second_answer_is_not_looked_at(grid: Scripted) -> None:
    taken: list[Any] = []
    for number in range(2):
        grid.answers(0, 0.0, RecordDict({"n": ConfigRecord({"n": number})}))
    done = grid.trip(lambda node, reply: taken.append(reply.content["n"]["n"]), deadline=1.0)
    assert taken == [0]
    assert done.answered == grid.nodes[:1]


def test_an_answer_to_something_else_is_not_looked_at(grid: Scripted) -> None:
    stray = Message(RecordDict(), reply_to=grid.message(grid.nodes[0]))
    stray.metadata.__dict__["_reply_to_message_id"] = "another"
    grid.pull_messages = lambda ids: [stray]  # type: ignore[method-assign,assignment]

    def take(node: int, reply: Message) -> None:
        raise AssertionError(node)

    assert grid.trip(take, deadline=1.0).answered == []


@pytest.mark.parametrize("leaves_gaps", [True, False])
def test_a_message_that_flower_does_not_take_is_missing_at_once(
    grid: Scripted, leaves_gaps: bool
) -> None:
    # The grid over HTTP has None in its place, the one in memory leaves it out of its list.
    grid.unknown, grid.leaves_gaps = {grid.nodes[1]}, leaves_gaps
    for at in (0, 2, 3):
        grid.answers(at)
    done = grid.trip()
    assert done.answered == [grid.nodes[at] for at in (0, 2, 3)]
    assert "does not know this node" in done.missing[grid.nodes[1]]
    assert done.seconds == 0.0


def test_a_mistake_of_ours_is_not_taken_for_a_client_s(grid: Scripted) -> None:
    def take(node: int, reply: Message) -> None:
        raise ZeroDivisionError

    grid.answers(0)
    with pytest.raises(ZeroDivisionError):
        grid.trip(take)
    grid.answers(0)

    def refuse(node: int, reply: Message) -> None:
        raise WireError("no message", remedy="send one")

    assert grid.trip(refuse, deadline=1.0).missing[grid.nodes[0]] == "no message (send one)"


def test_by_default_it_is_a_monotonic_clock_that_decides(grid: Scripted) -> None:
    for at in range(N):
        grid.answers(at)
    messages = [grid.message(node) for node in grid.nodes]
    done = exchange(grid, messages, lambda node, reply: None, deadline=10.0, quorum=N)
    assert len(done.answered) == N
