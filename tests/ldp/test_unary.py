"""Unary encoding, symmetric and optimized: results, the wire, and refusals."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.frequency import MAX_VALUES, FrequencyOracle
from ldp.randomized_response import RandomizedResponse
from ldp.thresholds import MIN_EPSILON
from ldp.unary import UnaryEncoding
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.oracle_laws import BAD_EPSILONS, covers
from tests.support.strategies import seeds

Make = Callable[[int, float], UnaryEncoding]
MAKERS = [UnaryEncoding.symmetric, UnaryEncoding.optimized]
SUE = UnaryEncoding.symmetric(5, 1.0)
OUE = UnaryEncoding.optimized(5, 1.0)


def test_it_is_a_frequency_oracle() -> None:
    oracle: FrequencyOracle = OUE
    assert (oracle.k, oracle.unit, oracle.report_bits) == (5, "value", 5)


@pytest.mark.parametrize("make", MAKERS)
@given(st.floats(MIN_EPSILON, 100))
def test_reported_epsilon_is_at_most_the_requested(make: Make, epsilon: float) -> None:
    oracle = make(100, epsilon)
    assert 0 < oracle.epsilon <= epsilon
    assert epsilon > 16 or epsilon - oracle.epsilon <= 1e-9


@given(st.floats(1e-6, 40))
def test_symmetric_bits_are_randomized_response_at_half_epsilon(epsilon: float) -> None:
    oracle = UnaryEncoding.symmetric(9, epsilon)
    half = RandomizedResponse.from_epsilon(epsilon / 2)
    assert oracle.one == half.keep
    assert oracle.zero == ONE - half.keep


@given(st.floats(MIN_EPSILON, 60))
def test_optimized_bits_are_a_fair_coin_and_the_least_safe_one(epsilon: float) -> None:
    oracle = UnaryEncoding.optimized(9, epsilon)
    assert oracle.one == ONE // 2
    assert oracle.zero == ONE - RandomizedResponse.from_epsilon(epsilon).keep


def test_the_variances_are_the_sources() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        half, odds = math.exp(epsilon / 2), math.exp(epsilon)
        symmetric = UnaryEncoding.symmetric(50, epsilon)
        assert symmetric.variance_of([0, 3, 7], 7) == pytest.approx(
            [7 * half / (half - 1) ** 2] * 3
        )
        optimized = UnaryEncoding.optimized(50, epsilon)
        assert optimized.variance_of(0, 7) == pytest.approx(7 * 4 * odds / (odds - 1) ** 2)


@given(st.floats(0.01, 8), st.floats(0.01, 0.99))
def test_optimized_has_the_least_variance_for_rare_values(epsilon: float, one: float) -> None:
    """Wang et al., section 4: no other pair of probabilities of the same epsilon does better."""
    odds = (1 - one) / one * math.exp(epsilon)
    zero = 1 / (1 + odds)
    variance = zero * (1 - zero) / (one - zero) ** 2
    assert variance >= UnaryEncoding.optimized(2, epsilon).variance_of(0, 1) * (1 - 1e-6)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("k", "n"), [(2, 70_000), (9, 1_000), (300, 1_000), (10_000, 40)])
def test_reports_are_rows_of_bits(make: Make, k: int, n: int) -> None:
    oracle = make(k, 1.0)
    x = np.arange(n) % k
    before = x.copy()
    reports = oracle.perturb(x, rng=Prg(bytes(32)))
    assert reports.dtype == np.bool_
    assert reports.shape == (n, k)
    assert np.array_equal(x, before)
    assert oracle.perturb(x[:0]).shape == (0, k)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.int64, ">i4"])
def test_the_dtype_of_the_values_does_not_matter(dtype: Any) -> None:
    x = np.arange(100) % 5
    expected = OUE.perturb(x, rng=Prg(bytes(32)))
    assert np.array_equal(OUE.perturb(x.astype(dtype), rng=Prg(bytes(32))), expected)


def test_the_estimate_is_equation_1() -> None:
    for oracle in (SUE, OUE):
        p, q = Fraction(oracle.one, ONE), Fraction(oracle.zero, ONE)
        reports = Prg(bytes(32)).bernoulli(ONE // 3, (70_000, 5))
        result = oracle.estimate(reports)
        assert result.n == 70_000
        assert result.value.shape == result.variance.shape == result.worst.shape == (5,)
        for value in range(5):
            exact = (int(reports[:, value].sum()) - 70_000 * q) / (p - q)
            assert result.value[value] == pytest.approx(float(exact), rel=1e-12)
            assert result.variance[value] == pytest.approx(
                float(oracle.variance_of(np.clip(float(exact), 0, 70_000), 70_000))
            )


def test_o07_the_raw_estimate_is_the_default_and_may_be_negative() -> None:
    nothing = np.zeros((10, 5), dtype=np.bool_)
    for oracle in (SUE, OUE):
        q_over_gap = oracle.zero / (oracle.one - oracle.zero)
        result = oracle.estimate(nothing)
        assert result.value == pytest.approx([-10 * q_over_gap] * 5)
        assert result.clipped().value.tolist() == [0] * 5
        assert result.clipped().raw is result


def repetitions(oracle: UnaryEncoding, counts: list[int], seed: bytes) -> NDArray[Any]:
    """How many reports support each value in 10,000 repetitions: (10000, k)."""
    x, rng = np.tile(np.repeat(np.arange(oracle.k), counts), 100), Prg(seed)
    parts = [
        oracle.perturb(x, rng=rng).reshape(100, sum(counts), oracle.k).sum(axis=1)
        for _ in range(100)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("oracle", [SUE, OUE])
def test_o07_the_mean_estimate_is_the_count(oracle: UnaryEncoding) -> None:
    """Three of 1,000 users hold value 0: within 5 standard errors of 10,000 repetitions.

    False alarm 6e-7 for a fresh seed, as the case states it; the seed is fixed.
    """
    counts = [3, 100, 200, 300, 397]
    told = repetitions(oracle, counts, b"three of one thousand users hold")
    allowed = 5 * np.sqrt(oracle.variance_of(counts, 1_000) / 10_000)
    estimates = oracle.support.estimate(told, 1_000)
    assert np.all(np.abs(estimates.value.mean(axis=0) - counts) <= allowed)
    # Clipping makes the rare value too frequent, and so does counting reports as they are.
    for twin in (estimates.clipped().value, told):
        assert abs(twin[:, 0].mean() - 3) > allowed[0]
    # The variance of 10,000 estimates has a relative standard error of 1.4 %: 7 of them.
    spread = estimates.value.var(axis=0) / oracle.variance_of(counts, 1_000)
    assert spread == pytest.approx(np.ones(5), abs=0.1)


@pytest.mark.parametrize("oracle", [SUE, OUE])
def test_intervals_cover_at_their_confidence(oracle: UnaryEncoding) -> None:
    """10,000 intervals for each of five counts of 400 users, by both variances."""
    counts = [0, 20, 60, 120, 200]
    told = repetitions(oracle, counts, b"intervals of unary reports at 95")
    estimates = oracle.support.estimate(told, 400)
    for worst in (False, True):
        low, high = estimates.interval(worst=worst)
        for value, count in enumerate(counts):
            half = (high - low)[:, value] / 2
            assert covers(estimates.value[:, value], half, count)
    # The twin takes the variance of the reports for that of the estimates.
    reports = 1.96 * np.sqrt(400 * 0.25 * np.ones(10_000))
    assert not covers(estimates.value[:, 0], reports, 0)


@given(st.integers(2, 40), st.integers(0, 20), seeds())
def test_reports_travel(k: int, n: int, seed: bytes) -> None:
    oracle = UnaryEncoding.optimized(k, 1.0)
    reports = Prg(seed).bernoulli(ONE // 3, (n, k))
    packed = oracle.pack(reports)
    assert len(packed) == -(-n * oracle.report_bits // 8)
    back = oracle.unpack(packed, (n, k))
    assert back.dtype == np.bool_
    assert np.array_equal(back, reports)
    with pytest.raises(WireError, match="bytes"):
        oracle.unpack(packed + b"\x00", (n, k))


@given(st.integers(2, 20), st.binary(max_size=6), st.integers(0, 12))
def test_arbitrary_bytes_raise_only_wire_errors(k: int, data: bytes, n: int) -> None:
    oracle = UnaryEncoding.optimized(k, 1.0)
    try:
        reports = oracle.unpack(data, (n, k))
    except WireError:
        return
    assert oracle.pack(reports) == data


def test_known_bytes() -> None:
    reports = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]], dtype=np.bool_)
    assert OUE.pack(reports) == bytes([0b10001011, 0])
    with pytest.raises(WireError, match="padding"):
        OUE.unpack(bytes([0b10001011, 1]), (2, 5))
    for shape in (10, (5, 2), (2, 5, 1)):
        with pytest.raises(ParameterError, match=r"shape \(n, 5\)"):
            OUE.unpack(bytes([0b10001011, 0]), shape)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
def test_o09_other_epsilons_are_refused(make: Make, epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        make(5, epsilon)


@pytest.mark.parametrize("epsilon", [710, 800, 1e300])
def test_o09_a_huge_epsilon_is_finite(epsilon: float) -> None:
    x = np.arange(1_000) % 5
    symmetric = UnaryEncoding.symmetric(5, epsilon)
    assert symmetric.epsilon == pytest.approx(128 * math.log(2))
    # A bit is flipped with probability 2^-64.
    told = symmetric.perturb(x, rng=Prg(bytes(32)))
    assert np.array_equal(told, x[:, np.newaxis] == np.arange(5))
    assert symmetric.estimate(told).value == pytest.approx([200] * 5)
    assert np.all(symmetric.estimate(told).worst < 1e-10)
    optimized = UnaryEncoding.optimized(5, epsilon)
    assert optimized.epsilon == pytest.approx(64 * math.log(2))
    told = optimized.perturb(x, rng=Prg(bytes(32)))
    assert not np.any(told & (x[:, np.newaxis] != np.arange(5)))  # zeros are zeros; ones are fair
    assert np.all(np.abs(optimized.estimate(told).value - 200) < 100)  # 7 standard deviations


@pytest.mark.parametrize("make", MAKERS)
def test_o09_a_tiny_epsilon_is_finite(make: Make) -> None:
    oracle = make(5, 1e-12)
    assert oracle.epsilon == pytest.approx(1e-12, rel=1e-6)
    result = oracle.estimate(np.zeros((4, 5), dtype=np.bool_))
    assert np.all(np.isfinite(result.variance))
    assert result.value == pytest.approx([-4 * oracle.zero / (oracle.one - oracle.zero)] * 5)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("k", [1, 0, -3, MAX_VALUES + 1, 2.0, True, "5"])
def test_a_domain_has_at_least_two_values(make: Make, k: int) -> None:
    with pytest.raises(ParameterError, match="k must"):
        make(k, 1.0)


@pytest.mark.parametrize(
    ("one", "zero", "name"),
    [
        (ONE, 1, "one"),
        (1, 1, "one"),
        (0.5, 1, "one"),
        (ONE // 2, 0, "zero"),
        (ONE // 2, ONE // 2, "zero"),
        (ONE // 4, ONE // 2, "zero"),
        (ONE // 2, True, "zero"),
    ],
)
def test_an_own_bit_must_be_likelier(one: int, zero: int, name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must"):
        UnaryEncoding(5, one, zero)


@pytest.mark.parametrize(
    "x", [np.array([0, 5]), np.array([-1]), np.array([0.0]), np.array([True]), np.array([[1]])]
)
def test_other_values_are_refused(x: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match="x must"):
        OUE.perturb(x)


def test_other_reports_are_refused() -> None:
    reports = np.zeros((3, 5), dtype=np.bool_)
    other: list[NDArray[Any]] = [reports.T, reports[0], reports.astype(np.uint8)]
    for wrong in other:
        with pytest.raises(ParameterError, match="reports must"):
            OUE.estimate(wrong)
        with pytest.raises(ParameterError, match="reports must"):
            OUE.pack(wrong)
    with pytest.raises(ParameterError, match="at least one report"):
        OUE.estimate(reports[:0])


def test_oracles_are_values() -> None:
    assert UnaryEncoding.optimized(5, 1) == OUE
    assert hash(UnaryEncoding(5, OUE.one, OUE.zero)) == hash(OUE)
    assert repr(OUE) == f"UnaryEncoding(k=5, one={OUE.one}, zero={OUE.zero})"
