"""The continuous approximation of summed noise: its law, and how far it is from the exact one."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldp.summed_laplace import SummedLaplace
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from recsys.ratings.summed_noise import gamma_difference
from recsys.simulation import SimulationRng
from tests.support.stats import ALARM, normal_half_width

Floats = NDArray[np.float64]
PAPER = 13106


def survival(terms: int, x: Floats) -> Floats:
    """P(sum > x) for x >= 0 and scale 1, by another way.

    Two Poisson processes of rate 1 race to their n-th event. Each next event is either's with
    probability 1/2, so one is there while the other lacks k events with probability
    C(2 n - k - 1, n - k) 2^(k - 2 n), and has a gamma variable of shape k to go.
    """
    k = np.arange(1, terms + 1)
    weights = [math.comb(2 * terms - i - 1, terms - i) * 0.5 ** (2 * terms - i) for i in k.tolist()]
    tails: Floats = np.asarray(stats.gamma.sf(x, k[:, np.newaxis]))
    total: Floats = np.array(weights) @ tails
    return total


def drawn(terms: int, scale: float, count: int, seed: int = 1) -> Floats:
    generator = SimulationRng(seed).generator("noise of a sum")
    return gamma_difference(np.full(1, terms), scale, count, generator).reshape(-1)


def follows(x: Floats, terms: int, scale: float) -> bool:
    """Kolmogorov and Smirnov's test of magnitudes at ``ALARM``, and of the signs."""
    # Its law turns magnitudes into uniform numbers.
    magnitude = stats.kstest(1 - 2 * survival(terms, np.abs(x) / scale), "uniform")
    half = normal_half_width(math.sqrt(0.25 / x.size))
    return bool(magnitude.pvalue > ALARM and abs(np.mean(x > 0) - 0.5) < half)


@pytest.mark.parametrize("terms", [1, 2, 9])
def test_the_law(terms: int) -> None:
    """200,000 draws; noise a tenth too small, or of a term too few, is rejected."""
    x = drawn(terms, 7.0, 200_000)
    assert follows(x, terms, 7.0)
    assert not follows(0.9 * x, terms, 7.0)
    assert not follows(x, terms + 1, 7.0)
    assert not follows(np.abs(x), terms, 7.0)


def distance(terms: int, scale: int) -> float:
    """Total variation between the exact law and the approximation rounded to the grid."""
    rho = math.exp(-1 / scale)
    single = (1 - rho) / (1 + rho) * rho ** np.abs(np.arange(-60 * scale, 60 * scale + 1))
    exact = np.ones(1)
    for _ in range(terms):
        exact = np.convolve(exact, single)
    edges = (np.arange(exact.size // 2 + 1) + 0.5) / scale
    beyond = survival(terms, edges)
    side = beyond[:-1] - beyond[1:]
    rounded = np.concatenate([side[::-1], [1 - 2 * beyond[0]], side])
    return float(0.5 * np.abs(exact - rounded).sum())


@pytest.mark.parametrize("terms", [1, 2, 3, 8])
def test_the_distance_from_the_exact_law(terms: int) -> None:
    """It falls with the square of the scale: below 7.3e-10 at the paper's 13,106 steps."""
    distances = [distance(terms, scale) for scale in (2, 4, 8, 16)]
    for scale, found in zip((2, 4, 8, 16), distances, strict=True):
        assert 0.02 / scale**2 < found < 1 / (8 * scale**2)
    assert distances[2] / distances[3] == pytest.approx(4, rel=0.06)


@pytest.mark.parametrize("scale", [1, 4, PAPER])
def test_the_variance_is_larger_by_a_twelfth_of_a_squared_step(scale: int) -> None:
    exact = SummedLaplace(scale).variance
    assert 2 * scale**2 / exact - 1 == pytest.approx(1 / (12 * scale**2), rel=0.1)


def test_samples_tell_it_from_the_exact_law_at_small_scales_only() -> None:
    """300,000 sums of three terms each, rounded to the grid; Kolmogorov and Smirnov's test."""
    count = 300_000

    def p_value(scale: int, factor: float = 1.0) -> float:
        exact = SummedLaplace(scale).sample(np.full(1, 3), count, rng=Prg(b"x" * 32))[0]
        rounded = np.rint(factor * drawn(3, scale, count)).astype(np.int64)
        return float(stats.ks_2samp(exact, rounded, method="asymp").pvalue)

    assert p_value(PAPER) > ALARM
    assert p_value(PAPER, 0.9) < ALARM
    assert p_value(1) < ALARM


def test_each_row_has_its_own_number_of_terms() -> None:
    generator = SimulationRng(2).generator("noise of a sum")
    x = gamma_difference(np.array([0, 1, 400]), 1.0, 50_000, generator)
    assert x.shape == (3, 50_000)
    assert not x[0].any()
    assert np.var(x[1:], axis=1) == pytest.approx([2, 800], rel=0.1)


@pytest.mark.parametrize("terms", [[-1], [1.0], [[1]]])
def test_other_terms_are_refused(terms: Any) -> None:
    with pytest.raises(ParameterError, match="terms"):
        gamma_difference(np.array(terms), 1.0, 1, SimulationRng(0).generator("x"))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_other_scales_are_refused(scale: float) -> None:
    with pytest.raises(ParameterError, match="scale"):
        gamma_difference(np.array([1]), scale, 1, SimulationRng(0).generator("x"))
