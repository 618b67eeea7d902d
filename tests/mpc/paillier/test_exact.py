"""Exact fractions from numbers of Python and numpy: values, refusals, rounding."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.paillier.exact import fraction, objects, places, scaled


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.fractions())
def test_every_real_number_is_taken_exactly(value: Any) -> None:
    assert fraction("x", value) == value


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (np.int8(-128), -128),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.1), Fraction(float(np.float16(0.1)))),
        (np.float32(-0.1), Fraction(float(np.float32(-0.1)))),
        (np.longdouble(0.1) + np.longdouble(2.0**-60), Fraction(0.1) + Fraction(1, 2**60)),
        (5e-324, Fraction(1, 2**1074)),
        (mpz(2**200), 2**200),
        (Decimal("0.1"), Fraction(1, 10)),
    ],
    ids=repr,
)
def test_every_type_of_number_is_taken_exactly(value: Any, exact: Fraction) -> None:
    assert fraction("x", value) == exact


@pytest.mark.parametrize("value", [True, False, np.bool_(True)])
def test_booleans_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="x is a boolean"):
        fraction("x", value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, np.float32("nan"), np.float16("inf"), Decimal("NaN")]
)
def test_what_is_not_finite_is_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="x is not finite"):
        fraction("x", value)


@pytest.mark.parametrize("value", ["1", None, 1j, [1], np.array([1, 2]), np.array(1), b"1"])
def test_what_is_no_number_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(ParameterError, match=f"must be a real number, got {type(value).__name__}"):
        fraction("x", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_places_of_a_float_hold_it_exactly(value: float) -> None:
    exact = Fraction(value)
    bits = places(exact)
    assert (exact * 2**bits).denominator == 1
    assert bits == 0 or (exact * 2 ** (bits - 1)).denominator == 2


def test_a_third_has_no_places_that_end() -> None:
    with pytest.raises(ParameterError, match="without an end in base two"):
        places(Fraction(1, 3))


@given(st.fractions(), st.integers(0, 80))
def test_scaling_rounds_to_nearest_and_says_so(value: Fraction, bits: int) -> None:
    nearest, is_exact = scaled(value, bits)
    error = abs(Fraction(nearest, 2**bits) - value)
    assert error <= Fraction(1, 2 ** (bits + 1))
    assert is_exact == (error == 0)


def test_ties_go_to_the_even_neighbour() -> None:
    halves = [Fraction(n, 2) for n in (1, 3, 5, -1, -3)]
    assert [scaled(half, 0)[0] for half in halves] == [0, 2, 2, 0, -2]


def test_lists_keep_the_very_numbers() -> None:
    assert objects([2**63, -1]).tolist() == [2**63, -1]
    assert objects([True, 2])[0] is True
    assert objects([[1, 2.5], [3, Fraction(1, 3)]]).shape == (2, 2)
    assert objects(np.array([0.5], np.float32)).tolist() == [0.5]


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [1, [2, 3]], [[1], 2]])
def test_rows_of_unequal_size_are_refused(rows: Any) -> None:
    with pytest.raises(ParameterError, match="rows of unequal size"):
        objects(rows)
