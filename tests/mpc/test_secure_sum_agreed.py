"""Secure sums in one step: right totals, one message for each neighbour, nothing without all."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import Receiver, SumTerms
from mpc.secure_sum_agreed import PURPOSE, partial_sum
from tests.mpc.relay_parties import acquainted

SESSION = bytes(range(16))


def terms(n: int = 4, *, dim: int = 3, bits: int = 32, **changes: Any) -> SumTerms:
    own: dict[str, Any] = {"session": SESSION, "round": 2, "receiver": 99}
    return SumTerms(**{**own, **changes}, neighbours=tuple(range(n)), dim=dim, ring=Ring(bits))


def keys_of(n: int) -> list[dict[int, bytes]]:
    """Each party's keys with the others, agreed over a relay."""
    boxes = acquainted(range(n))
    outboxes = [boxes[party].begin(2) for party in range(n)]
    return [
        {peer: outbox.key(peer, PURPOSE) for peer in range(n) if peer != party}
        for party, outbox in enumerate(outboxes)
    ]


@given(st.integers(3, 6), st.integers(1, 9), st.sampled_from([1, 7, 8, 13, 32, 64]))
def test_the_receiver_gets_the_sum(n: int, dim: int, bits: int) -> None:
    sum_, ring = terms(n, dim=dim, bits=bits), Ring(bits)
    x, keys = ring.random((n, dim), SYSTEM_RNG), keys_of(n)
    receiver = Receiver(sum_)
    for party in range(n):
        message = partial_sum(sum_, party, x[party], keys[party], context=b"c")
        receiver.receive(sum_.partial_from_bytes(message.to_bytes()))
    assert np.array_equal(receiver.total(), ring.sum(x, axis=0))


def test_without_one_neighbour_there_is_no_sum() -> None:
    sum_, keys = terms(), keys_of(4)
    receiver = Receiver(sum_)
    for party in range(3):
        receiver.receive(partial_sum(sum_, party, np.zeros(3, np.uint32), keys[party]))
    with pytest.raises(StateError, match="no partial sum has come yet from"):
        receiver.total()


@pytest.mark.parametrize(
    "other",
    [
        (terms(session=bytes(16)), b""),
        (terms(round=3), b""),
        (terms(receiver=98), b""),
        (terms(bits=31), b""),
        (terms(5), b""),
        (terms(), b"other weights"),
    ],
)
def test_parties_that_see_a_sum_differently_add_up_to_noise(other: tuple[SumTerms, bytes]) -> None:
    """So a relay cannot tell one party of another receiver, round or set of neighbours."""
    boxes, zero = keys_of(5), np.zeros(3, np.uint32)
    odd, context = other
    ring, own = Ring(32), terms()
    sent = [partial_sum(own, party, zero, boxes[party]) for party in range(4)]
    assert not ring.sum(np.stack([own.read_partial(m) for m in sent]), axis=0).any()
    strange = partial_sum(odd, 3, zero.astype(odd.ring.dtype), boxes[3], context=context)
    parts = [ring.from_bytes(m.payload, 3) for m in (*sent[:3], strange)]
    assert ring.sum(np.stack(parts), axis=0).any()  # three zeros by chance: 2^-93


def test_no_two_messages_of_a_party_share_a_stream() -> None:
    keys = keys_of(4)
    zero = np.zeros(3, np.uint32)
    seen = [
        partial_sum(sum_, 0, zero, keys[0], context=context).payload
        for sum_, context in (
            (terms(), b""),
            (terms(round=3), b""),
            (terms(receiver=98), b""),
            (terms(3), b""),
            (terms(), b"x"),
        )
    ]
    assert len(set(seen)) == len(seen)


def test_what_does_not_fit_is_refused() -> None:
    keys, zero = keys_of(4)[0], np.zeros(3, np.uint32)
    with pytest.raises(ParameterError, match="shape"):
        partial_sum(terms(), 0, zero[:2], keys)
    with pytest.raises(ParameterError, match="dtype"):
        partial_sum(terms(), 0, zero.astype(np.int64), keys)
    with pytest.raises(ParameterError, match="no key with neighbour 3"):
        partial_sum(terms(), 0, zero, {1: keys[1], 2: keys[2]})
    with pytest.raises(ParameterError, match="not a neighbour"):
        partial_sum(terms(), 9, zero, keys)
    falling = SumTerms(SESSION, 0, 99, (3, 2, 1, 0), 3, Ring(32))
    with pytest.raises(ParameterError, match="rising order"):
        partial_sum(falling, 0, zero, keys)
    with pytest.raises(ParameterError, match="at least 3"):
        terms(2)


def test_the_input_is_left_alone() -> None:
    x = np.arange(3, dtype=np.uint32)
    partial_sum(terms(), 0, x, keys_of(4)[0])
    assert all(b - a == 1 for a, b in pairwise(x.tolist()))
