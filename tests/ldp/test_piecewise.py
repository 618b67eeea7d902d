"""The Piecewise Mechanism: unbiased means, the paper's variance, the wire, and refusals."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.mechanism import Mechanism
from ldp.piecewise import STEPS, Piecewise
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import coverage, law, mean_and_variance
from tests.support.strategies import float_arrays, seeds, shapes


def papers_variance(epsilon: float, t: float) -> float:
    """Variance of the continuous mechanism for a value in [-1, 1]."""
    gap = math.expm1(epsilon / 2)
    return t * t / gap + (math.exp(epsilon / 2) + 3) / (3 * gap * gap)


def says(mechanism: Piecewise) -> Callable[[int], Fraction]:
    """The value of a report for range [0, steps], from the law alone."""
    keep, n, w = Fraction(mechanism.keep, ONE), mechanism.steps, mechanism.window
    slope = keep - (1 - keep) * w / n
    return lambda j: (j - Fraction(n + w - 1, 2)) / slope + Fraction(n, 2)


@given(st.floats(MIN_EPSILON, 100))
def test_reported_epsilon_is_at_most_the_requested(epsilon: float) -> None:
    mechanism = Piecewise.from_epsilon(epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    for window in (None, 5):
        with pytest.raises(ParameterError, match="epsilon"):
            Piecewise.from_epsilon(epsilon, window=window)


@pytest.mark.parametrize("epsilon", [1e-12, 710, 800, 1e300])
def test_o09_extreme_epsilons_are_finite_and_right(epsilon: float) -> None:
    mechanism = Piecewise.from_epsilon(epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    x = np.linspace(-1, 1, 9)
    reports = mechanism.perturb(x, rng=Prg(bytes(32)))
    assert np.all(np.isfinite(mechanism.values(reports)))
    assert math.isfinite(mechanism.worst_variance)
    if epsilon > 1:
        assert mechanism.window == 1
        # All coins but for 2^-64 tell the point, and these values are points.
        assert mechanism.values(reports) == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_the_mean_report_is_the_value_exactly(epsilon: float, steps: int) -> None:
    """In fractions, from the walked law; the variance of the code is that of the law."""
    mechanism = Piecewise.from_epsilon(epsilon, 0, steps, steps=steps)
    value = says(mechanism)
    worst = Fraction(0)
    for x in np.arange(4 * steps + 1) / 4:
        table = law(mechanism, x, 4, (steps, mechanism.window))
        mean, variance = mean_and_variance(table, value)
        assert mean == Fraction(x)
        assert float(mechanism.variance_of(x)) == pytest.approx(float(variance), rel=1e-9)
        worst = max(worst, variance)
    assert worst <= mechanism.worst_variance * (1 + 1e-12)
    reports = np.arange(mechanism.outcomes)
    exact = [float(value(j)) for j in reports.tolist()]
    assert mechanism.values(reports) == pytest.approx(exact, rel=1e-12, abs=1e-12)


@given(st.integers(1, 40), st.floats(0.01, 44), st.data())
def test_the_worst_variance_is_the_largest(steps: int, epsilon: float, data: st.DataObject) -> None:
    window = data.draw(st.none() | st.integers(1, steps))
    mechanism = Piecewise.from_epsilon(epsilon, 0, steps, steps=steps, window=window)
    # A hundred places within each step: the largest of them is within 1e-4 of a squared step.
    found = mechanism.variance_of(np.arange(100 * steps + 1) / 100).max()
    assert found <= mechanism.worst_variance * (1 + 1e-9)
    assert mechanism.worst_variance - found <= 1e-4 + 1e-9 * found


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_the_variance_is_that_of_the_papers_continuous_mechanism(epsilon: float) -> None:
    mechanism = Piecewise.from_epsilon(epsilon)
    t = np.linspace(-1, 1, 21)
    exact = np.array([papers_variance(epsilon, value) for value in t])
    assert np.all(np.abs(mechanism.variance_of(t) / exact - 1) < 2e-3)
    assert mechanism.worst_variance == pytest.approx(papers_variance(epsilon, 1.0), rel=2e-3)
    # The window's share of the reports is the paper's, but for half a point.
    share = mechanism.window / mechanism.outcomes
    assert share == pytest.approx(1 / (math.exp(epsilon / 2) + 1), abs=1 / STEPS)


def test_a_coarse_grid_costs_little() -> None:
    """With 64 steps the variance is within 2 % of the paper's for epsilon up to 4."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        mechanism = Piecewise.from_epsilon(epsilon, steps=64)
        assert mechanism.worst_variance <= 1.02 * papers_variance(epsilon, 1.0)


