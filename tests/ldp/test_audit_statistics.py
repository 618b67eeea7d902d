"""Confidence limits against sums of binomial probabilities, and the bound made of them."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.audit_statistics import epsilon_bound, largest_bound, lower_limit, upper_limit
from mpc.core.errors import MissingLibraryError, ParameterError

ROUNDING = Fraction(1, 10**13)
"""Relative to a limit: scipy's error, and that of a limit as a double."""


def tail(n: int, p: Fraction, low: int, high: int) -> Fraction:
    """P(low <= Binomial(n, p) <= high), exactly."""
    terms = (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(low, high + 1))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("error", [0.3, 0.01, 1e-9])
@pytest.mark.parametrize("n", [1, 2, 13, 40])
def test_a_limit_is_where_the_exact_tail_has_the_error(n: int, error: float) -> None:
    for count in range(n + 1):
        low, high = (
            Fraction(float(limit(count, n, error))) for limit in (lower_limit, upper_limit)
        )
        below, above = 1 - ROUNDING, 1 + ROUNDING
        if count == 0:
            assert low == 0
        else:
            assert tail(n, low * below, count, n) < Fraction(error)
            assert tail(n, min(low * above, Fraction(1)), count, n) > Fraction(error)
        if count == n:
            assert high == 1
        else:
            assert tail(n, high * below, 0, count) > Fraction(error)
            assert tail(n, min(high * above, Fraction(1)), 0, count) < Fraction(error)


@pytest.mark.parametrize("n", [5, 25])
def test_a_limit_is_wrong_no_more_often_than_stated_whatever_the_probability(n: int) -> None:
    error = 0.1
    lows = lower_limit(np.arange(n + 1), n, error)
    highs = upper_limit(np.arange(n + 1), n, error)
    for step in range(1, 200):
        p = Fraction(step, 200)
        above = [k for k in range(n + 1) if lows[k] > p]
        below = [k for k in range(n + 1) if highs[k] < p]
        assert sum((tail(n, p, k, k) for k in above), Fraction(0)) <= Fraction(error)
        assert sum((tail(n, p, k, k) for k in below), Fraction(0)) <= Fraction(error)


def test_a_normal_approximation_would_be_wrong_more_often() -> None:
    """The twin that the enumeration above must reject: Wald's limit."""
    n, z = 25, 1.2815515655446004  # the normal quantile of one error in ten
    p = Fraction(1, 20)
    wald = [k / n - z * math.sqrt(k / n * (1 - k / n) / n) for k in range(n + 1)]
    low = sum((tail(n, p, k, k) for k in range(n + 1) if wald[k] > p), Fraction(0))
    high = sum((tail(n, p, k, k) for k in range(n + 1) if 2 * k / n - wald[k] < p), Fraction(0))
    assert max(low, high) > Fraction(2, 10)


@given(st.integers(1, 10**6), st.data())
def test_limits_enclose_the_share_and_rise_with_the_count(n: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, n - 1))
    lows, highs = lower_limit([count, count + 1], n, 1e-3), upper_limit([count, count + 1], n, 1e-3)
    assert 0 <= lows[0] <= count / n <= highs[0] <= 1
    assert lows[0] < lows[1]
    assert highs[0] < highs[1]


def test_the_bound_is_the_logarithm_of_the_two_limits() -> None:
    low, high = float(lower_limit(70, 100, 0.01)), float(upper_limit(20, 100, 0.01))
    assert float(epsilon_bound(70, 20, 100, 0.01)) == pytest.approx(math.log(low / high))
    assert float(epsilon_bound(70, 20, 100, 0.01, 0.1)) == pytest.approx(
        math.log((low - 0.1) / high)
    )
    assert float(epsilon_bound(70, 20, 100, 0.01, 0.9)) == -math.inf
    assert float(epsilon_bound(0, 20, 100, 0.01)) == -math.inf
    assert epsilon_bound([1, 2, 3], 4, 100, 0.01).shape == (3,)


def test_no_event_shows_more_than_the_largest_bound() -> None:
    counts = np.arange(51)
    bounds = epsilon_bound(counts[:, np.newaxis], counts, 50, 0.02)
    assert bounds.max() == largest_bound(50, 0.02) == bounds[50, 0]
    # p from all of n, q from none of n: error^(1/n) and 1 - error^(1/n).
    assert largest_bound(50, 0.02) == pytest.approx(
        math.log(0.02 ** (1 / 50) / (1 - 0.02 ** (1 / 50)))
    )


@pytest.mark.parametrize(
    ("count", "n", "error"),
    [
        (-1, 5, 0.1),
        (6, 5, 0.1),
        (2.0, 5, 0.1),
        (0, 0, 0.1),
        (1, 5, 0.0),
        (1, 5, 1.0),
        (1, 5, math.nan),
    ],
)
def test_other_arguments_are_refused(count: float, n: int, error: float) -> None:
    for limit in (lower_limit, upper_limit):
        with pytest.raises(ParameterError):
            limit(count, n, error)


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingLibraryError, match="needs the package scipy") as error:
        lower_limit(1, 2, 0.1)
    assert "privrec[recsys]" in error.value.remedy
