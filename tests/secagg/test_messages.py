"""Messages of one-time-pad aggregation: exact inverses, sizes, and nothing but WireError."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.wire import Message
from secagg.messages import (
    MAX_ID,
    AdvertiseKey,
    MaskedVector,
    Roster,
    RoundBurnt,
    RoundConfirmed,
)
from tests.secagg.session import OTHER_SESSION, SESSION, params
from tests.support.faults import append, flips, truncations

ids = st.integers(0, MAX_ID)
sessions = st.binary(min_size=16, max_size=16)
publics = st.binary(min_size=32, max_size=32)
pairs = st.lists(st.tuples(ids, publics), max_size=4)

messages: dict[type[Message], st.SearchStrategy[Any]] = {
    AdvertiseKey: st.builds(AdvertiseKey, sessions, ids, publics),
    Roster: st.builds(
        lambda s, p: Roster(s, tuple(c for c, _ in p), tuple(k for _, k in p)), sessions, pairs
    ),
    MaskedVector: st.builds(
        MaskedVector.make,
        session=sessions,
        client=ids,
        round=ids,
        sum_id=ids,
        bits=st.integers(1, 64),
        payload=st.binary(max_size=40),
    ),
    RoundConfirmed: st.builds(RoundConfirmed, sessions, ids),
    RoundBurnt: st.builds(RoundBurnt, sessions, ids, st.lists(ids, max_size=4).map(tuple)),
}
kinds = pytest.mark.parametrize("kind", list(messages), ids=lambda kind: kind.__name__)

EXAMPLES: list[Message] = [
    AdvertiseKey(SESSION, 300, bytes(range(32))),
    Roster(SESSION, (1, 2), (bytes(32), bytes(range(32)))),
    MaskedVector.make(session=SESSION, client=2, round=7, sum_id=1, bits=32, payload=b"abcdefgh"),
    RoundConfirmed(SESSION, 7),
    RoundBurnt(SESSION, 7, (1, 300)),
]
examples = pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)


@kinds
@given(data=st.data())
def test_to_bytes_and_from_bytes_are_inverse(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages[kind])
    assert kind.from_bytes(message.to_bytes()) == message


@kinds
@given(data=st.binary(max_size=120))
def test_arbitrary_bytes_raise_nothing_but_wire_error(kind: type[Message], data: bytes) -> None:
    try:
        message = kind.from_bytes(data)
    except WireError:
        return
    assert message.to_bytes() == data


@examples
def test_every_flipped_bit_gives_an_error_or_a_canonical_message(message: Message) -> None:
    for changed in flips(message.to_bytes()):
        try:
            other = type(message).from_bytes(changed)
        except WireError:
            continue
        assert other != message
        assert other.to_bytes() == changed


@examples
def test_every_truncation_and_every_tail_is_refused(message: Message) -> None:
    data = message.to_bytes()
    for changed in [*truncations(data), append(data)]:
        with pytest.raises(WireError):
            type(message).from_bytes(changed)


@examples
@kinds
def test_a_message_of_another_kind_is_refused(kind: type[Message], message: Message) -> None:
    if type(message) is not kind:
        with pytest.raises(WireError):
            kind.from_bytes(message.to_bytes())


def test_masked_vectors_of_a_session_have_one_length_whatever_their_ids() -> None:
    agreed = params(bits=32, dim=5)
    sizes = {
        len(
            MaskedVector.make(
                session=SESSION, client=c, round=r, sum_id=s, bits=32, payload=bytes(20)
            ).to_bytes()
        )
        for c in (0, 200, MAX_ID)
        for r in (0, 70_000, MAX_ID)
        for s in (0, 300)
    }
    assert sizes == {agreed.message_bytes[MaskedVector]}


def test_a_message_larger_than_the_session_allows_is_refused_unread() -> None:
    agreed = params(dim=5)
    at_limit = MaskedVector.make(
        session=SESSION, client=2, round=0, sum_id=0, bits=32, payload=bytes(20)
    )
    assert agreed.decode(MaskedVector, at_limit.to_bytes()) == at_limit
    larger = MaskedVector.make(
        session=SESSION, client=2, round=0, sum_id=0, bits=32, payload=bytes(21)
    )
    with pytest.raises(WireError, match="at most"):
        agreed.decode(MaskedVector, larger.to_bytes())
    one_too_many = Roster(SESSION, (2, 5, 9, 300), (bytes(32),) * 4)
    with pytest.raises(WireError, match="at most"):
        agreed.decode(Roster, one_too_many.to_bytes())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (AdvertiseKey, (bytes(15), 0, bytes(32))),
        (AdvertiseKey, (SESSION, -1, bytes(32))),
        (AdvertiseKey, (SESSION, MAX_ID + 1, bytes(32))),
        (AdvertiseKey, (SESSION, 0, bytes(31))),
        (Roster, (SESSION, (1, 2), (bytes(32),))),
        (Roster, (SESSION, (1,), (bytes(33),))),
        (MaskedVector, (SESSION, bytes(11), 32, b"")),
        (MaskedVector, (SESSION, bytes(12), 0, b"")),
        (MaskedVector, (SESSION, bytes(12), 65, b"")),
        (RoundConfirmed, (SESSION, MAX_ID + 1)),
        (RoundBurnt, (OTHER_SESSION, 0, (-1,))),
    ],
)
def test_fields_out_of_range_are_refused(kind: type[Message], fields: tuple[Any, ...]) -> None:
    with pytest.raises(ParameterError):
        kind(*fields)


def test_repr_shows_ids_and_sizes_but_no_payload() -> None:
    message = MaskedVector.make(
        session=SESSION, client=2, round=7, sum_id=1, bits=8, payload=b"secret payload"
    )
    assert "client=2" in repr(message)
    assert "14 bytes" in repr(message)
    assert "secret" not in repr(message)
