"""Hadamard response: estimates, their error, the choice of blocks, bytes and refusals."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.hadamard import HadamardResponse
from ldp.thresholds import MIN_EPSILON, largest_threshold
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.oracle_laws import BAD_EPSILONS
from tests.ldp.sent_laws import (
    EPSILONS,
    intervals_cover,
    is_unbiased,
    law,
    laws,
    mean_and_variance,
    mean_square_error,
)

SIZES = [(2, 1), (3, 1), (7, 1), (8, 1), (2, 2), (3, 4), (5, 2), (6, 4), (5, 8)]


def entry(j: int, z: int) -> int:
    """Entry (j, z) of Sylvester's Hadamard matrix."""
    return -1 if (j & z).bit_count() % 2 else 1


@pytest.mark.parametrize(("k", "blocks"), SIZES)
def test_the_estimate_is_unbiased_and_its_variance_exact(k: int, blocks: int) -> None:
    for epsilon in (0.1, 1.0, 4.0):
        mechanism = HadamardResponse.from_epsilon(k, epsilon, blocks)
        found = laws(mechanism)
        assert is_unbiased(mechanism, found)
        for x, v in product(range(k), range(k)):
            _, variance = mean_and_variance(mechanism, found[x])
            near = int(x % blocks == v % blocks)
            assert variance[v] == pytest.approx(mechanism.variance_of(int(x == v), 1, near))


@pytest.mark.parametrize(("k", "blocks"), SIZES)
def test_the_stated_variance_is_the_mean_over_all_numberings(k: int, blocks: int) -> None:
    mechanism = HadamardResponse.from_epsilon(k, 2.0, blocks)
    variances = np.array([mean_and_variance(mechanism, law(mechanism, x))[1] for x in range(k)])
    others = variances[~np.eye(k, dtype=np.bool_)]
    assert mechanism.variance_of(0, 1) == pytest.approx(others.mean())
    assert mechanism.variance_of(1, 1) == pytest.approx(np.diag(variances).mean())
    # What one report adds to all k estimates together is what the default blocks make least.
    assert float(mechanism._sum_of_variances) == pytest.approx(variances.sum() / k)
    worst = mechanism.estimate(np.zeros(1, dtype=np.uint8)).worst
    assert worst == pytest.approx(variances.max(axis=0))