def test_the_variance_is_that_of_the_estimates() -> None:
    """20,000 estimates; the sample variance has a relative standard error of 1 %: 7 allowed."""
    mechanism = Piecewise.from_epsilon(1.0, 2, 5)
    x = np.linspace(2, 5, 100)
    told = mechanism.perturb(
        np.repeat(x[:, np.newaxis], 20_000, axis=1), rng=Prg(b"piecewise: the variance is right")
    )
    result = mechanism.estimate(told)
    exact = float(mechanism.variance_of(x).sum()) / 100**2
    assert result.value.var() / exact == pytest.approx(1, abs=0.07)
    assert result.value.mean() == pytest.approx(3.5, abs=6.2 * math.sqrt(exact / 20_000))
    # The plug-in's own mean: it is unbiased but for its limits, which 100 users rarely reach.
    assert result.variance.mean() / exact == pytest.approx(1, abs=0.03)
    assert np.all(result.variance <= result.worst * (1 + 1e-9))


@pytest.mark.parametrize("truth", [-1.0, 0.0, 0.7])
def test_intervals_cover_at_their_confidence(truth: float) -> None:
    """10,000 intervals of 300 users: .95 less 6 standard errors, .0131, and .003 of the normal."""
    mechanism = Piecewise.from_epsilon(1.0)
    told = mechanism.perturb(
        np.full((300, 10_000), truth), rng=Prg(b"piecewise: coverage of 95 %, ok!")
    )
    result = mechanism.estimate(told)
    assert coverage(result, truth) >= 0.95 - 0.0161
    low, high = result.interval(worst=True)
    assert np.mean((low <= truth) & (high >= truth)) >= 0.95 - 0.0161
    assert coverage(result, truth, scale=0.8) < 0.95 - 0.0161


@given(seeds(), float_arrays(1.0))
def test_reports_have_the_shape_of_the_values(seed: bytes, x: NDArray[np.float64]) -> None:
    mechanism = Piecewise.from_epsilon(1.0)
    before = x.copy()
    reports = mechanism.perturb(x, rng=Prg(seed))
    assert reports.shape == x.shape
    assert reports.dtype == mechanism.dtype == np.uint16
    assert np.array_equal(x, before)
    assert np.array_equal(mechanism.perturb(x.copy(order="F"), rng=Prg(seed)), reports)
    assert mechanism.values(reports).shape == x.shape


@pytest.mark.parametrize("steps", [1, 200, 255, 256, 1 << 15, 1 << 16, 1 << 31])
def test_every_grid_has_the_dtype_and_the_bits_of_its_reports(steps: int) -> None:
    mechanism = Piecewise.from_epsilon(1.0, steps=steps)
    assert mechanism.outcomes == steps + mechanism.window
    assert mechanism.outcomes - 1 <= np.iinfo(mechanism.dtype).max
    assert 2 ** (mechanism.report_bits - 1) < mechanism.outcomes <= 2**mechanism.report_bits
    x = np.tile([-1.0, 1.0], 30_000)
    result = mechanism.estimate(mechanism.perturb(x, rng=Prg(bytes(32))))
    assert abs(float(result.value)) <= 6.2 * math.sqrt(float(result.worst))


def test_arrays_beyond_one_piece_are_randomized_to_their_end() -> None:
    mechanism = Piecewise.from_epsilon(30.0)
    x = np.linspace(-1, 1, 3 * (1 << 14) + 5)
    # A report is off the value by more than a step with probability below 1e-8.
    assert np.all(np.abs(mechanism.values(mechanism.perturb(x, rng=Prg(bytes(32)))) - x) < 1e-4)


