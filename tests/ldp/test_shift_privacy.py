"""The exact delta of shifted noise, beside sums that use nothing of the code under test."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.discrete_gaussian import DiscreteGaussian
from ldp.gaussian_law import GaussianLaw
from ldp.integer_law import SymmetricLaw, Weights
from ldp.shift_privacy import delta_at, epsilon_at
from ldp.skellam import Skellam, SkellamLaw
from mpc.core.errors import ParameterError
from tests.ldp.table_walk import digits, exp


@dataclass(frozen=True)
class Triangle(SymmetricLaw):
    """Weights 1, 1/2, 1/4 on 0, 1, 2 and none beyond: every delta is a fraction."""

    def weights(self, bits: int) -> Weights:
        listed = [1 << bits, 1 << bits - 1, 1 << bits - 2]
        return Weights(listed, listed, 0)


P = {x: Fraction(1, 2 ** abs(x)) / Fraction(5, 2) for x in range(-2, 3)}


def brute(k: int, ratio: Fraction) -> Fraction:
    """The sum of what P puts above e^epsilon times its shift."""
    return sum((max(Fraction(0), P[x] - ratio * P.get(x + k, Fraction(0))) for x in P), Fraction(0))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.6931, 0.7, 1.5, 50.0])
def test_delta_of_a_law_that_can_be_summed_by_hand(k: int, epsilon: float) -> None:
    with digits():
        exact = float(brute(k, Fraction(exp(Fraction(epsilon)))))
    found = delta_at(Triangle(), k, epsilon)
    assert exact <= found <= exact * (1 + 2**-39) or found == exact == 0
    if k >= 5:
        assert found == 1.0  # the supports are disjoint


def gaussian_sum(sigma: Fraction, k: int, epsilon: float) -> float:
    """Delta of the discrete Gaussian by brute force, up to 10^-130, in 150 digits."""
    with digits(150):
        reach = int(25 * sigma) + k + 2
        weights = {x: exp(-Fraction(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1)}
        ratio, zero = exp(Fraction(epsilon)), Decimal(0)
        gaps = [max(weights[x] - ratio * weights.get(x + k, zero), zero) for x in weights]
        return float(sum(gaps, zero) / sum(weights.values(), zero))


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10)])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_of_the_discrete_gaussian(sigma: Fraction, k: int, epsilon: float) -> None:
    law = GaussianLaw(1 / (2 * sigma**2))
    exact = gaussian_sum(sigma, k, epsilon)
    found = delta_at(law, k, epsilon)
    assert found == pytest.approx(exact, rel=1e-11, abs=2.0**-256)
    assert found >= exact * (1 - 1e-15) - 1e-130


@pytest.mark.parametrize("law", [GaussianLaw(Fraction(1, 32)), SkellamLaw(Fraction(9, 2))])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-12, 1e-40, 1e-70])
def test_epsilon_is_the_least_that_keeps_to_delta(law: SymmetricLaw, delta: float) -> None:
    for k in (1, 2, 10):
        epsilon = epsilon_at(law, k, delta)
        assert delta_at(law, k, epsilon) <= delta * (1 + 2**-39)
        if epsilon:
            assert delta_at(law, k, epsilon * (1 - 1e-9)) > delta


@settings(max_examples=30)
@given(st.floats(0, 30), st.floats(0, 30), st.integers(1, 6), st.integers(1, 6))
def test_delta_falls_with_epsilon_and_grows_with_the_shift(
    one: float, other: float, k: int, more: int
) -> None:
    law = SkellamLaw(Fraction(5))
    small, large = sorted((one, other))
    slack = 1 + 2**-38
    assert delta_at(law, k, large) <= delta_at(law, k, small) * slack
    assert delta_at(law, k, small) <= delta_at(law, k + more, small) * slack


def test_epsilon_zero_costs_the_total_variation() -> None:
    law = GaussianLaw(Fraction(1, 32))
    variation = delta_at(law, 1, 0.0)
    assert epsilon_at(law, 1, math.nextafter(variation, 1)) == 0.0
    assert epsilon_at(law, 1, variation * (1 - 1e-9)) > 0.0


def test_tiny_deltas() -> None:
    law = GaussianLaw(Fraction(1, 2))
    assert 0 < delta_at(law, 1, 1e6) <= 2.0**-256
    assert 37 < epsilon_at(law, 1, 1e-300) < epsilon_at(law, 1, 5e-324) < 50


def test_noise_too_small_for_privacy_is_not_called_private() -> None:
    """Where the precision ends the answer is a bound, or none at all, and never below the truth."""
    for mechanism in (DiscreteGaussian(0.001), DiscreteGaussian(1, 1000)):
        assert mechanism.epsilon_at(1e-6) > 499_000  # the loss at 0: sensitivity^2 / (2 sigma^2)
        assert mechanism.delta_at(1000.0) == 1.0
    assert DiscreteGaussian(1, 2**53).delta_at(1000.0) == 1.0
    assert DiscreteGaussian(1e-200).epsilon_at(1e-6) == math.inf
    assert DiscreteGaussian(1e-200).delta_at(1e6) == 1.0
    assert epsilon_at(SkellamLaw(Fraction(1)), 1000, 1e-6) == math.inf
    assert 5000 < Skellam(1, 1000).epsilon_at(1e-6) < math.inf


@pytest.mark.parametrize("delta", [0, 1, 1.0, -1e-9, math.nan, math.inf, "1", True])
def test_other_deltas_are_refused(delta: Any) -> None:
    with pytest.raises(ParameterError, match="delta"):
        DiscreteGaussian(3).epsilon_at(delta)


@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "1", True])
def test_other_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        DiscreteGaussian(3).delta_at(epsilon)
