"""The code of reports: an exact inverse, one encoding for each batch, and nothing but WireError."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.rice import CAP, LIMIT, RiceCode
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg

CODES = st.builds(RiceCode, st.integers(0, 60))
VALUES = st.lists(
    st.one_of(st.integers(-40, 40), st.integers(-(10**6), 10**6), st.integers(-LIMIT, LIMIT)),
    max_size=40,
)


@given(CODES, VALUES)
def test_unpack_is_the_inverse_of_pack(code: RiceCode, values: list[int]) -> None:
    given_values = np.array(values, dtype=np.int64)
    data = code.pack(given_values)
    again = code.unpack(data, given_values.size)
    assert again.dtype == np.int64
    assert again.tolist() == values


@given(CODES, st.binary(max_size=60), st.integers(0, 30))
def test_bytes_that_parse_are_the_encoding_of_what_they_parse_to(
    code: RiceCode, data: bytes, count: int
) -> None:
    try:
        values = code.unpack(data, count)
    except WireError:
        return
    assert values.shape == (count,)
    assert code.pack(values) == data


@given(st.binary(max_size=12), st.integers(0, 20))
def test_short_codes_parse_often(data: bytes, count: int) -> None:
    """The same where many byte strings are valid: codes without low bits."""
    code = RiceCode(0)
    try:
        values = code.unpack(data, count)
    except WireError:
        return
    assert code.pack(values) == data


@pytest.mark.parametrize("bits", [0, 1, 14, 46, 60])
def test_ends(bits: int) -> None:
    code = RiceCode(bits)
    edge = min(CAP << bits >> 1, LIMIT - 1)  # about where a quotient stops to fit into unary
    values = np.array([[0, -1, 1], [LIMIT, -LIMIT, edge], [edge - 1, -edge, edge + 1]])
    assert np.array_equal(code.unpack(code.pack(values), (3, 3)), values)
    assert code.pack(np.array([], dtype=np.int64)) == b""
    assert code.unpack(b"", (2, 0)).shape == (2, 0)


def test_the_layout() -> None:
    """3 and -2 fold to 6 and 3; with one low bit: lows 0 1, quotients 3 and 1 in unary."""
    assert RiceCode(1).pack(np.array([3, -2])) == bytes([0b01_1110_10])


def test_unary_ends_at_the_cap() -> None:
    code = RiceCode(0)
    short, long = code.pack(np.array([15])), code.pack(np.array([-16]))
    assert len(short) == 4  # 30 ones and a zero
    assert len(long) == 12  # 31 ones, a zero and 64 bits


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"", 1, "or more, got 0"),
        (b"\xff", 1, "0 of 1"),
        (b"\x00\x00", 1, "take 1 bits"),
        (b"\x01", 1, "padding bit"),
        (b"\xff\xff\xff\xff\x00", 1, "more than 31 ones"),
        (b"\xff\xff\xff\xfe", 1, "take 96 bits"),
        (b"\xff\xff\xff\xfe" + bytes(8), 1, "fits into unary"),
        (b"\xff\xff\xff\xfe" + b"\x80" + bytes(6) + b"\x01", 1, "outside"),
    ],
)
def test_other_bytes_are_refused(data: bytes, count: int, message: str) -> None:
    with pytest.raises(WireError, match=message):
        RiceCode(0).unpack(data, count)


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(ParameterError, match="int64"):
        RiceCode(3).pack(np.zeros(3, dtype=np.int32))
    for value in (LIMIT + 1, -LIMIT - 1):
        with pytest.raises(ParameterError, match=r"2\^62"):
            RiceCode(3).pack(np.array([value]))
    with pytest.raises(ParameterError, match="negative"):
        RiceCode(3).unpack(b"", -1)


@pytest.mark.parametrize("bits", [-1, 61, 1.0, True])
def test_other_widths_are_refused(bits: Any) -> None:
    with pytest.raises(ParameterError, match="bits"):
        RiceCode(bits)


@pytest.mark.parametrize("scale", [1, 3, 10, 1000, 2**20])
def test_the_code_around_a_magnitude_is_near_the_best(scale: int) -> None:
    """Mean lengths of 10^5 geometric integers on either side of 0, against every other code."""
    rng = Prg(b"geometric integers on two sides.")
    uniform = (rng.words(100_000, np.uint64) >> np.uint64(11)).astype(np.float64) / 2**53
    side = np.where(rng.bernoulli(2**63, 100_000), 1, -1)
    values = (side * np.floor(-scale * np.log1p(-uniform))).astype(np.int64)
    code = RiceCode.around(Fraction(float(np.mean(np.abs(values)))))
    lengths = {bits: 8 * len(RiceCode(bits).pack(values)) / 100_000 for bits in range(24)}
    assert lengths[code.bits] <= min(lengths.values()) + 0.1
    assert lengths[code.bits] <= code.mean_bits(float(np.mean(values.astype(float) ** 2)))


def test_the_code_is_chosen_by_integers() -> None:
    assert RiceCode.around(Fraction(0)).bits == 0
    assert RiceCode.around(Fraction(1, 3)).bits == 0
    assert [RiceCode.around(Fraction(2**k)).bits for k in range(1, 5)] == [2, 3, 4, 5]
    assert RiceCode.around(Fraction(10**30)).bits == 60


def test_mean_bits_covers_the_escapes() -> None:
    """All integers far out: the bound counts the full quotients too."""
    code = RiceCode(0)
    values = np.full(1000, 10**6)
    assert 8 * len(code.pack(values)) / 1000 <= code.mean_bits(1e12)
    assert code.mean_bits(0.0) == 1
    assert math.isfinite(code.mean_bits(1e30))