def test_parameters_outside_their_range_are_refused() -> None:
    for steps in (0, -1, 2**31 + 1, 2.0, True):
        with pytest.raises(ParameterError, match="steps"):
            Piecewise.from_epsilon(1.0, steps=steps)  # type: ignore[arg-type]
    for window in (0, STEPS + 1, 1.5):
        with pytest.raises(ParameterError, match="window"):
            Piecewise.from_epsilon(1.0, window=window)  # type: ignore[arg-type]
    for keep in (0, ONE // 3, ONE, -1, 0.5):
        with pytest.raises(ParameterError, match="keep"):
            Piecewise(-1, 1, 4, 2, keep)  # type: ignore[arg-type]
    assert Piecewise(-1, 1, 4, 2, ONE // 3 + 1).epsilon > 0
    with pytest.raises(ParameterError, match="widen the window"):
        Piecewise.from_epsilon(MIN_EPSILON, steps=1 << 31, window=1)
    with pytest.raises(ParameterError, match="high - low"):
        Piecewise.from_epsilon(1.0, 1, 1)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0000001, 7.25])
def test_o08_a_value_outside_the_range_is_named_by_index_and_not_shown(wrong: float) -> None:
    x = np.zeros((3, 4))
    x[1, 2] = wrong
    mechanism = Piecewise.from_epsilon(1.0)
    for call in (mechanism.perturb, mechanism.variance_of):
        with pytest.raises(ParameterError, match=r"x\[1, 2\]") as caught:
            call(x)
        assert str(wrong) not in str(caught.value)


def test_an_estimate_needs_reports_that_fit() -> None:
    mechanism = Piecewise.from_epsilon(1.0, steps=4)
    for none in (np.zeros((0, 4), np.uint8), np.array(1)):
        with pytest.raises(ParameterError, match="at least one user"):
            mechanism.estimate(none)
    for wrong in (np.array([mechanism.outcomes]), np.array([-1])):
        for call in (mechanism.estimate, mechanism.values, mechanism.pack):
            with pytest.raises(ParameterError, match="reports must lie in"):
                call(wrong)
    with pytest.raises(ParameterError, match="reports must be integers"):
        mechanism.estimate(np.zeros(3))


@given(st.integers(1, 300), shapes(), st.data())
def test_reports_make_the_round_trip(
    steps: int, shape: tuple[int, ...], data: st.DataObject
) -> None:
    mechanism = Piecewise.from_epsilon(1.0, steps=steps)
    size = math.prod(shape)
    some = st.integers(0, mechanism.outcomes - 1)
    told = data.draw(st.lists(some, min_size=size, max_size=size))
    reports = np.array(told, dtype=mechanism.dtype).reshape(shape)
    packed = mechanism.pack(reports)
    assert len(packed) == -(-size * mechanism.report_bits // 8)
    back = mechanism.unpack(packed, shape)
    assert back.dtype == mechanism.dtype
    assert np.array_equal(back, reports)


@given(st.binary(max_size=6), shapes(max_dims=2, max_side=7))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes, shape: tuple[int, ...]) -> None:
    mechanism = Piecewise.from_epsilon(1.0, steps=4)
    try:
        reports = mechanism.unpack(data, shape)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_a_report_beyond_the_domain_is_no_encoding() -> None:
    mechanism = Piecewise.from_epsilon(1.0, steps=4)
    assert (mechanism.outcomes, mechanism.report_bits) == (6, 3)
    assert mechanism.unpack(bytes([0b10100000]), 1).tolist() == [5]
    with pytest.raises(WireError, match=r"outside \[0, 6\)"):
        mechanism.unpack(bytes([0b11000000]), 1)


def test_it_is_a_mechanism_and_a_value() -> None:
    mechanism: Mechanism = Piecewise.from_epsilon(1.0)
    assert (mechanism.unit, mechanism.report_bits) == ("value", 16)
    assert mechanism == Piecewise.from_epsilon(1, -1, 1)
    x: Any = [0.5] * 64
    assert not np.array_equal(mechanism.perturb(x), mechanism.perturb(x))  # fresh coins
