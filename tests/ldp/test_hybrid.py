"""The Hybrid Mechanism: unbiased means, the paper's variance, the wire, and refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.duchi import Duchi
from ldp.hybrid import LEAST_EPSILON, Hybrid
from ldp.mechanism import Mechanism
from ldp.piecewise import Piecewise
from ldp.thresholds import MIN_EPSILON
from mpc.core.errors import ParameterError, WireError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import coverage, law, mean_and_variance
from tests.support.strategies import float_arrays, seeds, shapes


def papers_variance(epsilon: float) -> float:
    """The worst case above ``LEAST_EPSILON``, and there that of every value in [-1, 1]."""
    root, gap = math.exp(epsilon / 2), math.expm1(epsilon / 2)
    duchi = (math.exp(epsilon) + 1) ** 2 / (root * math.expm1(epsilon) ** 2)
    return (root + 3) / (3 * root * gap) + duchi


def test_the_least_epsilon_is_where_both_mechanisms_are_equally_good() -> None:
    assert pytest.approx(0.61, abs=0.005) == LEAST_EPSILON
    duchi = 1 / math.tanh(LEAST_EPSILON / 2) ** 2
    assert papers_variance(LEAST_EPSILON) == pytest.approx(duchi, rel=1e-12)
    for epsilon in (LEAST_EPSILON - 0.01, LEAST_EPSILON + 0.01):
        hybrid_is_better = papers_variance(epsilon) < 1 / math.tanh(epsilon / 2) ** 2
        assert hybrid_is_better == (epsilon > LEAST_EPSILON)


@given(st.floats(MIN_EPSILON, 100))
def test_the_share_is_the_papers(epsilon: float) -> None:
    mechanism = Hybrid.from_epsilon(epsilon)
    assert 0 < mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9
    share = -math.expm1(-epsilon / 2) if epsilon > LEAST_EPSILON else 0.0
    assert mechanism.share / ONE == pytest.approx(share, rel=1e-14)
    assert mechanism.report_bits == (16 if share else 1)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        Hybrid.from_epsilon(epsilon)


@pytest.mark.parametrize("epsilon", [1e-12, 710, 800, 1e300])
def test_o09_extreme_epsilons_are_finite_and_right(epsilon: float) -> None:
    mechanism = Hybrid.from_epsilon(epsilon)
    x = np.linspace(-1, 1, 9)
    values = mechanism.values(mechanism.perturb(x, rng=Prg(bytes(32))))
    assert np.all(np.isfinite(values))
    assert math.isfinite(mechanism.worst_variance)
    if epsilon > 1:
        assert values == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_mean_report_is_the_value_exactly(epsilon: float) -> None:
    mechanism = Hybrid.from_epsilon(epsilon, 0, 2, steps=2)
    near, slope = mechanism.piecewise, Fraction(mechanism.piecewise.keep, ONE)
    slope -= (1 - slope) * near.window / 2
    factor = Fraction(ONE, 2 * mechanism.duchi.coin.keep - ONE)

    def says(report: int) -> Fraction:
        if report < 2:
            return 1 + factor * (2 * report - 1)
        return 1 + (report - 2 - Fraction(near.outcomes - 1, 2)) / slope

    for x in np.arange(5) / 2:
        mean, variance = mean_and_variance(law(mechanism, x, 4, (near.window,)), says)
        assert mean == Fraction(x)
        assert float(mechanism.variance_of(x)) == pytest.approx(float(variance), rel=1e-9)
        assert variance <= mechanism.worst_variance * (1 + 1e-12)
    reports = np.arange(mechanism.outcomes)
    assert mechanism.values(reports) == pytest.approx([float(says(r)) for r in reports.tolist()])


@pytest.mark.parametrize("epsilon", [0.62, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_the_variance_is_the_papers_for_every_value(epsilon: float) -> None:
    mechanism = Hybrid.from_epsilon(epsilon)
    t = np.linspace(-1, 1, 21)
    assert np.all(np.abs(mechanism.variance_of(t) / papers_variance(epsilon) - 1) < 3e-3)
    assert mechanism.worst_variance == pytest.approx(papers_variance(epsilon), rel=1e-3)
    # It is never worse than either part at its worst, but for the grid where they are equal.
    assert mechanism.worst_variance <= mechanism.duchi.worst_variance
    assert mechanism.worst_variance <= mechanism.piecewise.worst_variance * 1.001


@given(st.floats(MIN_EPSILON, LEAST_EPSILON), seeds())
def test_up_to_the_least_epsilon_it_is_duchis(epsilon: float, seed: bytes) -> None:
    mechanism, duchi = Hybrid.from_epsilon(epsilon), Duchi.from_epsilon(epsilon)
    x = np.linspace(-1, 1, 50)
    bits = mechanism.perturb(x, rng=Prg(seed))
    assert np.array_equal(bits, duchi.perturb(x, rng=Prg(seed)))
    ours, its = mechanism.estimate(bits), duchi.estimate(bits.astype(np.bool_))
    assert ours.value == pytest.approx(float(its.value), rel=1e-9, abs=1e-9)
    assert ours.variance == pytest.approx(float(its.variance))
    assert ours.worst == pytest.approx(float(its.worst))
    assert mechanism.epsilon == duchi.epsilon


@pytest.mark.parametrize("truth", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_intervals_cover_at_their_confidence(truth: float, epsilon: float) -> None:
    """10,000 intervals of 300 users: .95 less 6 standard errors, .0131, and .003 of the normal."""
    mechanism = Hybrid.from_epsilon(epsilon)
    told = mechanism.perturb(
        np.full((300, 10_000), truth), rng=Prg(b"hybrid: coverage of 95 % 32 byte")
    )
    result = mechanism.estimate(told)
    assert coverage(result, truth) >= 0.95 - 0.0161
    low, high = result.interval(worst=True)
    assert np.mean((low <= truth) & (high >= truth)) >= 0.95 - 0.0161
    assert coverage(result, truth, scale=0.8) < 0.95 - 0.0161


def test_the_variance_is_that_of_the_estimates() -> None:
    """20,000 estimates; the sample variance has a relative standard error of 1 %: 7 allowed."""
    mechanism = Hybrid.from_epsilon(2.0, 2, 5)
    x = np.linspace(2, 5, 100)
    told = mechanism.perturb(
        np.repeat(x[:, np.newaxis], 20_000, axis=1), rng=Prg(b"hybrid: the variance is as said.")
    )
    result = mechanism.estimate(told)
    exact = float(mechanism.variance_of(x).sum()) / 100**2
    assert result.value.var() / exact == pytest.approx(1, abs=0.07)
    assert result.value.mean() == pytest.approx(3.5, abs=6.2 * math.sqrt(exact / 20_000))
    assert np.all(result.variance <= result.worst * (1 + 1e-9))


@given(seeds(), float_arrays(1.0))
def test_reports_have_the_shape_of_the_values(seed: bytes, x: NDArray[np.float64]) -> None:
    mechanism = Hybrid.from_epsilon(1.0)
    before = x.copy()
    reports = mechanism.perturb(x, rng=Prg(seed))
    assert reports.shape == x.shape
    assert reports.dtype == mechanism.dtype == np.uint16
    assert np.array_equal(x, before)
    assert np.array_equal(mechanism.perturb(x.copy(order="F"), rng=Prg(seed)), reports)


def test_arrays_beyond_one_piece_are_randomized_to_their_end() -> None:
    mechanism = Hybrid.from_epsilon(43.0)
    x = np.tile([-1.0, 1.0], 3 * (1 << 13) + 5)
    # Either part reports an end as it is but for 1e-14.
    assert np.all(np.abs(mechanism.values(mechanism.perturb(x, rng=Prg(bytes(32)))) - x) < 1e-4)


def test_parts_must_fit_together() -> None:
    duchi, near = Duchi.from_epsilon(1.0), Piecewise.from_epsilon(1.0)
    with pytest.raises(ParameterError, match="both parts must have one range"):
        Hybrid(Duchi.from_epsilon(1.0, 0, 1), near, ONE // 2)
    with pytest.raises(ParameterError, match="duchi must be a Duchi"):
        Hybrid(near, near, ONE // 2)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="piecewise must be a Piecewise"):
        Hybrid(duchi, duchi, ONE // 2)  # type: ignore[arg-type]
    for share in (-1, ONE, 0.5, True):
        with pytest.raises(ParameterError, match="share"):
            Hybrid(duchi, near, share)  # type: ignore[arg-type]
    # Parts of different epsilon are a mechanism of the larger one, where both can report.
    weak = Piecewise.from_epsilon(0.5)
    assert Hybrid(duchi, weak, ONE // 2).epsilon == duchi.epsilon
    assert Hybrid(Duchi.from_epsilon(0.5), near, ONE // 2).epsilon == near.epsilon
    assert Hybrid(Duchi.from_epsilon(0.5), near, 0).epsilon == Duchi.from_epsilon(0.5).epsilon


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0000001, 7.25])
def test_o08_a_value_outside_the_range_is_named_by_index_and_not_shown(wrong: float) -> None:
    x = np.zeros((3, 4))
    x[1, 2] = wrong
    mechanism = Hybrid.from_epsilon(1.0)
    for call in (mechanism.perturb, mechanism.variance_of):
        with pytest.raises(ParameterError, match=r"x\[1, 2\]") as caught:
            call(x)
        assert str(wrong) not in str(caught.value)


def test_an_estimate_needs_reports_that_fit() -> None:
    mechanism = Hybrid.from_epsilon(1.0, steps=4)
    with pytest.raises(ParameterError, match="at least one user"):
        mechanism.estimate(np.zeros((0, 4), np.uint8))
    for call in (mechanism.estimate, mechanism.values, mechanism.pack):
        with pytest.raises(ParameterError, match="reports must lie in"):
            call(np.array([mechanism.outcomes]))


@given(st.sampled_from([0.3, 1.0]), st.integers(1, 300), shapes(), st.data())
def test_reports_make_the_round_trip(
    epsilon: float, steps: int, shape: tuple[int, ...], data: st.DataObject
) -> None:
    mechanism = Hybrid.from_epsilon(epsilon, steps=steps)
    size = math.prod(shape)
    some = st.integers(0, mechanism.outcomes - 1)
    told = data.draw(st.lists(some, min_size=size, max_size=size))
    reports = np.array(told, dtype=mechanism.dtype).reshape(shape)
    packed = mechanism.pack(reports)
    assert len(packed) == -(-size * mechanism.report_bits // 8)
    assert np.array_equal(mechanism.unpack(packed, shape), reports)


@given(st.binary(max_size=6), shapes(max_dims=2, max_side=7))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes, shape: tuple[int, ...]) -> None:
    mechanism = Hybrid.from_epsilon(1.0, steps=5)
    try:
        reports = mechanism.unpack(data, shape)
    except WireError:
        return
    assert mechanism.pack(reports) == data


def test_it_is_a_mechanism_and_a_value() -> None:
    mechanism: Mechanism = Hybrid.from_epsilon(1.0)
    assert (mechanism.unit, mechanism.report_bits) == ("value", 16)
    assert mechanism == Hybrid.from_epsilon(1, -1, 1)
