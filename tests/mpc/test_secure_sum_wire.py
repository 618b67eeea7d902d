"""The messages of the secure sum on the wire, and the terms they are checked against."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import PartialSum, ShareMessage, SumTerms
from tests.support import faults

SESSION = bytes(range(16))
RING = Ring(20)
TERMS = SumTerms(SESSION, 4, 50, (11, 12, 13, 14), 3, RING)
GOOD: dict[str, Any] = {
    "session": SESSION,
    "round": 1,
    "receiver": 2,
    "sender": 0x0304,
    "to": 5,
    "bits": 16,
    "payload": b"\x01\x02",
}


def test_every_flipped_bit_is_refused_or_alters_the_share_it_hits() -> None:
    """A flip in the payload is a valid message: nobody can tell, unless the channel seals."""
    share = RING.random((TERMS.dim,), SYSTEM_RNG)
    whole = TERMS.share_message(11, 12, share).to_bytes()
    accepted = 0
    for flipped in faults.flips(whole):
        try:
            read = TERMS.read_share(TERMS.share_from_bytes(flipped), 12)
        except (PeerError, WireError):
            continue
        accepted += 1
        assert (read != share).sum() == 1
    # No bit but those of the share itself: no other neighbour is one bit away from 11.
    assert accepted == TERMS.dim * RING.bits


def test_a_share_on_the_wire_byte_by_byte() -> None:
    message = ShareMessage.make(**GOOD)
    expected = (
        b"\x01"  # version
        b"\x95\xacShareMessage"  # msgpack: array of 5, string of 12
        b"\xc4\x10" + SESSION + b"\xc4\x10"  # 16 bytes, twice
        b"\x01\x00\x00\x00\x02\x00\x00\x00\x04\x03\x00\x00\x05\x00\x00\x00"
        b"\x10"  # 16 bits
        b"\xc4\x02\x01\x02"
    )
    assert message.to_bytes() == expected
    assert ShareMessage.from_bytes(expected) == message
    partial = PartialSum(message.session, message.route, message.bits, message.payload)
    assert partial.to_bytes() == expected.replace(b"\xacShareMessage", b"\xaaPartialSum")


def test_a_payload_is_little_endian() -> None:
    message = TERMS.share_message(11, 12, np.array([1, 0x0203, 0xABCDE], dtype=np.uint32))
    assert message.payload == bytes.fromhex("01000000 03020000 debc0a00")


def test_no_share_appears_in_a_repr() -> None:
    message = TERMS.share_message(11, 12, np.array([77777, 88888, 99999], dtype=np.uint32))
    assert repr(message) == (
        "ShareMessage(round=4, receiver=50, sender=11, to=12, bits=20, payload=<12 bytes>)"
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_a_wire_error(data: bytes) -> None:
    for decode in (
        ShareMessage.from_bytes,
        PartialSum.from_bytes,
        TERMS.share_from_bytes,
        TERMS.partial_from_bytes,
    ):
        with pytest.raises(WireError):
            decode(data)


@given(st.data())
def test_near_misses_decode_canonically_or_raise_a_wire_error(data: st.DataObject) -> None:
    """A valid message with a few bytes replaced, inserted or removed."""
    whole = TERMS.share_message(11, 12, np.array([1, 2, 3], dtype=np.uint32)).to_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 4)))
    mutated = whole[:start] + data.draw(st.binary(max_size=4)) + whole[stop:]
    try:
        message = ShareMessage.from_bytes(mutated)
    except WireError:
        return
    assert message.to_bytes() == mutated


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"session": b"short"}, "session"),
        ({"round": -1}, "round"),
        ({"round": 2**32}, "round"),
        ({"receiver": 1.0}, "receiver"),
        ({"receiver": 12}, "receiver 12 must not be a neighbour"),
        ({"neighbours": (11, 12)}, "at least 3"),
        ({"neighbours": ()}, "at least 3"),
        ({"neighbours": (11, 12, 11)}, "distinct"),
        ({"neighbours": (11, 12, -1)}, "neighbour"),
        ({"dim": 0}, "dim"),
        ({"dim": 2**40}, "dim"),
    ],
)
def test_terms_refuse_what_no_sum_can_have(fields: dict[str, Any], match: str) -> None:
    good: dict[str, Any] = {
        "session": SESSION,
        "round": 0,
        "receiver": 50,
        "neighbours": (11, 12, 13),
        "dim": 1,
        "ring": RING,
    }
    assert SumTerms(**good).others(12) == {11, 13}
    with pytest.raises(ParameterError, match=match):
        SumTerms(**(good | fields))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"session": b""}, "session"),
        ({"round": 2**32}, "round"),
        ({"to": -1}, "to must"),
        ({"bits": 0}, "bits"),
        ({"bits": 65}, "bits"),
    ],
)
def test_a_message_refuses_fields_out_of_range(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        ShareMessage.make(**(GOOD | fields))
