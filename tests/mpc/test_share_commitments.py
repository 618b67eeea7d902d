"""Committed shares: every altered one is named; what is published hides them."""

import hashlib
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.shamir import secret_of, words
from mpc.share_commitments import (
    Commitments,
    SaltedShare,
    reconstruct_committed,
    share_committed,
)
from tests.support.faults import flips, truncations

SESSION = bytes(range(16))
SECRET = words(bytes(range(32)))
HELD, PUBLISHED = share_committed(SECRET, 5, 3, SESSION)


def changed(held: SaltedShare, **fields: Any) -> SaltedShare:
    given_ = {name: getattr(held, name) for name in held.__struct_fields__}
    return SaltedShare(**{**given_, **fields})


@pytest.mark.parametrize("size", [3, 4, 5])
def test_any_t_holders_get_the_secret_and_all_shares_pass(size: int) -> None:
    for some in combinations(HELD, size):
        assert secret_of(reconstruct_committed(some, PUBLISHED)) == bytes(range(32))
        assert secret_of(reconstruct_committed(some[::-1], PUBLISHED)) == bytes(range(32))


def test_case_o17_one_flipped_bit_in_one_of_three_shares_is_found_and_its_holder_named() -> None:
    for position in range(3):
        held = list(HELD[:3])
        for payload in flips(held[position].payload):
            wrong = list(held)
            wrong[position] = changed(held[position], payload=payload)
            with pytest.raises(PeerError, match=f"index {position + 1} was altered") as caught:
                reconstruct_committed(wrong, PUBLISHED)
            assert caught.value.party == position + 1


def test_case_o17_an_altered_superfluous_share_is_found_too() -> None:
    wrong = [*HELD[:3], changed(HELD[3], salt=bytes(32))]
    with pytest.raises(PeerError, match="index 4 was altered"):
        reconstruct_committed(wrong, PUBLISHED)


def test_case_o17_too_few_repeats_and_index_0() -> None:
    with pytest.raises(ParameterError, match="3 shares are needed, got 2"):
        reconstruct_committed(HELD[:2], PUBLISHED)
    with pytest.raises(ParameterError, match="3 shares are needed, got 0"):
        reconstruct_committed([], PUBLISHED)
    with pytest.raises(ParameterError, match="distinct"):
        reconstruct_committed([HELD[0], HELD[0], HELD[1]], PUBLISHED)
    with pytest.raises(ParameterError, match="index"):
        changed(HELD[0], index=0)
    assert [held.index for held in HELD] == [1, 2, 3, 4, 5]


def test_shares_of_another_sharing_holder_or_salt_are_refused() -> None:
    other, _ = share_committed(SECRET, 5, 3, bytes(16))
    with pytest.raises(PeerError, match="another sharing"):
        PUBLISHED.check(other[0])
    same, _ = share_committed(SECRET, 5, 3, SESSION)
    for wrong in (
        same[0],
        changed(HELD[0], index=2),
        changed(HELD[0], salt=HELD[1].salt),
        changed(HELD[0], payload=HELD[0].payload + b"\0"),
    ):
        with pytest.raises(PeerError, match="was altered"):
            PUBLISHED.check(wrong)
    with pytest.raises(PeerError, match="another sharing"):
        PUBLISHED.check(changed(HELD[0], index=6))


def test_a_commitment_is_bound_to_all_public_terms() -> None:
    n, t = 5, 3
    for fields in ({"session": bytes(16)}, {"threshold": 2}, {"digests": PUBLISHED.digests[:128]}):
        names = {name: getattr(PUBLISHED, name) for name in PUBLISHED.__struct_fields__}
        terms = Commitments(**{**names, **fields})
        with pytest.raises(PeerError):
            terms.check(changed(HELD[0], session=terms.session))
    text = label("mpc.shamir.commitment", SESSION, n, t, 1, HELD[0].payload, HELD[0].salt)
    assert hashlib.sha256(text).digest() == PUBLISHED.digests[:32]


def test_a_dealer_s_payload_of_another_size_is_refused() -> None:
    """A commitment that fits bytes which are no share: only a bad dealer makes it."""
    payload = b"\0" * 5
    digest = hashlib.sha256(
        label("mpc.shamir.commitment", SESSION, 2, 2, 1, payload, bytes(32))
    ).digest()
    terms = Commitments(SESSION, 2, 16, digest * 2)
    with pytest.raises(PeerError, match="index 1: 16 elements take"):
        terms.check(SaltedShare(SESSION, 1, payload, bytes(32)))


