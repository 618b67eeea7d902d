"""Truncation: all numbers and masks of a small ring, all sharings of a smaller one, samples."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.additive import reconstruct, share
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import Seats, together, wire_bytes
from mpc.supply import Item, LocalDealer, Shares, Truncation
from mpc.truncation import failure, truncate, truncate_local
from tests.support.enumerate import TapeRng, tapes

O01_SHARES = np.array([2**63 + 5, 2**63, 2**32 - 5], dtype=np.uint64)


class Given:
    """A supply that hands out the masks r that a test has chosen, held by party 0 alone."""

    def __init__(self, r: RingArray, n: int, ring: Ring) -> None:
        self.seats = Seats(n)
        self._r, self._n, self._ring = r, n, ring

    def take(self, item: Item) -> Shares:
        def alone(secret: RingArray) -> RingArray:
            rows = np.zeros((self._n, *secret.shape), dtype=self._ring.dtype)
            rows[0] = secret
            return rows

        free = (self._r,)
        bound = item.follow(free, self._ring)
        return Shares(tuple(map(alone, free)), tuple(map(alone, bound)))


def shift(
    x: RingArray, frac_bits: int, n: int, ring: Ring, rng: Rng = SYSTEM_RNG
) -> NDArray[np.int64]:
    """Signed results of truncating the secrets ``x`` among n parties."""
    shares = share(x, n, ring)
    result = together(truncate(shares, frac_bits, LocalDealer(n, ring, rng=rng), ring), n)
    return ring.signed(reconstruct(result, ring))


def off(result: NDArray[np.int64], x: RingArray, frac_bits: int, ring: Ring) -> NDArray[np.int64]:
    """By how much a result exceeds the floor."""
    return result - (ring.signed(x) >> np.int64(frac_bits))


@pytest.mark.parametrize("frac_bits", range(5))
def test_every_number_and_mask_of_six_bits(frac_bits: int) -> None:
    ring = Ring(6)
    numbers = np.arange(-16, 17)
    x, r = (
        a.astype(np.uint8).reshape(-1)
        for a in np.meshgrid(ring.reduce(numbers), np.arange(64), indexing="ij")
    )
    supply = Given(r, 2, ring)
    shares = np.stack([x, np.zeros_like(x)])
    result = ring.signed(reconstruct(together(truncate(shares, frac_bits, supply, ring), 2), ring))
    assert set(off(result, x, frac_bits, ring).tolist()) <= {0, 1}
    # Over all masks the mean is x / 2^f to the last digit.
    for number, line in zip(numbers, result.reshape(len(numbers), 64), strict=True):
        assert Fraction(int(line.sum()), 64) == Fraction(int(number), 2**frac_bits)


@pytest.mark.parametrize("frac_bits", [0, 1])
def test_every_sharing_of_three_bits(frac_bits: int) -> None:
    """All shares of the number, of the mask and of what follows from it, in one batch."""
    ring = Ring(3)
    values = tapes([8] * 5)
    first, drawn = values[:, 0].astype(np.uint8), values[:, 1:]
    for number in range(-2, 3):
        shares = np.stack([first, ring.sub(ring.reduce(number), first)])
        supply = LocalDealer(2, ring, rng=TapeRng(drawn))
        result = together(truncate(shares, frac_bits, supply, ring), 2)
        signed = ring.signed(reconstruct(result, ring))
        assert set(off(signed, ring.reduce(number), frac_bits, ring).tolist()) <= {0, 1}
        assert Fraction(int(signed.sum()), len(values)) == Fraction(number, 2**frac_bits)


@given(
    bits=st.integers(8, 64),
    data=st.data(),
    n=st.integers(2, 6),
)
def test_any_ring_precision_and_number_of_parties(bits: int, data: st.DataObject, n: int) -> None:
    ring = Ring(bits)
    frac_bits = data.draw(st.integers(0, bits - 2))
    limit = 1 << (bits - 2)
    numbers = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=20))
    x = ring.reduce(numbers)
    assert set(off(shift(x, frac_bits, n, ring), x, frac_bits, ring).tolist()) <= {0, 1}


def sample(size: int) -> RingArray:
    """Numbers over the whole stated range of 64 bits, its ends among them."""
    ring = Ring(64)
    x = SYSTEM_RNG.words((size,), np.uint64) & np.uint64((1 << 63) - 1)
    x = ring.sub(x, np.uint64(1 << 62))
    x[:2] = ring.reduce([-(1 << 62), 1 << 62])
    return x


@pytest.mark.parametrize("cases", [10**5, pytest.param(10**7, marks=pytest.mark.deep)])
def test_no_large_error_over_the_whole_range(cases: int) -> None:
    ring, seen = Ring(64), set()
    for _ in range(max(1, cases // 10**6)):
        x = sample(min(cases, 10**6))
        seen |= set(np.unique(off(shift(x, 16, 3, ring), x, 16, ring)).tolist())
    assert seen == {0, 1}


def test_beyond_the_range_errors_are_large() -> None:
    """Why a bit budget is checked beforehand: nobody can tell here."""
    ring = Ring(64)
    x = np.full(1000, (1 << 62) + (1 << 61), dtype=np.uint64)
    wrong = off(shift(x, 16, 3, ring), x, 16, ring)
    assert (np.abs(wrong) > 2**40).any()


def test_case_o01_three_shares_of_one() -> None:
    ring = Ring(64)
    for _ in range(50):
        result = together(truncate(O01_SHARES[:, None], 16, LocalDealer(3, ring), ring), 3)
        assert int(ring.signed(reconstruct(result, ring))[0]) in (65536, 65537)
    with pytest.raises(ParameterError, match="exactly 2 parties"):
        truncate_local(O01_SHARES[:, None], 16, ring)
    # What each party's own shift would have given.
    assert int(ring.sum(O01_SHARES >> np.uint64(16))) == 281474976776191


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_case_o01_random_sharings(n: int) -> None:
    ring = Ring(64)
    x = np.full(20_000, 1 << 32, dtype=np.uint64)
    assert set(off(shift(x, 16, n, ring), x, 16, ring).tolist()) <= {0, 1}


def test_two_parties_fail_as_often_as_stated() -> None:
    """Every sharing of every number of six bits."""
    ring, frac_bits = Ring(6), 2
    for number in range(-32, 32):
        first = np.arange(64, dtype=np.uint8)
        shares = np.stack([first, ring.sub(ring.reduce(number), first)])
        result = ring.signed(reconstruct(truncate_local(shares, frac_bits, ring), ring))
        far = np.abs(result - number / 2**frac_bits) >= 2
        assert Fraction(int(far.sum()), 64) <= failure(abs(number), ring)
        near = np.abs(result[~far] - number / 2**frac_bits)
        assert (near <= 1).all()


@pytest.mark.parametrize("wrong", [-1, 63, 64, 1.0, True, "3"])
def test_precisions_out_of_range_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="frac_bits"):
        shift(np.zeros(1, np.uint64), wrong, 3, Ring(64))  # type: ignore[arg-type]


def test_rings_without_room_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least 3 bits"):
        shift(np.zeros(1, np.uint8), 0, 3, Ring(2))


def test_an_item_says_what_it_is() -> None:
    assert Truncation((2, 3), 4).free == ((2, 3),)
    assert Truncation((2, 3), 4).bound == ((2, 3), (2, 3))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3), (40_001,), (40_001, 2)])
def test_any_shape_takes_one_round_of_one_element_to_everybody(shape: tuple[int, ...]) -> None:
    ring, n, network = Ring(64), 3, LocalNetwork()
    x = ring.sub(SYSTEM_RNG.words(shape, np.uint64) >> np.uint64(1), np.uint64(1 << 62))
    before = (shares := share(x, n, ring)).copy()
    result = together(truncate(shares, 9, LocalDealer(n, ring), ring), n, network=network)
    assert result.shape == shares.shape
    assert set(off(ring.signed(reconstruct(result, ring)), x, 9, ring).reshape(-1).tolist()) <= {
        0,
        1,
    }
    assert np.array_equal(shares, before)
    assert network.round == 1
    assert network.bytes == n * (n - 1) * wire_bytes(8 * x.size)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_shares_of_another_number_of_parties_are_refused(rows: int) -> None:
    ring = Ring(64)
    with pytest.raises(ParameterError, match="rows"):
        next(truncate(np.zeros((rows, 2), np.uint64), 3, LocalDealer(3, ring), ring))
