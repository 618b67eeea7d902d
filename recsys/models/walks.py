"""Which items random walks over the ratings visit most often.

Source: Ying et al., "Graph convolutional neural networks for web-scale recommender systems"
    (KDD 2018), section 3.2: importance of a neighbour by its visits, divided by their sum.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Floats, Triples
from recsys.simulation import SimulationRng

Integers = NDArray[np.int64]

WALKS = 50
"""From each item."""

STEPS = 4
RESTART = 0.5
"""Chance that a walk goes on from its start instead of from where it is."""


def visited_most(
    train: Triples, sizes: tuple[int, int], top: int, sim: SimulationRng
) -> tuple[Integers, Integers, Floats]:
    """Up to ``top`` items that the walks from each item visit most, itself left out.

    A step goes to one of the users who rated the item, and to one of the items that she rated, all
    equally likely. sizes: numbers of users and items.
    Returns sources and targets, rising sources, int64 (n,), and weights, float64 (n,), which sum
    to one for each source. Of equally many visits the item with the lower index counts first.
    """
    users, items = sizes
    by_item = np.argsort(train.items, kind="stable")
    raters, rated = train.users[by_item], train.items
    of_item = np.append(0, np.cumsum(np.bincount(train.items, minlength=items)))
    of_user = np.append(0, np.cumsum(np.bincount(train.users, minlength=users)))
    start = np.repeat(np.flatnonzero(np.diff(of_item)), WALKS)
    walk = np.tile(np.arange(WALKS), start.size // WALKS)
    here: NDArray[Any] = start
    visits = []
    for step in range(STEPS):
        to_user, to_item, back = sim.coins("walks", start, walk, step, np.arange(3)[:, np.newaxis])
        there = raters[of_item[here] + _below(to_user, np.diff(of_item)[here])]
        here = rated[of_user[there] + _below(to_item, np.diff(of_user)[there])]
        visits.append(start * items + here)
        here = np.where(back / 2.0**64 < RESTART, start, here)
    keys, counts = np.unique(np.concatenate(visits), return_counts=True)
    source, target = np.divmod(keys, items)
    return _most(source, target, np.where(source == target, 0, counts), top)


def _below(coins: NDArray[np.uint64], bound: NDArray[Any]) -> Integers:
    """A number below each bound, uniform but for bound / 2^32."""
    scaled = (coins >> np.uint64(32)) * bound.astype(np.uint64)
    return (scaled >> np.uint64(32)).astype(np.int64)


def _most(
    source: Integers, target: Integers, counts: Integers, top: int
) -> tuple[Integers, Integers, Floats]:
    order = np.lexsort((target, -counts, source))
    source, target, counts = source[order], target[order], counts[order]
    rank = np.arange(source.size) - np.searchsorted(source, source)
    kept = (rank < top) & (counts > 0)
    source, target, counts = source[kept], target[kept], counts[kept]
    return source, target, counts / np.bincount(source, weights=counts)[source]
