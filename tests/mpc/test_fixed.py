"""Fixed point: cases O02 (b) and O03, the error bound, the range, head-room."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint
from tests.support.strategies import float_arrays, rings

F16 = FixedPoint(Ring(64), 16)


@st.composite
def fixed_points(draw: st.DrawFn) -> FixedPoint:
    ring = draw(rings())
    return FixedPoint(ring, draw(st.integers(0, ring.bits - 1)))


def test_o02b_the_lower_end_is_representable() -> None:
    assert F16.encode(-(2.0**47)).tolist() == 2**63
    assert F16.decode(F16.encode(-(2.0**47))) == -(2.0**47)
    assert F16.decode(F16.encode(-(2**47))) == -(2.0**47)


@pytest.mark.parametrize("value", [2.0**47, -(2.0**47) - 1, 2**47, -(2**47) - 1, 1e308, -1e308])
def test_o02b_what_lies_outside_the_range_is_refused_with_the_limit(value: float) -> None:
    with pytest.raises(ParameterError, match=r"outside \[-140737488355328, 140737488355328\)"):
        F16.encode(value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_o02b_nan_and_infinities_are_refused_with_their_index(value: float, dtype: Any) -> None:
    array = np.zeros((3, 4), dtype=dtype)
    array[2, 1] = value
    with pytest.raises(ParameterError, match=r"^values\[2, 1\] is not finite$"):
        F16.encode(array)
    with pytest.raises(ParameterError, match=r"^values is not finite$"):
        F16.encode(dtype(value))


def test_the_first_of_several_wrong_entries_is_named_in_a_long_array() -> None:
    array = np.zeros((7, 3000))
    array[5, 2] = np.nan
    array[4, 2999] = 2.0**50
    with pytest.raises(ParameterError, match=r"^values\[4, 2999\] lies outside"):
        F16.encode(array)


def test_a_refusal_keeps_the_value_to_itself() -> None:
    for values in ([0.5, 987654321e12], [5, 987654321 * 10**12]):
        with pytest.raises(ParameterError) as caught:
            F16.encode(values)
        assert "987654321" not in str(caught.value)


FRACTIONS = [0.5, -0.5, 0.99999, -0.99999]
ENCODED = [32768, 2**64 - 32768, 65535, 2**64 - 65535]


@pytest.mark.parametrize(
    "values",
    [
        FRACTIONS,
        tuple(FRACTIONS),
        np.array(FRACTIONS),
        np.array(FRACTIONS, dtype=np.float32),
        np.array(FRACTIONS, dtype=">f8"),
        np.repeat(FRACTIONS, 2)[::2],
    ],
    ids=["list", "tuple", "float64", "float32", "big-endian", "strided"],
)
def test_o03_every_input_type_rounds_to_nearest(values: Any) -> None:
    encoded = F16.encode(values)
    assert encoded.tolist() == ENCODED
    assert np.abs(F16.decode(encoded) - FRACTIONS).max() <= 2**-17


@pytest.mark.parametrize(("value", "expected"), [*zip(FRACTIONS, ENCODED, strict=True)])
def test_o03_scalars_give_what_arrays_give(value: float, expected: int) -> None:
    for scalar in (value, np.float64(value), np.float32(value), np.array(value)):
        encoded = F16.encode(scalar)
        assert encoded.shape == ()
        assert encoded == expected
        assert F16.decode(encoded).shape == ()


@pytest.mark.parametrize(
    "values",
    [
        [3, -2, 0],
        [3.0, -2.0, 0.0],
        np.array([3, -2, 0], dtype=np.int8),
        np.array([3, -2, 0], dtype=np.int64),
        np.array([3, -2, 0], dtype=np.float16),
        np.array([3, -2, 0], dtype=object),
    ],
)
def test_o03_integers_and_floats_of_one_value_encode_alike(values: Any) -> None:
    assert F16.encode(values).tolist() == [3 << 16, 2**64 - (2 << 16), 0]


def test_booleans_are_zero_and_one() -> None:
    assert F16.encode([True, False]).tolist() == [1 << 16, 0]
    assert F16.encode(np.array([True, False])).tolist() == [1 << 16, 0]


def test_ties_go_to_the_even_neighbour() -> None:
    fixed = FixedPoint(Ring(8), 0)
    assert fixed.decode(fixed.encode([0.5, 1.5, 2.5, -0.5, -1.5])).tolist() == [0, 2, 2, 0, -2]


def test_rounding_has_no_bias_where_truncation_has_half_a_step() -> None:
    fixed = FixedPoint(Ring(32), 4)
    values = np.arange(-1024, 1024) / 256  # sixteen positions within a step, all signs
    error = fixed.decode(fixed.encode(values)) - values
    assert error.sum() == 0
    truncated = np.trunc(values * 16) / 16 - values
    assert np.abs(truncated).mean() > 1.5 * np.abs(error).mean()


@given(st.data(), fixed_points())
def test_the_error_is_at_most_half_a_step(data: st.DataObject, fixed: FixedPoint) -> None:
    reach = fixed.headroom(1)
    values = data.draw(float_arrays(reach))
    decoded = fixed.decode(fixed.encode(values))
    assert decoded.shape == values.shape
    assert decoded.dtype == np.float64
    # Exact: the error of fractions as fractions, not as rounded floats.
    for value, back in zip(values.reshape(-1), decoded.reshape(-1), strict=True):
        error = abs(Fraction(float(value)) - Fraction(float(back)))
        assert error <= Fraction(1, 2 ** (fixed.frac_bits + 1))


@given(st.data(), fixed_points())
def test_what_decodes_encodes_back(data: st.DataObject, fixed: FixedPoint) -> None:
    bits = min(fixed.ring.bits, 53)  # more do not fit the significand of a float64
    steps = data.draw(st.lists(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    elements = fixed.ring.reduce(np.array(steps, dtype=np.int64))
    assert np.array_equal(fixed.encode(fixed.decode(elements)), elements)


@given(st.data(), fixed_points())
def test_integers_encode_exactly_at_any_size(data: st.DataObject, fixed: FixedPoint) -> None:
    value = data.draw(st.integers(-fixed.limit, fixed.limit - 1))
    expected = (value << fixed.frac_bits) % 2**fixed.ring.bits
    assert fixed.encode(value).tolist() == expected
    assert fixed.encode([value]).tolist() == [expected]


@given(st.data(), fixed_points())
def test_integers_outside_the_range_are_refused(data: st.DataObject, fixed: FixedPoint) -> None:
    beyond = st.integers(fixed.limit, 2**70) | st.integers(-(2**70), -fixed.limit - 1)
    with pytest.raises(ParameterError):
        fixed.encode(data.draw(beyond))


@pytest.mark.parametrize("bits", range(1, 65))
def test_the_ends_of_every_ring(bits: int) -> None:
    for frac_bits in {0, bits // 2, bits - 1}:
        fixed = FixedPoint(Ring(bits), frac_bits)
        low = -float(fixed.limit)
        assert fixed.encode(low).tolist() == 2 ** (bits - 1)
        assert fixed.decode(fixed.encode(low)) == low
        for outside in (-low, np.nextafter(low, -math.inf), 2 * low):
            with pytest.raises(ParameterError, match=r"outside \[-"):
                fixed.encode(outside)


def test_what_would_round_up_to_the_limit_is_refused() -> None:
    fixed = FixedPoint(Ring(8), 4)
    assert fixed.encode([7.96]).tolist() == [127]
    with pytest.raises(ParameterError, match="after rounding"):
        fixed.encode([7.97])  # 127.52 steps, and 128 stands for -8


@given(fixed_points(), st.integers(1, 100))
def test_headroom_is_the_largest_that_cannot_wrap(fixed: FixedPoint, n: int) -> None:
    most = fixed.headroom(n)
    top = 2 ** (fixed.ring.bits - 1) - 1
    steps = Fraction(most) * 2**fixed.frac_bits
    assert steps.denominator == 1
    assert n * steps <= top
    # One step more wraps; where floats are coarser than steps, the next float does.
    following = max(steps + 1, Fraction(math.nextafter(most, math.inf)) * 2**fixed.frac_bits)
    assert n * following > top
    for sign in (1, -1):
        total = fixed.ring.sum(np.repeat(fixed.encode([sign * most]), n))
        assert fixed.ring.signed(total) == sign * n * steps


def test_headroom_of_the_default_ring() -> None:
    fixed = FixedPoint(Ring(32), 16)
    assert fixed.resolution == 2**-16
    assert fixed.limit == 2**15
    assert fixed.headroom(30) == (2**31 - 1) // 30 / 2**16
    assert fixed.headroom(2**31) == 0.0
    assert F16.headroom(1) < 2.0**47  # 2^47 is what the nearest float would be


@pytest.mark.parametrize("n", [0, -1, True, 1.0, "2", None])
def test_headroom_refuses_what_is_no_count(n: Any) -> None:
    with pytest.raises(ParameterError, match="n must"):
        F16.headroom(n)


@pytest.mark.parametrize("frac_bits", [-1, 8, 64, True, 1.0, None])
def test_fractional_bits_must_leave_a_sign_bit(frac_bits: Any) -> None:
    with pytest.raises(ParameterError, match="frac_bits must"):
        FixedPoint(Ring(8), frac_bits)


@pytest.mark.parametrize(
    "values",
    ["1.0", ["a"], [None], 1j, [[1.0], [1.0, 2.0]], [2**70, 0.5], np.longdouble(1), b"1", {}],
    ids=["str", "strings", "None", "complex", "ragged", "mixed", "longdouble", "bytes", "dict"],
)
def test_what_is_no_real_number_is_refused(values: Any) -> None:
    with pytest.raises(ParameterError):
        F16.encode(values)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_empty_arrays_keep_their_shape(shape: tuple[int, ...]) -> None:
    for dtype in (np.float64, np.int64):
        encoded = F16.encode(np.zeros(shape, dtype=dtype))
        assert encoded.shape == shape
        assert encoded.dtype == np.uint64
        assert F16.decode(encoded).shape == shape


@pytest.mark.parametrize("x", [[1.0], np.array([1]), np.array([8], dtype=np.uint8)])
def test_decoding_refuses_what_is_no_ring_element(x: Any) -> None:
    with pytest.raises(ParameterError):
        FixedPoint(Ring(3), 1).decode(x)


def test_long_arrays_encode_as_their_pieces_do() -> None:
    values = np.linspace(-100, 100, 30_000).reshape(30, 1000)
    fixed = FixedPoint(Ring(32), 16)
    whole = fixed.encode(values)
    assert np.array_equal(whole, np.stack([fixed.encode(row) for row in values]))
    assert np.array_equal(fixed.encode(values.T), whole.T)
    assert np.array_equal(fixed.decode(whole.T), np.stack([fixed.decode(row) for row in whole]).T)
