"""Estimates, their intervals, and post-processing that keeps the raw value."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.mechanism import Estimate, Mechanism, checked_epsilon
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError


def estimate(value: list[float], variance: float = 4.0, n: int = 10) -> Estimate:
    spread = np.full(len(value), variance)
    return Estimate(np.array(value), spread, 4 * spread, n)


def test_randomized_response_is_a_mechanism() -> None:
    mechanism: Mechanism = RandomizedResponse.from_epsilon(1.0)
    assert mechanism.unit == "bit"
    assert mechanism.epsilon == 1.0
    reports = mechanism.perturb(np.ones((5, 2), dtype=np.bool_))
    assert mechanism.estimate(reports).value.shape == (2,)


def test_interval_is_the_normal_one() -> None:
    low, high = estimate([3.0, -5.0]).interval(0.95)
    assert np.allclose(low, [3 - 3.919928, -5 - 3.919928])
    assert np.allclose(high, [3 + 3.919928, -5 + 3.919928])
    low, high = estimate([3.0, -5.0]).interval(0.95, worst=True)
    assert np.allclose(high - low, 4 * 3.919928)
    narrow, wide = estimate([0.0]).interval(0.5), estimate([0.0]).interval(1 - 1e-12)
    assert narrow[1] == pytest.approx(2 * 0.6744898)
    assert wide[1] == pytest.approx(2 * 7.1305, rel=1e-3)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, math.nan, math.inf])
def test_a_confidence_outside_0_and_1_is_refused(confidence: float) -> None:
    with pytest.raises(ParameterError, match="confidence"):
        estimate([0.0]).interval(confidence)


def test_clipping_is_named_and_keeps_the_raw_estimate() -> None:
    raw = estimate([-5.8, 3.0, 11.5])
    processed = raw.clipped()
    assert processed.value.tolist() == [0, 3, 10]
    assert processed.step == "clipped to [0, 10]"
    assert processed.raw is raw
    assert raw.value.tolist() == [-5.8, 3.0, 11.5]
    assert raw.clipped(low=1, high=4).value.tolist() == [1, 3, 4]
    assert raw.clipped(high=math.inf).value.tolist() == [0, 3, 11.5]


@pytest.mark.parametrize(("low", "high"), [(1, 0), (math.nan, 1), (0, math.nan)])
def test_bounds_out_of_order_are_refused(low: float, high: float) -> None:
    with pytest.raises(ParameterError, match="low"):
        estimate([0.0]).clipped(low, high)


def by_norm_sub(counts: list[float], total: float) -> list[float]:
    """Norm-Sub as the source states it: the shift d with sum(max(count + d, 0)) = total."""
    low, high = -max(counts), total - min(counts)
    for _ in range(200):
        middle = (low + high) / 2
        too_much = sum(max(count + middle, 0) for count in counts) > total
        low, high = (low, middle) if too_much else (middle, high)
    return [max(count + low, 0) for count in counts]


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=12),
    st.floats(1, 1e4),
)
def test_norm_sub_is_the_projection_on_the_simplex(counts: list[float], total: float) -> None:
    raw = estimate(counts)
    projected, named = raw.simplex(total), raw.norm_sub(total)
    assert projected.value.sum() == pytest.approx(total)
    assert projected.value.min() >= 0
    assert np.array_equal(projected.value, named.value)
    assert projected.raw is named.raw is raw
    assert np.allclose(projected.value, by_norm_sub(counts, total), atol=1e-6)


def test_the_projection_by_hand() -> None:
    raw = estimate([6.0, 5.0, -1.0, 0.5])
    assert raw.simplex().value.tolist() == [5.5, 4.5, 0, 0]
    assert raw.simplex().step == "projected to the simplex of sum 10"
    assert raw.norm_sub(20).value.tolist() == [8.375, 7.375, 1.375, 2.875]
    assert raw.norm_sub().step == "norm-sub to the sum 10"


@pytest.mark.parametrize("total", [0, -1, math.nan, math.inf])
def test_a_simplex_of_no_size_is_refused(total: float) -> None:
    with pytest.raises(ParameterError, match="total"):
        estimate([1.0]).simplex(total)


@pytest.mark.parametrize("value", [[], [math.nan], [math.inf, 1.0]])
def test_only_a_finite_histogram_is_projected(value: list[float]) -> None:
    with pytest.raises(ParameterError, match="finite counts on one axis"):
        estimate(value).simplex()


def test_epsilon_is_never_rounded_up_to_a_double() -> None:
    third = Fraction(1, 3)
    assert Fraction(checked_epsilon(third, 0.0)) <= third  # type: ignore[arg-type]
    assert checked_epsilon(2**53 + 1, 0.0) == 2.0**53
    assert checked_epsilon(10**400, 0.0) == np.finfo(np.float64).max
    assert checked_epsilon(np.float32(0.1), 0.0) == float(np.float32(0.1))  # type: ignore[arg-type]
    assert checked_epsilon(np.int8(3), 0.0) == 3.0  # type: ignore[arg-type]