@given(st.integers(3, 40), st.sampled_from([1, 2, 4]), st.data())
def test_the_estimate_is_the_sum_over_rows_of_the_matrix(
    k: int, blocks: int, data: st.DataObject
) -> None:
    mechanism = HadamardResponse.from_epsilon(k, 1.5, blocks)
    length = 2**mechanism.report_bits // blocks
    reports = data.draw(st.lists(st.integers(0, blocks * length - 1), min_size=1, max_size=9))
    keep = Fraction(mechanism.keep, ONE)
    gap = keep - (1 - keep) / (2 * blocks - 1)
    result = mechanism.estimate(np.array(reports))
    for x in range(k):
        row = x // blocks + 1
        assert 0 < row < length
        own = [entry(row, y % length) for y in reports if y // length == x % blocks]
        assert result.value[x] == pytest.approx(float(sum(own) / gap), abs=1e-9)
    assert result.n == len(reports)


def test_the_plug_in_variance_takes_the_block_as_it_is_estimated() -> None:
    mechanism = HadamardResponse.from_epsilon(12, 3.0, 4)
    x = np.repeat([0, 4, 1, 2], [20_000, 10_000, 5_000, 15_000])
    result = mechanism.estimate(mechanism.perturb(x, rng=Prg(bytes(32))))
    for v, (count, near) in {0: (20_000, 30_000), 8: (0, 30_000), 3: (0, 0)}.items():
        exact = float(mechanism.variance_of(count, x.size, near))
        assert result.variance[v] == pytest.approx(exact, rel=0.05)
    assert np.all(result.variance <= result.worst * (1 + 1e-12))


@pytest.mark.parametrize(("epsilon", "blocks"), [(1.0, 1), (3.0, 4)])
def test_intervals_cover_at_their_confidence(epsilon: float, blocks: int) -> None:
    mechanism = HadamardResponse.from_epsilon(9, epsilon, blocks)
    x = [v for v in range(9) for _ in range(40 + 10 * v)]
    assert intervals_cover(mechanism, x, 3, b"coverage of Hadamard intervals..")


def test_the_error_over_many_runs_is_the_stated_one() -> None:
    """2,000 runs: a mean square has a relative standard error of 3.2 %; 7 of them are allowed."""
    mechanism = HadamardResponse.from_epsilon(20, 4.0)
    assert mechanism.blocks == 16
    x = np.repeat(np.arange(20), 20)
    found = mean_square_error(mechanism, x.tolist(), 2_000, b"mean square error of Hadamard...")
    near = np.where((np.arange(20) < 4) | (np.arange(20) >= 16), 40, 20)
    assert found / mechanism.variance_of(20, 400, near) == pytest.approx(1, abs=0.22)
    # The twin takes the variance of one block for that of sixteen.
    one = HadamardResponse.from_epsilon(20, 4.0, 1)
    assert not np.all(np.abs(found / one.variance_of(20, 400) - 1) < 0.22)


@pytest.mark.parametrize("k", [2, 3, 5, 16, 100, 1000, 10_000])
def test_the_default_blocks_have_the_least_sum_of_variances(k: int) -> None:
    for epsilon in [*EPSILONS, 1.25, 1.5, 3.0, 5.0, 6.0]:
        chosen = HadamardResponse.from_epsilon(k, epsilon)
        sums = {}
        blocks = 1
        while blocks < 2 * k:
            keep = largest_threshold(epsilon, 2 * blocks - 1)
            sums[blocks] = HadamardResponse(k, keep, blocks)._sum_of_variances
            blocks *= 2
        assert sums[chosen.blocks] == min(sums.values())


def test_blocks_are_worth_having_from_epsilon_2_on() -> None:
    ratio = {}
    for epsilon in (1.0, 2.0, 4.0):
        one = HadamardResponse.from_epsilon(10_000, epsilon, 1).variance_of(0, 1)
        ratio[epsilon] = float(
            one / HadamardResponse.from_epsilon(10_000, epsilon).variance_of(0, 1)
        )
    assert ratio == pytest.approx({1.0: 1.0, 2.0: 1.36, 4.0: 7.16}, abs=0.01)


def test_one_block_has_the_papers_variance() -> None:
    for epsilon in (0.1, 1.0, 3.0):
        odds = math.exp(epsilon)
        mechanism = HadamardResponse.from_epsilon(100, epsilon, 1)
        assert mechanism.variance_of(0, 1) == pytest.approx(((odds + 1) / (odds - 1)) ** 2)
        assert mechanism.variance_of(1, 1) == pytest.approx(4 * odds / (odds - 1) ** 2)


@given(st.integers(2, 10**6), st.floats(1e-6, 16))
def test_reported_epsilon_is_at_most_the_requested(k: int, epsilon: float) -> None:
    mechanism = HadamardResponse.from_epsilon(k, epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    assert epsilon - mechanism.epsilon < 1e-9
    assert 2**mechanism.report_bits < 4 * (k + mechanism.blocks)
    assert mechanism.unit == "value"


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon must"):
        HadamardResponse.from_epsilon(10, epsilon)


@pytest.mark.parametrize("epsilon", [710, 800, 1e6])
def test_o09_a_huge_epsilon_reports_the_value_itself(epsilon: float) -> None:
    mechanism = HadamardResponse.from_epsilon(10, epsilon)
    x = np.arange(10_000) % 10
    result = mechanism.estimate(mechanism.perturb(x, rng=Prg(b"a huge epsilon, seed of 32 bytes")))
    assert result.value.tolist() == [1000.0] * 10  # another report has probability 2^-64
    assert np.all(result.variance < 1e-12)


def test_o09_a_tiny_epsilon_is_finite() -> None:
    for epsilon in (MIN_EPSILON, 1e-12):
        mechanism = HadamardResponse.from_epsilon(100, epsilon)
        result = mechanism.estimate(mechanism.perturb(np.arange(1000) % 100))
        assert np.all(np.isfinite(result.value))
        assert np.all(np.isfinite(result.variance))
    assert mechanism.variance_of(0, 1) == pytest.approx(4e24)
    with pytest.raises(ParameterError, match="keep must lie"):
        HadamardResponse.from_epsilon(100, MIN_EPSILON, 16)


@pytest.mark.parametrize("k", [1, 0, -5, 2**32 + 1, 10.0, True, "3"])
def test_a_k_outside_its_range_is_refused(k: Any) -> None:
    with pytest.raises(ParameterError, match="k must"):
        HadamardResponse.from_epsilon(k, 1.0)
    with pytest.raises(ParameterError, match="k must"):
        HadamardResponse(k, ONE - 1)


@pytest.mark.parametrize("keep", [0, ONE // 2, ONE, 0.75, True])
def test_a_keep_outside_its_range_is_refused(keep: Any) -> None:
    with pytest.raises(ParameterError, match="keep must"):
        HadamardResponse(5, keep)


@pytest.mark.parametrize("blocks", [0, 3, 16, -1, 2.0, True])
def test_blocks_are_a_power_of_two_that_values_can_fill(blocks: Any) -> None:
    with pytest.raises(ParameterError, match="blocks must"):
        HadamardResponse(5, ONE - 1, blocks)
    with pytest.raises(ParameterError, match="blocks must"):
        HadamardResponse.from_epsilon(5, 8.0, blocks)
    assert HadamardResponse(5, ONE // 4 + 1, 2).epsilon > 0
    with pytest.raises(ParameterError, match="keep must"):
        HadamardResponse(5, ONE // 4, 2)


@pytest.mark.parametrize(
    "x", [np.array([0, 5]), np.array([-1]), np.array([0.0]), np.array([[0]]), np.array([np.nan])]
)
def test_values_outside_the_domain_are_refused(x: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match="x must"):
        HadamardResponse.from_epsilon(5, 1.0).perturb(x)


def test_an_estimate_needs_reports_of_the_mechanism() -> None:
    mechanism = HadamardResponse.from_epsilon(5, 1.0)
    assert mechanism.report_bits == 3
    for reports in (np.array([8]), np.array([0.5]), np.array([[1]])):
        with pytest.raises(ParameterError, match="reports must"):
            mechanism.estimate(reports)
        with pytest.raises(ParameterError, match="reports must"):
            mechanism.pack(reports)
    with pytest.raises(ParameterError, match="at least one report"):
        mechanism.estimate(np.zeros(0, dtype=np.uint8))


@pytest.mark.parametrize(
    ("k", "blocks", "dtype"), [(100, 1, "u1"), (255, 1, "u1"), (256, 1, "u2"), (70_000, 4, "u4")]
)
def test_reports_beyond_one_piece_are_randomized_to_their_end(
    k: int, blocks: int, dtype: str
) -> None:
    """The own half is told with its probability in each of 20 parts of 8,000: 8 standard errors."""
    mechanism = HadamardResponse.from_epsilon(k, 1.0, blocks)
    n = 160_000
    x = np.arange(n) % k
    reports = mechanism.perturb(x, rng=Prg(bytes(32)))
    assert reports.dtype == np.dtype(dtype)
    length = 2**mechanism.report_bits // blocks
    row = x // blocks + 1
    told = reports.astype(np.int64)
    odd = np.bitwise_count(told % length & row) & 1
    own = (told // length == x % blocks) & (odd == 0)
    keep = mechanism.keep / ONE
    for part in np.array_split(own, 20):
        assert abs(part.mean() - keep) < 8 * math.sqrt(keep * (1 - keep) / 8_000)


@given(st.integers(2, 3000), st.floats(0.5, 8), st.integers(0, 40), st.data())
def test_packed_reports_come_back(k: int, epsilon: float, n: int, data: st.DataObject) -> None:
    mechanism = HadamardResponse.from_epsilon(k, epsilon)
    x = data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    reports = mechanism.perturb(np.array(x, dtype=np.int64))
    packed = mechanism.pack(reports)
    assert len(packed) == -(-n * mechanism.report_bits // 8)
    back = mechanism.unpack(packed, (n,))
    assert back.dtype == reports.dtype
    assert np.array_equal(back, reports)


@given(st.integers(2, 3000), st.binary(max_size=6), st.integers(0, 9))
def test_arbitrary_bytes_raise_only_wire_errors(k: int, data: bytes, n: int) -> None:
    mechanism = HadamardResponse.from_epsilon(k, 1.0)
    try:
        reports = mechanism.unpack(data, n)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_reports_are_unpacked_on_one_axis() -> None:
    with pytest.raises(ParameterError, match="one axis"):
        HadamardResponse.from_epsilon(5, 1.0).unpack(b"", (0, 3))


def test_default_coins_are_fresh_at_each_call() -> None:
    mechanism = HadamardResponse.from_epsilon(100, 1.0)
    x = np.zeros(512, dtype=np.int64)
    assert not np.array_equal(mechanism.perturb(x), mechanism.perturb(x))
