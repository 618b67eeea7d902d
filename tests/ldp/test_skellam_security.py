"""Skellam noise has exactly its law, and sums of it are Skellam again; broken twins are seen.

Probabilities are bracketed by the walk of ``tests.ldp.table_walk`` and compared with the series of
the law in decimal arithmetic. Statistical tests use fixed seeds and hold with probability above
1 - 1e-9 for a fresh one.
"""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.skellam import Skellam, SkellamLaw
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.ldp.table_walk import CELLS, Interval, boundaries, contains, exp, masses, real
from tests.ldp.table_walk import digits as decimals
from tests.support.stats import fits_multinomial, normal_half_width

VARIANCES = [Fraction(1, 1000), Fraction(1), Fraction(7, 3), Fraction(16), Fraction(300)]
Sampler = Callable[[int, Rng], NDArray[np.int64]]


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with decimals(100):
        yield


@cache
def mass(variance: Fraction, x: int) -> Decimal:
    """The sum over y of P(N = y + |x|) P(N' = y) for two Poisson variables of half the variance."""
    mean = variance / 2
    half = Decimal(mean.numerator) / Decimal(mean.denominator)
    term = exp(-variance) * half ** abs(x) / math.factorial(abs(x))
    result = term
    for y in range(1, 10_000):
        term *= half * half / (y * (y + abs(x)))
        result += term
        if y > half and term < Decimal(10) ** -95:  # past the largest term
            break
    return result


@cache
def walked(variance: Fraction) -> list[Interval]:
    return masses(boundaries(Skellam(variance)._table))


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_law_of_the_running_table_is_exact(variance: Fraction) -> None:
    law = walked(variance)
    for index, interval in enumerate(law):
        assert contains(interval, mass(variance, (index + 1) // 2))
        assert interval[1] - interval[0] < Fraction(2 * CELLS, 2**64)
    assert 1 - sum(low for low, _ in law) < Fraction(1, 2**46)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1), (Fraction(1, 1000), Fraction(4, 3)), (16, 300), (7, Fraction(1, 9))]
)
def test_a_sum_is_skellam_of_the_sum_of_variances(one: Fraction, other: Fraction) -> None:
    """The convolution of two walked laws brackets the law of the sum, to 2^-40 and better."""
    first, second = walked(Fraction(one)), walked(Fraction(other))
    low = np.convolve(_two_sided(first, 0), _two_sided(second, 0))
    high = np.convolve(_two_sided(first, 1), _two_sided(second, 1))
    left = 1 - low.sum()  # what either walk has not seen may lie anywhere
    assert left < Fraction(1, 2**44)
    middle = len(low) // 2
    for x in range(-middle, middle + 1):
        interval = (low[middle + x], high[middle + x] + left)
        assert contains(interval, mass(Fraction(one) + Fraction(other), x))
    # The twin that adds standard deviations instead of variances is told apart.
    wrong = (math.sqrt(one) + math.sqrt(other)) ** 2
    assert not contains((low[middle], high[middle] + left), mass(Fraction(wrong), 0))


def _two_sided(law: list[Interval], end: int) -> NDArray[np.object_]:
    """One end of P(x) for x = -n ... n, as exact fractions."""
    n = (len(law) - 1) // 2
    half = [law[2 * x][end] for x in range(n + 1)]
    return np.array([*reversed(half[1:]), *half], dtype=object)


def test_a_discrete_gaussian_is_not_closed_under_sums() -> None:
    """Why this mechanism: two Gaussians of variance 1/4 are not one of variance 1/2."""
    weights = {x: float(np.exp(-2.0 * x * x)) for x in range(-12, 13)}
    scale = sum(weights.values())
    at_zero = sum(weights[x] * weights[-x] for x in weights) / scale**2
    single = 1 / sum(math.exp(-1.0 * x * x) for x in range(-12, 13))
    assert abs(at_zero - single) > 0.001


def test_boundaries_are_exact_beyond_64_bits() -> None:
    variance = Fraction(16)
    for x in (1, 40, 80):
        with decimals(250):
            mass.cache_clear()
            inner = 1 - 2 * sum((_mass_far(variance, y) for y in range(x, x + 300)), Decimal(0))
            cell = int(Fraction(inner) * 2**500)  # F(2x - 1) = P(|X| < x)
        table = Skellam(variance)._table
        assert real(table, f"{cell - 2:0500b}") == x - 1
        assert real(table, f"{cell + 2:0500b}") == -x


