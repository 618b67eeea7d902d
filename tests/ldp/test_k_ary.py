"""k-ary randomized response: results, the cases that other tools met, the wire, and refusals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.frequency import MAX_VALUES, FrequencyOracle
from ldp.k_ary import KaryRandomizedResponse
from ldp.randomized_response import RandomizedResponse
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.oracle_laws import BAD_EPSILONS, covers

DOMAINS = st.integers(2, 300) | st.sampled_from([2, 3, 65_536, 65_537, MAX_VALUES])
UNIT = KaryRandomizedResponse.from_epsilon(5, 1.0)


def test_it_is_a_frequency_oracle() -> None:
    oracle: FrequencyOracle = UNIT
    assert (oracle.k, oracle.unit, oracle.report_bits) == (5, "value", 3)


@given(DOMAINS, st.floats(1e-9, 100))
def test_reported_epsilon_is_at_most_the_requested(k: int, epsilon: float) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, epsilon)
    assert 0 < oracle.epsilon <= epsilon
    assert epsilon > 16 or epsilon - oracle.epsilon <= 1e-9


@given(st.floats(MIN_EPSILON, 100))
def test_two_values_are_randomized_response(epsilon: float) -> None:
    oracle, bits = (
        KaryRandomizedResponse.from_epsilon(2, epsilon),
        RandomizedResponse.from_epsilon(epsilon),
    )
    assert (oracle.keep, oracle.epsilon) == (bits.keep, bits.epsilon)
    assert oracle.report_bits == bits.report_bits
    told = oracle.estimate(np.array([0, 1, 1]))
    ones = bits.estimate(np.array([False, True, True]))
    assert told.value[1] == pytest.approx(float(ones.value), rel=1e-9)
    assert oracle.variance_of(1, 3) == pytest.approx(3 * bits.variance)


def test_reports_are_values_in_the_smallest_dtype() -> None:
    for k, dtype in ((2, np.uint8), (256, np.uint8), (257, np.uint16), (65_537, np.uint32)):
        oracle = KaryRandomizedResponse.from_epsilon(k, 1e-3)
        x = np.arange(70_000) % k
        before = x.copy()
        reports = oracle.perturb(x, rng=Prg(bytes(32)))
        assert reports.dtype == np.dtype(dtype)
        assert reports.shape == x.shape
        assert int(reports.max()) < k
        assert np.array_equal(x, before)
        assert oracle.perturb(x[:0]).shape == (0,)


@given(st.sampled_from([np.uint8, np.int8, np.uint64, np.int64, np.dtype(">i4")]))
def test_the_dtype_of_the_values_does_not_matter(dtype: Any) -> None:
    x = np.arange(100) % 5
    expected = UNIT.perturb(x, rng=Prg(bytes(32)))
    assert np.array_equal(UNIT.perturb(x.astype(dtype), rng=Prg(bytes(32))), expected)
    assert np.array_equal(UNIT.perturb(np.repeat(x, 2)[::2], rng=Prg(bytes(32))), expected)


def test_the_variance_is_the_sources() -> None:
    for k, epsilon in ((2, 0.5), (7, 1.0), (1_000, 4.0)):
        oracle = KaryRandomizedResponse.from_epsilon(k, epsilon)
        odds = math.exp(epsilon)
        assert oracle.variance_of(0, 10) == pytest.approx(10 * (k - 2 + odds) / (odds - 1) ** 2)


@given(DOMAINS.filter(lambda k: k < 1_000), st.floats(1e-3, 30), st.integers(1, 40), st.data())
def test_the_estimate_is_equation_1(k: int, epsilon: float, n: int, data: st.DataObject) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, epsilon)
    reports = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    p = Fraction(oracle.keep, ONE)
    q = (1 - p) / (k - 1)
    result = oracle.estimate(reports)
    assert result.n == n
    assert result.value.shape == result.variance.shape == result.worst.shape == (k,)
    for value in {0, k - 1, int(reports[0])}:
        exact = (int((reports == value).sum()) - n * q) / (p - q)
        assert result.value[value] == pytest.approx(float(exact), rel=1e-9, abs=1e-9)
    assert result.value.sum() == pytest.approx(n)  # every report names one value


def test_reports_beyond_one_piece_are_all_counted() -> None:
    for k in (3, 1_000, 100_000):
        oracle = KaryRandomizedResponse.from_epsilon(k, 16.0)
        x = np.arange(3 * max(k, 1 << 16) + 5) % k
        counts = oracle.support.estimate(np.bincount(x, minlength=k), x.size)
        assert np.array_equal(oracle.estimate(x).value, counts.value)


def test_o07_the_raw_estimate_is_the_default_and_may_be_negative() -> None:
    result = UNIT.estimate(np.zeros(10, dtype=np.uint8))
    assert result.value[1:] == pytest.approx([-10 / (math.e - 1)] * 4)  # -n q / (p - q)
    assert result.value[0] > 10
    assert result.clipped().value.tolist() == [10, 0, 0, 0, 0]
    assert result.clipped().raw is result


def repetitions(oracle: KaryRandomizedResponse, counts: list[int], seed: bytes) -> NDArray[Any]:
    """How often each value is reported in 10,000 repetitions: (10000, k)."""
    x = np.tile(np.repeat(np.arange(oracle.k), counts), 10_000)
    told = oracle.perturb(x, rng=Prg(seed)).astype(np.int64)
    rounds = np.repeat(np.arange(10_000), sum(counts))
    cells = np.bincount(rounds * oracle.k + told, minlength=10_000 * oracle.k)
    return cells.reshape(10_000, oracle.k)


def test_o07_the_mean_estimate_is_the_count() -> None:
    """Three of 1,000 users hold value 0: within 5 standard errors of 10,000 repetitions.

    False alarm 6e-7 for a fresh seed, as the case states it; the seed is fixed.
    """
    counts = [3, 100, 200, 300, 397]
    told = repetitions(UNIT, counts, b"three of one thousand users hold")
    allowed = 5 * np.sqrt(UNIT.variance_of(counts, 1_000) / 10_000)
    estimates = UNIT.support.estimate(told, 1_000)
    assert np.all(np.abs(estimates.value.mean(axis=0) - counts) <= allowed)
    # Clipping makes the rare value too frequent, and so does counting reports as they are.
    for twin in (estimates.clipped().value, told):
        assert abs(twin[:, 0].mean() - 3) > allowed[0]
    # The variance of 10,000 estimates has a relative standard error of 1.4 %: 7 of them.
    spread = estimates.value.var(axis=0) / UNIT.variance_of(counts, 1_000)
    assert spread == pytest.approx(np.ones(5), abs=0.1)


def test_intervals_cover_at_their_confidence() -> None:
    """10,000 intervals for each of five counts of 400 users, by both variances."""
    counts = [0, 20, 60, 120, 200]
    told = repetitions(UNIT, counts, b"intervals of k-ary reports at 95")
    estimates = UNIT.support.estimate(told, 400)
    for worst in (False, True):
        low, high = estimates.interval(worst=worst)
        for value, count in enumerate(counts):
            half = (high - low)[:, value] / 2
            assert covers(estimates.value[:, value], half, count)
    # The twin takes the variance of the reports for that of the estimates.
    reports = 1.96 * np.sqrt(400 * 0.25 * np.ones(10_000))
    assert not covers(estimates.value[:, 0], reports, 0)


@given(DOMAINS, st.integers(0, 40), st.data())
def test_reports_travel(k: int, n: int, data: st.DataObject) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, 1.0)
    values = data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    reports = np.array(values, dtype=np.uint64)
    packed = oracle.pack(reports)
    assert len(packed) == -(-n * oracle.report_bits // 8)
    for shape in (n, (n,)):
        back = oracle.unpack(packed, shape)
        assert back.dtype == oracle.perturb(reports[:0]).dtype
        assert np.array_equal(back, reports)
    with pytest.raises(WireError, match="bytes"):
        oracle.unpack(packed + b"\x00", n)


@given(st.integers(2, 40), st.binary(max_size=6), st.integers(0, 40))
def test_arbitrary_bytes_raise_only_wire_errors(k: int, data: bytes, n: int) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, 1.0)
    try:
        reports = oracle.unpack(data, n)
    except WireError:
        return
    assert oracle.pack(reports) == data


def test_values_that_do_not_exist_are_refused_on_the_wire() -> None:
    assert UNIT.pack(np.array([4, 1], dtype=np.uint8)) == bytes([0b10000100])
    with pytest.raises(WireError, match=r"report 1 does not lie in \[0, 5\)"):
        UNIT.unpack(bytes([0b10010100]), 2)  # 4, 5
    with pytest.raises(WireError, match="padding"):
        UNIT.unpack(bytes([0b10000101]), 2)
    for shape in ((1, 2), (), (-2,)):
        with pytest.raises(ParameterError):
            UNIT.unpack(bytes([0b10000100]), shape)


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        KaryRandomizedResponse.from_epsilon(5, epsilon)


@pytest.mark.parametrize("epsilon", [710, 800, 1e300])
def test_o09_a_huge_epsilon_reports_the_value_itself(epsilon: float) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(100, epsilon)
    assert oracle.epsilon == pytest.approx(math.log(99) + 64 * math.log(2))
    x = np.arange(10_000) % 100
    # A report differs from its value with probability 2^-64.
    assert np.array_equal(oracle.perturb(x, rng=Prg(bytes(32))), x)
    result = oracle.estimate(x)
    assert result.value == pytest.approx([100] * 100)
    assert np.all(result.worst < 1e-10)


def test_o09_a_tiny_epsilon_is_finite() -> None:
    oracle = KaryRandomizedResponse.from_epsilon(100, 1e-12)
    assert oracle.epsilon == pytest.approx(1e-12, rel=1e-3)
    result = oracle.estimate(np.arange(100))
    assert result.value == pytest.approx([1] * 100, abs=1e3)  # errors of 1e-16 over a gap of 1e-14
    assert np.all(np.isfinite(result.variance))
    with pytest.raises(ParameterError, match="tells 4294967296 values apart") as refusal:
        KaryRandomizedResponse.from_epsilon(MAX_VALUES, 1e-12)
    assert "smaller domain" in str(refusal.value)


@pytest.mark.parametrize("k", [1, 0, -3, MAX_VALUES + 1, 2.0, True, "5"])
def test_a_domain_has_at_least_two_values(k: int) -> None:
    with pytest.raises(ParameterError, match="k must"):
        KaryRandomizedResponse.from_epsilon(k, 1.0)
    with pytest.raises(ParameterError, match="k must"):
        KaryRandomizedResponse(k, ONE - 1)


@pytest.mark.parametrize("keep", [0, ONE // 5, ONE, -1, 0.9, True])
def test_the_truth_must_be_likelier_than_a_lie(keep: int) -> None:
    with pytest.raises(ParameterError, match="keep must"):
        KaryRandomizedResponse(5, keep)
    assert KaryRandomizedResponse(5, ONE // 5 + 1).epsilon > 0


@pytest.mark.parametrize(
    "x", [np.array([0, 5]), np.array([-1]), np.array([0.0]), np.array([True]), np.array([[1]])]
)
def test_other_values_are_refused(x: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match="x must"):
        UNIT.perturb(x)
    with pytest.raises(ParameterError, match="reports must"):
        UNIT.estimate(x)
    with pytest.raises(ParameterError, match="reports must"):
        UNIT.pack(x)


def test_a_refusal_names_the_place_and_not_the_value() -> None:
    with pytest.raises(ParameterError, match="entry 2 does not") as refusal:
        UNIT.perturb(np.array([1, 2, 77, 99]))
    assert "77" not in str(refusal.value)
    with pytest.raises(ParameterError, match="at least one report"):
        UNIT.estimate(np.zeros(0, dtype=np.uint8))


def test_oracles_are_values() -> None:
    assert KaryRandomizedResponse.from_epsilon(5, 1) == UNIT
    assert hash(KaryRandomizedResponse(5, UNIT.keep)) == hash(UNIT)
    assert repr(UNIT) == f"KaryRandomizedResponse(k=5, keep={UNIT.keep})"
