"""A server that is saved and restored: the same result, no second answer, no altered bytes.

``test_drop_patterns.py`` restores the server before every step of every pattern; here it is
restored after every message, from older states than its last one, and from bytes not its own.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, PeerError, StateError, WireError
from secagg.full.client import Client
from secagg.full.messages import RoundMessage, Step
from secagg.full.params import RoundParams, Variant
from secagg.full.server import Server
from secagg.full.state import _checksum, _Saved, _with
from tests.secagg.full.hostile import ClosedError, Hostile, Ids
from tests.secagg.full.replicas import copy_of_client, known, new_client, new_server, restored
from tests.secagg.full.turns import Turn, turns
from tests.secagg.full.twins import AnswersTwice
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    VARIANTS,
    Circle,
    inputs,
    params,
    total,
)
from tests.support.faults import append, flip_bit, flips, truncations

FOUR = (2, 5, 9, 11)
T = 3


Answers = dict[int, list[Ids]]
"""For each client, about which survivors it has answered in the last step, in order of time."""


@dataclass(frozen=True)
class Point:
    """The parties after some message: the server's bytes, the clients, and who has answered."""

    saved: bytes
    clients: dict[int, Client]
    answers: Answers

    def copy(self) -> tuple[dict[int, Client], Answers]:
        clients = {u: copy_of_client(client) for u, client in self.clients.items()}
        return clients, {u: list(sets) for u, sets in self.answers.items()}


class Course:
    """A round in which nothing goes wrong, and all its points in the order of time."""

    def __init__(self, agreed: RoundParams, kind: type[Client] = Client) -> None:
        self.params, self.x, self.points = agreed, inputs(agreed), list[Point]()
        clients = {u: new_client(agreed, u, kind) for u in agreed.clients}
        answers: Answers = {u: [] for u in agreed.clients}
        server = new_server(agreed)
        for turn in turns(agreed):
            self.points.append(Point(server.save(), *Point(b"", clients, answers).copy()))
            for client in clients.values():
                turn.receive(server, self._answer(turn, server, client, answers))
                self.points.append(Point(server.save(), *Point(b"", clients, answers).copy()))
            outcome = turn.close(server)
        self.total: NDArray[Any] = outcome
        assert np.array_equal(outcome, total(agreed, self.x, agreed.clients))

    def _answer(self, turn: Turn, server: Server, client: Client, answers: Answers) -> RoundMessage:
        u = client.client
        question = None if turn.ask is None else turn.ask(server, u)
        answer = turn.answer(client, question, self.x[u])
        if turn.step is Step.UNMASKING:
            answers[u].append(server.members(Step.MASKED_INPUT))
        return answer

    def go_on(self, saved: bytes, clients: dict[int, Client], answers: Answers) -> Ids | None:
        """From this server to the end with all that still answer: the survivors, None if refused.

        A sum that the server gives is right.
        """
        server = restored(self.params, saved)
        assert server.save() == saved
        for turn in turns(self.params):
            if turn.step < server.step:
                continue
            for u in server.missing():
                with suppress(PeerError, StateError, AbortError):
                    turn.receive(server, self._answer(turn, server, clients[u], answers))
            try:
                outcome = turn.close(server)
            except AbortError:
                return None
        survivors = server.members(Step.MASKED_INPUT)
        assert np.array_equal(outcome, total(self.params, self.x, survivors))
        return survivors


def most_of_one(answers: Answers) -> int:
    """The most answers that one client has given."""
    return max(map(len, answers.values()))


def open_twice(answers: Answers) -> list[int]:
    """Whose seed and mask key are both open: t shares of either have left."""
    sets = [chosen for each in answers.values() for chosen in each]
    return [u for u in FOUR if T <= sum(u in chosen for chosen in sets) <= len(sets) - T]


@pytest.mark.parametrize(
    "agreed",
    [
        params(FOUR, threshold=T, bits=16, dim=2, variant="semi-honest"),
        params(FOUR, threshold=T, bits=16, dim=2, variant="malicious"),
        params(threshold=3, bits=16, dim=2, graph=Circle(CLIENTS, 1)),
    ],
    ids=["semi-honest", "malicious", "sparse"],
)
def test_a_server_restored_after_any_message_gives_the_same_sum(agreed: RoundParams) -> None:
    course = Course(agreed)
    for point in course.points:
        assert course.go_on(point.saved, *point.copy()) == agreed.clients


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_gone_back_to_any_older_state_makes_nobody_answer_twice(variant: Variant) -> None:
    """Every older state of the server with every later state of the clients."""
    course, sums = Course(params(FOUR, threshold=T, variant=variant)), 0
    for later, point in enumerate(course.points):
        for older in course.points[: later + 1]:
            clients, answers = point.copy()
            sums += course.go_on(older.saved, clients, answers) is not None
            assert most_of_one(answers) <= 1
            assert not open_twice(answers)
    assert sums >= len(course.points)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_twin_that_answers_twice_is_caught_by_the_same_walk(variant: Variant) -> None:
    course = Course(params(FOUR, threshold=T, variant=variant), AnswersTwice)
    found = 0
    for older in course.points:
        clients, answers = course.points[-1].copy()
        course.go_on(older.saved, clients, answers)
        found += most_of_one(answers) > 1
    assert found > 0


