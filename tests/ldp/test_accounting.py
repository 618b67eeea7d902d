"""Composition and the budget: exact sums, named units, and nothing after the end."""

import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.accounting import Budget, compose, cost
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import BudgetError, ParameterError

LOSSES = st.floats(0, 1e6)
BAD_LOSSES = [-1, -1e-300, math.nan, math.inf, -math.inf, "1", True, None, 1j]


@given(st.lists(LOSSES))
def test_compose_is_the_exact_sum_rounded_up(epsilons: list[float]) -> None:
    exact = sum(map(Fraction, epsilons), Fraction(0))
    total = compose(epsilons)
    assert Fraction(total) >= exact
    assert total == 0 or Fraction(math.nextafter(total, 0)) < exact


def test_compose_does_not_drift() -> None:
    assert compose([]) == 0
    assert compose([1.0, 1.0, 1.0]) == 3
    # Adding doubles one by one loses the small ones: 2^53 + 1 + 1 would stay 2^53.
    assert compose([2.0**53, 1.0, 1.0]) == 2.0**53 + 2


def test_a_loss_between_two_doubles_is_not_rounded_down() -> None:
    third = Fraction(1, 3)
    budget = Budget(1.0)
    budget.spend(third, releases=3)  # type: ignore[arg-type]
    assert budget.remaining == 0.0
    assert Fraction(compose([third])) > third  # type: ignore[list-item]
    assert compose([1e308, 1e308]) == math.inf


@pytest.mark.parametrize("bad", BAD_LOSSES)
def test_losses_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        compose([1.0, bad])
    with pytest.raises(ParameterError, match="epsilon"):
        Budget(bad)
    budget = Budget(1.0)
    with pytest.raises(ParameterError, match="epsilon"):
        budget.spend(bad)
    assert budget.spent == 0


def test_o11a_three_bits_at_epsilon_1_cost_their_user_3() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    total = cost(mechanism, releases=3)
    assert (total.unit, total.epsilon, total.releases, total.user) == ("bit", 1.0, 3, 3.0)
    assert str(total) == ("epsilon 1 for each bit, 3 for each user (3 releases, basic composition)")


@given(st.floats(1e-6, 50), st.integers(0, 10**6))
def test_a_users_cost_is_never_rounded_down(epsilon: float, releases: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    assert Fraction(cost(mechanism, releases).user) >= Fraction(mechanism.epsilon) * releases


@pytest.mark.parametrize("releases", [-1, 1.0, True, "3"])
def test_releases_are_counted_in_whole_numbers(releases: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    with pytest.raises(ParameterError, match="releases"):
        cost(mechanism, releases)
    with pytest.raises(ParameterError, match="releases"):
        Budget(1.0).spend(0.5, releases=releases)


def test_o09_the_second_request_raises_and_returns_nothing() -> None:
    mechanism = RandomizedResponse.from_epsilon(1.0)
    budget = Budget(1.0)
    first = budget.perturb(mechanism, np.array([True]))
    assert first.shape == (1,)
    second = None
    with pytest.raises(BudgetError, match=r"remaining 0\.0 of 1\.0"):
        second = budget.perturb(mechanism, np.array([True]))
    assert second is None
    assert (budget.spent, budget.remaining) == (1.0, 0.0)


def test_a_request_for_more_bits_than_the_budget_covers_draws_none() -> None:
    mechanism = RandomizedResponse.from_epsilon(0.5)
    budget = Budget(1.0)
    with pytest.raises(BudgetError):
        budget.perturb(mechanism, np.zeros(3, dtype=np.bool_))
    assert budget.spent == 0
    assert budget.perturb(mechanism, np.zeros(2, dtype=np.bool_)).shape == (2,)
    with pytest.raises(BudgetError):
        budget.spend(5e-324)


def test_the_budget_compares_exact_sums() -> None:
    # In doubles 1.0 + 2^-60 is 1.0, and a budget that adds them never ends.
    budget = Budget(1.0)
    budget.spend(1.0 - 2.0**-53)
    for _ in range(128):
        budget.spend(2.0**-60)
    with pytest.raises(BudgetError):
        budget.spend(2.0**-60)
    # The double 0.1 is more than a tenth, so three of them exceed the double 0.3.
    with pytest.raises(BudgetError):
        Budget(0.3).spend(0.1, releases=3)
    Budget(compose([0.1] * 3)).spend(0.1, releases=3)


@given(LOSSES, st.lists(LOSSES))
def test_what_is_spent_never_passes_the_total(total: float, requests: list[float]) -> None:
    budget, granted = Budget(total), Fraction(0)
    for epsilon in requests:
        fits = granted + Fraction(epsilon) <= Fraction(total)
        try:
            budget.spend(epsilon)
        except BudgetError:
            assert not fits
        else:
            assert fits
            granted += Fraction(epsilon)
        assert Fraction(budget.spent) >= granted
        assert Fraction(budget.remaining) <= Fraction(total) - granted


def test_two_threads_cannot_spend_one_budget_twice() -> None:
    budget, granted = Budget(1000.0), []

    def ask() -> None:
        for _ in range(1000):
            try:
                budget.spend(1.0)
            except BudgetError:
                return
            granted.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 1000


def test_repr_names_total_and_spent() -> None:
    budget = Budget(2.0)
    budget.spend(0.5)
    assert repr(budget) == "Budget(total=2, spent=0.5)"
