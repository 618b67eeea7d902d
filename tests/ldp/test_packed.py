"""Packed bits: exact inverses, canonical, and WireError for everything else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ldp.packed import pack, unpack
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