def test_what_does_not_hold_together_is_refused_though_its_checksum_fits() -> None:
    """Parts of two moments of one server under a fitting checksum: refused, never a crash."""
    refused = 0
    for variant in VARIANTS:
        agreed = params(FOUR, threshold=T, bits=16, dim=2, variant=variant)
        moments = [_Saved.from_bytes(point.saved) for point in Course(agreed).points[::3]]
        for one, other in product(moments, moments):
            for name in ("step", "arrived", "sets", "keys", "shares", "signatures", "opened"):
                fields = {n: getattr(one, n) for n in one.__struct_fields__}
                mixed = _Saved(**{**fields, name: getattr(other, name), "check": b""})
                try:
                    server = restored(agreed, _with(mixed, _checksum(mixed)).to_bytes())
                except WireError:
                    refused += 1
                    continue
                assert server.step <= Step.UNMASKING
    assert refused > 0


# Why a server is saved after it has closed a step, and before it asks.


def gone_back_past_a_close(agreed: RoundParams) -> Hostile:
    """The first client's vector is late, and two clients are asked as if it had left.

    Then the server goes back to before it closed step 3, takes the vector, and asks the other two.
    """
    world = Hostile(agreed)
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    for asked, survivors in ((FOUR[1:3], FOUR[1:]), ((FOUR[0], FOUR[3]), FOUR)):
        told = dict.fromkeys(asked, survivors)
        world.sign(told)
        world.unmask(told)
    return world


def test_a_server_that_goes_back_past_a_close_opens_a_client_if_half_of_them_are_enough() -> None:
    """Semi-honest with 2 t <= n: so ``save`` belongs between a close and its questions."""
    world = gone_back_past_a_close(params(FOUR, threshold=2))
    assert not world.refusals
    assert np.array_equal(world.peel(FOUR[0]), world.x[FOUR[0]])


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_more_than_half_of_them_as_threshold_it_opens_nobody(variant: Variant) -> None:
    world = gone_back_past_a_close(params(FOUR, threshold=3, variant=variant))
    for u in FOUR:
        with pytest.raises(ClosedError):
            world.peel(u)


# Bytes that are not the server's own.


def saved_server(variant: Variant) -> tuple[RoundParams, bytes]:
    """In the last step, with something of everything in it."""
    agreed = params(FOUR, threshold=T, bits=16, dim=2, variant=variant)
    return agreed, Course(agreed).points[-1].saved


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_altered_byte_of_a_saved_server_is_refused(variant: Variant) -> None:
    """One bit of each; the deep run flips them all."""
    agreed, saved = saved_server(variant)
    assert restored(agreed, saved).save() == saved
    for at in range(len(saved)):
        with pytest.raises(WireError):
            restored(agreed, flip_bit(saved, 8 * at + at % 8))


@pytest.mark.deep
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_altered_bit_of_a_saved_server_is_refused(variant: Variant) -> None:
    agreed, saved = saved_server(variant)
    for altered in flips(saved):
        with pytest.raises(WireError):
            restored(agreed, altered)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_cut_or_longer_saved_server_is_refused(variant: Variant) -> None:
    agreed, saved = saved_server(variant)
    for altered in (*truncations(saved), append(saved)):
        with pytest.raises(WireError):
            restored(agreed, altered)


@pytest.mark.parametrize(
    "change",
    [
        {"round": 8},
        {"session": OTHER_SESSION},
        {"dim": 3},
        {"threshold": 4},
        {"clients": (2, 5, 9, 12)},
        {"variant": "malicious"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_saved_server_of_another_round_is_refused(change: dict[str, Any]) -> None:
    agreed, saved = saved_server("semi-honest")
    other = replace(agreed, **change)
    with pytest.raises(WireError):
        Server.restore(other, saved, identities=known(other))
