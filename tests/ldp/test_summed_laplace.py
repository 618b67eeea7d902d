"""Sums of discrete Laplace noise: shapes, parts, moments, refusals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.discrete_laplace import DiscreteLaplace
from ldp.summed_laplace import MAX_SCALE, MAX_TERMS, SummedLaplace
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.support.stats import normal_half_width

PAPER = 13106
"""FedGNN's noise of .2 on a grid of 2^-16, for its clip of .1 rounded down to that grid."""


def test_shapes_and_dtypes() -> None:
    law = SummedLaplace(2)
    for terms in ([], [3], [0, 1, 2, 700]):
        for kind in (np.int32, np.int64, np.uint16):
            drawn = law.sample(np.array(terms, dtype=kind), 5, rng=Prg(bytes(32)))
            assert drawn.shape == (len(terms), 5)
            assert drawn.dtype == np.int64
    assert law.sample(np.array([4, 4])).shape == (2, 1)


def test_the_terms_of_the_caller_stay_as_they_are() -> None:
    terms = np.array([7, 0, 9])
    SummedLaplace(2).sample(terms, 3)
    assert terms.tolist() == [7, 0, 9]


def test_a_sum_of_no_terms_is_zero() -> None:
    drawn = SummedLaplace(1000).sample(np.array([0, 5, 0]), 100)
    assert not drawn[[0, 2]].any()
    assert np.unique(drawn[1]).size > 90


class Constant:
    """In place of a table: always ``value``."""

    def __init__(self, value: int) -> None:
        self.value = value

    def fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        out[...] = self.value


@pytest.mark.parametrize("terms", [1, 2, 3, 5, 127, 255, 1023, 1024, 1025, 6040, 9 * 1024 + 511])
def test_a_sum_is_made_of_powers_of_two_that_add_up(
    terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part gives its number of terms, 2^8 times over, less two digits of one for each."""

    def tables(law: SummedLaplace, doublings: int) -> Any:
        n = 1 << doublings
        return Constant(n), [(5, Constant(-n)), (3, Constant(-n))]

    monkeypatch.setattr(SummedLaplace, "_tables", tables)
    drawn = SummedLaplace(2).sample(np.array([terms, 0, 2 * terms]), 3)
    assert np.array_equal(drawn, np.outer([terms, 0, 2 * terms], [256 - 8 - 1] * 3))


@pytest.mark.parametrize(
    ("scale", "terms"),
    [(0.5, 1), (0.5, 9), (1, 6), (20, 1), (PAPER, 1), (PAPER, 100), (PAPER, 1500), (MAX_SCALE, 6)],
)
def test_mean_and_variance(scale: float, terms: int) -> None:
    """100,000 sums; a variance that is a tenth too small on the scale is noticed."""
    law, n = SummedLaplace(scale), 100_000
    drawn = law.sample(np.full(100, terms), n // 100, rng=Prg(b"m" * 32)).astype(np.float64)
    variance = terms * law.variance
    kurtosis = 3 + (3 + 1 / DiscreteLaplace(scale).variance) / terms
    assert abs(drawn.mean()) <= normal_half_width(math.sqrt(variance / n))
    allowed = normal_half_width(variance * math.sqrt((kurtosis - 1) / n))
    assert abs(np.mean(drawn**2) - variance) <= allowed
    too_small = terms * SummedLaplace(0.9 * scale).variance
    assert abs(too_small - variance) > allowed


def test_the_variance_is_that_of_one_term() -> None:
    assert SummedLaplace(7).variance == DiscreteLaplace(7).variance


def test_coordinates_and_rows_are_independent() -> None:
    """Correlations of neighbours, 400,000 pairs each, within 6.1 standard errors."""
    drawn = SummedLaplace(PAPER).sample(np.full(2000, 37), 400, rng=Prg(b"i" * 32))
    x = drawn / np.sqrt(37 * SummedLaplace(PAPER).variance)
    for one, other in ((x[:, ::2], x[:, 1::2]), (x[::2], x[1::2])):
        assert abs(np.mean(one * other)) <= normal_half_width(1 / math.sqrt(one.size))
        # Squares have a variance of 2 + 3 / 37.
        square = np.mean((one**2 - 1) * (other**2 - 1))
        assert abs(square) <= normal_half_width((2 + 3 / 37) / math.sqrt(one.size))


def test_one_stream_gives_one_result() -> None:
    terms = np.arange(200)
    first, again = (SummedLaplace(PAPER).sample(terms, 9, rng=Prg(b"r" * 32)) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, SummedLaplace(PAPER).sample(terms, 9))


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1", True, None, MAX_SCALE + 1])
def test_other_scales_are_refused(scale: Any) -> None:
    with pytest.raises(ParameterError, match="scale"):
        SummedLaplace(scale)


@pytest.mark.parametrize("terms", [[-1], [MAX_TERMS + 1], [2.0], [True], [[1]], 3])
def test_other_terms_are_refused(terms: Any) -> None:
    with pytest.raises(ParameterError, match="terms"):
        SummedLaplace(1).sample(np.array(terms))


@pytest.mark.parametrize("each", [0, -1, 1.0, True])
def test_other_widths_are_refused(each: Any) -> None:
    with pytest.raises(ParameterError, match="each"):
        SummedLaplace(1).sample(np.array([1]), each)


def test_a_float_is_taken_as_the_rational_that_it_is() -> None:
    assert SummedLaplace(0.1).scale == Fraction(0.1)
    assert SummedLaplace(3) == SummedLaplace(3.0)


def test_the_largest_sum_stays_within_64_bits() -> None:
    """A table gives at most its limit, digits what they hold, and there are 2^10 parts at most."""
    for scale in (1, 16, PAPER, MAX_SCALE):
        quotients, digits = SummedLaplace(scale)._tables(0)
        shift = sum(width for width, _ in digits)
        largest = (quotients._limit << shift) + 1024 * 2**shift
        assert 2**50 <= largest <= 2**51
        assert (MAX_TERMS // 1024) * largest < 2**62