# Why each share has a salt.
def opened_by_dictionary(salt: bytes) -> int | None:
    """By how much an outsider, who tries all elements with a salt of zeros, is wrong; or None.

    salt: what a broken dealer takes for all salts.
    """
    held, published = share_committed(np.array([777], np.uint32), 3, 2, SESSION, rng=Salts(salt))
    digest = published.digests[:32]
    for element in range(65_537):
        payload = (element % 65_536).to_bytes(2, "little") + bytes([element // 65_536])
        text = label("mpc.shamir.commitment", SESSION, 3, 2, 1, payload, bytes(32))
        if hashlib.sha256(text).digest() == digest:
            return element - int(published.check(held[0])[0])
    return None


class Salts(Rng):
    """Draws as usual, but gives ``salt``, where there is one, for all bytes of salts."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def fill(self, out: NDArray[Any]) -> None:
        SYSTEM_RNG.fill(out)
        if self._salt and out.size % 32 == 0:
            out[...] = np.frombuffer(self._salt * (out.size // 32), out.dtype)


def test_a_commitment_to_a_short_share_does_not_open_it() -> None:
    assert opened_by_dictionary(b"") is None


def test_a_commitment_without_a_salt_of_its_own_is_caught() -> None:
    assert opened_by_dictionary(bytes(32)) == 0


def test_salts_and_shares_are_fresh_for_every_sharing_and_holder() -> None:
    again, published = share_committed(SECRET, 5, 3, SESSION)
    both = (*HELD, *again)
    assert len({held.salt for held in both}) == len({held.payload for held in both}) == 10
    assert published.digests != PUBLISHED.digests


# Messages.
def test_messages_come_back_from_their_bytes_and_damage_is_refused_or_another_message() -> None:
    for message in (HELD[0], PUBLISHED):
        data, kind = message.to_bytes(), type(message)
        assert kind.from_bytes(data) == message
        for bad in truncations(data):
            with pytest.raises(WireError):
                kind.from_bytes(bad)
        for bad in flips(data):
            try:
                assert kind.from_bytes(bad) != message
            except WireError:
                continue


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_no_messages(data: bytes) -> None:
    for kind in (SaltedShare, Commitments):
        with pytest.raises(WireError):
            kind.from_bytes(data)


@given(
    secret=st.lists(st.integers(0, 65_536), max_size=20),
    n=st.integers(2, 8),
    data=st.data(),
)
def test_wire_forms_of_any_sharing(secret: list[int], n: int, data: st.DataObject) -> None:
    t = data.draw(st.integers(2, n))
    elements = np.array(secret, np.uint32)
    held, published = share_committed(elements, n, t, SESSION)
    terms = Commitments.from_bytes(published.to_bytes())
    arrived = [SaltedShare.from_bytes(each.to_bytes()) for each in held]
    assert np.array_equal(reconstruct_committed(arrived[-t:], terms), elements)


BAD_SHARES: list[dict[str, Any]] = [
    {"session": bytes(15)},
    {"salt": bytes(31)},
    {"index": 0},
    {"index": 65_537},
]
BAD_TERMS: list[dict[str, Any]] = [
    {"session": bytes(15)},
    {"threshold": 1},
    {"threshold": 6},
    {"size": 1 << 28},
    {"digests": bytes(33)},
    {"digests": bytes(32)},
    {"digests": b""},
]


@pytest.mark.parametrize("change", BAD_SHARES)
def test_shares_with_sizes_out_of_range_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        changed(HELD[0], **change)


@pytest.mark.parametrize("change", BAD_TERMS)
def test_terms_with_sizes_out_of_range_are_refused(change: dict[str, Any]) -> None:
    fields = {name: getattr(PUBLISHED, name) for name in PUBLISHED.__struct_fields__}
    with pytest.raises(ParameterError):
        Commitments(**{**fields, **change})


def test_a_secret_with_more_axes_is_refused() -> None:
    with pytest.raises(ParameterError, match="one axis"):
        share_committed(SECRET.reshape(2, 8), 5, 3, SESSION)


def test_no_repr_shows_a_share_or_a_salt() -> None:
    assert HELD[0].salt.hex() not in repr(HELD[0])
    assert "<34 bytes>" in repr(HELD[0])
