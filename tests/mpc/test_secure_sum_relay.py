"""Shares sealed through the recommender: same sums, nothing readable or alterable on the way."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.keys import TAG_BYTES, KeyPair, open_sealed
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import (
    DirectChannel,
    Groups,
    HandOver,
    PairKeys,
    PartialSum,
    SealedRelay,
    ShareMessage,
    SumTerms,
    batch_sum,
)
from mpc.secure_sum_messages import wire_bytes
from mpc.secure_sum_relay import RELAY, PartyKeys, SealedMessage
from tests.support import faults

SESSION = bytes(range(16))
RING = Ring(32)
TERMS = SumTerms(SESSION, 4, 50, (11, 12, 13), 3, RING)
GROUPS = Groups(SESSION, 4, np.array([50, 51]), np.array([[11, 12], [12, 13], [13, 50], [14, 11]]))
SHAPE = (4, 2, 3)


def acquainted(*parties: int) -> dict[int, PartyKeys]:
    keys = PairKeys()
    for a in parties:
        for b in parties:
            if a < b:
                keys.introduce(a, b)
    return {party: keys.of(party) for party in parties}


def share_message(**fields: Any) -> ShareMessage:
    good: dict[str, Any] = {
        "session": SESSION,
        "round": 4,
        "receiver": 50,
        "sender": 11,
        "to": 12,
        "bits": 32,
        "payload": bytes(range(12)),
    }
    return ShareMessage.make(**(good | fields))


def test_the_relay_gives_the_sums_of_the_direct_way() -> None:
    x = RING.random(SHAPE, SYSTEM_RNG)
    total = batch_sum(x, RING, channel=SealedRelay(LocalNetwork(), PairKeys()), groups=GROUPS)
    assert np.array_equal(total, RING.sum(x, axis=0))


def test_what_is_opened_is_what_the_direct_way_brings() -> None:
    x = RING.random(SHAPE, SYSTEM_RNG)
    direct, relayed = LocalNetwork(record=True), LocalNetwork(record=True)
    keys = PairKeys()
    seed = bytes(range(32))
    for channel in (DirectChannel(direct), SealedRelay(relayed, keys)):
        batch_sum(x, RING, rng=Prg(seed), channel=channel, groups=GROUPS)
    for party in (11, 12, 13, 14, 50, 51):
        opened = [
            keys.of(party).open(SealedMessage.from_bytes(delivery.data)).to_bytes()
            for delivery in relayed.view(party)
        ]
        assert opened == [delivery.data for delivery in direct.view(party)]
        assert {delivery.sender for delivery in relayed.view(party)} == {RELAY}


def test_no_payload_passes_the_relay_in_the_clear() -> None:
    x = RING.random((3, 1, 8), SYSTEM_RNG)
    network = LocalNetwork(record=True)
    groups = Groups(SESSION, 0, np.array([50]), np.array([[11], [12], [13]]))
    batch_sum(x, RING, channel=SealedRelay(network, PairKeys()), groups=groups)

    sealed = [SealedMessage.from_bytes(delivery.data) for delivery in network.view(RELAY)]
    assert len(sealed) == 3 * 2 + 3
    assert len({message.payload for message in sealed}) == len(sealed)
    # Read as elements, what she sees has nothing to do with the sum: 2^-256 by chance.
    seen = [RING.from_bytes(message.payload[:-TAG_BYTES], 8) for message in sealed]
    partials = [values for values, m in zip(seen, sealed, strict=True) if m.to == m.receiver]
    assert not np.array_equal(RING.sum(np.stack(partials), axis=0), RING.sum(x, axis=0)[0])
    for message in sealed:
        with pytest.raises(WireError):
            open_sealed(bytes(32), message.payload)


def test_traffic_has_kinds_of_its_own_and_equals_the_formula() -> None:
    n, batch, dim = SHAPE
    network = LocalNetwork()
    x = np.zeros(SHAPE, np.uint32)
    batch_sum(x, RING, channel=SealedRelay(network, PairKeys()), groups=GROUPS)
    messages = batch * (n * (n - 1) + n)
    size = (
        wire_bytes(ShareMessage, 4 * dim) + len("SealedMessage") - len("ShareMessage") + TAG_BYTES
    )
    assert set(network.traffic) == {"secure_sum.relay_up", "secure_sum.relay_down"}
    for traffic in network.traffic.values():
        assert (traffic.messages, traffic.bytes) == (messages, messages * size)
    assert network.round == 2


def test_each_pair_agrees_once_and_both_ends_on_their_own() -> None:
    keys = PairKeys()
    assert keys.prepare(GROUPS) == 14  # 2 * C(5, 2) pairs less 6 that both sums share
    assert keys.prepare(GROUPS) == 0
    a, b = keys.of(11), keys.of(12)
    assert a.public != b.public
    message = share_message()
    assert b.open(a.seal(message)) == message


def test_groups_are_required() -> None:
    channel = SealedRelay(LocalNetwork(), PairKeys())
    with pytest.raises(ParameterError, match="needs groups"):
        batch_sum(np.zeros((3, 1, 1), np.uint32), RING, channel=channel)


def test_a_second_batch_in_the_same_round_is_refused() -> None:
    """Its keys have sealed already; a key that seals twice would open both shares."""
    x = np.zeros(SHAPE, np.uint32)
    channel = SealedRelay(LocalNetwork(), PairKeys())
    batch_sum(x, RING, channel=channel, groups=GROUPS)
    with pytest.raises(StateError, match="round 4 has been served"):
        batch_sum(x, RING, channel=channel, groups=GROUPS)
    later = Groups(SESSION, 5, GROUPS.receivers, GROUPS.neighbours)
    batch_sum(x, RING, channel=channel, groups=later)
    with pytest.raises(StateError, match="round 4 has been served or passed"):
        batch_sum(x, RING, channel=channel, groups=GROUPS)
    batch_sum(x, RING, channel=channel, groups=Groups(bytes(16), 0, *members()))


def members() -> tuple[Any, Any]:
    return GROUPS.receivers, GROUPS.neighbours


def test_further_receivers_of_a_round_may_come_in_another_batch() -> None:
    x = RING.random((4, 1, 3), SYSTEM_RNG)
    channel = SealedRelay(LocalNetwork(), PairKeys())
    for column in range(2):
        part = slice(column, column + 1)
        groups = Groups(SESSION, 4, GROUPS.receivers[part], GROUPS.neighbours[:, part])
        total = batch_sum(x, RING, channel=channel, groups=groups)
        assert np.array_equal(total, RING.sum(x, axis=0))


@given(
    st.sampled_from(["session", "round", "receiver", "sender", "to"]), st.sampled_from([1, 2, 3])
)
def test_every_part_of_the_route_changes_the_key(field: str, step: int) -> None:
    """One key for each (session, round, receiver, sender, addressee), whatever differs."""
    keys = acquainted(11, 12, 13, 14, 15)
    message = share_message(receiver=60)
    old = getattr(message, field)
    new = bytes([step]) * 16 if field == "session" else old + step
    other = share_message(**({"receiver": 60} | {field: new}))
    if other.sender == other.to:
        return
    one, two = keys[message.sender].seal(message), keys[other.sender].seal(other)
    assert one.payload[:12] != two.payload[:12]  # equal plaintexts, 2^-96 by chance
    swapped = SealedMessage(two.session, two.route, two.bits, one.payload)
    with pytest.raises(WireError):
        keys[other.to].open(swapped)


def test_every_flipped_bit_is_refused() -> None:
    keys = acquainted(11, 12, 50)
    sealed = keys[11].seal(share_message())
    for flipped in faults.flips(sealed.to_bytes()):
        with pytest.raises((WireError, PeerError, StateError)):
            keys[12].open(SealedMessage.from_bytes(flipped))
    assert keys[12].open(sealed) == share_message()


def test_a_sealed_share_does_not_open_as_a_partial_sum() -> None:
    keys = acquainted(11, 50)
    partial = TERMS.partial_message(11, np.arange(3, dtype=np.uint32))
    assert keys[50].open(keys[11].seal(partial)) == partial
    share = share_message(receiver=51, to=50)
    sealed = keys[11].seal(share)
    turned = share_message(receiver=50, to=50, payload=sealed.payload)
    with pytest.raises(WireError):
        keys[50].open(SealedMessage(turned.session, turned.route, turned.bits, turned.payload))


def test_sealing_refuses_what_is_not_ours_or_goes_astray() -> None:
    keys = acquainted(11, 12, 50)
    with pytest.raises(ParameterError, match="only its own"):
        keys[12].seal(share_message())
    with pytest.raises(ParameterError, match="only its own"):
        keys[11].seal(keys[11].seal(share_message()))
    with pytest.raises(ParameterError, match="goes to the receiver"):
        keys[11].seal(share_message(to=50))
    partial = share_message()
    with pytest.raises(ParameterError, match="goes to the receiver"):
        keys[11].seal(PartialSum(partial.session, partial.route, 32, partial.payload))
    with pytest.raises(PeerError, match="a message for 12 came to 50"):
        keys[50].open(keys[11].seal(share_message(round=5)))


def test_without_a_key_nothing_is_sealed_or_opened() -> None:
    keys = acquainted(11, 12)
    stranger = PartyKeys(13, KeyPair.generate())
    with pytest.raises(StateError, match="no key with 12"):
        stranger.seal(share_message(sender=13))
    with pytest.raises(StateError, match="no key with 13"):
        keys[11].seal(share_message(to=13))
    with pytest.raises(StateError, match="already"):
        keys[11].meet(12, keys[12].public)


@pytest.mark.parametrize("public", [b"", bytes(32), b"\x01" + bytes(31), bytes(33)])
def test_a_bad_public_key_is_refused_and_not_kept(public: bytes) -> None:
    keys = PartyKeys(1, KeyPair.generate())
    with pytest.raises(WireError):
        keys.meet(2, public)
    assert not keys.knows(2)


class FaultyNetwork(LocalNetwork):
    """Does something to the first message that the relay forwards."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self._fresh = True

    def send(self, sender: int, receiver: int, kind: str, data: bytes) -> None:
        times = 1
        if sender == RELAY and self._fresh:
            self._fresh = False
            times = {"drop": 0, "duplicate": 2}.get(self._fault, 1)
            if self._fault == "flip":
                data = faults.flip_bit(data, 8 * len(data) - 1)
            if self._fault == "truncate":
                data = faults.truncate(data, len(data) - 1)
        for _ in range(times):
            super().send(sender, receiver, kind, data)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("drop", AbortError),
        ("duplicate", AbortError),
        ("flip", WireError),
        ("truncate", WireError),
    ],
)
def test_a_relay_at_fault_stops_the_sum(fault: str, error: type[Exception]) -> None:
    channel = SealedRelay(FaultyNetwork(fault), PairKeys())
    with pytest.raises(error):
        batch_sum(np.zeros(SHAPE, np.uint32), RING, channel=channel, groups=GROUPS)