def _mass_far(variance: Fraction, x: int) -> Decimal:
    half = Decimal(variance.numerator) / Decimal(2 * variance.denominator)
    term = exp(-variance) * half**x / math.factorial(x)
    result = term
    for y in range(1, 300):
        term *= half * half / (y * (y + x))
        result += term
    return result


def test_the_tail_reaches_as_far_as_coins_of_one_go() -> None:
    """P(|X| >= x) is above (v/2e)^x / x^x or so: 640 ones take x beyond 120 at variance 16."""
    assert abs(real(Skellam(16)._table, "1" * 640 + "0")) > 120


def test_the_ratio_of_neighbours_has_no_bound() -> None:
    law = walked(Fraction(16))
    ratios = [law[2 * x][0] / law[2 * x + 2][1] for x in range(25)]
    assert all(a < b for a, b in pairwise(ratios))  # log-concave
    assert ratios[24] > 2 * ratios[4]


@pytest.mark.parametrize("variance", [Fraction(1, 100), Fraction(5), Fraction(2**16)])
def test_more_bits_narrow_the_enclosures(variance: Fraction) -> None:
    law = SkellamLaw(variance)
    for (a, b), (c, d), _ in zip(law.enclosures(80), law.enclosures(200), range(300), strict=False):
        assert a <= Fraction(d, 2**120)
        assert Fraction(c, 2**120) <= b
        assert b - a <= 2
        assert d - c <= 2


def noise(variance: float) -> Sampler:
    return lambda n, rng: Skellam(variance).sample(n, rng=rng)


def too_small(variance: float) -> Sampler:
    """The broken twin of all noise: a tenth too small."""
    return noise(0.81 * variance)


def one_poisson(variance: float) -> Sampler:
    """The twin that centres a single Poisson variable of that variance: skewed."""

    def sample(n: int, rng: Rng) -> NDArray[np.int64]:
        cumulative = np.cumsum(
            [math.exp(-variance + k * math.log(variance) - math.lgamma(k + 1)) for k in range(400)]
        )
        words = rng.words(n, np.uint32) / 2**32
        return (np.searchsorted(cumulative, words) - round(variance)).astype(np.int64)

    return sample


def has_the_moments(sampler: Sampler, variance: float, seed: bytes) -> bool:
    """Mean 0, variance and no skew, from four million draws, within 6.1 standard errors each."""
    n = 4_000_000
    x = sampler(n, Prg(seed)).astype(np.float64)
    fourth, sixth = 3 * variance**2 + variance, 15 * variance**3 + 25 * variance**2 + variance
    return bool(
        abs(x.mean()) <= normal_half_width(math.sqrt(variance / n))
        and abs(np.mean(x**2) - variance)
        <= normal_half_width(math.sqrt((fourth - variance**2) / n))
        and abs(np.mean(x**3)) <= normal_half_width(math.sqrt(sixth / n))
    )


@pytest.mark.parametrize("variance", [0.1, 1.0, 16.0, 1000.0, 2.0**20])
def test_moments(variance: float) -> None:
    seed = b"moments of four million of noise"
    assert has_the_moments(noise(variance), variance, seed)
    assert not has_the_moments(too_small(variance), variance, seed)


def test_a_single_poisson_is_seen() -> None:
    assert not has_the_moments(one_poisson(16.0), 16.0, b"moments of four million of noise")


def test_sums_of_many_shares() -> None:
    """A thousand users with a thousandth of the variance each: 20,000 sums of them."""
    share = Skellam(Fraction(16, 1000))
    x = share.sample((1000, 20_000), rng=Prg(b"a thousand shares of one sum of.")).sum(axis=0)
    counts = np.bincount(np.clip(x, -12, 12) + 12, minlength=25)
    inner = [float(mass(Fraction(16), y)) for y in range(-11, 12)]
    tail = (1 - sum(inner)) / 2
    assert fits_multinomial(counts, [tail, *inner, tail])


def has_the_law(sampler: Sampler, variance: float, seed: bytes) -> bool:
    """Counts of -8 ... 8 and two tails among four million; exact binomial bounds."""
    n, reach = 4_000_000, 8
    cells = np.clip(sampler(n, Prg(seed)), -reach - 1, reach + 1) + reach + 1
    inner = [float(mass(Fraction(variance), x)) for x in range(-reach, reach + 1)]
    tail = (1 - sum(inner)) / 2
    return fits_multinomial(np.bincount(cells, minlength=2 * reach + 3), [tail, *inner, tail])


@pytest.mark.parametrize("variance", [0.5, 2.0, 16.0])
def test_counts(variance: float) -> None:
    seed = b"counts of four million of noise."
    assert has_the_law(noise(variance), variance, seed)
    assert not has_the_law(too_small(variance), variance, seed)
