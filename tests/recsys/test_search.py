"""The search: the same grid, order and budget for everybody, and the best by validation."""

import itertools

import pytest

from mpc.core.errors import ParameterError
from recsys.search import ENOUGH, GRID, START, Settings, search


def scored(best: Settings) -> dict[str, list[Settings]]:
    seen: list[Settings] = []

    def trial(settings: Settings) -> float | None:
        seen.append(settings)
        return -sum(settings[axis] != best[axis] for axis in GRID)

    assert search(trial).settings == best
    return {"seen": seen}


@pytest.mark.parametrize("best", list(itertools.product(*GRID.values()))[::37])
def test_a_separable_optimum_is_found_wherever_it_lies(best: tuple[float, ...]) -> None:
    seen = scored(dict(zip(GRID, best, strict=True)))["seen"]
    assert len(seen) == ENOUGH
    assert len({tuple(settings.items()) for settings in seen}) == ENOUGH  # nothing twice


def test_the_start_is_a_point_of_the_grid() -> None:
    assert list(START) == list(GRID)
    assert all(START[axis] in values for axis, values in GRID.items())


def test_the_first_trials_are_the_same_whatever_they_say() -> None:
    """Until one is better than another there is nothing to tell models apart."""
    orders = []
    for sign in (1, -1):
        seen: list[Settings] = []

        def trial(settings: Settings, seen: list[Settings] = seen, sign: int = sign) -> float:
            seen.append(settings)
            return sign * settings["learning_rate"]

        search(trial, 4)
        orders.append(seen)
    assert orders[0] == orders[1]
    assert orders[0][0] == START


@pytest.mark.parametrize("budget", [1, 2, 5, ENOUGH, ENOUGH + 7])
def test_the_budget_is_kept(budget: int) -> None:
    count = 0

    def trial(settings: Settings) -> float:
        nonlocal count
        count += 1
        return 0.5

    found = search(trial, budget)
    assert count == len(found.trials) == min(budget, ENOUGH)
    assert found.settings == START  # of equals the first stays


def test_a_trial_that_diverges_counts_and_is_never_chosen() -> None:
    def trial(settings: Settings) -> float | None:
        return None if settings["learning_rate"] >= 0.1 else 0.6

    found = search(trial)
    assert found.settings["learning_rate"] == 0.01
    assert found.measure == 0.6
    assert len(found.trials) == ENOUGH
    diverged = [auc for settings, auc in found.trials if settings["learning_rate"] >= 0.1]
    assert diverged == [None] * 4  # the start, two numbers of regions, one larger step


def test_without_any_auc_the_start_stays() -> None:
    found = search(lambda settings: None, 3)
    assert (found.settings, found.measure) == (START, None)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True])
def test_a_budget_is_a_whole_number_of_trials(budget: int) -> None:
    with pytest.raises(ParameterError, match="trials"):
        search(lambda settings: 0.5, budget)
