"""Attacks on pseudo items: intersecting a user's rounds, and naming what many upload."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.rating_catalogue import list_rating_sets, resolve
from recsys.data.rating_split import SplitConfig, split_ratings
from recsys.data.ratings import Triples
from recsys.ratings.intersection import (
    intersection_precision,
    intersection_table,
    popularity_precision,
)
from recsys.ratings.pseudo import PseudoItems, pseudo_keys
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng

USERS, ITEMS, PSEUDO = 200, 600, 150


def histories(popular: bool = False) -> Triples:
    """Of 20 to 39 items each: any, or with a weight that falls with the item's index."""
    generator = SimulationRng(4).generator("histories")
    weight = 1 / (1 + np.arange(ITEMS)) if popular else np.ones(ITEMS)
    chosen = [
        np.sort(generator.choice(ITEMS, 20 + user % 20, replace=False, p=weight / weight.sum()))
        for user in range(USERS)
    ]
    users = np.repeat(np.arange(USERS), [items.size for items in chosen]).astype(np.int32)
    items = np.concatenate(chosen).astype(np.int32)
    return Triples(users, items, np.ones(items.size))


def pseudo_of(
    train: Triples, how: str, users: int = USERS, items: int = ITEMS, count: int = PSEUDO
) -> PseudoItems:
    keys = pseudo_keys(users, SimulationRng(4), MemoryRun(), seeded=True)
    return PseudoItems(train, users, items, count, keys, how)


def sets(*items: Sequence[int]) -> list[NDArray[np.int64]]:
    return [np.array(one) for one in items]


def test_precision_is_the_share_of_true_items_in_all_uploads_so_far() -> None:
    uploads = sets([5, 1, 2, 3, 9], [1, 2, 7, 9], [9, 2, 1], [1, 2, 3, 4])
    found = intersection_precision(uploads, np.array([1, 2]))
    assert found.tolist() == [2 / 5, 2 / 3, 2 / 3, 1.0]
    assert intersection_precision([], np.array([1])).size == 0


def test_uploads_without_the_history_are_refused() -> None:
    with pytest.raises(ParameterError, match="upload 1 lacks"):
        intersection_precision(sets([1, 2, 3], [1, 3]), np.array([1, 2]))
    with pytest.raises(ParameterError, match="without a history"):
        intersection_precision(sets([1]), np.array([], dtype=np.int64))


@pytest.mark.parametrize("participations", [[], [0, 1], [2, 2], [3, 1]])
def test_participations_rise_from_one(participations: list[int]) -> None:
    with pytest.raises(ParameterError, match="participations"):
        intersection_table(pseudo_of(histories(), "sticky"), np.arange(3), participations)


def test_sticky_sets_give_every_round_what_the_first_gave() -> None:
    pseudo = pseudo_of(histories(), "sticky")
    table = intersection_table(pseudo, np.arange(USERS), [1, 2, 5, 20])
    rated = np.array([pseudo.rated(user).size for user in range(USERS)])
    expected = rated.sum() / (rated + PSEUDO).sum()
    assert [row.precision for row in table] == pytest.approx([expected] * 4)
    assert {row.opened for row in table} == {0.0}
    assert {row.typical for row in table} == {float(np.median(rated / (rated + PSEUDO)))}


def test_resampled_sets_are_soon_taken_off() -> None:
    """A pseudo item is in r sets of M with probability (M / (n - K))^r."""
    pseudo = pseudo_of(histories(), "resampled")
    rounds = [1, 2, 3, 5, 10]
    table = intersection_table(pseudo, np.arange(USERS), rounds)
    rated = np.array([pseudo.rated(user).size for user in range(USERS)])
    for row, r in zip(table, rounds, strict=True):
        unrated = ITEMS - rated
        left = (unrated * (PSEUDO / unrated) ** r).sum()
        assert row.precision == pytest.approx(rated.sum() / (rated.sum() + left), rel=0.03)
    assert table[-1].precision > 0.999
    assert table[-1].opened > 0.99


def test_what_many_upload_is_likelier_to_be_true() -> None:
    """Evenly spread pseudo items do not hide popular items; where none is popular they do."""
    even, skewed = (
        popularity_precision(pseudo_of(histories(popular), "sticky"), np.arange(USERS))
        for popular in (False, True)
    )
    assert even.precision == pytest.approx(even.at_random, abs=0.03)
    assert skewed.at_random == pytest.approx(even.at_random)
    assert skewed.precision > 3 * skewed.at_random


HERE = {known.name for known in list_rating_sets()}

# Share of the pairs left after 1, 3 and 10 rounds that is true, and that of named popular items.
REAL = {
    "ml-100k": ([0.078, 0.177, 0.82], 0.41),
    "douban": ([0.040, 0.264, 0.999], None),
    "ml-1m": ([0.130, 0.652, 1.0], 0.5),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(HERE & set(REAL)))
def test_real_histories_are_soon_taken_off(name: str) -> None:
    """M = 1000, up to 1,000 users: sticky sets keep the first figure."""
    parts = split_ratings(resolve(name), SplitConfig(validation_fraction=0), SimulationRng(0))
    users = np.unique(parts.train.users)[:: max(1, parts.n_users // 1000)]
    resampled, sticky = (
        pseudo_of(parts.train, how, parts.n_users, parts.n_items, 1000)
        for how in ("resampled", "sticky")
    )
    expected, popular = REAL[name]
    found = [row.precision for row in intersection_table(resampled, users, [1, 3, 10])]
    assert found == pytest.approx(expected, rel=0.15)
    kept = [row.precision for row in intersection_table(sticky, users, [1, 3, 10])]
    assert kept == pytest.approx([found[0]] * 3)
    guessed = popularity_precision(sticky, users)
    assert guessed.precision > guessed.at_random
    if popular is not None:
        assert guessed.precision == pytest.approx(popular, rel=0.2)
