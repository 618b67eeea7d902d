"""What is shared, packed, put together and recognised."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc import shamir
from mpc.core.errors import WireError
from mpc.core.keys import KeyPair
from mpc.shamir import Field
from secagg.full import sharing

ELEMENTS = st.integers(0, 65_536)


@given(st.lists(st.lists(ELEMENTS, min_size=16, max_size=16), min_size=1, max_size=5))
def test_rows_are_packed_as_single_shares_are(rows: list[list[int]]) -> None:
    shares = np.array(rows, np.uint32)
    packed = sharing.pack_rows(shares)
    assert [row.tobytes() for row in packed] == [shamir.pack(row) for row in shares]
    assert np.array_equal(sharing.unpack_rows(packed.tobytes(), 16), shares)


@given(st.binary(max_size=80))
def test_other_bytes_are_no_shares(data: bytes) -> None:
    try:
        shares = sharing.unpack_rows(data, 16)
    except WireError:
        return
    assert sharing.pack_rows(shares).tobytes() == data


def test_nobody_is_an_empty_list() -> None:
    assert sharing.unpack_rows(b"", 32).shape == (0, 32)
    assert sharing.pack_rows(np.zeros((0, 32), np.uint32)).size == 0


@pytest.mark.parametrize("prime", [5, 7, 251, 65_537])
def test_weights_are_lagranges(prime: int) -> None:
    field = Field(prime)
    for t in (2, 3, 4):
        sets = list(itertools.combinations(range(1, min(prime, 8)), t))
        table = sharing.weights(np.array(sets, np.uint64), field=field)
        for row, indices in zip(table, sets, strict=True):
            assert np.array_equal(row, shamir.lagrange(indices, field))


def test_weights_at_another_point_give_the_share_of_that_point() -> None:
    shares = shamir.share(np.array([77], np.uint32), 6, 3)
    table = sharing.weights(np.array([[1, 4, 6]], np.uint64), np.array([[2]], np.uint64))
    expected = (table[0] * shares[[0, 3, 5], 0] % 65_537).sum() % 65_537
    assert expected == shares[1, 0]


@pytest.mark.parametrize("prime", [5, 65_537])
def test_many_secrets_from_many_different_holders(prime: int) -> None:
    field, rng = Field(prime), np.random.default_rng(1)
    secrets = rng.integers(0, prime, (40, 3)).astype(np.uint32)
    shares = shamir.share(secrets, 4, 3, field=field)  # (holders, owners, words)
    chosen = np.array([np.sort(rng.choice(4, 3, replace=False)) for _ in range(40)])
    rows = np.stack([shares[holders, at] for at, holders in enumerate(chosen)])
    found = sharing.recover((chosen + 1).astype(np.uint64), rows, field=field)
    assert np.array_equal(found, secrets)


def test_large_batches_are_recovered_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_PIECE", 100)
    test_many_secrets_from_many_different_holders(65_537)


def test_dealt_secrets_come_back_from_any_t() -> None:
    seed, private = bytes(range(32)), bytes(range(32, 64))
    shares = sharing.deal(seed, private, 5, 3)
    assert shares.shape == (5, 2, 16)
    for held in itertools.combinations(range(5), 3):
        indices = np.array([held], np.uint64) + np.uint64(1)
        for row, secret in enumerate((seed, private)):
            found = sharing.recover(indices, shares[None, list(held), row])
            assert shamir.secret_of(found[0]) == secret


def test_each_derived_key_belongs_to_one_purpose_round_and_client() -> None:
    seeds, digests, clients = (bytes(32), b"\1" * 32), (bytes(32), b"\2" * 32), (3, 4)
    made = [
        derive(seed, digest, client)
        for derive in (sharing.self_mask_key, sharing.self_mask_check)
        for seed, digest, client in itertools.product(seeds, digests, clients)
    ]
    assert len(set(made)) == 16
    check = sharing.self_mask_check(bytes(32), bytes(32), 3)
    assert sharing.is_seed(bytes(32), check, bytes(32), 3)
    assert not sharing.is_seed(b"\1" * 32, check, bytes(32), 3)
    assert not sharing.is_seed(bytes(32), check, bytes(32), 4)


def test_channel_keys_match_crosswise_and_differ_by_direction_round_and_ids() -> None:
    a, b = KeyPair.generate(), KeyPair.generate()
    digest, other = bytes(32), b"\1" * 32
    out, back = sharing.channel_keys(a, b.public, digest, 3, 8)
    assert sharing.channel_keys(b, a.public, digest, 8, 3) == [back, out]
    seen = [out, back]
    for digest_, own, peer in ((other, 3, 8), (digest, 4, 8), (digest, 3, 9)):
        seen += sharing.channel_keys(a, b.public, digest_, own, peer)
    assert len(set(seen)) == 8
    with pytest.raises(WireError):
        sharing.channel_keys(a, bytes(32), digest, 3, 8)
