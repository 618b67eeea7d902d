"""Skellam noise: parameters, its privacy statements, sums, results, refusals, the wire."""

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ldp.mechanism import Mechanism
from ldp.renyi import epsilon_of_rdp
from ldp.skellam import MAX_VARIANCE, Skellam, SkellamLaw
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from tests.support.stats import normal_half_width


def exact_rdp(variance: float, alpha: int, sensitivity: int) -> float:
    """The Renyi divergence of the law from its shift, by its weights down to 2^-2000."""
    weights = SkellamLaw(Fraction(variance)).weights(2000).high
    logs = [math.log(w) for w in weights]
    total = math.log(2 * sum(weights) - weights[0])
    reach = len(logs) - 1 - sensitivity
    x = np.arange(-reach, reach + 1)
    log_p = np.array(logs)[abs(x)] - total
    log_q = np.array(logs)[abs(x + sensitivity)] - total
    terms = alpha * log_p - (alpha - 1) * log_q
    top = terms.max()
    return float((top + math.log(np.exp(terms - top).sum())) / (alpha - 1))


@pytest.mark.parametrize("variance", [4.0, 50.0, 400.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
@pytest.mark.parametrize("alpha", [2, 3, 8])
def test_rdp_covers_the_exact_divergence(variance: float, sensitivity: int, alpha: int) -> None:
    bound = Skellam(variance, sensitivity).rdp(alpha)
    exact = exact_rdp(variance, alpha, sensitivity)
    assert exact <= bound
    if variance >= 50:  # and it is no empty statement: near alpha k^2 / (2 v)
        assert bound <= 1.2 * exact


def test_rdp_of_a_vector() -> None:
    """Corollary 3.6 with l1 = 12 and l2^2 = 40, both of its corrections."""
    mechanism = Skellam(100)
    first = Fraction(5 * 40, 200) + Fraction(9 * 40 + 72, 4 * 100**2)
    assert mechanism.rdp(5, l1=12, l2_squared=40) == pytest.approx(float(first), rel=1e-15)
    small = Skellam(Fraction(1, 2))
    second = Fraction(5 * 40) + Fraction(3 * 12)
    assert small.rdp(5, l1=12, l2_squared=40) == pytest.approx(float(second), rel=1e-15)
    assert mechanism.rdp(2) == mechanism.rdp(2, l1=1, l2_squared=1)


def test_the_exact_epsilon_is_below_the_one_from_rdp() -> None:
    for variance, sensitivity in ((16, 2), (400, 10), (10_000, 60)):
        mechanism = Skellam(variance, sensitivity)
        for delta in (1e-4, 1e-8):
            bound = min(epsilon_of_rdp(a, mechanism.rdp(a), delta) for a in range(2, 100))
            assert 0.5 * bound < mechanism.epsilon_at(delta) < bound
            assert mechanism.delta_at(mechanism.epsilon_at(delta)) <= delta * (1 + 2**-39)


def test_pure_epsilon_is_infinite_and_says_why() -> None:
    assert Skellam(3).epsilon == math.inf
    assert "delta" in str(Skellam.epsilon.__doc__)


@pytest.mark.parametrize("variance", [0.01, 1.0, 30.0, 5000.0])
def test_the_weights_agree_with_a_library(variance: float) -> None:
    given = SkellamLaw(Fraction(variance)).weights(64)
    everything = 2 * sum(given.high) - given.high[0]
    for x in range(0, min(len(given.high), int(8 * math.sqrt(variance)) + 3)):
        expected = stats.skellam.pmf(x, variance / 2, variance / 2)
        assert given.high[x] / everything == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("variance", [0, -1, math.nan, math.inf, MAX_VARIANCE + 1])
def test_other_variances_are_refused_with_the_remedy(variance: Any) -> None:
    with pytest.raises(ParameterError, match=r"variance .* use ldp.discrete_gaussian"):
        Skellam(variance)


@pytest.mark.parametrize("variance", ["1", True, None])
def test_other_types_are_refused(variance: Any) -> None:
    with pytest.raises(ParameterError, match="variance"):
        Skellam(variance)


@pytest.mark.parametrize("alpha", [1, 0, 2.5, True, "2"])
def test_other_orders_are_refused(alpha: Any) -> None:
    with pytest.raises(ParameterError, match="alpha"):
        Skellam(1).rdp(alpha)


@pytest.mark.parametrize("sensitivity", [0, 1.0, True, 2**53 + 1])
def test_other_sensitivities_are_refused(sensitivity: Any) -> None:
    with pytest.raises(ParameterError, match="sensitivity"):
        Skellam(1, sensitivity)


@pytest.mark.parametrize("variance", [1e-9, 2, 1000, 2**20])
def test_shapes_and_dtypes(variance: float) -> None:
    mechanism = Skellam(variance)
    for shape in ((), (0,), (3,), (2, 0, 4), (20_000,), (3, 10_000)):
        drawn = mechanism.sample(shape, rng=Prg(bytes(32)))
        assert drawn.shape == shape
        assert drawn.dtype == np.int64
        told = mechanism.perturb(np.full(shape, 7, dtype=np.int8), rng=Prg(bytes(32)))
        assert np.array_equal(told - 7, drawn)


@pytest.mark.parametrize("variance", [0.5, 9, 5000])
def test_the_interval_covers(variance: float) -> None:
    """95 % intervals of 10,000 means of 100 users: at least 93.7 % but for 1e-9."""
    mechanism = Skellam(variance)
    reports = 5 + mechanism.sample((100, 10_000), rng=Prg(b"coverage of Skellam means of 100"))
    low, high = mechanism.estimate(reports).interval()
    allowed = normal_half_width(math.sqrt(0.95 * 0.05 / 10_000))
    assert np.mean((low <= 5) & (high >= 5)) >= 0.95 - allowed


@pytest.mark.parametrize("variance", [0.01, 1, 2500, 2**20])
def test_the_wire(variance: float) -> None:
    mechanism = Skellam(variance)
    reports = mechanism.sample((10, 1000), rng=Prg(b"w" * 32))
    data = mechanism.pack(reports)
    assert np.array_equal(mechanism.unpack(data, (10, 1000)), reports)
    assert 8 * len(data) <= 10_000 * mechanism.report_bits


def test_a_mechanism_that_has_drawn_can_be_pickled() -> None:
    mechanism = Skellam(7)
    mechanism.sample(3)
    again = pickle.loads(pickle.dumps(mechanism))
    drawn = [m.sample(100, rng=Prg(bytes(32))).tolist() for m in (mechanism, again)]
    assert again == mechanism
    assert drawn[0] == drawn[1]


def test_it_is_a_mechanism() -> None:
    mechanism: Mechanism = Skellam(1)
    assert mechanism.unit == "value"
