"""Hypergeometric tails against the count of all sets."""

from fractions import Fraction
from itertools import combinations
from math import exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from secagg.hypergeometric import least_within, log_tail, tail


def counted(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """P(X >= least) over all sets of ``drawn`` elements, the first ``marked`` being marked."""
    sets = list(combinations(range(population), drawn))
    hits = sum(sum(element < marked for element in chosen) >= least for chosen in sets)
    return Fraction(hits, len(sets))


@pytest.mark.parametrize("population", range(8))
def test_tails_are_those_of_all_sets(population: int) -> None:
    for marked in range(population + 1):
        for drawn in range(population + 1):
            for least in range(-1, population + 3):
                exact = counted(population, marked, drawn, least)
                assert tail(population, marked, drawn, least) == exact


laws = st.integers(0, 300).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))
)


@given(law=laws, limit=st.fractions(0, 1))
def test_the_least_within_a_limit_is_the_first_that_keeps_it(
    law: tuple[int, int, int], limit: Fraction
) -> None:
    least = least_within(*law, limit)
    assert 0 <= least <= law[2] + 1
    assert tail(*law, least) <= limit
    assert least == 0 or tail(*law, least - 1) > limit


@given(law=laws, least=st.integers(0, 300))
def test_the_first_look_is_within_a_thousandth(law: tuple[int, int, int], least: int) -> None:
    exact, rough = tail(*law, least), log_tail(*law, least)
    if not exact:
        assert rough == -inf
    else:
        assert abs(log(exact.numerator) - log(exact.denominator) - rough) < 1e-3


@pytest.mark.parametrize("law", [(10**9, 10**8, 100), (2**32, 2**30, 200), (10**6, 5 * 10**5, 999)])
def test_the_first_look_holds_for_large_populations(law: tuple[int, int, int]) -> None:
    for least in range(law[2] // 4, 3 * law[2] // 4, 17):
        assert abs(float(tail(*law, least)) / exp(log_tail(*law, least)) - 1) < 1e-3


@pytest.mark.parametrize("law", [(3, 4, 1), (3, 1, 4), (-1, 0, 0), (2**32 + 1, 0, 0), (3, -1, 0)])
def test_impossible_sizes_are_refused(law: tuple[int, int, int]) -> None:
    with pytest.raises(ParameterError):
        tail(*law, 0)
