"""The party objects: any order, refusals that change nothing, faults of the network."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mpc.core.errors import ParameterError, PeerError, ProtocolError, StateError, WireError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import Neighbour, PartialSum, Receiver, ShareMessage, SumTerms
from tests.support import faults

SESSION = bytes(range(16))
RING = Ring(20)
TERMS = SumTerms(SESSION, 4, 50, (11, 12, 13, 14), 3, RING)


def inputs(terms: SumTerms) -> dict[int, RingArray]:
    return {party: terms.ring.random((terms.dim,), SYSTEM_RNG) for party in terms.neighbours}


def plain_sum(terms: SumTerms, x: dict[int, RingArray]) -> RingArray:
    return terms.ring.sum(np.stack(list(x.values())), axis=0)


def dealt(terms: SumTerms) -> tuple[dict[int, Neighbour], dict[int, RingArray], list[ShareMessage]]:
    """All neighbours after ``share``, their inputs, and the messages not yet delivered."""
    x = inputs(terms)
    parties = {party: Neighbour(terms, party) for party in terms.neighbours}
    return parties, x, [m for party in parties for m in parties[party].share(x[party])]


def finish(terms: SumTerms, parties: dict[int, Neighbour]) -> RingArray:
    receiver = Receiver(terms)
    for party in parties.values():
        receiver.receive(party.partial_sum())
    return receiver.total()


@given(st.data(), st.integers(3, 7), st.integers(1, 5), st.integers(1, 64))
def test_messages_in_any_order_give_the_sum(
    data: st.DataObject, n: int, dim: int, bits: int
) -> None:
    ids = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=n, max_size=n, unique=True))
    receiver_id = data.draw(st.integers(0, 2**32 - 1).filter(lambda i: i not in ids))
    terms = SumTerms(SESSION, 2**32 - 1, receiver_id, tuple(ids), dim, Ring(bits))
    parties, x, messages = dealt(terms)
    assert len(messages) == n * (n - 1)
    for message in data.draw(st.permutations(messages)):
        parties[message.to].receive(terms.share_from_bytes(message.to_bytes()))
    partials = data.draw(st.permutations([p.partial_sum() for p in parties.values()]))
    receiver = Receiver(terms)
    for partial in partials:
        receiver.receive(terms.partial_from_bytes(partial.to_bytes()))
    assert np.array_equal(receiver.total(), plain_sum(terms, x))
    assert receiver.total().dtype == terms.ring.dtype


def test_a_share_may_arrive_before_its_addressee_has_shared() -> None:
    x = inputs(TERMS)
    parties = {party: Neighbour(TERMS, party) for party in TERMS.neighbours}
    for sender in TERMS.neighbours:
        for message in parties[sender].share(x[sender]):
            parties[message.to].receive(message)
    assert np.array_equal(finish(TERMS, parties), plain_sum(TERMS, x))


class AnyOrder(RuleBasedStateMachine):
    """Calls and deliveries in any order, repeats among them: refused, or the exact sum."""

    @initialize()
    def begin(self) -> None:
        self.terms = SumTerms(SESSION, 0, 9, (1, 2, 3), 2, Ring(8))
        self.x = inputs(self.terms)
        self.parties = {party: Neighbour(self.terms, party) for party in (1, 2, 3)}
        self.receiver = Receiver(self.terms)
        self.sent: list[ShareMessage] = []
        self.got: set[tuple[int, int]] = set()
        self.shared: set[int] = set()
        self.partials: dict[int, PartialSum] = {}
        self.summed: set[int] = set()

    @rule(party=st.sampled_from([1, 2, 3]))
    def share(self, party: int) -> None:
        if party in self.shared:
            with pytest.raises(StateError):
                self.parties[party].share(self.x[party])
        else:
            self.sent += self.parties[party].share(self.x[party])
            self.shared.add(party)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.sent))
        party = self.parties[message.to]
        if message.to in self.partials:
            with pytest.raises(StateError):
                party.receive(message)
        elif (message.sender, message.to) in self.got:
            with pytest.raises(PeerError):
                party.receive(message)
        else:
            party.receive(message)
            self.got.add((message.sender, message.to))

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), party=st.sampled_from([1, 2, 3]))
    def deliver_astray(self, data: st.DataObject, party: int) -> None:
        message = data.draw(st.sampled_from(self.sent))
        if message.to != party:
            with pytest.raises(ProtocolError):
                self.parties[party].receive(message)

    @rule(party=st.sampled_from([1, 2, 3]))
    def partial_sum(self, party: int) -> None:
        complete = sum(to == party for _, to in self.got) == 2 and party in self.shared
        if complete and party not in self.partials:
            self.partials[party] = self.parties[party].partial_sum()
        else:
            with pytest.raises(StateError):
                self.parties[party].partial_sum()

    @precondition(lambda self: self.partials)
    @rule(data=st.data())
    def deliver_partial(self, data: st.DataObject) -> None:
        party = data.draw(st.sampled_from(sorted(self.partials)))
        if party in self.summed:
            with pytest.raises(PeerError):
                self.receiver.receive(self.partials[party])
        else:
            self.receiver.receive(self.partials[party])
            self.summed.add(party)

    @rule()
    def total(self) -> None:
        if len(self.summed) == 3:
            assert np.array_equal(self.receiver.total(), plain_sum(self.terms, self.x))
        else:
            with pytest.raises(StateError):
                self.receiver.total()

    def teardown(self) -> None:
        """Whatever was refused on the way, the sum can still be finished, and is right."""
        for party in sorted({1, 2, 3} - self.shared):
            self.share(party)
        for message in self.sent:
            if (message.sender, message.to) not in self.got:
                self.parties[message.to].receive(message)
                self.got.add((message.sender, message.to))
        for party in (1, 2, 3):
            if party not in self.partials:
                self.partial_sum(party)
            if party not in self.summed:
                self.receiver.receive(self.partials[party])
                self.summed.add(party)
        self.total()


TestAnyOrder = AnyOrder.TestCase


FIELDS = ("session", "round", "receiver", "sender", "to", "bits", "payload")


def changed(message: ShareMessage, **fields: Any) -> ShareMessage:
    return ShareMessage.make(**({name: getattr(message, name) for name in FIELDS} | fields))


STRANGE: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"session": bytes(16)}, PeerError),
    ({"round": 3}, PeerError),
    ({"round": 5}, PeerError),
    ({"receiver": 51}, PeerError),
    ({"sender": 12}, PeerError),  # the addressee herself
    ({"sender": 50}, PeerError),  # the receiver
    ({"sender": 99}, PeerError),
    ({"to": 13}, PeerError),
    ({"to": 50}, PeerError),
    ({"bits": 19}, PeerError),
    ({"bits": 32}, PeerError),
    ({"payload": b""}, WireError),
    ({"payload": bytes(8)}, WireError),
    ({"payload": bytes(16)}, WireError),
    ({"payload": b"\xff" * 12}, WireError),  # entries of 32 bits in a ring of 20
]


@pytest.mark.parametrize(("fields", "error"), STRANGE)
def test_a_strange_share_is_refused_and_changes_nothing(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    parties, x, messages = dealt(TERMS)
    first = next(m for m in messages if (m.sender, m.to) == (11, 12))
    with pytest.raises(error):
        parties[12].receive(changed(first, **fields))
    for message in messages:
        parties[message.to].receive(message)
    with pytest.raises((PeerError, WireError)):
        parties[12].receive(changed(first, **fields))
    assert np.array_equal(finish(TERMS, parties), plain_sum(TERMS, x))


@pytest.mark.parametrize(("fields", "error"), STRANGE)
def test_a_strange_partial_sum_is_refused_and_changes_nothing(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    if fields in ({"sender": 12}, {"to": 50}):
        fields = {"sender": 50}  # those two are right for a partial sum
    parties, x, messages = dealt(TERMS)
    for message in messages:
        parties[message.to].receive(message)
    partials = [party.partial_sum() for party in parties.values()]
    receiver = Receiver(TERMS)
    parts = {name: getattr(partials[0], name) for name in FIELDS}
    with pytest.raises(error):
        receiver.receive(PartialSum.make(**(parts | fields)))
    for partial in partials:
        receiver.receive(partial)
    assert np.array_equal(receiver.total(), plain_sum(TERMS, x))


def test_the_sender_is_named_in_what_a_peer_did_wrong() -> None:
    parties, _, messages = dealt(TERMS)
    with pytest.raises(PeerError) as caught:
        parties[12].receive(changed(messages[0], sender=13, round=9))
    assert caught.value.party == 13


def test_a_share_is_no_partial_sum_and_the_reverse() -> None:
    parties, _, messages = dealt(TERMS)
    share = messages[0]
    partial = PartialSum(share.session, share.route, share.bits, share.payload)
    with pytest.raises(PeerError, match="PartialSum came in the place of a ShareMessage"):
        parties[share.to].receive(partial)  # type: ignore[arg-type]
    with pytest.raises(PeerError, match="ShareMessage came in the place of a PartialSum"):
        Receiver(TERMS).receive(share)  # type: ignore[arg-type]
    with pytest.raises(WireError):
        ShareMessage.from_bytes(partial.to_bytes())


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(2, np.uint32),
        np.zeros((1, 3), np.uint32),
        np.zeros(3),
        np.full(3, 2**20, np.uint32),
        np.full(3, np.nan),
    ],
)
def test_a_wrong_input_is_refused_and_the_right_one_still_taken(x: Any) -> None:
    party = Neighbour(TERMS, 11)
    with pytest.raises(ParameterError):
        party.share(x)
    assert len(party.share(np.zeros(3, np.uint32))) == 3


def test_after_its_partial_sum_a_neighbour_is_done() -> None:
    parties, x, messages = dealt(TERMS)
    for message in messages:
        parties[message.to].receive(message)
    party = parties[11]
    party.partial_sum()
    for call in (
        party.partial_sum,
        lambda: party.share(x[11]),
        lambda: party.receive(messages[-1]),
    ):
        with pytest.raises(StateError, match="is over"):
            call()


def arriving(messages: list[ShareMessage]) -> list[bytes]:
    """The bytes that neighbour 12 gets."""
    return [m.to_bytes() for m in messages if m.to == 12]


def taken(party: Neighbour, data: list[bytes]) -> list[Exception]:
    """Feed what arrives; the refusals, in order."""
    refused: list[Exception] = []
    for item in data:
        try:
            party.receive(TERMS.share_from_bytes(item))
        except (PeerError, WireError) as error:
            refused.append(error)
    return refused


def test_a_dropped_share_leaves_no_partial_sum() -> None:
    _, _, messages = dealt(TERMS)
    for index, missing in enumerate((11, 13, 14)):
        party = Neighbour(TERMS, 12)
        party.share(np.zeros(3, np.uint32))
        assert taken(party, faults.drop(arriving(messages), index)) == []
        with pytest.raises(StateError, match=rf"\[{missing}\]"):
            party.partial_sum()


def test_a_dropped_partial_sum_leaves_no_total() -> None:
    parties, _, messages = dealt(TERMS)
    for message in messages:
        parties[message.to].receive(message)
    receiver = Receiver(TERMS)
    for party in (11, 13, 14):
        receiver.receive(parties[party].partial_sum())
    with pytest.raises(StateError, match=r"\[12\]"):
        receiver.total()


Fault = Callable[[list[bytes], list[bytes]], list[bytes]]
HARMLESS: dict[str, Fault] = {
    "duplicate": lambda data, _: faults.duplicate(data, 1),
    "reorder": lambda data, _: faults.reorder(data, 0, 2),
    "replay of another round": lambda data, old: [*old, *data],
    "every truncation before the whole": lambda data, _: [*faults.truncations(data[0]), *data],
    "a tail before the whole": lambda data, _: [faults.append(data[0]), *data],
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_fault_is_refused_and_the_sum_stays_right(name: str) -> None:
    earlier = SumTerms(SESSION, 3, 50, TERMS.neighbours, 3, RING)
    old = arriving(dealt(earlier)[2])
    parties, x, messages = dealt(TERMS)
    data = HARMLESS[name](arriving(messages), old)
    assert data != arriving(messages)
    assert len(taken(parties[12], data)) == len(data) - 3  # one from each other neighbour is taken
    for message in messages:
        if message.to != 12:
            parties[message.to].receive(message)
    assert np.array_equal(finish(TERMS, parties), plain_sum(TERMS, x))


@pytest.mark.parametrize("party", [50, 99])
def test_only_a_neighbour_can_be_one(party: int) -> None:
    with pytest.raises(ParameterError, match=f"party {party} is not a neighbour"):
        Neighbour(TERMS, party)
