"""Distinct draws: exact in what they exclude, uniform in what they take, bound to their row."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from recsys.data.sampling import below, contains, draw_distinct, fractions, rank_in_group
from recsys.simulation import SimulationRng

Ints = NDArray[np.int64]
FALSE_ALARMS = 1e-9


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 15), st.sets(st.integers(0, 11))), min_size=1, max_size=8),
    st.integers(0, 2**64 - 1),
)
def test_draws_are_distinct_free_and_as_many_as_there_are(
    size: int, wishes: list[tuple[int, set[int]]], seed: int
) -> None:
    """Any mix of rows that want little, much, or more than is left; it always comes to an end."""
    taken = [sorted(value for value in excluded if value < size) for _, excluded in wishes]
    excluded = np.array([i * size + v for i, row in enumerate(taken) for v in row], np.int64)
    need = np.array([many for many, _ in wishes], np.int64)
    rows = np.arange(len(wishes), dtype=np.int64) * 7
    drawn = draw_distinct(SimulationRng(seed), "test", rows, need, size=size, excluded=excluded)
    assert (np.diff(drawn[0]) >= 0).all()
    for i, row in enumerate(taken):
        values = drawn[1][drawn[0] == i].tolist()
        assert len(values) == len(set(values)) == min(need[i], size - len(row))
        assert not set(values) & set(row)
        assert all(0 <= value < size for value in values)


@pytest.mark.parametrize("need", [3, 9])
def test_a_row_draws_the_same_whoever_is_beside_it(need: int) -> None:
    def draw(rows: list[int]) -> dict[int, list[int]]:
        position, value = draw_distinct(
            SimulationRng(5),
            "test",
            np.array(rows, np.int64),
            np.full(len(rows), need, np.int64),
            size=12,
            excluded=np.empty(0, np.int64),
        )
        return {row: value[position == i].tolist() for i, row in enumerate(rows)}

    everyone = draw(list(range(40)))
    assert draw([31, 4]) == {31: everyone[31], 4: everyone[4]}


def pair_statistic(first: Ints, second: Ints, size: int) -> float:
    """Chi-square of ordered pairs of distinct values against their uniform law."""
    seen = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
    assert not seen.diagonal().any()
    observed = seen[~np.eye(size, dtype=bool)]
    expected = observed.sum() / observed.size
    return float(((observed - expected) ** 2 / expected).sum())


def ours(rows: int, need: int, size: int) -> Ints:
    _, values = draw_distinct(
        SimulationRng(11),
        "test",
        np.arange(rows, dtype=np.int64),
        np.full(rows, need, np.int64),
        size=size,
        excluded=np.empty(0, np.int64),
    )
    return values.reshape(rows, need)


def ascending_twin(rows: int, need: int, size: int) -> Ints:
    """Right set, wrong order: a user's first positives would get the small indices."""
    return np.sort(ours(rows, need, size), axis=1)


def modulo_twin(rows: int, need: int, size: int) -> Ints:
    """Eight values folded into seven by a modulo, redrawn where equal."""
    coins = SimulationRng(11).coins("twin", np.arange(rows)[:, np.newaxis], np.arange(64))
    folded = (coins % 8 % size).astype(np.int64)
    return np.array([list(dict.fromkeys(row))[:need] for row in folded.tolist()])


@pytest.mark.parametrize(
    ("draw", "uniform"), [(ours, True), (ascending_twin, False), (modulo_twin, False)]
)
@pytest.mark.parametrize("need", [2, 4])  # drawn and redrawn; ranked
def test_draws_are_uniform(draw: Callable[[int, int, int], Ints], uniform: bool, need: int) -> None:
    """30,000 rows, 42 ordered pairs, chi-square with 41 degrees of freedom, false alarms 1e-9."""
    values = draw(30_000, need, 7)
    statistic = pair_statistic(values[:, 0], values[:, 1], 7)
    assert (statistic < chi2.isf(FALSE_ALARMS, 41)) == uniform


def test_below_covers_its_range() -> None:
    coins = np.array([0, 2**63, 2**64 - 1], np.uint64)
    assert below(coins, 1).tolist() == [0, 0, 0]
    assert below(coins, 10).tolist() == [0, 5, 9]
    assert below(coins, 2**32 - 1).tolist() == [0, 2**31 - 1, 2**32 - 2]


def test_fractions_lie_inside_the_unit_interval() -> None:
    inside = fractions(np.array([0, 2**63, 2**64 - 1], np.uint64))
    assert inside.tolist() == [2**-41, 0.5 + 2**-41, 1 - 2**-41]
    assert (inside * 1.7 < 1.7).all()


def test_ranks_and_membership() -> None:
    assert rank_in_group(np.array([0, 0, 3, 3, 3, 9])).tolist() == [0, 1, 0, 1, 2, 0]
    assert rank_in_group(np.empty(0, np.int64)).size == 0
    assert contains(np.array([2, 5]), np.array([1, 2, 5, 6])).tolist() == [False, True, True, False]
    assert not contains(np.empty(0, np.int64), np.array([1])).any()
