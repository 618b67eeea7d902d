"""Copies of a client answer no more than one client: each step once, whoever restores what.

The bytes of a suspended client can be copied, kept, and restored as often as one likes. A server
that makes a client's owner go back (a crash, a state that was not written) could ask one copy for
the share of a seed and another for that of a key, or have one mask serve two inputs. The history,
which never goes back, stops it. Against a twin of it that marks no steps both attacks end with a
client's input, exactly.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import PeerError, StateError, ToolkitError
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.messages import RoundMessage, Step
from secagg.full.params import RoundParams, Variant
from secagg.full.suspended import Suspended
from secagg.watermark import FileWatermark, MemoryWatermark, Watermark
from tests.secagg.full.forgeries import HONEST, MALICIOUS, ME, own_key_altered, request
from tests.secagg.full.hostile import ClosedError, Hostile
from tests.secagg.full.replicas import new_client, new_server
from tests.secagg.full.turns import Turn, turns
from tests.secagg.full.twins import Stepless
from tests.secagg.full.world import (
    CLIENTS,
    VARIANTS,
    Driven,
    inputs,
    params,
    phase,
    signing,
    total,
)

A = CLIENTS[0]
VARIANT = pytest.mark.parametrize("variant", VARIANTS)


def in_memory(folder: Path) -> Watermark:
    return MemoryWatermark()


def on_disk(folder: Path) -> Watermark:
    return FileWatermark.create(folder / "marks")


@pytest.fixture(params=[in_memory, on_disk])
def watermark(request: pytest.FixtureRequest, tmp_path: Path) -> Watermark:
    make: Callable[[Path], Watermark] = request.param
    return make(tmp_path)


def resumed(agreed: RoundParams, data: bytes, history: History) -> Client:
    client = Suspended.from_bytes(data).client
    return Client.resume(agreed, data, history=history, **signing(agreed, client))


# Every old copy of a client, at every later time.


class Course:
    """A round whose first client lives in bytes between its steps; all of them are kept.

    asked: what it was asked in each step, and the input of the third.
    """

    def __init__(self, agreed: RoundParams, history: History) -> None:
        self.params, self.history, self.x = agreed, history, inputs(agreed)
        self.server = new_server(agreed)
        self.clients = {u: new_client(agreed, u) for u in agreed.clients[1:]}
        client = new_client(agreed, A, history=history)
        self.copies: list[bytes] = []
        self.asked: list[tuple[Turn, RoundMessage | None]] = []
        self.latest = client.suspend()

    def take(self, turn: Turn) -> None:
        """One step of the round, closed with all clients in it."""
        question = None if turn.ask is None else turn.ask(self.server, A)
        self.copies.append(self.latest)
        self.asked.append((turn, question))
        client = resumed(self.params, self.latest, self.history)
        turn.receive(self.server, turn.answer(client, question, self.x[A]))
        if turn.step is not Step.UNMASKING:
            self.latest = client.suspend()
        for u, other in self.clients.items():
            told = None if turn.ask is None else turn.ask(self.server, u)
            turn.receive(self.server, turn.answer(other, told, self.x[u]))
        self.result = turn.close(self.server)


@VARIANT
def test_no_copy_takes_a_step_again(variant: Variant, watermark: Watermark) -> None:
    """After every step, every older copy is asked what it was asked then, and anything else.

    Nothing leaves it, and it is over; the client goes on with what it has, up to the sum.
    """
    agreed = params(variant=variant)
    course, refused = Course(agreed, History(watermark)), 0
    for turn in turns(agreed):
        course.take(turn)
        for copy, (asked, question) in product(course.copies, course.asked):
            client = resumed(agreed, copy, course.history)
            with pytest.raises(StateError):
                asked.answer(client, question, course.x[A])
            refused += 1
            if asked is course.asked[course.copies.index(copy)][0]:
                assert phase(client) is Phase.ABORTED
                assert client._secrets is None
    assert refused == sum(n * n for n in range(1, len(turns(agreed)) + 1))
    assert np.array_equal(course.result, total(agreed, course.x, CLIENTS))


@VARIANT
def test_a_twin_without_marks_of_steps_takes_each_again(variant: Variant) -> None:
    agreed = params(variant=variant)
    course, again = Course(agreed, Stepless()), 0
    for turn in turns(agreed):
        course.take(turn)
        client = resumed(agreed, course.copies[-1], course.history)
        again += turn.answer(client, course.asked[-1][1], course.x[A]) is not None
    assert again == len(turns(agreed))


@pytest.mark.parametrize("history", [History, Stepless])
def test_two_copies_in_two_threads_give_one_answer(history: type[History]) -> None:
    """Both stand before the last step when they are asked, for different sets."""
    marks = history()
    world = Driven(HONEST, history=marks).before(Step.UNMASKING)
    questions = request(world, *CLIENTS), request(world, *CLIENTS[:4])
    data, answers = world.client.suspend(), list[RoundMessage]()
    copies = [resumed(HONEST, data, marks) for _ in questions]
    start = threading.Barrier(2, timeout=60)

    def ask(client: Client, question: Any) -> None:
        start.wait()
        with suppress(StateError):
            answers.append(client.unmask(question))

    threads = [
        threading.Thread(target=ask, args=each) for each in zip(copies, questions, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == (1 if history is History else 2)


# A server that asks twice.


class Restoring(Hostile):
    """A server that has all clients go back to before the last steps, and asks them again."""

    def __init__(self, agreed: RoundParams, history: dict[int, History]) -> None:
        super().__init__(agreed, history=history)
        self.history = history

    def run(self) -> None:
        self.advertise()
        self.share(self.everybody)
        self.mask(self.everybody)
        kept = {u: client.suspend() for u, client in self.clients.items()}
        rest = tuple(u for u in self.params.clients if u != A)
        for told in (self.everybody, dict.fromkeys(rest, rest)):
            for u, data in kept.items():
                self.clients[u] = resumed(self.params, data, self.history[u])
            self.sign(told)
            self.unmask(told)


@VARIANT
def test_a_server_that_asks_two_copies_opens_an_input_of_twins(variant: Variant) -> None:
    """One copy of each gives its share of the victim\'s seed, the other that of its key."""
    world = Restoring(params(variant=variant), {u: Stepless() for u in CLIENTS})
    world.run()
    assert not world.refusals
    assert np.array_equal(world.peel(A), world.x[A])


