"""Packed bits: exact inverses, canonical, and WireError for everything else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ldp.packed import pack, pack_words, unpack, unpack_below, unpack_words
from mpc.core.errors import ParameterError, WireError
from tests.support.strategies import shapes

BITS = npst.arrays(np.dtype(np.bool_), shapes(max_side=9))


@given(BITS)
def test_round_trip(bits: NDArray[np.bool_]) -> None:
    data = pack(bits)
    assert len(data) == -(-bits.size // 8)
    back = unpack(data, bits.shape)
    assert back.dtype == np.bool_
    assert np.array_equal(back, bits)


def test_known_bytes() -> None:
    bits = np.array([1, 0, 0, 0, 0, 0, 1, 1, 1], dtype=np.bool_)
    assert pack(bits) == bytes([0b10000011, 0b10000000])
    assert pack(bits.reshape(3, 3).T) == bytes([0b10100100, 0b10000000])


@given(st.binary(max_size=6), shapes(max_dims=2, max_side=7))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes, shape: tuple[int, ...]) -> None:
    try:
        bits = unpack(data, shape)
    except WireError:
        return
    assert pack(bits) == data


@given(BITS, st.data())
def test_any_other_length_and_any_padding_bit_is_refused(
    bits: NDArray[np.bool_], data: st.DataObject
) -> None:
    packed = pack(bits)
    with pytest.raises(WireError, match="bytes"):
        unpack(packed + b"\x00", bits.shape)
    if packed:
        with pytest.raises(WireError, match="bytes"):
            unpack(packed[:-1], bits.shape)
    if padding := -bits.size % 8:
        bit = data.draw(st.integers(0, padding - 1))
        spoilt = packed[:-1] + bytes([packed[-1] | 1 << bit])
        with pytest.raises(WireError, match="padding"):
            unpack(spoilt, bits.shape)


def test_parameters_are_checked() -> None:
    with pytest.raises(ParameterError, match="bool"):
        pack(np.zeros(8, dtype=np.uint8))
    with pytest.raises(ParameterError, match="negative"):
        unpack(b"", (-1, 8))


@given(st.integers(1, 64), shapes(max_side=9), st.data())
def test_words_round_trip(bits: int, shape: tuple[int, ...], data: st.DataObject) -> None:
    words = data.draw(npst.arrays(np.uint64, shape, elements=st.integers(0, 2**bits - 1)))
    packed = pack_words(words, bits)
    assert len(packed) == -(-words.size * bits // 8)
    back = unpack_words(packed, shape, bits)
    assert back.dtype == np.uint64
    assert np.array_equal(back, words)


def test_known_words() -> None:
    assert pack_words(np.array([1, 2, 3], dtype=np.uint8), 3) == bytes([0b00101001, 0b10000000])
    assert pack_words(np.array([0x0102, 3], dtype=np.uint16), 16) == bytes([1, 2, 0, 3])


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="more than 3 bits"):
        pack_words(np.array([8], dtype=np.uint8), 3)
    with pytest.raises(ParameterError, match="unsigned"):
        pack_words(np.array([1], dtype=np.int64), 3)
    for bits in (0, 65):
        with pytest.raises(ParameterError, match="bits"):
            pack_words(np.array([1], dtype=np.uint8), bits)
    with pytest.raises(WireError, match="padding"):
        unpack_words(bytes([0b00101001, 0b10000001]), 3, 3)
    with pytest.raises(WireError, match="take 2 bytes"):
        unpack_words(bytes(3), 3, 3)


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 16, 31, 33, 64])
def test_words_beyond_one_piece_travel(bits: int) -> None:
    words = np.arange(2 * (1 << 16) + 3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words >>= np.uint64(64 - bits)
    packed = pack_words(words, bits)
    assert len(packed) == -(-words.size * bits // 8)
    assert np.array_equal(unpack_words(packed, words.shape, bits), words)
    assert pack_words(words[8:24], bits) == packed[bits : 3 * bits]


def test_reports_beyond_their_bound_are_refused() -> None:
    data = pack_words(np.array([4, 2, 0], dtype=np.uint8), 3)
    assert unpack_below(data, 3, 5).tolist() == [4, 2, 0]
    assert unpack_below(data, 3, 8).tolist() == [4, 2, 0]
    data = pack_words(np.array([4, 5, 0], dtype=np.uint8), 3)
    with pytest.raises(WireError, match=r"outside \[0, 5\)"):
        unpack_below(data, 3, 5)
    with pytest.raises(ParameterError, match="bound"):
        unpack_below(data, 3, 1)
