"""Normal numbers: their law with broken twins, their ends; and rows that look like others.

Statistical tests use fixed seeds and hold with probability above 1 - 1e-9 for a fresh one.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from recsys.ratings.gaussian import FARTHEST, similar_rows, standard_normals
from tests.support.stats import ALARM, normal_half_width

Floats = NDArray[np.float64]
Sampler = Callable[[int, Rng], Floats]
COARSE = 2.0**-8
FINE = 2.0**-50


def honest(count: int, rng: Rng) -> Floats:
    return standard_normals(count, rng=rng).astype(np.float64)


def too_small(count: int, rng: Rng) -> Floats:
    return 0.99 * honest(count, rng)


def twelve_uniforms(count: int, rng: Rng) -> Floats:
    """A sum of twelve uniform numbers, of the right mean and variance."""
    sums: Floats = rng.words((12, count), np.uint32).sum(axis=0) * 2.0**-32 - 6
    return sums


def twice_the_same_half(count: int, rng: Rng) -> Floats:
    return np.tile(honest(count // 2, rng), 2)


def same_radius(count: int, rng: Rng) -> Floats:
    """A pair that shares more than its radius: the second is the first with another sign."""
    half = honest(count // 2, rng)
    sign = 1.0 - 2.0 * rng.words(half.size, np.uint8) % 2
    return np.concatenate([half, sign * half])


def has_the_law(sampler: Sampler) -> bool:
    """Kolmogorov and Smirnov's test and four moments, of four million numbers at ``ALARM`` each."""
    count = 4_000_000
    x = sampler(count, Prg(b"n" * 32))
    moments = all(
        abs(np.mean(x**k) - mean) <= normal_half_width(math.sqrt(variance / count))
        for k, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96))
    )
    return bool(moments and stats.kstest(x, "norm", method="asymp").pvalue > ALARM)


def test_the_law() -> None:
    assert has_the_law(honest)
    assert not has_the_law(too_small)
    assert not has_the_law(twelve_uniforms)


def halves_are_independent(sampler: Sampler) -> bool:
    """Correlation of the numbers of a pair, and of their squares: of 2^16 in pieces of 2^14."""
    pieces, size = 64, 1 << 14
    coins = Prg(b"p" * 32)
    x = np.stack([sampler(size, coins) for _ in range(pieces)])
    one, other = x[:, : size // 2], x[:, size // 2 :]
    plain = abs(np.mean(one * other))
    squares = abs(np.mean((one**2 - 1) * (other**2 - 1)))
    root = math.sqrt(one.size)
    return bool(plain <= normal_half_width(1 / root) and squares <= normal_half_width(2 / root))


def test_the_two_numbers_of_a_pair_are_independent() -> None:
    assert halves_are_independent(honest)
    assert not halves_are_independent(twice_the_same_half)
    assert not halves_are_independent(same_radius)


def test_the_tail_reaches_as_far_as_it_should() -> None:
    """Of 40 million numbers about 23 lie beyond 5 standard deviations: within 3 and 60."""
    coins = Prg(b"t" * 32)
    beyond = sum(int((np.abs(standard_normals(4_000_000, rng=coins)) > 5).sum()) for _ in range(10))
    assert 3 <= beyond <= 60  # a Poisson variable of mean 22.9 leaves this with less than 1e-9


class Fixed(Rng):
    """Words that all have this value."""

    def __init__(self, value: int) -> None:
        self._value = value

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._value


@pytest.mark.parametrize("word", [0, 1, 2**31 - 1, 2**31, 2**32 - 1])
def test_extreme_words_give_finite_numbers(word: int) -> None:
    x = standard_normals(1001, rng=Fixed(word))
    assert np.isfinite(x).all()
    assert np.abs(x).max() <= FARTHEST


def test_the_farthest_number() -> None:
    assert np.abs(standard_normals(2, rng=Fixed(0))).max() == pytest.approx(FARTHEST, abs=0.01)


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (2,), (7,), (16_383,), (16_385,), (5, 0), (3, 7)]
)
def test_shapes(shape: tuple[int, ...]) -> None:
    x = standard_normals(shape, rng=Prg(bytes(32)))
    assert x.shape == shape
    assert x.dtype == np.float32
    assert np.unique(x).size > 0.999 * x.size or not x.size


def rows(size: int, width: int) -> Floats:
    """Correlated rows with a mean, of the size of gradients."""
    generator = np.random.default_rng(size + width)
    mixed = generator.normal(size=(size, width)) @ generator.normal(size=(width, width))
    return 1e-3 * (mixed + generator.normal(size=width))


def has_the_moments(real: Floats, made: Floats) -> bool:
    """Mean and covariance of ``made`` are those of ``real``, within 6.1 standard errors each."""
    count, share = made.shape[0], ALARM / real.shape[1] ** 2
    covariance = np.cov(real, rowvar=False)
    spread = np.sqrt(np.diag(covariance))
    mean = np.abs(made.mean(axis=0) - real.mean(axis=0)) / spread
    error = np.abs(np.cov(made, rowvar=False) - covariance)
    # An entry's variance is (c_ii c_jj + c_ij^2) / n for normal rows.
    allowed = np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / count)
    return bool(
        mean.max() <= normal_half_width(1 / math.sqrt(count), share)
        and (error / allowed).max() <= normal_half_width(1.0, share)
    )


