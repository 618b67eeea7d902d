"""n-of-n additive sharing: exact results, case O04, and refusals."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.additive import deal, expand, reconstruct, share, share_compressed
from mpc.core.errors import ParameterError
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.fixed import FixedPoint
from tests.support.strategies import party_counts, ring_arrays, rings, seeds

SEED = bytes(range(32))


@given(st.data(), rings(), party_counts())
def test_shares_of_any_ring_and_shape_add_up(data: st.DataObject, ring: Ring, n: int) -> None:
    secret = data.draw(ring_arrays(ring))
    shares = share(secret, n, ring)
    assert shares.shape == (n, *secret.shape)
    assert shares.dtype == ring.dtype
    assert np.array_equal(reconstruct(shares, ring), secret)
    assert np.array_equal(reconstruct(list(shares), ring), secret)


@given(st.data(), rings(), party_counts(), seeds())
def test_dealing_one_by_one_gives_the_rows_of_share(
    data: st.DataObject, ring: Ring, n: int, seed: bytes
) -> None:
    secret = data.draw(ring_arrays(ring))
    rows = list(deal(secret, n, ring, Prg(seed)))
    assert np.array_equal(np.stack(rows), share(secret, n, ring, rng=Prg(seed)))


@pytest.mark.parametrize("size", [16_384, 16_385, 100_003])
def test_more_elements_than_a_piece_are_shared_to_their_end(size: int) -> None:
    ring = Ring(63)
    secret = ring.random((size, 1), SYSTEM_RNG)
    shares = share(secret, 3, ring)
    assert np.array_equal(reconstruct(shares, ring), secret)
    # Equal entries are chance, of 2^-63 each: no piece was left as it was.
    assert not any((row == secret).any() for row in (*shares, shares[0] - shares[1]))


def test_a_taker_may_overwrite_what_it_was_dealt() -> None:
    ring = Ring(32)
    secret = np.arange(5, dtype=np.uint32)
    total = np.zeros(5, dtype=np.uint32)
    for part in deal(secret, 4, ring, SYSTEM_RNG):
        total += part
        part[...] = 0
    assert np.array_equal(total, np.arange(5))
    assert np.array_equal(secret, np.arange(5))  # the input is left alone


@given(st.data(), rings(), party_counts(), seeds())
def test_dealing_in_place_gives_the_same_shares_one_after_the_other(
    data: st.DataObject, ring: Ring, n: int, seed: bytes
) -> None:
    secret = data.draw(ring_arrays(ring))
    mask, correction = np.empty_like(secret), np.empty_like(secret)
    dealt = deal(secret, n, ring, Prg(seed), out=(mask, correction))
    rows = [part.copy() for part in dealt]
    assert np.array_equal(np.stack(rows), share(secret, n, ring, rng=Prg(seed)))
    assert np.array_equal(mask, rows[-2])
    assert np.array_equal(correction, rows[-1])


@given(st.data(), rings(), party_counts())
def test_compressed_shares_add_up(data: st.DataObject, ring: Ring, n: int) -> None:
    secret = data.draw(ring_arrays(ring))
    sharing = share_compressed(secret, n, ring)
    assert [len(seed) for seed in sharing.seeds] == [SEED_BYTES] * (n - 1)
    assert len(set(sharing.seeds)) == n - 1
    rows = [expand(seed, secret.shape, ring) for seed in sharing.seeds]
    assert {row.dtype for row in rows} == {ring.dtype}
    assert np.array_equal(reconstruct([*rows, sharing.correction], ring), secret)


def test_a_compressed_sharing_shows_nothing_of_itself() -> None:
    sharing = share_compressed(np.arange(3, dtype=np.uint64), 3, Ring(64))
    assert repr(sharing) == "CompressedSharing()"


@pytest.mark.parametrize("n", range(2, 65))
def test_o04a_a_thousand_sharings_are_exact_for_every_number_of_parties(n: int) -> None:
    fixed = FixedPoint(Ring(64), 16)
    values = np.tile([1.5, -1.5], (1000, 1))
    shares = share(fixed.encode(values), n, fixed.ring)
    assert np.array_equal(fixed.decode(reconstruct(shares, fixed.ring)), values)


@pytest.mark.parametrize("one", [np.int64(1), np.array([1], dtype=np.int64), 1, [1], True])
def test_o04b_a_share_plus_a_signed_integer_stays_in_the_ring(one: Any) -> None:
    ring = Ring(64)
    total = ring.add(np.array([2**63 + 1], dtype=np.uint64), one)
    assert total.dtype == np.uint64
    assert total.tolist() == [2**63 + 2]


@pytest.mark.parametrize("fraction", [1.0, [1.0], np.ones(1), np.ones(1, dtype=np.float32)])
def test_o04b_a_share_plus_a_float_is_refused(fraction: Any) -> None:
    with pytest.raises(ParameterError, match=r"encode fractions with mpc\.fixed"):
        Ring(64).add(np.array([2**63 + 1], dtype=np.uint64), fraction)


def test_one_altered_share_changes_the_secret() -> None:
    ring = Ring(16)
    shares = share(np.array([7, 8], dtype=np.uint16), 3, ring)
    shares[1, :1] += np.uint16(1)
    assert reconstruct(shares, ring).tolist() == [8, 8]


def test_every_sharing_draws_anew() -> None:
    secret = np.zeros(4, dtype=np.uint64)  # equal masks twice: probability 2^-256
    assert not np.array_equal(share(secret, 2, Ring(64)), share(secret, 2, Ring(64)))
    assert not np.array_equal(
        share_compressed(secret, 2, Ring(64)).correction,
        share_compressed(secret, 2, Ring(64)).correction,
    )


WRONG_COUNTS = [-1, 0, 1, 2**16 + 1, True, 2.0, "3", None]


@pytest.mark.parametrize("n", WRONG_COUNTS)
def test_a_wrong_number_of_parties_is_refused(n: Any) -> None:
    secret = np.zeros(2, dtype=np.uint8)
    with pytest.raises(ParameterError, match="n must"):
        share(secret, n, Ring(8))
    with pytest.raises(ParameterError, match="n must"):
        share_compressed(secret, n, Ring(8))
    with pytest.raises(ParameterError, match="n must"):
        deal(secret, n, Ring(8), SYSTEM_RNG)  # at once, not when the first share is asked for


WRONG_SECRETS = [
    np.array([0.5]),
    np.array([np.nan]),
    np.array([1], dtype=np.int64),
    np.array([1], dtype=np.uint16),
    np.array([8], dtype=np.uint8),
    [1],
    "1",
]


@pytest.mark.parametrize("secret", WRONG_SECRETS)
def test_what_is_no_ring_element_is_refused(secret: Any) -> None:
    ring = Ring(3)
    for refuse in (share, share_compressed):
        with pytest.raises(ParameterError):
            refuse(secret, 2, ring)
    with pytest.raises(ParameterError):
        deal(secret, 2, ring, SYSTEM_RNG)
    with pytest.raises(ParameterError):
        reconstruct(np.stack([np.asarray(secret)] * 2), ring)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 4), (1, 4)])
def test_fewer_than_two_shares_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="n >= 2"):
        reconstruct(np.zeros(shape, dtype=np.uint8), Ring(8))


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytearray(32), "0" * 32])
def test_a_seed_of_the_wrong_kind_is_refused(seed: Any) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        expand(seed, (2,), Ring(8))


def known_share() -> NDArray[np.uint8]:
    """AES-256-CTR from counter zero under SEED, by the block cipher alone."""
    return np.frombuffer(bytes.fromhex("f29000b62a499fd0a9f39a6add2e7780"), dtype=np.uint8)


def test_a_seed_expands_to_the_keystream_of_aes_256() -> None:
    assert np.array_equal(expand(SEED, (16,), Ring(8)), known_share())
    assert np.array_equal(expand(SEED, (16,), Ring(3)), known_share() & 7)
