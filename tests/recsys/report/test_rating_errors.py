"""Errors by group: the figures of each, and that no group is one of few."""

import itertools

import numpy as np
import pytest

from recsys.report.rating_errors import LEAST, by_activity, by_rating
from tests.recsys.rating_worlds import ratings_of, world


def test_errors_by_rating_are_those_of_the_ratings_of_that_value() -> None:
    test = ratings_of([(user, user % 2, 1.0 + 4.0 * (user % 2)) for user in range(2 * LEAST)])
    predicted = np.where(test.values == 1.0, 2.0, 4.5)
    low, high = by_rating(test, predicted, 1.0, 5.0)
    assert (low.rating, low.count, low.predicted, low.spread, low.rmse) == (1.0, LEAST, 2.0, 0, 1.0)
    assert (high.rating, high.predicted, high.rmse) == (5.0, 4.5, 0.5)


def test_a_value_that_few_gave_is_left_out() -> None:
    rows = [(user, 0, 3.0) for user in range(LEAST)] + [(user, 1, 4.0) for user in range(LEAST - 1)]
    test = ratings_of(rows)
    assert [level.rating for level in by_rating(test, test.values, 1, 5)] == [3.0]


def test_many_values_are_put_into_intervals() -> None:
    """Whole numbers from 1 to 100, ten times each: about ten intervals, none of few ratings."""
    rows = [(user, value, float(value)) for user in range(10) for value in range(1, 101)]
    test = ratings_of(rows)
    levels = by_rating(test, test.values + 1.0, 1.0, 100.0)
    assert 8 <= len(levels) <= 12
    assert sum(level.count for level in levels) == len(rows)
    assert all(level.rmse == pytest.approx(1.0) for level in levels)
    assert [level.rating for level in levels] == sorted(level.rating for level in levels)


def test_groups_of_users_rise_and_are_never_apart_where_they_have_as_many() -> None:
    users = 100
    train = [(user, item, 3.0) for user in range(users) for item in range(user // 10)]
    test = [(user, 10, 3.0 + (user // 50)) for user in range(users)]
    parts = world(train, test=test, users=users, items=11)
    groups = by_activity(parts, np.full(users, 3.0))
    assert len(groups) > 1
    assert all(group.users >= LEAST for group in groups)
    assert sum(group.users for group in groups) == users
    assert all(one.high < other.low for one, other in itertools.pairwise(groups))
    assert groups[0].rmse == 0.0
    assert groups[-1].rmse == 1.0


@pytest.mark.parametrize("users", [1, LEAST - 1])
def test_too_few_users_make_no_group(users: int) -> None:
    rows = [(user, 0, 3.0) for user in range(users)]
    parts = world(rows, test=[(user, 1, 3.0) for user in range(users)], users=users, items=2)
    assert by_activity(parts, np.full(users, 3.0)) == []


def test_users_without_training_ratings_are_a_group_like_others() -> None:
    train = [(user, item, 3.0) for user in range(LEAST, 2 * LEAST) for item in range(3)]
    test = [(user, 3, 4.0) for user in range(2 * LEAST)]
    parts = world(train, test=test, users=2 * LEAST, items=4)
    first, second = by_activity(parts, np.full(2 * LEAST, 4.0))
    assert (first.low, first.high, first.users) == (0, 0, LEAST)
    assert (second.low, second.high) == (3, 3)
