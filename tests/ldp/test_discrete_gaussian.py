"""Discrete Gaussian noise: parameters, its privacy statements, results, refusals, the wire."""

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.discrete_gaussian import MAX_SIGMA, TABLE_SIGMA, DiscreteGaussian
from ldp.mechanism import Mechanism
from ldp.renyi import epsilon_of_rho
from ldp.rounding import round_up
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from tests.support.stats import normal_half_width


@given(st.fractions(Fraction(1, 1000), 1000), st.integers(1, 1000))
def test_rho_is_the_next_double_above(sigma: Fraction, sensitivity: int) -> None:
    mechanism = DiscreteGaussian(sigma, sensitivity)
    exact = sensitivity**2 / (2 * sigma**2)
    assert Fraction(mechanism.rho) >= exact > Fraction(math.nextafter(mechanism.rho, 0))


@pytest.mark.parametrize("rho", [1e-10, 0.1, 0.5, 1, Fraction(1, 3), 7.0, 1e6])
@pytest.mark.parametrize("sensitivity", [1, 5])
def test_from_rho_keeps_to_the_request(rho: float, sensitivity: int) -> None:
    mechanism = DiscreteGaussian.from_rho(rho, sensitivity)
    exact = sensitivity**2 / (2 * mechanism.sigma**2)
    assert exact <= Fraction(rho)
    assert exact >= Fraction(rho) * (1 - Fraction(1, 10**12))
    assert mechanism.rho <= round_up(Fraction(rho))


def test_from_rho_finds_a_sigma_on_the_grid_exactly() -> None:
    assert DiscreteGaussian.from_rho(Fraction(1, 2)) == DiscreteGaussian(1)
    assert DiscreteGaussian.from_rho(Fraction(1, 32), 3) == DiscreteGaussian(12, 3)


def test_pure_epsilon_is_infinite_and_says_why() -> None:
    assert DiscreteGaussian(3).epsilon == math.inf
    assert "delta" in str(DiscreteGaussian.epsilon.__doc__)


