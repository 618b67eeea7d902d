"""Randomized response: results, the cases that other tools met, and refusals."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ldp.randomized_response import RandomizedResponse
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.support.source import ROOT
from tests.support.strategies import seeds, shapes

EPSILONS = st.floats(MIN_EPSILON, 100)
KEEPS = st.integers(ONE // 2 + 1, ONE - 1) | st.sampled_from([ONE // 2 + 1, ONE - 1])


@given(EPSILONS)
def test_reported_epsilon_is_at_most_the_requested(epsilon: float) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9


@given(KEEPS)
def test_from_epsilon_finds_the_coin_of_its_own_loss(keep: int) -> None:
    mechanism = RandomizedResponse(keep)
    again = RandomizedResponse.from_epsilon(max(mechanism.epsilon, MIN_EPSILON))
    assert again.keep >= keep  # the loss was rounded up, so the coin may be a little truer
    assert again.epsilon <= max(mechanism.epsilon, MIN_EPSILON)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, 1e-320, 0.0, 2.0**-61])
def test_o09_an_epsilon_outside_its_domain_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match=r"at least 2\^-60"):
        RandomizedResponse.from_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", ["1", True, False, np.True_, None, 1j, [1.0], b"1"])
def test_o09_an_epsilon_that_is_no_real_number_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="real number"):
        RandomizedResponse.from_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", [710, 800, 1e6, 1.7e308, 10**400])
def test_o09_a_huge_epsilon_reports_the_bit_itself(epsilon: float) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    assert mechanism.keep == ONE - 1
    assert mechanism.epsilon == pytest.approx(64 * math.log(2))
    x = np.arange(100_000) % 3 == 0
    # A report differs from its bit with probability 2^-64; the whole test fails below 1e-14.
    assert np.array_equal(mechanism.perturb(x, rng=Prg(b"a huge epsilon, seed of 32 bytes")), x)
    weights = mechanism.estimate_from_ones([0, 1], 1)
    assert weights.value.tolist() == [0.0, 1.0]
    assert np.all(weights.variance < 1e-18)


def test_o09_a_tiny_epsilon_is_finite() -> None:
    mechanism = RandomizedResponse.from_epsilon(1e-12)
    assert mechanism.epsilon == pytest.approx(1e-12, rel=1e-6)
    result = mechanism.estimate_from_ones([0, 5, 10], 10)
    assert result.value == pytest.approx([-1e13, 5, 1e13], rel=1e-6)
    assert result.variance == pytest.approx(1e25, rel=1e-6)
    smallest = RandomizedResponse.from_epsilon(MIN_EPSILON)
    assert np.all(np.isfinite(smallest.estimate_from_ones([0, 1], 1).value))
    assert math.isfinite(smallest.variance)


@pytest.mark.parametrize("keep", [0, 1, ONE // 2, ONE, -1, 0.75, True, "3"])
def test_a_keep_outside_its_range_is_refused(keep: int) -> None:
    with pytest.raises(ParameterError, match="keep"):
        RandomizedResponse(keep)


@given(KEEPS)
def test_variance_is_exact_at_both_ends_of_the_domain(keep: int) -> None:
    p = Fraction(keep, ONE)
    exact = p * (1 - p) / (2 * p - 1) ** 2
    assert RandomizedResponse(keep).variance == float(exact)


def test_variance_is_the_papers() -> None:
    for epsilon in (0.1, 1.0, math.log(3), 4.0):
        formula = math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
        assert RandomizedResponse.from_epsilon(epsilon).variance == pytest.approx(formula)


def test_o07_the_raw_estimate_is_the_default_and_may_be_negative() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    none = mechanism.estimate_count(np.zeros((10, 1), dtype=np.bool_))
    assert none.value.tolist() == pytest.approx([-5.81977], abs=5e-6)
    assert none.n == 10
    zero = mechanism.estimate_count(np.array([False]))
    one = mechanism.estimate_count(np.array([True]))
    assert float(zero.value) == pytest.approx(-0.58198, abs=5e-6)
    assert float(one.value) == pytest.approx(1.58198, abs=5e-6)
    processed = none.clipped()
    assert processed.value.tolist() == [0.0]
    assert processed.raw.value.tolist() == none.value.tolist()


@given(EPSILONS, st.integers(1, 200), st.data())
def test_the_estimate_is_equation_6(epsilon: float, n: int, data: st.DataObject) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    ones = data.draw(st.integers(0, n))
    odds = Fraction(mechanism.keep, ONE - mechanism.keep)  # e^epsilon, exactly
    exact = (ones * (odds + 1) - n) / (odds - 1)
    reports = np.arange(n) < ones
    assert float(mechanism.estimate_count(reports).value) == pytest.approx(float(exact), rel=1e-12)


@given(
    npst.arrays(np.dtype(np.bool_), st.tuples(st.integers(1, 5)) | shapes().map(lambda s: (2, *s)))
)
def test_estimates_have_the_shape_of_the_items(reports: NDArray[np.bool_]) -> None:
    mechanism = RandomizedResponse.from_epsilon(2.0)
    n, items = reports.shape[0], reports.shape[1:]
    result = mechanism.estimate_count(reports)
    assert result.value.shape == result.variance.shape == items
    assert result.value.dtype == result.variance.dtype == np.float64
    assert np.all(result.variance == n * mechanism.variance)
    from_ones = mechanism.estimate_from_ones(reports.sum(axis=0), n)
    assert np.array_equal(result.value, from_ones.value)


@given(seeds(), npst.arrays(np.dtype(np.bool_), shapes()))
def test_reports_have_the_shape_of_the_bits(seed: bytes, x: NDArray[np.bool_]) -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    before = x.copy()
    reports = mechanism.perturb(x, rng=Prg(seed))
    assert reports.shape == x.shape
    assert reports.dtype == np.bool_
    assert np.array_equal(x, before)
    # The same coins on the complement give the complement: the coin decides alone.
    assert np.array_equal(mechanism.perturb(~x, rng=Prg(seed)), ~reports)
    assert np.array_equal(mechanism.perturb(x.copy(order="F"), rng=Prg(seed)), reports)
    coins = Prg(seed).words(x.shape, np.uint64)
    assert np.array_equal(mechanism.perturb_with(x, coins), x == (coins < mechanism.keep))


def test_arrays_beyond_one_piece_are_randomized_to_their_end() -> None:
    mechanism = RandomizedResponse.from_epsilon(1e-3)
    size = 3 * (1 << 16) + 5
    reports = mechanism.perturb(np.zeros(size, dtype=np.bool_), rng=Prg(bytes(32)))
    for part in np.array_split(reports, 30):
        assert 0.4 < part.mean() < 0.6  # 16 standard errors of 6,554 reports


@pytest.mark.parametrize("x", [[0, 1], np.ones(3), np.ones(3, np.uint8), ["a"], [None], []])
def test_only_bool_arrays_are_bits(x: NDArray[np.bool_]) -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    with pytest.raises(ParameterError, match="x must be a bool array"):
        mechanism.perturb(x)
    with pytest.raises(ParameterError, match="x must be a bool array"):
        mechanism.perturb_with(x, np.zeros(np.shape(x), dtype=np.uint64))
    with pytest.raises(ParameterError, match="reports must be a bool array"):
        mechanism.estimate_count(x)


def test_coins_are_whole_words_one_for_each_bit() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    x = np.zeros((2, 3), dtype=np.bool_)
    for coins in (np.zeros((2, 3)), np.zeros((2, 3), np.uint32), np.zeros(3, np.uint64)):
        with pytest.raises(ParameterError, match="coins must be uint64"):
            mechanism.perturb_with(x, coins)  # type: ignore[arg-type]


def test_an_estimate_needs_reports_and_counts_that_fit() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    with pytest.raises(ParameterError, match="at least one user"):
        mechanism.estimate_count(np.zeros((0, 4), dtype=np.bool_))
    with pytest.raises(ParameterError, match="at least one user"):
        mechanism.estimate_count(np.True_)  # type: ignore[arg-type]
    for n in (0, -1, 2**53, 10.0, True):
        with pytest.raises(ParameterError, match="n must"):
            mechanism.estimate_from_ones([0], n)  # type: ignore[arg-type]
    for ones in ([11], [-1], np.array([2**64 - 1], dtype=np.uint64)):
        with pytest.raises(ParameterError, match=r"ones must lie in \[0, 10\]"):
            mechanism.estimate_from_ones(ones, 10)
    for wrong in ([0.5], [math.nan], [True], ["1"]):
        with pytest.raises(ParameterError, match="ones must be integers"):
            mechanism.estimate_from_ones(wrong, 10)


def test_counts_up_to_2_to_the_53_are_exact() -> None:
    mechanism = RandomizedResponse.from_epsilon(44.0)
    n = 2**53 - 1
    assert mechanism.estimate_from_ones([0, n - 1, n], n).value.tolist() == [0, n - 1, n]


def test_intervals_cover_at_their_confidence() -> None:
    """20,000 intervals at 95 %, 300 users: the exact coverage lies in [.93, .97] (binomial law).

    False alarm below 1e-9: the ends are 13 standard errors away from any such coverage.
    """
    mechanism = RandomizedResponse.from_epsilon(1.0)
    x = np.zeros((300, 20_000), dtype=np.bool_)
    x[:40] = True
    result = mechanism.estimate_count(
        mechanism.perturb(x, rng=Prg(b"interval coverage, a 32 byte key"))
    )
    low, high = result.interval(0.95)
    assert 0.93 < np.mean((low <= 40) & (high >= 40)) < 0.97
    # A twin that takes the standard deviation of the bits for that of the estimate misses most.
    wrong = 1.96 * math.sqrt(300 / 4)
    assert not 0.93 < np.mean(np.abs(result.value - 40) < wrong) < 0.97


def test_default_coins_are_fresh_at_each_call() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    x = np.zeros(512, dtype=np.bool_)
    # Two runs of 512 fair-ish coins agree with probability below 2^-300.
    assert not np.array_equal(mechanism.perturb(x), mechanism.perturb(x))


def test_the_example_of_the_page_runs() -> None:
    page = (ROOT / "docs" / "protocols" / "randomized-response.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    result = names["estimate"]
    # Fresh coins and three counts: 8 standard errors are exceeded with probability 4e-15.
    assert np.all(np.abs(result.value - 30_000) < 8 * np.sqrt(result.variance))
    assert names["shown"].raw is result


def test_mechanisms_are_values() -> None:
    assert RandomizedResponse.from_epsilon(1.0) == RandomizedResponse.from_epsilon(1)
    assert repr(RandomizedResponse(ONE - 1)) == f"RandomizedResponse(keep={ONE - 1})"
    assert len({RandomizedResponse.from_epsilon(1.0), RandomizedResponse.from_epsilon(2.0)}) == 2
