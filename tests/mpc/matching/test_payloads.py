"""Padding of payloads, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.matching.payloads import pad, unpad


@given(st.binary(max_size=20), st.integers(21, 40))
def test_a_payload_comes_back(data: bytes, size: int) -> None:
    assert len(pad(data, size)) == size
    assert unpad(pad(data, size)) == data


@given(st.binary(max_size=8))
def test_other_bytes_are_refused_or_padded_ones(payload: bytes) -> None:
    try:
        data = unpad(payload)
    except WireError:
        return
    assert pad(data, len(payload)) == payload


@pytest.mark.parametrize("payload", [b"", bytes(8), b"\x80\x01", b"abc"])
def test_bytes_without_padding_are_refused(payload: bytes) -> None:
    with pytest.raises(WireError, match="no padding"):
        unpad(payload)


def test_data_that_does_not_fit_is_refused() -> None:
    assert pad(b"abc", 4) == b"abc\x80"
    with pytest.raises(ParameterError, match="3 bytes and their end do not fit into 3"):
        pad(b"abc", 3)
