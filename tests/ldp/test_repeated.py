"""Repeated means: rounding by alpha, estimates of a round, memos on disk, and refusals."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ldp.memo import MemoStore
from ldp.one_bit_mean import OneBitMean
from ldp.randomized_response import RandomizedResponse
from ldp.repeated import Memos, RepeatedMean, RepeatedReporter
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import coverage
from tests.support.stats import fits_binomial
from tests.support.strategies import shapes

USAGE = RepeatedMean.from_epsilon(1.0, 0, 24, steps=8, gamma=0.05)


def random_memos(mechanism: RepeatedMean, n: int, rng: Prg) -> Memos:
    shape = (n, mechanism.steps + 1)
    return mechanism.memos_with(
        rng.words(n, np.uint64), rng.words(shape, np.uint64), rng.words(shape, np.uint64)
    )


@given(st.floats(MIN_EPSILON, 100), st.floats(0, 0.4999))
def test_the_answers_epsilon_is_at_most_the_requested(epsilon: float, gamma: float) -> None:
    mechanism = RepeatedMean.from_epsilon(epsilon, steps=4, gamma=gamma)
    assert 0 < mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9
    assert 0 <= mechanism.gamma - Fraction(gamma) < Fraction(1, ONE)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        RepeatedMean.from_epsilon(epsilon, steps=4)
    if epsilon not in (0, 1e-320):  # a delta may be asked for at any epsilon from 0 on
        with pytest.raises(ParameterError, match="epsilon"):
            USAGE.delta(2, epsilon)


@pytest.mark.parametrize("gamma", [-0.1, 0.5, 1, math.nan, math.inf, "0.1", True, None, 1j])
def test_flips_are_rarer_than_every_second_report(gamma: float) -> None:
    with pytest.raises(ParameterError, match="gamma"):
        RepeatedMean.from_epsilon(1.0, steps=4, gamma=gamma)


@given(st.integers(0, 64))
def test_alpha_point_rounding_is_unbiased_over_alpha(place: int) -> None:
    """64 evenly spaced alphas, exact for values at multiples of 1/8 of a step."""
    alphas = np.array([k * (ONE // 64) for k in range(64)], dtype=np.uint64)
    x = place * 24 / 64
    points = USAGE.points(np.full(64, x), alphas)
    assert Fraction(int(points.sum()), 64) == Fraction(place, 8)
    assert set(points.tolist()) <= {place // 8, -(-place // 8)}
    # The paper's rule: up where x lies further than alpha above the point below.
    assert np.all(np.diff(points) <= 0)


@given(st.lists(st.floats(0, 24), min_size=2, max_size=9), st.integers(0, ONE - 1))
def test_one_alpha_keeps_the_order_of_values(x: list[float], alpha: int) -> None:
    words = np.full(len(x), alpha, dtype=np.uint64)
    assert np.all(np.diff(USAGE.points(np.sort(x), words)) >= 0)


def test_the_answers_are_one_bit_mean_about_the_points() -> None:
    one_bit = OneBitMean.from_epsilon(1.0, 0, 8)
    rng = Prg(bytes(32))
    rounding, coins = rng.words((2, 500, 9), np.uint64)
    memos = USAGE.memos_with(rng.words(500, np.uint64), rounding, coins)
    points = np.tile(np.arange(9), (500, 1))
    assert np.array_equal(memos.answers, one_bit.perturb_with(points, rounding, coins))
    keep = Fraction(USAGE.coin.keep, ONE)
    exact = [(1 - keep) + (2 * keep - 1) * Fraction(v, 8) for v in range(9)]
    assert list(USAGE.ones) == exact


def test_reports_are_the_answers_of_the_points() -> None:
    mechanism = RepeatedMean.from_epsilon(1.0, 0, 24, steps=8)
    memos = random_memos(mechanism, 400, Prg(bytes(32)))
    x = np.linspace(0, 24, 400)
    points = mechanism.points(x, memos.alphas)
    told = mechanism.report(x, memos)
    assert told.tolist() == [bool(memos.answers[i, v]) for i, v in enumerate(points.tolist())]


def test_estimates_of_a_round_are_unbiased() -> None:
    """400,000 users: within 6.2 standard errors, alarm 1e-9."""
    rng = Prg(b"repeated: unbiased in each round")
    n = 400_000
    memos = random_memos(USAGE, n, rng)
    for x in (np.full(n, 7.3), np.linspace(0, 24, n), rng.uniform(25, n)):
        result = USAGE.estimate(USAGE.report(x, memos, rng=rng))
        assert abs(float(result.value) - x.mean()) <= 6.2 * math.sqrt(float(result.worst))
        # The twin forgets the flips, a tenth of the gap.
        forgetful = RepeatedMean(0, 24, 8, USAGE.coin, 0)
        if abs(x.mean() - 12) > 4:
            wrong = forgetful.estimate(USAGE.report(x, memos, rng=rng))
            assert abs(float(wrong.value) - x.mean()) > 6.2 * math.sqrt(float(result.worst))


def test_the_estimate_inverts_the_mean_report_exactly() -> None:
    keep, gamma = Fraction(USAGE.coin.keep, ONE), USAGE.gamma
    gap = (2 * keep - 1) * (1 - 2 * gamma)
    for ones in (0, 3, 10):
        result = USAGE.estimate(np.arange(10) < ones)
        exact = 24 * ((Fraction(ones, 10) - Fraction(1, 2)) / gap + Fraction(1, 2))
        assert float(result.value) == pytest.approx(float(exact), rel=1e-12)
        fraction = min(max(exact / 24, Fraction(0)), Fraction(1))
        variance = 57.6 * float((1 / gap**2 - 1) / 4 + fraction * (1 - fraction))
        assert float(result.variance) == pytest.approx(variance)
        assert float(result.worst) == pytest.approx(57.6 * float(1 / gap**2 / 4))


def test_intervals_cover_at_their_confidence() -> None:
    """10,000 intervals of 300 users: .95 less 6 standard errors, .0131, and .003 of the normal."""
    mechanism = RepeatedMean.from_epsilon(1.0, 0, 2, steps=2, gamma=0.05)
    rng = Prg(b"repeated: coverage of 95 % ok 32")
    told = []
    for _ in range(10):
        memos = random_memos(mechanism, 300_000, rng)
        told.append(mechanism.report(np.full(300_000, 0.7), memos, rng=rng).reshape(300, 1000))
    result = mechanism.estimate(np.concatenate(told, axis=1))
    assert coverage(result, 0.7) >= 0.95 - 0.0161
    assert coverage(result, 0.7, scale=0.8) < 0.95 - 0.0161


def test_errors_of_two_rounds_are_those_of_one_memo() -> None:
    """Without flips, averaging rounds of unchanged values gains nothing: all have one estimate."""
    mechanism = RepeatedMean.from_epsilon(1.0, steps=4)
    memos = random_memos(mechanism, 1_000, Prg(bytes(32)))
    x = np.linspace(0, 1, 1_000)
    reports = np.stack([mechanism.report(x, memos) for _ in range(3)], axis=1)
    result = mechanism.estimate(reports)
    assert result.value.shape == (3,)
    assert result.value[0] == result.value[1] == result.value[2]


def test_costs_are_those_of_the_account() -> None:
    cost = USAGE.cost(3)
    assert cost.still <= cost.moving <= 3 * math.log(0.95 / 0.05)
    assert cost.is_exact
    assert cost.pattern <= 3 * USAGE.epsilon * (1 + 1e-15)
    long = USAGE.cost(1000)
    assert not long.is_exact
    assert long.still == USAGE.epsilon
    assert long.pattern == pytest.approx(9 * USAGE.epsilon)  # nine points, however many rounds
    assert long.moving >= 500 * math.log(0.95 / 0.05) - 2 * math.log(2)
    assert USAGE.delta(3, cost.moving) == 0.0
    assert 0 < USAGE.delta(3, 1.0) < USAGE.delta(3, 0.5) < 1
    assert USAGE.delta(20, 1.0) <= 1
    for rounds in (0, -1, 2**31 + 1, 1.0, True):
        with pytest.raises(ParameterError, match="rounds"):
            USAGE.cost(rounds)  # type: ignore[arg-type]


def test_a_memo_survives_a_restart(tmp_path: Path) -> None:
    mechanism = RepeatedMean.from_epsilon(1.0, 0, 24, steps=8)
    values = [float(v) for v in np.linspace(0, 24, 60)]
    MemoStore.create(tmp_path / "memo")
    first = [
        RepeatedReporter(mechanism, MemoStore.open(tmp_path / "memo"), "usage").report(x)
        for x in values
    ]
    store = MemoStore.open(tmp_path / "memo")
    again = [RepeatedReporter(mechanism, store, "usage").report(x) for x in reversed(values)]
    assert again == first[::-1]
    # The key alone gives the same: it is all that must survive.
    key = np.frombuffer((tmp_path / "memo" / "key").read_bytes()[-64:-32], np.uint8)
    memos = mechanism.memos(np.tile(key, (60, 1)), "usage")
    assert mechanism.report(values, memos).tolist() == first
    # Nine answers are what the store counts; what a history loses is the mechanism's to say.
    assert store.spent() == pytest.approx(9 * mechanism.epsilon)
    assert mechanism.cost(60).moving == math.inf


def test_flips_are_fresh_and_answers_are_not(tmp_path: Path) -> None:
    """200 reports about one value: flips fit gamma, exact binomial bounds of 1e-9."""
    mechanism = RepeatedMean.from_epsilon(1.0, 0, 24, steps=8, gamma=0.25)
    reporter = RepeatedReporter(mechanism, MemoStore.create(tmp_path / "memo"), "usage")
    key = np.frombuffer((tmp_path / "memo" / "key").read_bytes()[-64:-32], np.uint8)
    memos = mechanism.memos(key[np.newaxis], "usage")
    answer = memos.answers[0, mechanism.points([7.0], memos.alphas)[0]]
    rng = Prg(bytes(32))
    flipped = sum(reporter.report(7.0, rng=rng) != answer for _ in range(200))
    assert fits_binomial(flipped, 200, 0.25)


def test_another_grid_or_family_has_other_coins_and_another_coin_is_refused(
    tmp_path: Path,
) -> None:
    store = MemoStore.create(tmp_path / "memo")
    coin = USAGE.coin
    RepeatedReporter(USAGE, store, "usage").report(7.0)
    for other in (RepeatedMean(0, 24, 9, coin, 0), RepeatedMean(0, 25, 8, coin, 0)):
        assert {other.question("answer", v) for v in range(9)}.isdisjoint(
            USAGE.question("answer", v) for v in range(9)
        )
        RepeatedReporter(other, store, "usage").report(7.0)
    assert USAGE.question("answer", 3) != USAGE.question("rounding", 3)
    weaker = RepeatedMean.from_epsilon(0.5, 0, 24, steps=8)
    with pytest.raises(StateError, match="another epsilon"):
        RepeatedReporter(weaker, store, "usage").report(7.0)
    RepeatedReporter(weaker, store, "usage, weaker").report(7.0)


def test_memos_of_a_population_are_made_a_few_users_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = Prg(bytes(32)).words((7, 32), np.uint8)
    whole = USAGE.memos(keys, "usage")
    monkeypatch.setattr("ldp.repeated._WORDS", 20)
    parts = USAGE.memos(keys, "usage")
    assert np.array_equal(whole.alphas, parts.alphas)
    assert np.array_equal(whole.answers, parts.answers)


def test_arrays_beyond_one_piece_are_rounded_to_their_end() -> None:
    n = (1 << 14) + 100
    x = np.tile([0.0, 24.0], n)
    points = USAGE.points(x, np.zeros(2 * n, dtype=np.uint64))
    assert np.array_equal(points, np.tile([0, 8], n))


def test_parameters_outside_their_range_are_refused() -> None:
    coin = RandomizedResponse.from_epsilon(1.0)
    for steps in (0, -1, 2**16 + 1, 2.0, True):
        with pytest.raises(ParameterError, match="steps"):
            RepeatedMean(0, 1, steps, coin, 0)  # type: ignore[arg-type]
    for flip in (-1, ONE // 2, 0.5):
        with pytest.raises(ParameterError, match="flip"):
            RepeatedMean(0, 1, 4, coin, flip)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="coin must be a RandomizedResponse"):
        RepeatedMean(0, 1, 4, 0.75, 0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="high - low"):
        RepeatedMean(1, 1, 4, coin, 0)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.5, 24.5])
def test_o08_a_value_outside_the_range_is_named_by_index_and_not_shown(wrong: float) -> None:
    x: Any = [1.0, 2.0, wrong]
    with pytest.raises(ParameterError, match=r"x\[2\]") as caught:
        USAGE.points(x, np.zeros(3, dtype=np.uint64))
    assert str(wrong) not in str(caught.value)


def test_words_and_values_must_fit() -> None:
    with pytest.raises(ParameterError, match="one axis"):
        USAGE.points(np.zeros((2, 2)), np.zeros((2, 2), dtype=np.uint64))
    with pytest.raises(ParameterError, match="alphas must be uint64"):
        USAGE.points([1.0], np.zeros(2, dtype=np.uint64))
    with pytest.raises(ParameterError, match="rounding must be uint64"):
        USAGE.memos_with(np.zeros(2, np.uint64), np.zeros((2, 8), np.uint64), np.zeros((2, 9)))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="coins must be uint64"):
        USAGE.memos_with(np.zeros(2, np.uint64), np.zeros((2, 9), np.uint64), np.zeros((2, 9)))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="at least one user"):
        USAGE.estimate(np.zeros((0, 3), dtype=np.bool_))
    with pytest.raises(ParameterError, match="bool array"):
        USAGE.estimate(np.zeros(3))  # type: ignore[arg-type]


@given(npst.arrays(np.dtype(np.bool_), shapes(max_side=9)))
def test_reports_make_the_round_trip(reports: NDArray[np.bool_]) -> None:
    data = USAGE.pack(reports)
    assert len(data) == -(-reports.size * USAGE.report_bits // 8)
    assert np.array_equal(USAGE.unpack(data, reports.shape), reports)


@given(st.binary(max_size=6), shapes(max_dims=2, max_side=7))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes, shape: tuple[int, ...]) -> None:
    try:
        reports = USAGE.unpack(data, shape)
    except WireError:
        return
    assert USAGE.pack(reports) == data