@pytest.mark.parametrize("sigma", [1, 4, 100, 900])
def test_the_exact_epsilon_is_below_the_one_from_rho(sigma: int) -> None:
    mechanism = DiscreteGaussian(sigma, max(1, sigma // 2))
    for delta in (1e-3, 1e-6, 1e-9):
        exact, bound = mechanism.epsilon_at(delta), epsilon_of_rho(mechanism.rho, delta)
        assert 0.7 * bound < exact < bound
        # The continuous Gaussian of the same sigma is nearly the same mechanism.
        assert exact == pytest.approx(_continuous(mechanism, delta), rel=0.2 / sigma + 0.02)


def _continuous(mechanism: DiscreteGaussian, delta: float) -> float:
    """Epsilon of real Gaussian noise (Balle and Wang 2018, theorem 8), by bisection."""
    a = mechanism.sensitivity / float(mechanism.sigma)

    def delta_of(epsilon: float) -> float:
        near, far = (a / 2 - epsilon / a), (-a / 2 - epsilon / a)
        return 0.5 * (
            math.erfc(-near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(-far / math.sqrt(2))
        )

    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return high


def test_large_noise_is_covered_by_rho() -> None:
    mechanism = DiscreteGaussian(TABLE_SIGMA, 300)
    assert mechanism.epsilon_at(1e-6) == epsilon_of_rho(mechanism._rho, 1e-6)
    assert mechanism.delta_at(mechanism.epsilon_at(1e-6)) == pytest.approx(1e-6, rel=1e-6)
    just_below = DiscreteGaussian(TABLE_SIGMA - 1, 300)
    assert (
        just_below.epsilon_at(1e-6) < mechanism.epsilon_at(1e-6) < 1.2 * just_below.epsilon_at(1e-6)
    )


def test_epsilon_and_delta_belong_together() -> None:
    mechanism = DiscreteGaussian(4, 2)
    for delta in (1e-2, 1e-5, 1e-10):
        assert mechanism.delta_at(mechanism.epsilon_at(delta)) <= delta * (1 + 2**-39)


@pytest.mark.parametrize("sigma", [0, -1, math.nan, math.inf, "1", True, None, MAX_SIGMA + 1])
def test_other_sigmas_are_refused(sigma: Any) -> None:
    with pytest.raises(ParameterError, match="sigma"):
        DiscreteGaussian(sigma)


@pytest.mark.parametrize("rho", [0, -1, math.nan, math.inf, "1", True, None])
def test_other_rhos_are_refused(rho: Any) -> None:
    with pytest.raises(ParameterError, match="rho"):
        DiscreteGaussian.from_rho(rho)


def test_a_rho_too_small_for_the_range_names_the_remedy() -> None:
    with pytest.raises(ParameterError, match="coarser steps"):
        DiscreteGaussian.from_rho(1e-30)


@pytest.mark.parametrize("sensitivity", [0, 1.0, True, 2**53 + 1])
def test_other_sensitivities_are_refused(sensitivity: Any) -> None:
    with pytest.raises(ParameterError, match="sensitivity"):
        DiscreteGaussian(1, sensitivity)


@pytest.mark.parametrize("sigma", [0.01, 4, TABLE_SIGMA, 2**20])
def test_shapes_and_dtypes(sigma: float) -> None:
    mechanism = DiscreteGaussian(sigma)
    for shape in ((), (0,), (3,), (2, 0, 4), (20_000,), (3, 10_000)):
        drawn = mechanism.sample(shape, rng=Prg(bytes(32)))
        assert drawn.shape == shape
        assert drawn.dtype == np.int64
        told = mechanism.perturb(np.full(shape, 7, dtype=np.int8), rng=Prg(bytes(32)))
        assert np.array_equal(told - 7, drawn)


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1, 4, 100])
def test_variance(sigma: float) -> None:
    """By the sum in doubles; it is at most sigma^2."""
    weights = {x: math.exp(-x * x / (2 * sigma**2)) for x in range(-2000, 2001)}
    expected = sum(x * x * w for x, w in weights.items()) / sum(weights.values())
    assert DiscreteGaussian(sigma).variance == pytest.approx(expected, rel=1e-9)
    assert DiscreteGaussian(sigma).variance <= sigma**2 * (1 + 1e-12)


def test_variance_of_tiny_and_large_noise() -> None:
    assert DiscreteGaussian(1e-3).variance == 0.0
    assert DiscreteGaussian(2**15).variance == 2.0**30


def test_no_noise_to_speak_of_tells_the_value() -> None:
    x = np.arange(1000)
    for sigma in (1e-3, 1e-300):
        assert np.array_equal(DiscreteGaussian(sigma).perturb(x), x)


@pytest.mark.parametrize("sigma", [0.6, 5, 3000])
def test_the_interval_covers(sigma: float) -> None:
    """95 % intervals of 10,000 means of 100 users: at least 93.7 % but for 1e-9."""
    mechanism = DiscreteGaussian(sigma)
    reports = 5 + mechanism.sample((100, 10_000), rng=Prg(b"coverage of the Gaussian's means"))
    low, high = mechanism.estimate(reports).interval()
    allowed = normal_half_width(math.sqrt(0.95 * 0.05 / 10_000))
    assert np.mean((low <= 5) & (high >= 5)) >= 0.95 - allowed


@pytest.mark.parametrize("sigma", [0.1, 1, 50, 2**18])
def test_the_wire(sigma: float) -> None:
    mechanism = DiscreteGaussian(sigma)
    reports = mechanism.sample((10, 1000), rng=Prg(b"w" * 32))
    data = mechanism.pack(reports)
    assert np.array_equal(mechanism.unpack(data, (10, 1000)), reports)
    assert 8 * len(data) <= 10_000 * mechanism.report_bits
    if sigma >= 1:  # the entropy is log2(sigma sqrt(2 pi e))
        assert 8 * len(data) / 10_000 <= math.log2(sigma * math.sqrt(2 * math.pi * math.e)) + 0.6


def test_a_mechanism_that_has_drawn_can_be_pickled() -> None:
    for sigma in (5, 5000):
        mechanism = DiscreteGaussian(sigma)
        mechanism.sample(3)
        again = pickle.loads(pickle.dumps(mechanism))
        drawn = [m.sample(100, rng=Prg(bytes(32))).tolist() for m in (mechanism, again)]
        assert again == mechanism
        assert drawn[0] == drawn[1]


def test_it_is_a_mechanism() -> None:
    mechanism: Mechanism = DiscreteGaussian(1)
    assert mechanism.unit == "value"
