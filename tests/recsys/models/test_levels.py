"""Ratings as levels: distinct values where they are few, intervals where they are many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.models.levels import graded


def test_few_values_are_levels_as_they_are() -> None:
    levels, index = graded(np.array([3.5, 0.5, 3.5, 5.0]), 10)
    assert np.array_equal(levels, [0.5, 3.5, 5.0])
    assert np.array_equal(index, [1, 0, 1, 2])


def test_one_to_a_hundred_becomes_ten_tens() -> None:
    levels, index = graded(np.arange(1, 101, dtype=np.float64), 10)
    assert np.bincount(index).tolist() == [10] * 10
    assert levels == pytest.approx(np.arange(5.5, 100, 10))


def test_empty_intervals_are_left_out() -> None:
    levels, index = graded(np.array([1.0, 2.0, 3.0, 100.0]), 3)
    assert levels == pytest.approx([2.0, 100.0])
    assert np.array_equal(index, [0, 0, 0, 1])


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=40), st.integers(1, 6))
def test_levels_rise_and_are_the_means_of_their_ratings(values: list[float], most: int) -> None:
    ratings = np.array(values)
    levels, index = graded(ratings, most)
    assert levels.size <= most
    assert (np.diff(levels) > 0).all()
    assert np.array_equal(np.unique(index), np.arange(levels.size))
    means = [ratings[index == level].mean() for level in range(levels.size)]
    assert levels == pytest.approx(means, rel=1e-9, abs=1e-9)
