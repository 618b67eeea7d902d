"""Discrete Laplace noise: parameters, privacy loss, results, refusals, the wire."""

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.discrete_laplace import MAX_SCALE, DiscreteLaplace
from ldp.integer_noise import MAX_INPUT
from ldp.mechanism import Mechanism
from ldp.rice import LIMIT
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from tests.support.stats import normal_half_width

EPSILONS = [1e-12, 1e-6, 0.1, 0.5, 1.0, math.log(3), 2.0, 8.0, 16.0, 44.0, 710.0, 800.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sensitivity", [1, 3, 1000])
def test_from_epsilon_spends_the_request_exactly(epsilon: float, sensitivity: int) -> None:
    mechanism = DiscreteLaplace.from_epsilon(epsilon, sensitivity)
    assert mechanism.sensitivity / mechanism.scale == Fraction(epsilon)
    assert mechanism.epsilon == epsilon


@given(st.fractions(Fraction(1, 10**6), 10**6), st.integers(1, 10**6))
def test_epsilon_is_the_next_double_above(scale: Fraction, sensitivity: int) -> None:
    epsilon = DiscreteLaplace(scale, sensitivity).epsilon
    assert Fraction(epsilon) >= sensitivity / scale
    assert Fraction(math.nextafter(epsilon, 0)) < sensitivity / scale


def test_a_float_is_taken_as_the_rational_that_it_is() -> None:
    assert DiscreteLaplace(0.1).scale == Fraction(0.1) != Fraction(1, 10)
    assert DiscreteLaplace(3) == DiscreteLaplace(3.0) == DiscreteLaplace(Fraction(3))
    assert DiscreteLaplace(np.float32(0.5)).scale == Fraction(1, 2)  # type: ignore[arg-type]
    assert hash(DiscreteLaplace(3)) == hash(DiscreteLaplace(3.0))


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e-320, "1", True, None])
def test_o09_other_epsilons_are_refused(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        DiscreteLaplace.from_epsilon(epsilon)


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1", True, None, MAX_SCALE + 1])
def test_other_scales_are_refused(scale: Any) -> None:
    with pytest.raises(ParameterError, match="scale"):
        DiscreteLaplace(scale)


@pytest.mark.parametrize("sensitivity", [0, -1, 1.0, True, "1", 2**53 + 1])
def test_other_sensitivities_are_refused(sensitivity: Any) -> None:
    with pytest.raises(ParameterError, match="sensitivity"):
        DiscreteLaplace(1, sensitivity)


def test_an_epsilon_too_small_for_the_sensitivity_names_the_remedy() -> None:
    with pytest.raises(ParameterError, match="coarser steps"):
        DiscreteLaplace.from_epsilon(1e-12, 2**53)


def test_shapes_and_dtypes() -> None:
    mechanism = DiscreteLaplace(2)
    for shape in ((), (0,), (3,), (2, 0, 4), (20_000,), (3, 10_000)):
        drawn = mechanism.sample(shape, rng=Prg(bytes(32)))
        assert drawn.shape == shape
        assert drawn.dtype == np.int64
        told = mechanism.perturb(np.zeros(shape, dtype=np.uint8), rng=Prg(bytes(32)))
        assert np.array_equal(told, drawn)
    assert mechanism.sample(5).shape == (5,)


def test_noise_is_added_to_the_input() -> None:
    x = np.arange(-30_000, 30_000).reshape(3, -1)[:, ::2]  # neither small nor contiguous
    mechanism = DiscreteLaplace(1000)
    told = mechanism.perturb(x, rng=Prg(bytes(32)))
    assert np.array_equal(told - x, mechanism.sample(x.shape, rng=Prg(bytes(32))))
    small = x.astype(np.int16)
    assert np.array_equal(mechanism.perturb(small, rng=Prg(bytes(32))), told)


@pytest.mark.parametrize("x", [[0.5], [True], ["a"], [1 + 0j]])
def test_what_is_no_integer_is_refused(x: list[Any]) -> None:
    with pytest.raises(ParameterError, match="integers"):
        DiscreteLaplace(1).perturb(np.array(x))


@pytest.mark.parametrize("value", [MAX_INPUT + 1, -MAX_INPUT - 1])
def test_inputs_out_of_range_are_refused_without_naming_them(value: int) -> None:
    with pytest.raises(ParameterError, match=r"\[-2\^60, 2\^60\]") as caught:
        DiscreteLaplace(1).perturb(np.array([0, value]))
    assert str(abs(value)) not in str(caught.value)
    with pytest.raises(ParameterError):
        DiscreteLaplace(1).perturb(np.array([2**64 - 1], dtype=np.uint64))


def test_inputs_at_the_ends_of_the_range() -> None:
    x = np.array([MAX_INPUT, -MAX_INPUT])
    for scale in (1, MAX_SCALE):
        told = DiscreteLaplace(scale).perturb(x, rng=Prg(bytes(32)))
        assert np.all(np.abs(told - x) < 50 * scale)


@pytest.mark.parametrize("scale", [Fraction(1, 40), 0.5, 1, 10, 128, 1000, 2**18, 2**54])
def test_variance(scale: float) -> None:
    """2 rho / (1 - rho)^2 is 1 / (2 sinh^2(1 / (2 scale))): another way without cancellation."""
    s = float(scale)
    expected = 0.5 / math.sinh(0.5 / s) ** 2
    assert DiscreteLaplace(scale).variance == pytest.approx(expected, rel=1e-12)


def test_variance_of_no_noise_to_speak_of() -> None:
    assert DiscreteLaplace.from_epsilon(800.0).variance == 0.0  # e^-800 is no double
    assert DiscreteLaplace.from_epsilon(1e300).variance == 0.0


def test_no_noise_to_speak_of_tells_the_value() -> None:
    for epsilon in (800.0, 1e300):
        x = np.arange(1000)
        assert np.array_equal(DiscreteLaplace.from_epsilon(epsilon).perturb(x), x)


def test_the_estimate_is_the_mean_with_its_variance() -> None:
    mechanism = DiscreteLaplace(3)
    reports = np.array([[1, -5], [2, 7], [3, 1]])
    result = mechanism.estimate(reports)
    assert result.value.tolist() == [2.0, 1.0]
    assert result.n == 3
    assert result.variance == pytest.approx([mechanism.variance / 3] * 2)
    assert np.array_equal(result.worst, result.variance)


def test_the_estimate_of_reports_whose_sum_leaves_the_word() -> None:
    reports = np.full((7, 1), LIMIT)
    assert DiscreteLaplace(MAX_SCALE).estimate(reports).value == pytest.approx([float(LIMIT)])


@pytest.mark.parametrize("reports", [np.array(3), np.zeros((0, 2), dtype=np.int64)])
def test_an_estimate_needs_users(reports: Any) -> None:
    with pytest.raises(ParameterError, match="at least one user"):
        DiscreteLaplace(1).estimate(reports)


def test_an_estimate_needs_integers() -> None:
    with pytest.raises(ParameterError, match="int64"):
        DiscreteLaplace(1).estimate(np.zeros(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0.3, 1, 10])
def test_the_interval_covers(scale: float) -> None:
    """95 % intervals of 10,000 means of 200 users: at least 93.7 % but for 1e-9."""
    mechanism = DiscreteLaplace(scale)
    reports = 5 + mechanism.sample((200, 10_000), rng=Prg(b"coverage of means of two hundred"))
    low, high = mechanism.estimate(reports).interval()
    allowed = normal_half_width(math.sqrt(0.95 * 0.05 / 10_000))
    assert np.mean((low <= 5) & (high >= 5)) >= 0.95 - allowed


@pytest.mark.parametrize("scale", [0.1, 1, 50, 2**18, 2**54])
def test_the_wire(scale: float) -> None:
    mechanism = DiscreteLaplace(scale)
    reports = mechanism.sample((10, 100), rng=Prg(b"w" * 32))
    data = mechanism.pack(reports)
    assert np.array_equal(mechanism.unpack(data, (10, 100)), reports)
    assert 8 * len(data) <= 1000 * mechanism.report_bits + 8


@pytest.mark.parametrize("scale", [1, 50, 2**18])
def test_reports_are_compact(scale: int) -> None:
    """Within a quarter of a bit of the law's entropy, log2(2 e scale) for large scales; 10^5."""
    mechanism = DiscreteLaplace(scale)
    data = mechanism.pack(mechanism.sample(100_000, rng=Prg(b"c" * 32)))
    entropy = -sum(p * math.log2(p) for p in _law(scale)) if scale < 100 else None
    exact = math.log2(2 * math.e * scale) if entropy is None else entropy
    assert exact <= 8 * len(data) / 100_000 + 0.05
    assert 8 * len(data) / 100_000 <= exact + 0.25


def _law(scale: int) -> list[float]:
    rho = math.exp(-1 / scale)
    return [(1 - rho) / (1 + rho) * rho ** abs(x) for x in range(-50 * scale, 50 * scale + 1)]


def test_a_mechanism_that_has_drawn_can_be_pickled() -> None:
    mechanism = DiscreteLaplace(1000)
    mechanism.sample(3)
    again = pickle.loads(pickle.dumps(mechanism))
    assert again == mechanism
    drawn = [m.sample(100, rng=Prg(bytes(32))).tolist() for m in (mechanism, again)]
    assert drawn[0] == drawn[1]


def test_it_is_a_mechanism() -> None:
    mechanism: Mechanism = DiscreteLaplace(1)
    assert mechanism.unit == "value"
