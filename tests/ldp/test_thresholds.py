"""Thresholds on the safe side of e^epsilon, decided exactly."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE

WEIGHTS = st.fractions(Fraction(1, 1000), Fraction(10**6), max_denominator=1000)


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    with localcontext() as context:
        context.prec = 120
        return ratio <= Fraction(Decimal(epsilon).exp())


def ratio(t: int, weight: Fraction, power: int) -> Fraction:
    return weight * Fraction(t, ONE - t) ** power


@given(st.floats(1e-9, 60), WEIGHTS, st.integers(1, 3))
def test_the_threshold_is_the_largest(epsilon: float, weight: Fraction, power: int) -> None:
    t = largest_threshold(epsilon, weight, power)
    assert at_most_exp(ratio(t, weight, power), epsilon)
    if t < ONE - 1:
        assert not at_most_exp(ratio(t + 1, weight, power), epsilon)


@given(st.floats(1e-9, 40), WEIGHTS)
def test_the_loss_is_the_next_double_above(epsilon: float, weight: Fraction) -> None:
    worst = ratio(largest_threshold(epsilon, weight), weight, 1)
    if worst >= 1:
        reported = loss(worst)
        assert reported <= epsilon
        assert at_most_exp(worst, reported)
        assert reported == 0 or not at_most_exp(worst, math.nextafter(reported, 0))


def test_ends() -> None:
    assert loss(Fraction(1)) == 0
    assert largest_threshold(1e300) == ONE - 1
    assert largest_threshold(1e300, 1, 3) == ONE - 1
    assert largest_threshold(MIN_EPSILON) > ONE // 2
    assert largest_threshold(1e-3, power=2) > ONE // 2


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        largest_threshold(epsilon)


def test_a_weight_that_no_coin_can_make_up_for_is_refused() -> None:
    with pytest.raises(ParameterError, match="larger epsilon, or a smaller domain"):
        largest_threshold(1.0, ONE * 10)
