"""Rounds called in any order: a rule-based state machine against a simple model."""

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mpc.core.errors import AbortError, PeerError, StateError
from secagg.messages import MaskedVector, RoundBurnt, RoundConfirmed
from secagg.params import Region
from secagg.watermark import MemoryWatermark
from tests.secagg.session import SESSION, inputs, params, start

AGREED = params(bits=8, dim=3, sums=2, epoch=2)
ROUNDS = st.integers(0, 8)
MEMBERS = st.sampled_from(AGREED.clients)


class Watching(MemoryWatermark):
    """Keeps all that was granted."""

    def __init__(self) -> None:
        super().__init__()
        self.granted: list[Region] = []

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        super().claim(key_id, epoch, start, stop)
        self.granted.append(Region(epoch, start, stop))


class AnyOrder(RuleBasedStateMachine):
    """Three clients and a server; calls come in any order, messages get lost or come late."""

    def __init__(self) -> None:
        super().__init__()
        self.session = start(AGREED)
        self.watch = {client: Watching() for client in AGREED.clients}
        for client, member in self.session.clients.items():
            assert member._supply is not None
            member._supply._watermark = self.watch[client]
        self.serial = 0
        self.sent: dict[tuple[int, int], Any] = {}  # (client, round) -> input
        self.transit: list[MaskedVector] = []
        self.arrived: set[tuple[int, int, int]] = set()  # (round, client, sum)
        self.open: int | None = None
        self.last_opened = -1
        self.settled: set[tuple[int, int]] = set()  # (client, round)

    @rule(client=MEMBERS, round=ROUNDS)
    def mask(self, client: int, round: int) -> None:
        self.serial += 1
        vectors = inputs(AGREED, seed=self.serial)[0]
        try:
            messages = self.session.clients[client].mask(round, vectors)
        except StateError:
            return
        assert (client, round) not in self.sent
        assert all(earlier < round for member, earlier in self.sent if member == client)
        self.sent[client, round] = vectors
        self.transit += messages

    @rule(client=MEMBERS, first=ROUNDS, rounds=st.integers(1, 3))
    def prefetch(self, client: int, first: int, rounds: int) -> None:
        try:
            self.session.clients[client].prefetch(first, rounds)
        except StateError:
            return

    @rule(client=MEMBERS, round=ROUNDS)
    def repeat_the_inputs(self, client: int, round: int) -> None:
        for (member, earlier), vectors in self.sent.items():
            if member != client or (client, earlier) in self.settled:
                continue
            try:
                self.session.clients[client].mask(round, vectors)
            except StateError:
                continue
            raise AssertionError("inputs of an unconfirmed round went out again")

    @rule(round=ROUNDS)
    def open_round(self, round: int) -> None:
        try:
            self.session.server.open_round(round)
        except StateError:
            assert self.open is not None or round <= self.last_opened
            return
        assert self.open is None
        assert round > self.last_opened
        self.open = self.last_opened = round

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        if not self.transit:
            return
        message = data.draw(st.sampled_from(self.transit))
        key = (message.round, message.client, message.sum_id)
        try:
            self.session.server.collect(message)
        except (StateError, PeerError):
            assert self.open != message.round or key in self.arrived
            return
        assert self.open == message.round
        assert key not in self.arrived
        self.arrived.add(key)

    @rule()
    def finish(self) -> None:
        if self.open is None:
            return
        complete = all(
            (self.open, client, sum_id) in self.arrived
            for client in AGREED.clients
            for sum_id in range(AGREED.sums_per_round)
        )
        try:
            total = self.session.server.finish_round()
        except AbortError:
            assert not complete
        else:
            assert complete
            x = np.stack([self.sent[client, self.open] for client in AGREED.clients])
            assert np.array_equal(total, AGREED.ring.sum(x, axis=0))
        self.open = None

    @rule(client=MEMBERS, round=ROUNDS, confirmed=st.booleans())
    def notify(self, client: int, round: int, confirmed: bool) -> None:
        member = self.session.clients[client]
        try:
            if confirmed:
                member.confirm(RoundConfirmed(SESSION, round))
                self.settled.add((client, round))
            else:
                member.burn(RoundBurnt(SESSION, round, ()))
        except StateError:
            return
        assert not confirmed or (client, round) in self.sent

    @invariant()
    def no_region_is_granted_twice(self) -> None:
        for watch in self.watch.values():
            for at, region in enumerate(watch.granted):
                assert not any(region.overlaps(other) for other in watch.granted[:at])


AnyOrder.TestCase.settings = settings(stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase
