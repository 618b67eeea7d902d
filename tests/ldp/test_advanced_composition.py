"""The optimum for equal pure losses, and the closed form for any."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.advanced_composition import advanced, closed_form, optimal
from tests.support.composed import delta_of, epsilon_of, response, together


@given(st.floats(1e-3, 30), st.floats(1e-12, 0.9))
def test_one_release_at_a_delta(epsilon: float, delta: float) -> None:
    """(p - delta) / q solved for epsilon, in closed form: the only case that one has."""
    odds = math.exp(epsilon)
    exact = max(0.0, math.log(max(odds - delta * (1 + odds), 1e-300)))
    assert optimal(epsilon, 1, delta) == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_the_published_lattice_is_met() -> None:
    """At (k - 2i) epsilon the optimum's delta is the sum of theorem 3.3, computed in integers."""
    k, odds = 8, 3  # e^epsilon = 3, so that all terms are integers over 4^k
    epsilon = math.log(odds)
    for i in range(1, k // 2):
        terms = (math.comb(k, j) * (odds ** (k - j) - odds ** (k - 2 * i + j)) for j in range(i))
        delta = Fraction(sum(terms), (1 + odds) ** k)
        found = optimal(epsilon, k, float(delta))
        assert found == pytest.approx((k - 2 * i) * epsilon, rel=1e-12)


@given(st.floats(0.01, 5), st.integers(2, 8), st.floats(1e-8, 0.3))
@settings(deadline=None)
def test_the_optimum_is_really_lost(epsilon: float, k: int, delta: float) -> None:
    """Any smaller epsilon breaks the promise: delta there exceeds what was allowed."""
    found = optimal(epsilon, k, delta)
    law = together([response(epsilon)] * k)
    assert delta_of(law, found) <= Fraction(delta)
    if found > 1e-6:
        assert delta_of(law, found * (1 - 1e-9)) > Fraction(delta)


@given(st.dictionaries(st.floats(0.01, 3), st.integers(1, 3), min_size=1, max_size=3))
@settings(deadline=None)
def test_the_closed_form_holds_for_different_losses(counts: dict[float, int]) -> None:
    laws = [response(epsilon) for epsilon, count in counts.items() for _ in range(count)]
    exact = epsilon_of(together(laws), 1e-4)
    assert Fraction(closed_form(counts, 1e-4)) >= Fraction(exact)
    assert Fraction(advanced(counts, 1e-4)) >= Fraction(exact)


def test_a_closed_form_without_the_mean_is_caught() -> None:
    """The broken twin forgets that losses are positive on average."""
    epsilon, k, delta = 1.0, 12, 0.05
    twin = math.sqrt(2 * k * epsilon**2 * -math.log(delta)) - k * math.tanh(epsilon / 2) * epsilon
    assert twin < epsilon_of(together([response(epsilon)] * k), delta)


def test_different_losses_take_the_best_of_three_bounds() -> None:
    nearly = {1.0: 500, 0.999: 500}
    assert advanced(nearly, 1e-6) == optimal(1.0, 1000, 1e-6)
    spread = {1.0: 1, 0.1: 2000}
    assert advanced(spread, 1e-6) == closed_form(spread, 1e-6) < optimal(1.0, 2001, 1e-6)
    few = {1.0: 1, 2.0: 1, 5.0: 1}
    assert advanced(few, 1e-6) == 8.0
    assert advanced({}, 1e-6) == advanced({0.0: 9, 1.0: 0}, 1e-6) == 0.0


def test_more_releases_and_smaller_deltas_cost_more() -> None:
    found = [optimal(0.3, k, 1e-6) for k in range(1, 60)]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    found = [optimal(0.3, 30, 10.0**-i) for i in range(1, 40)]
    assert found == sorted(found)
    assert all(epsilon <= 30 * 0.3 * (1 + 1e-15) for epsilon in found)


def test_sums_that_are_too_long_are_left_out() -> None:
    assert optimal(1.0, 2**20 + 1, 1e-6) == math.inf
    assert optimal(2.0**16, 2, 1e-6) == closed_form({2.0**16: 2}, 1e-6) == math.inf
    assert advanced({2.0**16: 2}, 1e-6) == 2.0**17
    assert advanced({1e-3: 2**21}, 1e-6) == closed_form({1e-3: 2**21}, 1e-6) < 2**21 * 1e-3
