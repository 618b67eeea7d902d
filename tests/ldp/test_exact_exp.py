"""Enclosures of the exponential and the logarithm, and the parameters that they take."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.exact_exp import exp_enclosure, log_bounds, positive_rational
from mpc.core.errors import ParameterError


def exp(x: Fraction, digits: int) -> Fraction:
    """e^x by its series in exact fractions: an argument below 1/2, then squarings."""
    halvings = max(0, math.ceil(math.log2(max(abs(x), Fraction(1, 2)))) + 1)
    y = x / 2**halvings
    unit = 10 ** (digits + 20)
    total = term = Fraction(1)
    for n in range(1, 10**6):
        term = Fraction(int(term * y / n * unit), unit)
        total += term
        if term == 0:
            break
    for _ in range(halvings):
        total = Fraction(int(total * total * unit), unit)
    return total


@given(st.fractions(0, 200, max_denominator=10**6), st.integers(1, 400))
def test_the_exponential_lies_in_its_enclosure(x: Fraction, bits: int) -> None:
    low, high = exp_enclosure(x, bits)
    exact = exp(-x, 200) * 2**bits
    slack = Fraction(2**bits, 10**150)
    assert low - slack <= exact <= high + slack
    assert 0 <= high - low <= 2
    assert low >= 0
    assert high <= 2**bits


@pytest.mark.parametrize("bits", [1, 8, 64, 500])
def test_ends_of_the_exponential(bits: int) -> None:
    assert exp_enclosure(Fraction(0), bits) == (2**bits, 2**bits)
    for far in (bits, bits + 1, 10**6, 10**400):
        assert exp_enclosure(Fraction(far), bits) == (0, 1)
    low, high = exp_enclosure(Fraction(1, 10**400), bits)
    assert low >= 2**bits - 2
    assert high == 2**bits


def test_a_callers_decimal_context_changes_nothing() -> None:
    expected = exp_enclosure(Fraction(1, 3), 200), log_bounds(Fraction(1, 3))
    with localcontext() as context:
        context.prec = 3
        context.Emin, context.Emax = -5, 5
        assert (exp_enclosure(Fraction(1, 3), 200), log_bounds(Fraction(1, 3))) == expected


@settings(max_examples=30)
@given(st.fractions(Fraction(1, 10**100), 10**100), st.integers(20, 80))
def test_the_logarithm_lies_between_its_bounds(x: Fraction, digits: int) -> None:
    low, high = log_bounds(x, digits)
    assert high - low <= Fraction(1, 10**digits)
    with localcontext() as context:
        context.prec = 400  # so that the quotient loses nothing that a logarithm would show
        exact = (Decimal(x.numerator) / Decimal(x.denominator)).ln()
        context.prec = 200
        exact = +exact
    assert low - Fraction(1, 10**150) <= Fraction(exact) <= high + Fraction(1, 10**150)


def test_parameters_are_taken_exactly() -> None:
    for given_value, exact in (
        (0.1, Fraction(3602879701896397, 2**55)),
        (3, Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (np.float64(0.1), Fraction(3602879701896397, 2**55)),
        (np.float32(0.5), Fraction(1, 2)),
        (np.int64(7), Fraction(7)),
        (5e-324, Fraction(1, 2**1074)),
    ):
        assert positive_rational("x", given_value, 8) == exact  # type: ignore[arg-type]
    assert positive_rational("x", 8, 8) == 8


@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, math.inf, 9, 8.0000001, Fraction(17, 2)])
def test_parameters_out_of_range_are_refused_with_the_remedy(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"sigma must lie in \(0, 2\^3\].*\(less of it\)"):
        positive_rational("sigma", value, 8, "less of it")


@pytest.mark.parametrize("value", ["1", True, None, 1 + 0j, [1.0], Decimal("NaN")])
def test_parameters_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="sigma"):
        positive_rational("sigma", value, 8)