@pytest.mark.parametrize(("size", "width"), [(2, 5), (4, 9), (9, 4), (400, 6)])
@pytest.mark.parametrize("step", [COARSE, FINE])
def test_rows_have_the_mean_and_the_covariance(size: int, width: int, step: float) -> None:
    """200,000 rows; K below and above the width, by the factor of K rows and by that of few."""
    real = rows(size, width)
    made = similar_rows(real, 200_000, step, rng=Prg(b"r" * 32))
    assert made.dtype == np.float64
    assert has_the_moments(real, made)
    for twin in (0.95 * (made - real.mean(axis=0)) + real.mean(axis=0), made - made.mean(axis=0)):
        assert not has_the_moments(real, twin)
    alone = made.copy()  # each column from rows of its own: the variances, and no covariance
    for column in range(width):
        alone[:, column] = np.roll(alone[:, column], column)
    assert not has_the_moments(real, alone)


def test_rows_are_gaussian() -> None:
    """100,000 rows along five directions; Kolmogorov and Smirnov's test, and a uniform twin."""
    real = rows(7, 5)
    for direction in np.eye(5):
        made = similar_rows(real, 100_000, COARSE, rng=Prg(b"g" * 32)) @ direction
        spread = math.sqrt(direction @ np.cov(real, rowvar=False) @ direction)
        unit = (made - real.mean(axis=0) @ direction) / spread
        assert stats.kstest(unit, "norm").pvalue > ALARM
        even = np.random.default_rng(1).uniform(-math.sqrt(3), math.sqrt(3), unit.size)
        assert stats.kstest(even, "norm").pvalue < ALARM


def test_rows_stay_where_the_real_ones_are() -> None:
    """K rows span K - 1 directions around their mean; Gaussian ones leave them by no more."""
    real = rows(4, 30)
    made = similar_rows(real, 1000, FINE, rng=Prg(b"s" * 32)) - real.mean(axis=0)
    values = np.linalg.svd(made, compute_uv=False)
    assert values[3] < 1e-12 * values[0]
    assert values[2] > 1e-3 * values[0]


def test_real_rows_lie_at_one_distance_and_gaussian_ones_do_not() -> None:
    """What equal moments leave to see: K at most the width, distances in units of covariance."""
    real = rows(12, 30)
    made = similar_rows(real, 1000, FINE, rng=Prg(b"a" * 32))
    inverse = np.linalg.pinv(np.cov(real, rowvar=False), rcond=1e-10, hermitian=True)

    def distances(of: Floats) -> Floats:
        away = of - real.mean(axis=0)
        squares: Floats = np.einsum("ij,jk,ik->i", away, inverse, away)
        return squares

    assert distances(real) == pytest.approx(np.full(12, 11**2 / 12))
    assert np.std(distances(made)) == pytest.approx(math.sqrt(2 * 11), rel=0.2)


def test_rows_of_a_single_one_are_that_row() -> None:
    """K = 1: a sample of one has no covariance."""
    real = rows(1, 5)
    assert np.array_equal(similar_rows(real, 3, COARSE), np.repeat(real, 3, axis=0))


def test_rows_of_deficient_rank() -> None:
    """All real rows on one line, more of them than columns."""
    real = np.outer(np.linspace(-1, 1, 40), [1.0, 2.0, -3.0])
    made = similar_rows(real, 10_000, FINE, rng=Prg(b"d" * 32))
    assert np.allclose(made, np.outer(made[:, 0], [1.0, 2.0, -3.0]), atol=1e-12)
    variance = np.var(real[:, 0], ddof=1)
    allowed = normal_half_width(variance * math.sqrt(2 / 10_000))
    assert abs(np.var(made[:, 0]) - variance) <= allowed


def low_bits_are_empty(values: Floats, magnitude: float) -> bool:
    """Whether all are multiples of a single-precision step of this magnitude."""
    step = 2.0 ** (math.floor(math.log2(magnitude)) - 30)
    return bool(np.all(values / step == np.round(values / step)))


def test_no_low_bits_tell_a_made_row_on_a_fine_grid() -> None:
    """Deviations of float32 have zeros where those of a real row have digits."""
    real = rows(6, 4)
    coarse, fine = (
        similar_rows(real, 1000, step, rng=Prg(b"b" * 32)) - real.mean(axis=0)
        for step in (COARSE, FINE)
    )
    assert np.allclose(coarse, fine, atol=1e-8)
    largest = np.abs(fine) > np.abs(fine).max() / 2
    assert low_bits_are_empty(coarse[largest].astype(np.float32).astype(np.float64), 1e-3)
    assert not low_bits_are_empty(fine[largest], 1e-3)


def test_no_rows() -> None:
    assert similar_rows(rows(3, 5), 0, COARSE).shape == (0, 5)
    assert similar_rows(np.zeros((0, 5)), 0, COARSE).shape == (0, 5)
    with pytest.raises(ParameterError, match="without a gradient"):
        similar_rows(np.zeros((0, 5)), 1, COARSE)
