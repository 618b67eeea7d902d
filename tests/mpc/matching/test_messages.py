"""The messages of a matching session on the wire, and the terms they are checked against."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import Message
from mpc.matching.messages import (
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Neighbourhood,
    Ticket,
    Upload,
    split,
)
from tests.support import faults

TERMS = MatchTerms(
    session=bytes(range(16)),
    method="oprf",
    public=b"\x07" * 32,
    items=3,
    payload_bytes=4,
    min_group=2,
    max_group=0,
    min_users=5,
    max_neighbours=2,
)
DIGEST = TERMS.digest
KINDS: list[type[Message]] = [
    MatchTerms,
    Ticket,
    BlindedItems,
    EvaluatedItems,
    Upload,
    Neighbourhood,
]
MESSAGES: list[Message] = [
    TERMS,
    Ticket(DIGEST, bytes(16), bytes(32)),
    BlindedItems(DIGEST, bytes(96)),
    EvaluatedItems(DIGEST, bytes(96), bytes(64)),
    Upload(DIGEST, bytes(48), b"load"),
    Neighbourhood.make(TERMS, [b"load", b"more"], 2),
]


def test_terms_on_the_wire_byte_by_byte() -> None:
    assert TERMS.to_bytes() == (
        b"\x01\x9a\xaematching.terms"  # version, array of 10, string of 14
        b"\xc4\x10"
        + bytes(range(16))
        + b"\xa4oprf\xc4\x20"
        + b"\x07" * 32
        + bytes([3, 4, 2, 0, 5, 2])
    )


def test_an_upload_on_the_wire_byte_by_byte() -> None:
    assert Upload(DIGEST, b"t" * 48, b"load").to_bytes() == (
        b"\x01\x94\xafmatching.upload\xc4\x20" + DIGEST + b"\xc4\x30" + b"t" * 48 + b"\xc4\x04load"
    )


def test_an_answer_on_the_wire_byte_by_byte() -> None:
    assert Neighbourhood.make(TERMS, b"load", 1).to_bytes() == (
        b"\x01\x94\xb3matching.neighbours\xc4\x20"
        + DIGEST
        + b"\xc4\x04\x01\0\0\0\xc4\x08load\0\0\0\0"
    )


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_survives_the_wire_and_no_other_class_reads_it(message: Message) -> None:
    data = message.to_bytes()
    for kind in KINDS:
        if type(message) is kind:
            assert TERMS.decode(kind, data) == message
        else:
            with pytest.raises(WireError):
                TERMS.decode(kind, data)
    for cut in faults.truncations(data):
        with pytest.raises(WireError):
            TERMS.decode(type(message), cut)
    with pytest.raises(WireError):
        TERMS.decode(type(message), faults.append(data))


@given(st.binary(max_size=300), st.sampled_from(KINDS))
def test_arbitrary_bytes_raise_nothing_but_a_wire_error(data: bytes, kind: type[Message]) -> None:
    with pytest.raises(WireError):
        TERMS.decode(kind, data)


@given(st.integers(0, 8 * 140), st.integers(0, len(MESSAGES) - 1))
def test_a_flipped_bit_gives_another_message_or_a_wire_error(bit: int, index: int) -> None:
    message = MESSAGES[index]
    data = message.to_bytes()
    flipped = faults.flip_bit(data, bit % (8 * len(data)))
    with suppress(WireError):
        assert TERMS.decode(type(message), flipped) != message


@pytest.mark.parametrize(
    "make",
    [
        lambda n: BlindedItems(DIGEST, bytes(n)),
        lambda n: EvaluatedItems(DIGEST, bytes(n), b""),
        lambda n: Upload(DIGEST, bytes(n), b""),
        lambda n: Neighbourhood(DIGEST, bytes(4), bytes(n)),
    ],
)
def test_what_is_too_large_for_the_session_is_refused_unread(
    make: Callable[[int], Message],
) -> None:
    message = make(1 << 16)
    with pytest.raises(WireError, match="at most"):
        TERMS.decode(type(message), message.to_bytes())


def test_the_largest_messages_of_large_sessions_fit_their_limits() -> None:
    terms = MatchTerms(
        session=bytes(16),
        method="oprf",
        public=bytes(32),
        items=65535,
        payload_bytes=1 << 16,
        min_group=2,
        max_group=0,
        min_users=2,
        max_neighbours=60,
    )
    digest = terms.digest
    largest: list[Message] = [
        BlindedItems(digest, bytes(32 * 65535)),
        EvaluatedItems(digest, bytes(32 * 65535), bytes(64)),
        Upload(digest, bytes(16 * 65535), bytes(1 << 16)),
        Neighbourhood.make(terms, b"", 0),
    ]
    for message in largest:
        assert terms.decode(type(message), message.to_bytes()) == message


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Ticket, (DIGEST, bytes(15), bytes(32))),
        (Ticket, (DIGEST, bytes(16), bytes(31))),
        (Ticket, (DIGEST[:-1], bytes(16), bytes(32))),
        (BlindedItems, (DIGEST[:-1], b"")),
        (EvaluatedItems, (DIGEST + b"\0", b"", b"")),
        (Upload, (b"", b"", b"")),
        (Neighbourhood, (DIGEST, bytes(3), b"")),
        (Neighbourhood, (DIGEST[:-1], bytes(4), b"")),
    ],
)
def test_fields_of_another_size_are_refused(kind: Any, fields: tuple[bytes, ...]) -> None:
    with pytest.raises(ParameterError, match="must be"):
        kind(*fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"session": bytes(15)},
        {"method": "psi"},
        {"public": b""},
        {"public": bytes(4097)},
        {"min_users": 1},
        {"max_group": 1},
    ],
)
def test_terms_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    fields = {name: getattr(TERMS, name) for name in MatchTerms.__struct_fields__}
    with pytest.raises(ParameterError):
        MatchTerms(**fields | changes)


@given(st.lists(st.binary(min_size=4, max_size=4), max_size=2))
def test_payloads_come_back_as_they_were_sent(payloads: list[bytes]) -> None:
    message = Neighbourhood.make(TERMS, payloads, len(payloads))
    assert message.read(TERMS) == tuple(payloads)
    assert len(message.payloads) == 8


def test_bytes_that_are_no_whole_pieces_are_refused() -> None:
    assert split(b"abcd", 2) == (b"ab", b"cd")
    with pytest.raises(WireError, match="no whole number"):
        split(b"abcde", 2)