def test_a_relay_that_is_true_does_not() -> None:
    channel = SealedRelay(FaultyNetwork("none"), PairKeys())
    total = batch_sum(np.ones(SHAPE, np.uint32), RING, channel=channel, groups=GROUPS)
    assert (total == SHAPE[0]).all()


class ForgetfulKeys(PartyKeys):
    """A broken twin that lets a key seal again."""

    def _claim(self, message: Any) -> None:
        """Remember nothing."""


def test_a_key_that_seals_twice_would_give_the_difference_away() -> None:
    """What the record of rounds prevents: two payloads under one keystream."""
    pairs = {party: KeyPair.generate() for party in (11, 12)}
    twin = ForgetfulKeys(11, pairs[11])
    twin.meet(12, pairs[12].public)
    one = twin.seal(share_message(payload=bytes(12))).payload[:12]
    two = twin.seal(share_message(payload=b"\x55" * 12)).payload[:12]
    assert bytes(a ^ b for a, b in zip(one, two, strict=True)) == b"\x55" * 12


def test_the_default_link_hands_over_the_very_arrays() -> None:
    link = HandOver()
    array: RingArray = np.zeros((3, 1, 1), np.uint32)
    assert link.shares(slice(0, 1), 1, array) is array
    assert link.partials(array) is array
