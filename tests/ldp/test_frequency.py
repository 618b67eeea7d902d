"""What all pure frequency oracles share: the estimate and its variance from p and q."""

from fractions import Fraction

import numpy as np
import pytest

from ldp.frequency import Support, checked_reports, checked_values, smallest_dtype
from mpc.core.errors import ParameterError

HALF = Support(Fraction(3, 4), Fraction(1, 4))


def test_the_estimate_is_equation_1() -> None:
    estimate = HALF.estimate(np.array([0, 25, 50, 100]), 100)
    assert estimate.value.tolist() == [-50, 0, 50, 150]
    assert estimate.n == 100
    assert estimate.variance.tolist() == [75] * 4  # 100 * (3/16) / (1/4)
    assert estimate.worst.tolist() == [75] * 4


def test_the_variance_follows_the_count() -> None:
    support = Support(Fraction(1, 2), Fraction(1, 10))
    holder, other = 0.25 / 0.16, 0.09 / 0.16
    assert support.variance_of([0, 3, 10], 10) == pytest.approx(
        [10 * other, 3 * holder + 7 * other, 10 * holder]
    )
    estimate = support.estimate(np.array([0, 5]), 10)
    assert estimate.variance == pytest.approx([10 * other, 10 * holder])  # at 0 and at 10
    assert estimate.worst == pytest.approx([10 * holder] * 2)


def test_a_tiny_gap_loses_no_digit() -> None:
    q = Fraction(1, 3)
    support = Support(q + Fraction(1, 10**12), q)
    n = 3 * 10**9 + 1
    exact = (Fraction(10**9 + 7) - n * q) * 10**12
    assert support.estimate(np.array([10**9 + 7]), n).value[0] == pytest.approx(
        float(exact), rel=1e-12
    )


def test_values_and_reports_are_checked() -> None:
    assert checked_values(np.array([0, 4], dtype=np.uint8), 5).tolist() == [0, 4]
    assert checked_values(np.zeros(0, dtype=np.int64), 5).size == 0
    for x in (np.array([0, 5]), np.array([-1]), np.array([1.0]), np.array([[1]]), np.array(1)):
        with pytest.raises(ParameterError, match="x must"):
            checked_values(x, 5)
    with pytest.raises(ParameterError, match="at least one report"):
        checked_reports(0)


@pytest.mark.parametrize(("bound", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (2**32, "u4")])
def test_smallest_dtype(bound: int, dtype: str) -> None:
    assert smallest_dtype(bound) == np.dtype(dtype)
