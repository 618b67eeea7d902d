"""Duchi's mechanism: two values that average to the truth, and 1BitMean underneath."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.duchi import Duchi
from ldp.mechanism import Mechanism
from ldp.one_bit_mean import OneBitMean
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import coverage, law, mean_and_variance


@given(st.floats(MIN_EPSILON, 40))
def test_a_report_stands_for_the_papers_value(epsilon: float) -> None:
    mechanism = Duchi.from_epsilon(epsilon)
    odds = Fraction(mechanism.coin.keep, ONE - mechanism.coin.keep)  # e^epsilon, exactly
    assert mechanism.factor == pytest.approx(float((odds + 1) / (odds - 1)), rel=1e-15)
    if epsilon > 1e-9:
        assert mechanism.factor == pytest.approx(1 / math.tanh(epsilon / 2), rel=1e-6)
    assert mechanism.values(np.array([False, True])).tolist() == [
        -mechanism.factor,
        mechanism.factor,
    ]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_mean_report_is_the_value_exactly(epsilon: float) -> None:
    mechanism = Duchi.from_epsilon(epsilon)
    factor = Fraction(ONE, 2 * mechanism.coin.keep - ONE)
    for x in np.linspace(-1, 1, 17):
        mean, variance = mean_and_variance(law(mechanism, x), lambda bit: factor * (2 * bit - 1))
        assert mean == Fraction(x)
        # The variance of the paper: ((e^eps + 1) / (e^eps - 1))^2 - t^2.
        assert variance == factor**2 - Fraction(x) ** 2
        assert float(mechanism.variance_of(x)) == pytest.approx(float(variance), rel=1e-12)
    assert mechanism.worst_variance == pytest.approx(float(factor**2))


@given(st.floats(0.01, 40), st.lists(st.booleans(), min_size=1), st.floats(-5, 5))
def test_it_is_one_bit_mean_on_another_scale(epsilon: float, bits: list[bool], low: float) -> None:
    duchi = Duchi.from_epsilon(epsilon, low, low + 3)
    one_bit = OneBitMean.from_epsilon(epsilon, low, low + 3)
    assert duchi.coin == one_bit.coin
    reports = np.array(bits)
    x = np.full(len(bits), low + 1)
    assert np.array_equal(
        duchi.perturb(x, rng=Prg(bytes(32))), one_bit.perturb(x, rng=Prg(bytes(32)))
    )
    mean = duchi.values(reports).mean()
    assert mean == pytest.approx(float(one_bit.estimate(reports).value), rel=1e-9, abs=1e-9)
    assert duchi.estimate(reports).value == one_bit.estimate(reports).value
    square = duchi.range.width**2
    fractions = duchi.range.fractions(x)
    assert square * duchi.noise.at(fractions) == pytest.approx(one_bit.variance_of(x))
    assert square * duchi.noise.worst == pytest.approx(one_bit.worst_variance)
    assert duchi != one_bit  # mechanisms of different names, though the same law


def test_intervals_cover_at_their_confidence() -> None:
    """10,000 intervals of 300 users: .95 less 6 standard errors, .0131, and .003 of the normal."""
    mechanism = Duchi.from_epsilon(1.0)
    told = mechanism.perturb(
        np.full((300, 10_000), -0.4), rng=Prg(b"duchi: coverage, 32 byte seed...")
    )
    result = mechanism.estimate(told)
    assert coverage(result, -0.4) >= 0.95 - 0.0161
    assert coverage(result, -0.4, scale=0.8) < 0.95 - 0.0161


def test_it_is_a_mechanism_with_the_range_of_the_paper() -> None:
    mechanism: Mechanism = Duchi.from_epsilon(1.0)
    assert (mechanism.unit, mechanism.report_bits) == ("value", 1)
    assert (Duchi.from_epsilon(1.0).low, Duchi.from_epsilon(1.0).high) == (-1.0, 1.0)
    with pytest.raises(ParameterError, match="bool array"):
        Duchi.from_epsilon(1.0).values(np.zeros(3, np.uint8))
    with pytest.raises(ParameterError, match=r"x\[0\] is no number"):
        mechanism.perturb(np.array([1.5]))
