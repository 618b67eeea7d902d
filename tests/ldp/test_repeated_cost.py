"""Losses of repeated reports: against enumeration of all pairs of histories, and each other."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.repeated_cost import (
    RepeatedCost,
    bounding_loss,
    enumerated_delta,
    exact_ratio,
    flips_delta,
    loss_of,
)
from tests.ldp.mean_laws import at_most_exp

TOPS = st.fractions(Fraction(51, 100), Fraction(99, 100), max_denominator=100)
FLIPS = st.fractions(Fraction(1, 1000), Fraction(49, 100), max_denominator=1000)


def grid(p: Fraction, steps: int) -> list[Fraction]:
    """1BitMean's probabilities: linear from 1 - p to p."""
    return [(1 - p) + (2 * p - 1) * Fraction(v, steps) for v in range(steps + 1)]


def law(
    ones: Sequence[Fraction], flip: Fraction, history: Sequence[int]
) -> dict[tuple[int, ...], Fraction]:
    """P(reports | history), from the definition: a sum over the memo's bits."""
    found: dict[tuple[int, ...], Fraction] = {}
    points = sorted(set(history))
    for reports in itertools.product((0, 1), repeat=len(history)):
        total = Fraction(0)
        for bits in itertools.product((0, 1), repeat=len(points)):
            memo = dict(zip(points, bits, strict=True))
            weight = Fraction(1)
            for point, bit in memo.items():
                weight *= ones[point] if bit else 1 - ones[point]
            for point, report in zip(history, reports, strict=True):
                weight *= 1 - flip if report == memo[point] else flip
            total += weight
        found[reports] = total
    return found


def all_laws(
    ones: Sequence[Fraction], flip: Fraction, rounds: int
) -> list[dict[tuple[int, ...], Fraction]]:
    histories = itertools.product(range(len(ones)), repeat=rounds)
    return [law(ones, flip, history) for history in histories]


def enumerated_ratio(ones: Sequence[Fraction], flip: Fraction, rounds: int) -> Fraction:
    laws = all_laws(ones, flip, rounds)
    return max(
        max(one[reports] for one in laws) / min(one[reports] for one in laws) for reports in laws[0]
    )


@settings(deadline=None)
@given(TOPS, FLIPS, st.sampled_from([(1, 1), (1, 2), (1, 3), (1, 4), (2, 2), (2, 3), (3, 2)]))
def test_the_ratio_is_that_of_all_pairs_of_histories(
    p: Fraction, flip: Fraction, size: tuple[int, int]
) -> None:
    steps, rounds = size
    ones = grid(p, steps)
    exact = exact_ratio(ones, flip, rounds)
    assert exact == enumerated_ratio(ones, flip, rounds)
    loss = loss_of(exact)
    assert at_most_exp(exact, loss)
    # The bound is never passed, and never worse than that of the flips alone.
    bound = bounding_loss(p, flip, rounds)
    assert loss <= bound * (1 + 1e-15)
    assert bound <= rounds * math.log((1 - flip) / flip) * (1 + 1e-12)


@pytest.mark.parametrize(("p", "flip"), [((3, 4), (1, 100)), ((51, 100), (1, 10))])
@pytest.mark.parametrize("rounds", [2, 4, 6])
def test_the_bound_is_attained_for_even_rounds_and_rare_flips(
    p: tuple[int, int], flip: tuple[int, int], rounds: int
) -> None:
    """One history separates its ones from its zeros, the other never moves."""
    top, gamma = Fraction(*p), Fraction(*flip)
    assert gamma * (1 - gamma) <= ((1 - top) * (1 - gamma) + top * gamma) ** 2
    exact = exact_ratio(grid(top, 1), gamma, rounds)
    assert exact is not None
    assert bounding_loss(top, gamma, rounds) == pytest.approx(loss_of(exact), rel=1e-14)


@given(TOPS, FLIPS, st.integers(2, 9))
def test_points_in_the_middle_of_a_long_grid_change_nothing(
    p: Fraction, flip: Fraction, steps: int
) -> None:
    """With two rounds a history needs two points of either end at most."""
    ones = grid(p, steps)
    ends = sorted({ones[0], ones[1], ones[-2], ones[-1]})
    assert exact_ratio(ones, flip, 2) == exact_ratio(ends, flip, 2)


@given(TOPS, FLIPS)
def test_losses_grow_with_the_rounds(p: Fraction, flip: Fraction) -> None:
    ratios = [exact_ratio(grid(p, 4), flip, rounds) for rounds in range(1, 6)]
    assert all(a is not None and b is not None and a < b for a, b in itertools.pairwise(ratios))
    bounds = [bounding_loss(p, flip, rounds) for rounds in (*range(1, 20), 1000, 10**6, 2**31)]
    assert bounds == sorted(bounds)
    assert math.isfinite(bounds[-1])


