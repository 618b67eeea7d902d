"""Shamir's sharing: any t shares give the secrets back, fewer and wrong ones are refused."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.shamir import (
    FIELD,
    Field,
    lagrange,
    pack,
    reconstruct,
    secret_of,
    share,
    unpack,
    words,
)

PRIMES = [5, 7, 257, 65_537, 67_108_859]  # the last is the largest below 2^26


def elements(field: Field, *shape: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return SYSTEM_RNG.uniform(field.prime, shape, np.uint32)


def test_every_set_of_t_shares_gives_the_secret_back() -> None:
    for prime, n in ((5, 4), (65_537, 6)):
        field = Field(prime)
        for t in range(2, n + 1):
            secret = elements(field, 3)
            shares = share(secret, n, t, field=field)
            for size in range(t, n + 1):
                for rows in combinations(range(n), size):
                    indices = [row + 1 for row in rows]
                    found = reconstruct(indices, shares[list(rows)], t, field=field)
                    assert np.array_equal(found, secret)


@given(
    prime=st.sampled_from(PRIMES),
    data=st.data(),
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
)
def test_any_field_numbers_and_shape(
    prime: int, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    field = Field(prime)
    n = data.draw(st.integers(2, min(prime - 1, 40)))
    t = data.draw(st.integers(2, n))
    order = data.draw(st.permutations(range(1, n + 1)))[:t]
    secret = elements(field, *shape)
    shares = share(secret, n, t, field=field)
    assert shares.shape == (n, *shape)
    assert shares.dtype == np.uint32
    found = reconstruct(order, shares[np.array(order) - 1], t, field=field)
    assert np.array_equal(found, secret)
    assert found.shape == shape


def test_shares_are_the_values_of_a_polynomial() -> None:
    """Against Python's integers, at the largest field and a length that needs many sums."""
    field = Field(PRIMES[-1])
    x = SYSTEM_RNG.uniform(field.prime, (5, 1000), np.uint32)
    y = SYSTEM_RNG.uniform(field.prime, (1000, 3), np.uint32)
    for left, right in (
        (x, y),
        (np.full_like(x, field.prime - 1), np.full_like(y, field.prime - 1)),
    ):
        expected = (left.astype(object) @ right.astype(object)) % field.prime
        assert np.array_equal(field.matmul(left, right), expected.astype(np.uint32))
        doubles = left.astype(np.float64), right.astype(np.float64)
        assert np.array_equal(field.matmul(*doubles), expected.astype(np.uint32))


def test_more_secrets_than_a_piece_holds() -> None:
    secret = elements(FIELD, 300_001)
    shares = share(secret, 5, 3)
    assert np.array_equal(reconstruct([5, 1, 3], shares[[4, 0, 2]], 3), secret)
    assert not any((row == secret).mean() > 0.01 for row in shares)


def test_a_large_number_of_parties() -> None:
    secret = words(bytes(range(32)))
    shares = share(secret, 500, 334)
    order = (SYSTEM_RNG.words((500,), np.uint32).argsort() + 1)[:334]
    assert secret_of(reconstruct(order, shares[order - 1], 334)) == bytes(range(32))


@given(secret=st.binary(min_size=2, max_size=70).filter(lambda b: len(b) % 2 == 0))
def test_seeds_come_back_as_bytes(secret: bytes) -> None:
    shares = share(words(secret), 4, 2)
    assert secret_of(reconstruct([4, 2], shares[[3, 1]], 2)) == secret


@given(bits=st.integers(9, 64), size=st.integers(1, 20))
def test_vectors_of_a_ring_come_back_through_their_bytes(bits: int, size: int) -> None:
    ring = Ring(bits)
    vector = ring.random((size,), SYSTEM_RNG)
    shares = share(words(ring.to_bytes(vector)), 3, 2)
    data = secret_of(reconstruct([1, 3], shares[[0, 2]], 2))
    assert np.array_equal(ring.from_bytes(data, (size,)), vector)


# Case O17.
SECRET = words(b"\x00\x01\xff\xff")
SHARES = share(SECRET, 5, 3)


