"""What mean mechanisms share: ranges, unbiased rounding, uniform draws and averages."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.mean import GridRounding, Noise, Range, checked_reports, estimate_mean
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import ONE
from tests.ldp.mean_laws import first_word_that_changes


@given(st.data(), st.integers(1, 2**32))
def test_points_are_as_unbiased_as_the_module_says(data: st.DataObject, steps: int) -> None:
    """The words that round up, found by bisection, against the exact place on the grid."""
    low = data.draw(st.floats(-1e6, 1e6))
    high = data.draw(st.floats(low + 1e-3, low + 1e9))
    x = data.draw(st.floats(low, high))
    rounding = GridRounding(Range(low, high), 1)

    def point(word: int) -> int:
        return int(rounding.to_points(np.array([x]), steps, np.array([word], np.uint64))[0])

    last = point(ONE - 1)
    up = point(0) - last
    assert up in (0, 1)
    assert 0 <= last <= last + up <= steps
    mean = last + (Fraction(first_word_that_changes(point), ONE) if up else 0)
    exact = (Fraction(x) - Fraction(low)) / (Fraction(high) - Fraction(low)) * steps
    # The product with ``steps`` is rounded once more, unless steps is a power of two.
    assert abs(mean - exact) <= Fraction(41, 10) * exact / 2**53 + Fraction(1, 2**62)


@given(st.sampled_from([1, 2, 8, 1 << 15, 1 << 31]), st.integers(0, ONE - 1), st.data())
def test_grid_points_of_powers_of_two_are_never_rounded(
    steps: int, word: int, data: st.DataObject
) -> None:
    """And the ends of the range on no grid: their fractions are exact."""
    points = data.draw(st.lists(st.integers(0, steps), min_size=1))
    words = np.full(len(points), word, dtype=np.uint64)
    rounding = GridRounding(Range(0, steps), len(points))
    x = np.array(points, dtype=np.float64)
    assert rounding.to_points(x, steps, words).tolist() == points
    ends = GridRounding(Range(0.1, 0.7), 2)
    found = ends.to_points(np.array([0.1, 0.7]), 49, np.full(2, word, dtype=np.uint64))
    assert found.tolist() == [0, 49]


@pytest.mark.parametrize("shape", [(1,), (50_000,), (7, 3), (40_000, 2), (3, 20_000), (5, 0)])
def test_averages_are_those_of_all_reports(shape: tuple[int, ...]) -> None:
    reports = Prg(bytes(32)).uniform(100, shape)
    noise = Noise(square=0.5, constant=0.1, rounding=0.04, steps=4, worst=3.0)
    offsets = reports.astype(np.float64) / 100
    result = estimate_mean(Range(1, 3), noise, reports, lambda some: some.astype(np.float64) / 100)
    assert result.value == pytest.approx(2 + 2 * offsets.mean(axis=0))
    square = np.clip((np.square(offsets).mean(axis=0) - 0.11) / 1.5, 0, 0.25)
    assert result.variance == pytest.approx(4 * (0.5 * square + 0.11) / shape[0])
    assert result.worst == pytest.approx(np.full(shape[1:], 12 / shape[0]))
    assert result.n == shape[0]


def test_the_noise_of_a_value_is_that_of_its_place_on_the_grid() -> None:
    noise = Noise(square=0.5, constant=0.1, rounding=0.04, steps=4, worst=3.0)
    # At 0 and 1/2 a grid point, at 1/8 half way between two.
    assert noise.at(np.array([0.0, 0.5, 0.125])) == pytest.approx(
        [0.125 + 0.1, 0.1, 0.5 * 0.375**2 + 0.1 + 0.01]
    )


def test_where_noise_falls_with_the_square_the_mean_stands_in() -> None:
    noise = Noise(square=-1.0, constant=0.3, rounding=0.0, steps=1, worst=0.3)
    first = np.array([-0.9, 0.0, 0.3])
    assert noise.plug_in(first, np.full(3, 0.3)) == pytest.approx([0.05, 0.3, 0.21])


def test_fractions_never_leave_the_unit_interval() -> None:
    for low, high in ((0.1, 0.7), (-1e300 * 2.0**-700, 0.3), (1e16, 1e16 + 2), (-0.1, 1e-9)):
        span = Range(low, high)
        ends = span.fractions(span.checked(np.array([low, high])))
        assert ends.tolist() == [0.0, 1.0]
        inside = span.checked(np.nextafter(np.array([low, high]), [high, low]))
        assert np.all((span.fractions(inside) >= 0) & (span.fractions(inside) <= 1))


def test_reports_are_integers_of_their_domain() -> None:
    assert checked_reports(np.array([0, 4], np.uint8), 5).tolist() == [0, 4]
    for wrong in ([0.5], [True], [math.nan], ["1"]):
        with pytest.raises(ParameterError, match="reports must be integers"):
            checked_reports(np.array(wrong), 5)
    for beyond in ([5], [-1], np.array([2**64 - 1], dtype=np.uint64)):
        with pytest.raises(ParameterError, match=r"reports must lie in \[0, 5\)"):
            checked_reports(np.asarray(beyond), 5)