@VARIANT
def test_a_server_that_asks_two_copies_opens_nothing(
    variant: Variant, watermark: Watermark
) -> None:
    world = Restoring(params(variant=variant), {u: History(watermark) for u in CLIENTS})
    world.run()
    everybody, four = set(CLIENTS), set(CLIENTS[1:])
    assert {u for u, error in world.refusals if isinstance(error, StateError)} == four
    assert np.array_equal(world.peel(*everybody), total(world.params, world.x, CLIENTS))
    for u in CLIENTS:
        with pytest.raises(ClosedError):
            world.peel(u)


def masked_twice(history: History) -> tuple[Any, Any, Any]:
    """Two copies that mask two inputs: what the server sees of each, and their difference."""
    world = Driven(HONEST, history=history).before(Step.MASKED_INPUT)
    delivery, data, ring = world.server.delivery(ME), world.client.suspend(), HONEST.ring
    x = [ring.reduce(np.arange(4) * factor) for factor in (1, 1000)]
    seen = [
        ring.from_bytes(resumed(HONEST, data, history).mask(delivery, vector).payload, (4,))
        for vector in x
    ]
    return seen[0], seen[1], ring.sub(x[1], x[0])


def test_two_inputs_under_one_mask_show_their_difference_in_a_twin() -> None:
    first, second, difference = masked_twice(Stepless())
    assert np.array_equal(HONEST.ring.sub(second, first), difference)


def test_a_mask_serves_one_input_of_all_copies(watermark: Watermark) -> None:
    with pytest.raises(StateError, match="has answered in step 3"):
        masked_twice(History(watermark))


# What a copy that comes late spoils, and what it does not.


def test_a_late_copy_does_not_end_the_session_of_the_one_that_goes_on() -> None:
    history = History()
    world = Driven(HONEST, history=history).keys()
    old = world.client.suspend()
    world.clients[ME] = resumed(HONEST, old, history)
    world.shares()
    for _ in range(2):
        late = resumed(HONEST, old, history)
        with pytest.raises(StateError, match="has answered in step 2"):
            late.share_keys(world.server.roster(ME))
        with pytest.raises(StateError, match="in phase ABORTED"):
            late.share_keys(world.server.roster(ME))
    world.masked().opened()
    assert np.array_equal(world.server.close_unmask(), total(HONEST, world.x, CLIENTS))
    later = params(round=8)
    assert new_client(later, ME, history=history).advertise().client == ME


@pytest.mark.parametrize("restart", [False, True])
def test_a_refusal_holds_for_copies_from_before_it(tmp_path: Path, restart: bool) -> None:
    """Also in another round of the session that was under way, and after a restart."""
    history = History(FileWatermark.create(tmp_path / "marks"))
    other = Driven(params(round=6), history=history).keys()
    world = Driven(params(round=7), history=history).keys()
    copies = [(each.params, each.client.suspend(), each) for each in (world, other)]
    refusing = resumed(world.params, copies[0][1], history)
    with pytest.raises(PeerError):
        refusing.share_keys(own_key_altered(world))
    if restart:
        history = History(FileWatermark(tmp_path / "marks"))
    for agreed, data, each in copies:
        with pytest.raises(StateError, match="refused to go on"):
            resumed(agreed, data, history).share_keys(each.server.roster(ME))
    with pytest.raises(StateError):
        new_client(params(round=8), ME, history=history)


