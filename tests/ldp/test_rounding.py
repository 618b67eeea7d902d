"""Directed rounding: enclosures that are right, and doubles on the stated side."""

import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.rounding import exact, exp_bounds, log_ratio_bounds, round_down, round_up, settle, shown


@given(st.fractions())
def test_round_up_and_down_enclose_with_no_double_between(x: Fraction) -> None:
    up, down = round_up(x), round_down(x)
    assert Fraction(down) <= x <= Fraction(up)
    assert up == down or math.nextafter(down, math.inf) == up


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_its_own_rounding(x: float) -> None:
    assert round_up(Fraction(x)) == round_down(Fraction(x)) == x


def test_beyond_all_doubles_up_is_infinity_and_down_the_largest() -> None:
    largest = sys.float_info.max
    assert round_up(Fraction(10**400)) == math.inf
    assert round_down(Fraction(10**400)) == largest
    assert round_up(Fraction(-(10**400))) == -largest
    assert round_down(Fraction(-(10**400))) == -math.inf
    assert round_up(Fraction(largest) + Fraction(1, 10**9)) == math.inf


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (0.1, Fraction(0.1)),
        (np.float32(0.1), Fraction(float(np.float32(0.1)))),
        (np.int64(2**62), Fraction(2**62)),
        (Fraction(1, 3), Fraction(1, 3)),
        (7, Fraction(7)),
    ],
)
def test_a_number_of_any_type_is_taken_as_it_is(x: float, value: Fraction) -> None:
    assert exact(x) == value
    assert type(exact(x).numerator) is int  # numpy's integers would overflow


@given(st.floats(2.0**-60, 45), st.integers(5, 60))
def test_exp_bounds_enclose_the_exponential(x: float, digits: int) -> None:
    low, high = exp_bounds(x, digits)
    with localcontext() as context:
        context.prec = 120
        exact = Fraction(Decimal(x).exp())
    assert low < exact < high
    assert (high - low) / exact <= Fraction(3, 10 ** (digits - 1))


@given(st.integers(1, 2**64), st.integers(1, 2**64), st.integers(5, 60))
def test_log_bounds_enclose_the_logarithm(numerator: int, denominator: int, digits: int) -> None:
    low, high = log_ratio_bounds(numerator, denominator, digits)
    with localcontext() as context:
        context.prec = 120
        exact = Fraction(Decimal(numerator).ln()) - Fraction(Decimal(denominator).ln())
    slack = Fraction(1, 10**110)  # of the reference itself
    assert low - slack < exact < high + slack
    assert high - low == Fraction(200, 10**digits)


@pytest.mark.parametrize("needed", [50, 51, 100, 200, 399])
def test_settle_widens_until_both_ends_agree(needed: int) -> None:
    asked = []

    def bounds(digits: int) -> tuple[int, int]:
        asked.append(digits)
        return (7, 7) if digits >= needed else (7, 8)

    assert settle(bounds) == 7
    assert asked[-1] >= needed
    assert all(digits < needed for digits in asked[:-1])


def test_the_default_decimal_context_of_the_caller_does_not_matter() -> None:
    expected = exp_bounds(1.5, 50)
    with localcontext() as context:
        context.prec = 3
        context.rounding = "ROUND_DOWN"
        assert exp_bounds(1.5, 50) == expected


@given(st.floats(min_value=0, max_value=1e12, allow_nan=False))
def test_an_epsilon_is_never_shown_smaller_than_it_is(epsilon: float) -> None:
    text = shown(epsilon)
    assert Fraction(text.replace(",", "")) >= Fraction(repr(epsilon))
    assert float(text.replace(",", "")) <= epsilon + 1.0001e-4 + 1e-15 * epsilon


def test_shown_keeps_what_needs_no_rounding() -> None:
    assert [shown(x) for x in (0.0, 1.0, 1.1, 2184.0, 1.23451)] == [
        "0",
        "1",
        "1.1",
        "2,184",
        "1.2346",
    ]
