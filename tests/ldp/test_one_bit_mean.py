"""1BitMean: unbiased means, their intervals, the wire, and refusals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ldp.one_bit_mean import OneBitMean
from ldp.randomized_response import RandomizedResponse
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import coverage, law, mean_and_variance
from tests.support.strategies import seeds, shapes


@given(st.floats(MIN_EPSILON, 100))
def test_reported_epsilon_is_the_coins_and_at_most_the_requested(epsilon: float) -> None:
    mechanism = OneBitMean.from_epsilon(epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    assert mechanism.epsilon == RandomizedResponse.from_epsilon(epsilon).epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        OneBitMean.from_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", [1e-12, 710, 800])
def test_o09_extreme_epsilons_are_finite_and_right(epsilon: float) -> None:
    mechanism = OneBitMean.from_epsilon(epsilon, -3, 5)
    result = mechanism.estimate_from_ones([0, 5, 10], 10)
    odds = Fraction(mechanism.coin.keep, ONE - mechanism.coin.keep)
    exact = [-3 + 8 * (ones * (odds + 1) / 10 - 1) / (odds - 1) for ones in (0, 5, 10)]
    assert result.value == pytest.approx([float(value) for value in exact], rel=1e-12)
    assert np.all(np.isfinite(result.variance))
    assert np.all(np.isfinite(result.worst))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_mean_report_is_the_value_exactly(epsilon: float) -> None:
    """The estimate from one report, weighed with the walked law, is the value: in fractions."""
    mechanism = OneBitMean.from_epsilon(epsilon, -2, 6)
    keep = Fraction(mechanism.coin.keep, ONE)
    says = {bit: -2 + 8 * (bit - (1 - keep)) / (2 * keep - 1) for bit in (False, True)}
    for bit, value in says.items():
        assert float(mechanism.estimate(np.array([bit])).value) == pytest.approx(float(value))
    for x in np.linspace(-2, 6, 17):
        mean, variance = mean_and_variance(law(mechanism, x), says.__getitem__)
        assert mean == Fraction(x)
        assert float(mechanism.variance_of(x)) == pytest.approx(float(variance), rel=1e-12)
        assert variance <= mechanism.worst_variance * (1 + 1e-12)
    assert float(mechanism.variance_of(2.0)) == pytest.approx(mechanism.worst_variance)


def test_the_variance_is_the_papers_bound_at_its_worst() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        formula = ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2 / 4
        mechanism = OneBitMean.from_epsilon(epsilon, 0, 10)
        assert mechanism.worst_variance == pytest.approx(100 * formula)


@given(st.floats(0.01, 50), st.integers(1, 300), st.data())
def test_the_estimate_is_the_papers(epsilon: float, n: int, data: st.DataObject) -> None:
    mechanism = OneBitMean.from_epsilon(epsilon, 0, 7)
    ones = data.draw(st.integers(0, n))
    keep = Fraction(mechanism.coin.keep, ONE)
    e = keep / (1 - keep)
    exact = Fraction(7, n) * (ones * (e + 1) - n) / (e - 1)
    result = mechanism.estimate(np.arange(n) < ones)
    assert float(result.value) == pytest.approx(float(exact), rel=1e-11, abs=1e-11)
    from_ones = mechanism.estimate_from_ones(ones, n)
    assert result.value == from_ones.value
    assert result.variance == from_ones.variance <= from_ones.worst == result.worst
    assert result.n == n


@given(seeds(), npst.arrays(np.dtype(np.float64), shapes(), elements=st.floats(-1, 1)))
def test_reports_have_the_shape_of_the_values(seed: bytes, x: NDArray[np.float64]) -> None:
    mechanism = OneBitMean.from_epsilon(1.0, -1, 1)
    before = x.copy()
    reports = mechanism.perturb(x, rng=Prg(seed))
    assert reports.shape == x.shape
    assert reports.dtype == np.bool_
    assert np.array_equal(x, before)
    assert np.array_equal(mechanism.perturb(x.copy(order="F"), rng=Prg(seed)), reports)
    words = Prg(seed).words((2, *x.shape), np.uint64)
    kept = words.copy()
    told = mechanism.perturb_with(x, words[0], words[1])
    thresholds = [int((value + 1) * 2.0**61) for value in x.ravel().tolist()]
    coins = words.reshape(2, -1).tolist()
    bits = [word >> 2 < threshold for word, threshold in zip(coins[0], thresholds, strict=True)]
    honest = [word < mechanism.coin.keep for word in coins[1]]
    assert told.ravel().tolist() == [a == b for a, b in zip(bits, honest, strict=True)]
    assert np.array_equal(words, kept)


def test_the_ends_of_the_range_are_never_rounded() -> None:
    mechanism = OneBitMean.from_epsilon(800.0, -0.1, 0.7)
    words = np.array([0, ONE - 1], dtype=np.uint64)
    zeros = np.zeros(2, dtype=np.uint64)
    assert mechanism.perturb_with([-0.1, -0.1], words, zeros).tolist() == [False, False]
    assert mechanism.perturb_with([0.7, 0.7], words, zeros).tolist() == [True, True]


def test_arrays_beyond_one_piece_are_randomized_to_their_end() -> None:
    mechanism = OneBitMean.from_epsilon(4.0)
    x = np.zeros(3 * (1 << 14) + 5)
    x[-5:] = 1.0
    words = np.zeros(x.size, dtype=np.uint64)
    assert np.array_equal(mechanism.perturb_with(x, words, words), x == 1)
    for part in np.array_split(mechanism.perturb(x[:-5], rng=Prg(bytes(32))), 8):
        assert part.mean() < 0.05  # a share of .018 each: 18 standard errors of 6,144 reports


def test_integers_and_short_floats_are_values_too() -> None:
    mechanism = OneBitMean.from_epsilon(800.0, 0, 24)
    for dtype in (np.int8, np.uint64, np.float16, np.float32):
        assert mechanism.perturb(np.array([0, 24], dtype=dtype)).tolist() == [False, True]
    assert mechanism.perturb(24).shape == ()


def test_intervals_cover_at_their_confidence() -> None:
    """10,000 intervals of 300 users: at least .95 less 6 standard errors, .0131 (alarm 1e-9).

    The normal approximation itself is off by less than .003 for 300 reports of either kind.
    """
    mechanism = OneBitMean.from_epsilon(1.0, 0, 2)
    rng = Prg(b"one bit mean: coverage of the ci")
    alike = mechanism.perturb(np.full((300, 10_000), 0.6), rng=rng)
    result = mechanism.estimate(alike)
    assert 0.95 - 0.0161 <= coverage(result, 0.6) <= 0.95 + 0.0161
    low, high = result.interval()
    assert np.mean((low <= 0.6) & (high >= 0.6)) == pytest.approx(coverage(result, 0.6), abs=1e-3)
    # Spread values vary less, given the data, than the plug-in says: intervals only gain.
    x = np.repeat(np.linspace(0, 2, 300)[:, np.newaxis], 10_000, axis=1)
    spread = mechanism.estimate(mechanism.perturb(x, rng=rng))
    assert coverage(spread, 1.0) >= 0.95 - 0.0161
    # The twin forgets that a bit of the coin's gap is worth more than a bit.
    assert coverage(result, 0.6, scale=math.tanh(0.5) ** 2) < 0.9


def test_the_variance_is_that_of_the_estimates() -> None:
    """20,000 estimates; the sample variance has a relative standard error of 1 %: 7 allowed."""
    mechanism = OneBitMean.from_epsilon(1.0)
    x = np.linspace(0, 1, 200)
    told = mechanism.perturb(
        np.repeat(x[:, np.newaxis], 20_000, axis=1), rng=Prg(b"one bit mean: the variance is so")
    )
    exact = float(mechanism.variance_of(x).sum()) / 200**2
    assert mechanism.estimate(told).value.var() / exact == pytest.approx(1, abs=0.07)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-math.inf, 0), (0, 1e-200), (-1e200, 1e200)],
)
def test_a_range_that_is_none_is_refused(low: float, high: float) -> None:
    with pytest.raises(ParameterError, match=r"low|high"):
        OneBitMean.from_epsilon(1.0, low, high)


@pytest.mark.parametrize("end", ["0", True, None, 1j, 10**400])
def test_ends_that_are_no_finite_real_numbers_are_refused(end: float) -> None:
    with pytest.raises(ParameterError, match="low must be"):
        OneBitMean.from_epsilon(1.0, end, 1)
    with pytest.raises(ParameterError, match="high must be"):
        OneBitMean.from_epsilon(1.0, 0, end)


def test_a_coin_of_another_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="coin must be a RandomizedResponse"):
        OneBitMean(0.0, 1.0, 0.75)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1e-9, 1.0000001, 7.25])
def test_o08_a_value_outside_the_range_is_named_by_index_and_not_shown(wrong: float) -> None:
    x = np.full((3, 4), 0.5)
    x[1, 2] = wrong
    words = np.zeros((3, 4), dtype=np.uint64)
    mechanism = OneBitMean.from_epsilon(1.0)
    for call in (
        lambda: mechanism.perturb(x),
        lambda: mechanism.perturb_with(x, words, words),
        lambda: mechanism.variance_of(x),
    ):
        with pytest.raises(ParameterError, match=r"x\[1, 2\]") as caught:
            call()
        assert str(wrong) not in str(caught.value)
    with pytest.raises(ParameterError, match="x is no number"):
        mechanism.perturb(wrong)


@pytest.mark.parametrize("x", [[True], ["1"], [1j], [None], np.zeros(2, np.longdouble)])
def test_values_of_other_kinds_are_refused(x: Any) -> None:
    with pytest.raises(ParameterError, match="floats of at most 64 bits or integers"):
        OneBitMean.from_epsilon(1.0).perturb(x)


def test_coins_are_whole_words_one_for_each_value() -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    x, right = np.zeros((2, 3)), np.zeros((2, 3), dtype=np.uint64)
    for wrong in (np.zeros((2, 3)), np.zeros((2, 3), np.uint32), np.zeros(3, np.uint64)):
        with pytest.raises(ParameterError, match="rounding must be uint64"):
            mechanism.perturb_with(x, wrong, right)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="coins must be uint64"):
            mechanism.perturb_with(x, right, wrong)  # type: ignore[arg-type]


def test_an_estimate_needs_reports_that_fit() -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    for none in (np.zeros((0, 4), dtype=np.bool_), np.array(True)):
        with pytest.raises(ParameterError, match="at least one user"):
            mechanism.estimate(none)
    with pytest.raises(ParameterError, match="bool array"):
        mechanism.estimate(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="ones must lie"):
        mechanism.estimate_from_ones(11, 10)


@given(npst.arrays(np.dtype(np.bool_), shapes(max_side=9)))
def test_reports_make_the_round_trip(reports: NDArray[np.bool_]) -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    data = mechanism.pack(reports)
    assert len(data) == -(-reports.size * mechanism.report_bits // 8)
    assert np.array_equal(mechanism.unpack(data, reports.shape), reports)


@given(st.binary(max_size=6), shapes(max_dims=2, max_side=7))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes, shape: tuple[int, ...]) -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    try:
        reports = mechanism.unpack(data, shape)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_default_coins_are_fresh_at_each_call() -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    x = np.full(512, 0.5)
    assert not np.array_equal(mechanism.perturb(x), mechanism.perturb(x))


def test_mechanisms_are_values() -> None:
    assert OneBitMean.from_epsilon(1.0) == OneBitMean.from_epsilon(1, 0, 1)
    assert OneBitMean.from_epsilon(1.0).unit == "value"
    assert len({OneBitMean.from_epsilon(1.0), OneBitMean.from_epsilon(1.0, 0, 2)}) == 2