@given(TOPS, FLIPS)
def test_a_value_that_moves_is_told_in_the_long_run(p: Fraction, flip: Fraction) -> None:
    """The pair that moves or stays attains about (T / 2) ln(a / b), so no bound is below it."""
    rounds = 40
    moves = (p * (1 - flip) ** 20 + (1 - p) * flip**20) ** 2
    stays = (flip * (1 - flip)) ** 20
    assert bounding_loss(p, flip, rounds) >= math.log(moves / stays) * (1 - 1e-12)


def test_without_flips_a_change_is_proved() -> None:
    p, never = Fraction(3, 4), Fraction(0)
    assert exact_ratio(grid(p, 2), never, 1) == 3
    for rounds in (2, 3, 8):
        assert exact_ratio(grid(p, 2), never, rounds) is None
        assert bounding_loss(p, never, rounds) == math.inf
    assert bounding_loss(p, never, 1) == pytest.approx(math.log(3))


@given(st.integers(1, 2**4000), st.integers(1, 2**4000))
def test_logarithms_of_any_size_are_rounded_up(x: int, y: int) -> None:
    ratio = Fraction(max(x, y), min(x, y))
    loss = loss_of(ratio)
    if loss < 500:
        assert at_most_exp(ratio, loss)
        tight = math.nextafter(math.nextafter(loss, 0), 0)
        assert loss < 1e-40 or not at_most_exp(ratio, tight) or tight == loss


def brute_delta(ones: Sequence[Fraction], flip: Fraction, rounds: int, epsilon: float) -> float:
    laws = all_laws(ones, flip, rounds)
    factor = math.exp(epsilon)
    return max(
        sum(max(0.0, float(one[y]) - factor * float(other[y])) for y in one)
        for one in laws
        for other in laws
    )


@settings(deadline=None, max_examples=20)
@given(
    TOPS,
    FLIPS | st.just(Fraction(0)),
    st.sampled_from([(1, 1), (1, 2), (2, 2), (1, 3)]),
    st.floats(0, 5),
)
def test_delta_is_never_below_that_of_a_pair_of_histories(
    p: Fraction, flip: Fraction, size: tuple[int, int], epsilon: float
) -> None:
    steps, rounds = size
    found = enumerated_delta(p, flip, rounds, epsilon)
    assert brute_delta(grid(p, steps), flip, rounds, epsilon) <= found
    assert found <= flips_delta(flip, rounds, epsilon) + 2e-12


@settings(deadline=None, max_examples=10)
@given(TOPS, FLIPS, st.floats(0, 3))
def test_delta_is_attained_where_both_ends_have_a_point_for_each_round(
    p: Fraction, flip: Fraction, epsilon: float
) -> None:
    rounds = 2
    ones = [1 - p] * rounds + [p] * rounds
    found = enumerated_delta(p, flip, rounds, epsilon)
    assert found == pytest.approx(brute_delta(ones, flip, rounds, epsilon), abs=2e-12)


def test_delta_at_extreme_epsilons() -> None:
    p, flip = Fraction(3, 4), Fraction(1, 10)
    assert enumerated_delta(p, flip, 2, 1e308) == 1e-12
    # What one history can give and another cannot stays, however large the epsilon.
    seen = 0.75**2 + 0.25**2  # that two memoized bits differ
    assert enumerated_delta(p, Fraction(0), 2, 1e308) == pytest.approx(seen, abs=1e-11)
    assert flips_delta(flip, 50, 200.0) == 0.0
    assert flips_delta(flip, 50, 0.0) == pytest.approx(1.0)
    assert flips_delta(Fraction(0), 50, 3.0) == 1.0


def test_one_flip_has_the_delta_of_randomized_response() -> None:
    for epsilon in (0.0, 0.5, 2.0):
        exact = max(0.0, 0.9 - math.exp(epsilon) * 0.1)
        assert flips_delta(Fraction(1, 10), 1, epsilon) == pytest.approx(exact, rel=1e-12)


def test_a_cost_says_what_it_is_a_cost_of() -> None:
    finite = RepeatedCost(5, 1.0, 5.0, 4.8222, True)
    assert str(finite).endswith("stays the same for 5 rounds, 4.8222 for any two histories")
    bound = RepeatedCost(50, 1.0, 20.0, 54.0, False)
    assert "at most 54 for any two histories" in str(bound)
    infinite = RepeatedCost(2, 1.0, 2.0, math.inf, True)
    assert "a changed report proves a changed value" in str(infinite)