def test_a_step_that_was_refused_is_not_taken_by_a_copy() -> None:
    """A server that has shown its hand gets no second try from a client that was put back."""
    history = History()
    world = Driven(MALICIOUS, history=history).before(Step.UNMASKING)
    data = world.client.suspend()
    forged = request(world, *CLIENTS[:4])
    with pytest.raises(PeerError):
        resumed(MALICIOUS, data, history).unmask(forged)
    with pytest.raises(StateError):
        resumed(MALICIOUS, data, history)


def test_messages_that_change_nothing_take_no_step() -> None:
    """Whoever sends rubbish to a client must not cost it its round."""
    history = History()
    world = Driven(HONEST, history=history).before(Step.MASKED_INPUT)
    delivery, data = world.server.delivery(ME), world.client.suspend()
    other = Driven(params(round=8)).before(Step.MASKED_INPUT)
    client = resumed(HONEST, data, history)
    with pytest.raises(PeerError):
        client.mask(other.server.delivery(ME), world.x[ME])
    again = resumed(HONEST, client.suspend(), history)
    assert again.mask(delivery, world.x[ME]).client == ME


def test_a_watermark_that_fails_ends_the_client_and_nothing_leaves() -> None:
    """A full disk: nobody knows whether the step is marked, so it counts as taken."""

    class Full(MemoryWatermark):
        full = False

        def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
            if self.full:
                raise OSError("no space left on device")
            super().claim(key_id, epoch, start, stop)

    disk = Full()
    history = History(disk)
    world = Driven(HONEST, history=history).before(Step.MASKED_INPUT)
    delivery, data = world.server.delivery(ME), world.client.suspend()
    client = resumed(HONEST, data, history)
    disk.full = True
    with pytest.raises(OSError, match="no space"):
        client.mask(delivery, world.x[ME])
    assert phase(client) is Phase.ABORTED
    assert client._secrets is None
    disk.full = False
    assert resumed(HONEST, data, history).mask(delivery, world.x[ME]).client == ME


# What the bytes hold, and what is shown of them.


def secrets_of(client: Client) -> dict[str, list[bytes]]:
    own = client._secrets
    assert own is not None
    return {
        "privates": [keys.private_bytes() for keys in (own._channel, own._mask) if keys],
        "seed": [own._seed] if own._seed else [],
        "opening": list(own._opening),
        "pairs": list(own._pairs),
    }


def test_what_masks_an_input_is_not_in_the_bytes_once_it_is_masked() -> None:
    """Bytes that are stolen later open no vector that was sent before."""
    history, found = History(), dict[str, set[bytes]]()
    world = Driven(HONEST, history=history)
    for call in (world.keys, world.shares, world.masked):
        for name, values in secrets_of(world.client).items():
            found.setdefault(name, set()).update(values)
        call()
        data = world.client.suspend()
        world.clients[ME] = resumed(HONEST, data, history)
        for values in secrets_of(world.client).values():
            assert all(value in data for value in values)
    assert {name: len(values) for name, values in found.items()} == {
        "privates": 2,
        "seed": 1,
        "opening": 4,
        "pairs": 4,
    }
    assert not any(value in data for group in found.values() for value in group)
    world.opened()


def test_no_secret_shows_in_a_repr_or_an_error() -> None:
    history = History()
    world = Driven(HONEST, history=history).keys()
    secrets = [value for values in secrets_of(world.client).values() for value in values]
    world.shares()
    secrets += [value for values in secrets_of(world.client).values() for value in values]
    client = world.client
    shown = [repr(client), repr(client._secrets)]
    data = client.suspend()
    shown += [repr(client), repr(Suspended.from_bytes(data)), str(Suspended.from_bytes(data))]
    for wrong, agreed in ((data[:-1], HONEST), (data, params(round=8)), (data[1:], HONEST)):
        with pytest.raises(ToolkitError) as caught:
            Client.resume(agreed, wrong, history=history)
        chain: BaseException | None = caught.value
        while chain is not None:
            shown.append(f"{chain!r} {chain}")
            chain = chain.__cause__ or chain.__context__
    for secret in secrets:
        for text in shown:
            assert secret.hex() not in text
            assert repr(secret)[2:-1] not in text
