"""Messages as bytes: exact inverses, sizes of public quantities alone, refusals by type."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import Message
from secagg.full import messages as m
from secagg.full.messages import RoundMessage
from tests.secagg.full.world import SESSION, Driven, bits, params
from tests.support.faults import append, flip_bit, truncations

SET = b"\x1f"
FIELDS: dict[type[RoundMessage], dict[str, Any]] = {
    m.AdvertiseKeys: {"keys": bytes(64), "signature": bytes(64)},
    m.Roster: {"members": SET, "keys": bytes(128), "signatures": bytes(128)},
    m.SharedKeys: {"check": bytes(32), "sealed": bytes(2 * 84)},
    m.Delivered: {"members": SET, "sealed": bytes(84)},
    m.MaskedInput: {"bits": 32, "payload": bytes(16)},
    m.SurvivorsRequest: {"members": SET},
    m.ConsistencySignature: {"signature": bytes(64)},
    m.UnmaskRequest: {"members": SET, "signers": SET, "signatures": bytes(192)},
    m.UnmaskShares: {"shares": bytes(34)},
    m.RoundDone: {"members": SET},
    m.RoundAborted: {"step": 3, "missing": SET},
}
EACH = pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)


def make(kind: type[RoundMessage], **fields: Any) -> RoundMessage:
    return kind.make(SESSION, 7, 2, **{**FIELDS[kind], **fields})


@EACH
def test_bytes_and_back(kind: type[RoundMessage]) -> None:
    agreed = params(variant="malicious")
    message = make(kind)
    assert (message.round, message.client, message.session) == (7, 2, SESSION)
    data = message.to_bytes()
    assert agreed.decode(kind, data) == message
    assert len(kind.make(SESSION, 2**32 - 1, 0, **FIELDS[kind]).to_bytes()) == len(data)
    for other in FIELDS:
        if other is not kind:
            with pytest.raises(WireError):
                other.from_bytes(data)
    for broken in (*truncations(data), append(data)):
        with pytest.raises(WireError):
            kind.from_bytes(broken)


@EACH
def test_a_flipped_bit_gives_another_message_or_one_error(kind: type[RoundMessage]) -> None:
    message = make(kind)
    data = message.to_bytes()
    for bit in range(8 * len(data)):
        try:
            other = kind.from_bytes(flip_bit(data, bit))
        except WireError:
            continue
        assert other != message


@EACH
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_give_one_error(kind: type[RoundMessage], data: bytes) -> None:
    try:
        message = kind.from_bytes(data)
    except WireError:
        return
    assert message.to_bytes() == data


@EACH
def test_larger_messages_are_refused_unread(kind: type[RoundMessage]) -> None:
    agreed = params(variant="malicious")
    limit = agreed.message_bytes[kind]
    with pytest.raises(WireError, match=f"at most {limit} expected"):
        agreed.decode(kind, b"\x01" + b"\xff" * limit)


WRONG: list[tuple[type[RoundMessage], dict[str, Any]]] = [
    (m.AdvertiseKeys, {"keys": bytes(63)}),
    (m.AdvertiseKeys, {"signature": bytes(63)}),
    (m.Roster, {"keys": bytes(63)}),
    (m.Roster, {"signatures": bytes(64)}),
    (m.SharedKeys, {"check": bytes(31)}),
    (m.SharedKeys, {"sealed": bytes(83)}),
    (m.Delivered, {"sealed": bytes(85)}),
    (m.MaskedInput, {"bits": 0}),
    (m.MaskedInput, {"bits": 65}),
    (m.ConsistencySignature, {"signature": b""}),
    (m.UnmaskRequest, {"signatures": bytes(65)}),
    (m.UnmaskShares, {"shares": bytes(33)}),
    (m.RoundAborted, {"step": 0}),
    (m.RoundAborted, {"step": 6}),
]


@pytest.mark.parametrize(("kind", "fields"), WRONG)
def test_fields_of_the_wrong_size_are_refused(
    kind: type[RoundMessage], fields: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError):
        make(kind, **fields)


@EACH
def test_ids_out_of_range_are_refused(kind: type[RoundMessage]) -> None:
    for session, round, client in ((b"", 7, 2), (SESSION, -1, 2), (SESSION, 7, 2**32)):
        with pytest.raises(ParameterError):
            kind.make(session, round, client, **FIELDS[kind])
    with pytest.raises(ParameterError):
        kind(session=SESSION, route=bytes(7), **FIELDS[kind])


@EACH
def test_nothing_secret_is_shown(kind: type[RoundMessage]) -> None:
    shown = repr(make(kind))
    assert "round=7, client=2" in shown
    assert "\\x" not in shown


@pytest.mark.parametrize("variant", ["semi-honest", "malicious"])
def test_the_largest_messages_are_those_of_a_round_with_everybody(variant: Any) -> None:
    agreed = params(tuple(range(2**32 - 5, 2**32)), variant=variant, bits=64)
    world = Driven(agreed, victim=2**32 - 1)
    client, server = world.client, world.server
    sizes: dict[type[Message], int] = {}

    def took(message: Message) -> None:
        sizes[type(message)] = len(message.to_bytes())

    took(Driven(agreed, victim=2**32 - 1).client.advertise())
    world.keys()
    took(server.roster(client.client))
    world.shares()
    took(server._state.shares[4])
    took(server.delivery(client.client))
    world.masked()
    if agreed.malicious:
        took(server.survivors_request(client.client))
    world.signed()
    answer = client.unmask(world.question())
    took(answer)
    for kind, size in sizes.items():
        assert size == agreed.message_bytes[kind], kind
    assert bits(agreed, *agreed.clients) == SET
