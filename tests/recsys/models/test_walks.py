"""Random walks over ratings: their law, and which visits count."""

import numpy as np
import pytest
from numpy.typing import NDArray

from recsys.models import walks
from recsys.models.walks import visited_most
from recsys.simulation import SimulationRng
from tests.recsys.rating_worlds import ratings_of

# A path of items 0 to 4, each tied to the next by a user; item 5 has no rating.
PATH = ratings_of([(user, item, 3.0) for user in range(4) for item in (user, user + 1)])
SIZES = 5, 6


def expected(restart: float) -> NDArray[np.float64]:
    """Expected visits of a walk (items, items), those of the start itself left out."""
    rated = np.zeros(SIZES)
    rated[PATH.users, PATH.items] = 1.0
    to_user = rated.T / np.maximum(1, rated.sum(axis=0))[:, np.newaxis]
    step = to_user @ (rated / np.maximum(1, rated.sum(axis=1))[:, np.newaxis])
    start = np.eye(6)
    here, visits = start, np.zeros((6, 6))
    for _ in range(walks.STEPS):
        there = here @ step
        visits += there
        here = restart * start + (1 - restart) * there
    np.fill_diagonal(visits, 0.0)
    return visits


def shares(visits: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = visits / np.maximum(1e-300, visits.sum(axis=1))[:, np.newaxis]
    return found


def dense(top: int, seed: int = 0) -> NDArray[np.float64]:
    source, target, weight = visited_most(PATH, SIZES, top, SimulationRng(seed))
    found = np.zeros((6, 6))
    found[source, target] = weight
    return found


def test_weights_have_the_law_of_the_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 * 10^4 walks from each item, and a false alarm in less than 10^-10 of the runs.

    A walk visits one target t, less the exact share of t in all that it visits, between -4 and 4
    times, four apart and with mean 0. The mean over the walks is off by .06 with probability at
    most 2 exp(-27), for each of 25 pairs; a walk visits 2.1 others, so that a share is then off by
    less than .03. A twin that never goes back to the start is off by more.
    """
    monkeypatch.setattr(walks, "WALKS", 60_000)
    found = dense(top=6)
    assert expected(walks.RESTART).sum(axis=1)[:5].min() > 2.1
    assert np.abs(found - shares(expected(walks.RESTART))).max() < 0.03
    assert np.abs(found - shares(expected(0.0))).max() > 0.1


def test_an_item_is_no_neighbour_of_itself() -> None:
    assert not np.diag(dense(top=6)).any()


def test_items_without_ratings_are_on_no_walk() -> None:
    found = dense(top=6)
    assert not found[5].any()
    assert not found[:, 5].any()


def test_only_the_most_visited_count_and_sum_to_one() -> None:
    everyone, best = dense(top=6), dense(top=2)
    assert (np.count_nonzero(best, axis=1)[:5] == 2).all()
    assert best.sum(axis=1)[:5] == pytest.approx(1.0)
    for item in range(5):
        ranked = np.lexsort((np.arange(6), -everyone[item]))[:2]
        assert set(np.flatnonzero(best[item])) == set(ranked)


def test_the_seed_decides() -> None:
    assert np.array_equal(dense(top=6, seed=1), dense(top=6, seed=1))
    assert not np.array_equal(dense(top=6, seed=1), dense(top=6, seed=2))


def test_a_single_item_has_no_neighbour() -> None:
    source, target, weight = visited_most(ratings_of([(0, 0, 3.0)]), (1, 1), 4, SimulationRng(0))
    assert source.size == target.size == weight.size == 0
