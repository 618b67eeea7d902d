"""Directed rounding: enclosures that are right, and doubles on the stated side."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.rounding import exp_bounds, log_ratio_bounds, round_down, round_up, settle, shown


@given(st.fractions())
def test_round_up_and_down_enclose_with_no_double_between(x: Fraction) -> None:
    up, down = round_up(x), round_down(x)
    assert Fraction(down) <= x <= Fraction(up)
    assert up == down or math.nextafter(down, math.inf) == up


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_its_own_rounding(x: float) -> None:
    assert round_up(Fraction(x)) == round_down(Fraction(x)) == x


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
