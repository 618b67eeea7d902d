"""The server: sums of complete rounds, refusals that change nothing, and no partial sum."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from secagg.messages import AdvertiseKey, MaskedVector, RoundBurnt, RoundConfirmed
from secagg.params import PadParams
from secagg.server import PadServer
from tests.secagg.session import (
    OTHER_SESSION,
    SESSION,
    Session,
    inputs,
    key_pair,
    params,
    start,
)
from tests.support.faults import drop, duplicate

AGREED = params()


def sent(session: Session, round: int, seed: int = 0) -> list[MaskedVector]:
    x = inputs(session.params, seed)
    return [
        message
        for client, vectors in zip(session.params.clients, x, strict=True)
        for message in session.clients[client].mask(round, vectors)
    ]


@given(
    clients=st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=6, unique=True),
    bits=st.integers(1, 64),
    dim=st.integers(1, 9),
    sums=st.integers(1, 3),
    rounds=st.lists(st.integers(0, 12), min_size=1, max_size=3, unique=True),
    data=st.data(),
)
def test_any_cohort_gets_the_sum_of_its_inputs_in_any_order(
    clients: list[int], bits: int, dim: int, sums: int, rounds: list[int], data: st.DataObject
) -> None:
    agreed = params(tuple(sorted(clients)), bits=bits, dim=dim, sums=sums, epoch=4)
    session = start(agreed)
    for round in sorted(rounds):
        x = inputs(agreed, seed=round)
        session.server.open_round(round)
        for message in data.draw(st.permutations(sent(session, round, seed=round))):
            received = agreed.decode(MaskedVector, message.to_bytes())
            session.server.collect(received)
        assert np.array_equal(session.server.finish_round(), agreed.ring.sum(x, axis=0))
        for member in session.clients.values():
            member.confirm(RoundConfirmed(SESSION, round))


def test_what_the_server_receives_is_not_the_input() -> None:
    session = start(AGREED)
    x = inputs(AGREED)
    payloads = [message.payload for message in sent(session, 0)]
    bare = [AGREED.ring.to_bytes(row) for vectors in x for row in vectors]
    assert not set(payloads) & set(bare)
    assert len(set(payloads)) == len(payloads)


@pytest.mark.parametrize("index", range(6))
def test_a_missing_vector_gives_no_sum_and_names_round_and_client(index: int) -> None:
    session = start(AGREED)
    session.server.open_round(4)
    for message in drop_message(sent(session, 4), index):
        session.server.collect(message)
    absent = AGREED.clients[index // AGREED.sums_per_round]
    assert session.server.missing() == (absent,)
    with pytest.raises(AbortError, match=rf"round 4 lacks vectors of clients \[{absent}\]"):
        session.server.finish_round()
    assert session.server.notice() == RoundBurnt(SESSION, 4, (absent,))
    assert not session.server._total.any()  # the partial sum is dropped, not only withheld


def drop_message(messages: list[MaskedVector], index: int) -> list[MaskedVector]:
    kept = drop([message.to_bytes() for message in messages], index)
    return [MaskedVector.from_bytes(data) for data in kept]


def test_a_burnt_round_id_is_refused_and_the_retry_takes_new_inputs() -> None:
    session = start(AGREED)
    session.server.open_round(0)
    messages = sent(session, 0)
    for message in messages[:-1]:
        session.server.collect(message)
    with pytest.raises(AbortError):
        session.server.finish_round()
    notice = session.server.notice()
    assert isinstance(notice, RoundBurnt)
    for member in session.clients.values():
        member.burn(notice)
    with pytest.raises(StateError, match="settled or passed over"):
        session.server.open_round(0)
    with pytest.raises(StateError, match="no round is open"):
        session.server.collect(messages[-1])  # the late vector completes nothing
    x = inputs(AGREED, seed=1)
    assert np.array_equal(session.run(1, x), AGREED.ring.sum(x, axis=0))


@pytest.mark.parametrize("index", range(6))
def test_a_duplicate_is_refused_and_does_not_change_the_sum(index: int) -> None:
    session = start(AGREED)
    session.server.open_round(0)
    arriving = duplicate([message.to_bytes() for message in sent(session, 0)], index)
    for at, data in enumerate(arriving):
        message = MaskedVector.from_bytes(data)
        if at == index + 1:
            with pytest.raises(PeerError, match="twice") as caught:
                session.server.collect(message)
            assert caught.value.party == AGREED.clients[index // 2]
        else:
            session.server.collect(message)
    expected = AGREED.ring.sum(inputs(AGREED), axis=0)
    assert np.array_equal(session.server.finish_round(), expected)


def test_a_message_replayed_from_an_earlier_round_is_refused() -> None:
    session = start(AGREED)
    session.server.open_round(0)
    old = sent(session, 0)
    for message in old:
        session.server.collect(message)
    session.server.finish_round()
    session.server.open_round(1)
    with pytest.raises(PeerError, match="sent round 0, open is 1"):
        session.server.collect(old[0])
    assert session.server.missing() == AGREED.clients


def altered(message: MaskedVector, **change: Any) -> MaskedVector:
    fields = {
        "session": message.session,
        "client": message.client,
        "round": message.round,
        "sum_id": message.sum_id,
        "bits": message.bits,
        "payload": message.payload,
    }
    return MaskedVector.make(**{**fields, **change})


@pytest.mark.parametrize(
    ("change", "text", "party"),
    [
        ({"session": OTHER_SESSION}, "another session", 2),
        ({"client": 3}, "client 3 is not a member", 3),
        ({"round": 1}, "sent round 1, open is 0", 2),
        ({"sum_id": 2}, "sum 2 of 2", 2),
        ({"bits": 31}, "31-bit elements, agreed are 32", 2),
        ({"payload": bytes(19)}, "20 bytes, got 19", 2),
        ({"payload": bytes(24)}, "20 bytes, got 24", 2),
        ({"payload": b""}, "20 bytes, got 0", 2),
    ],
)
def test_a_message_that_does_not_fit_is_refused_and_changes_nothing(
    change: dict[str, Any], text: str, party: int
) -> None:
    session = start(AGREED)
    session.server.open_round(0)
    messages = sent(session, 0)
    with pytest.raises(PeerError, match=text) as caught:
        session.server.collect(altered(messages[0], **change))
    assert caught.value.party == party
    for message in messages:
        session.server.collect(message)
    expected = AGREED.ring.sum(inputs(AGREED), axis=0)
    assert np.array_equal(session.server.finish_round(), expected)


def test_an_element_outside_the_ring_is_refused() -> None:
    agreed = params(bits=12)
    session = start(agreed)
    session.server.open_round(0)
    bad = altered(sent(session, 0)[0], payload=b"\xff\xff" * agreed.dim)
    with pytest.raises(PeerError, match="outside"):
        session.server.collect(bad)


def test_a_flipped_bit_in_a_masked_vector_changes_the_sum_unseen() -> None:
    """The semi-honest limit that the documentation states: only the channel authenticates."""
    session = start(AGREED)
    session.server.open_round(0)
    messages = sent(session, 0)
    flipped = bytes([messages[0].payload[0] ^ 1, *messages[0].payload[1:]])
    for message in [altered(messages[0], payload=flipped), *messages[1:]]:
        session.server.collect(message)
    difference = session.server.finish_round() - AGREED.ring.sum(inputs(AGREED), axis=0)
    assert np.count_nonzero(difference) == 1


def test_calls_out_of_order_are_refused() -> None:
    server = PadServer(AGREED)
    for early in (server.roster, lambda: server.open_round(0)):
        with pytest.raises(StateError, match=r"keys of clients \[2, 5, 9\] are missing"):
            early()
    for late in (server.finish_round, server.notice):
        with pytest.raises(StateError, match="no round"):
            late()
    assert server.missing() == ()
    session = start(AGREED)
    session.server.open_round(3)
    with pytest.raises(StateError, match="round 3 is still open"):
        session.server.open_round(4)
    with pytest.raises(AbortError):
        session.server.finish_round()
    with pytest.raises(StateError, match="no round is open"):
        session.server.finish_round()
    for round in (0, 3):
        with pytest.raises(StateError, match="take an id from 4 on"):
            session.server.open_round(round)
    for bad in (-1, 2**32):
        with pytest.raises(ParameterError, match="round"):
            session.server.open_round(bad)


def key_message(agreed: PadParams, client: int, owner: int | None = None) -> AdvertiseKey:
    public = key_pair(client if owner is None else owner).public
    return AdvertiseKey(agreed.session, client, public)


def test_keys_are_taken_once_from_members_of_this_session() -> None:
    server = PadServer(AGREED)
    server.collect_key(key_message(AGREED, 2))
    refused = [
        (key_message(AGREED, 2), "already"),
        (key_message(AGREED, 2, owner=77), "already"),
        (key_message(AGREED, 5, owner=2), "another member's key"),
        (key_message(AGREED, 3), "not a member"),
        (key_message(replace(AGREED, session=OTHER_SESSION), 5), "another session"),
    ]
    for message, text in refused:
        with pytest.raises(PeerError, match=text) as caught:
            server.collect_key(message)
        assert caught.value.party == message.client
    with pytest.raises(StateError, match=r"\[5, 9\]"):
        server.roster()
    server.collect_key(key_message(AGREED, 9))
    server.collect_key(key_message(AGREED, 5))
    assert server.roster().clients == AGREED.clients
    assert server.roster().publics == tuple(key_pair(c).public for c in AGREED.clients)


def test_repr_shows_no_sum() -> None:
    session = start(AGREED)
    session.server.open_round(7)
    assert repr(session.server) == "PadServer(clients=3, round=7)"