@pytest.mark.parametrize(
    ("indices", "rows"),
    [
        ([1, 2], [0, 1]),  # too few
        ([1, 1, 2], [0, 0, 1]),  # one twice
        ([1, 2, 3, 3], [0, 1, 2, 2]),  # one twice among the superfluous
        ([0, 1, 2], [0, 1, 2]),  # index 0, where the secret lies
        ([1, 2, 3, 0], [0, 1, 2, 3]),
        ([1, 2, 65_537], [0, 1, 2]),  # which is index 0 modulo p
        ([1, 2, -1], [0, 1, 2]),
        ([1, 2, 3], [0, 1]),  # indices and rows do not go together
        ([1.0, 2, 3], [0, 1, 2]),
        ([], []),
    ],
)
def test_case_o17_shares_that_make_no_secret_are_refused(
    indices: list[Any], rows: list[int]
) -> None:
    with pytest.raises(ParameterError):
        reconstruct(indices, SHARES[rows], 3)


@pytest.mark.parametrize(
    ("n", "t"), [(5, 6), (5, 1), (5, 0), (1, 1), (65_537, 3), (True, 2), (5, 2.0)]
)
def test_case_o17_thresholds_and_numbers_out_of_range_are_refused(n: Any, t: Any) -> None:
    """t = 1 would hand the secret itself to everybody."""
    with pytest.raises(ParameterError):
        share(SECRET, n, t)


def test_case_o17_index_0_is_never_issued() -> None:
    """Row i has index i + 1: the value at 0 is none of them."""
    field, secret = Field(5), np.arange(5, dtype=np.uint32)
    shares = share(secret, 4, 2, field=field)
    assert len(shares) == 4
    for index in range(1, 5):
        others = [i for i in range(1, 5) if i != index][:2]
        line = lagrange(tuple(others), field)
        assert np.array_equal(field.matmul(line[None], shares[[i - 1 for i in others]])[0], secret)


def test_elements_of_another_type_or_field_are_refused() -> None:
    for wrong in (np.array([1.0]), np.array([1], np.int64), np.array([5], np.uint32)):
        with pytest.raises(ParameterError):
            share(wrong, 4, 2, field=Field(5))
        with pytest.raises(ParameterError):
            reconstruct([1, 2], np.stack([wrong, wrong]), 2, field=Field(5))
    with pytest.raises(ParameterError):
        reconstruct([1, 2], np.array(3, np.uint32), 2)


@pytest.mark.parametrize("prime", [0, 1, 4, 9, 65_535, 2**26 + 15, -5, 5.0, True])
def test_only_primes_below_2_to_26_make_a_field(prime: Any) -> None:
    with pytest.raises(ParameterError):
        Field(prime)


def test_weights_are_those_of_lagrange_and_are_kept() -> None:
    field = Field(7)
    # The line through (1, y1) and (2, y2) is 2 y1 - y2 at 0.
    assert lagrange((1, 2), field).tolist() == [2, 6]
    assert lagrange((1, 2), field) is lagrange((1, 2), field)
    with pytest.raises(ValueError, match="read-only"):
        lagrange((1, 2), field)[0] = 0
    for wrong in ((1, 1), (0, 1), (7, 1)):
        with pytest.raises(ParameterError):
            lagrange(wrong, field)


# Wire forms.
@given(values=st.lists(st.integers(0, 65_536), max_size=40))
def test_elements_come_back_from_their_bytes(values: list[int]) -> None:
    given_ = np.array(values, np.uint32)
    data = pack(given_)
    assert len(data) == 2 * len(values) + -(-len(values) // 8)
    assert np.array_equal(unpack(data, len(values)), given_)


@given(data=st.binary(max_size=40), size=st.integers(0, 20))
def test_arbitrary_bytes_are_refused_or_canonical(data: bytes, size: int) -> None:
    try:
        read = unpack(data, size)
    except WireError:
        return
    assert read.max(initial=0) <= 65_536
    assert pack(read) == data


def test_bytes_that_pack_does_not_make_are_refused() -> None:
    good = pack(np.array([65_536, 1, 2], np.uint32))
    assert good == b"\0\0\1\0\2\0\1"
    for wrong in (
        good[:-1],
        good + b"\0",
        b"\1\0\1\0\2\0\1",  # 65537
        b"\0\0\1\0\2\0\x09",  # a bit of padding
    ):
        with pytest.raises(WireError):
            unpack(wrong, 3)


@pytest.mark.parametrize("secret", [b"", b"a", b"abc", "ab", bytearray(2)])
def test_a_secret_is_an_even_number_of_bytes(secret: Any) -> None:
    with pytest.raises(ParameterError, match="even number"):
        words(secret)


def test_an_element_that_is_no_word_shows_that_a_share_was_altered() -> None:
    assert secret_of(np.array([65_535], np.uint32)) == b"\xff\xff"
    with pytest.raises(WireError, match="was altered"):
        secret_of(np.array([65_536], np.uint32))
