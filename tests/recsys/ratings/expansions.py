"""A small population for the tests of graph expansion: each embedding tells whose it is."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from recsys.data.ratings import Triples
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion import Neighbourhood, find_neighbours
from recsys.run import MemoryRun, Run
from recsys.simulation import SimulationRng

USERS, ITEMS, DIM = 24, 14, 3
BOTH = ("protocol", "simulate")

CONFIG = RatingConfig(
    neighbours="fixed",
    dim=DIM,
    match_items=8,
    most_neighbours=USERS,
    min_cohort=3,
    frac_bits=8,
    seed=11,
)
"""Nothing is left out: everybody has at most eight items and gets all neighbours."""


def histories(seed: int = 0) -> list[list[int]]:
    """Users and their items: the last two users have none, the third an item of her own."""
    coins = np.random.default_rng(seed)
    rated = [
        sorted(coins.choice(ITEMS - 1, 1 + user % 8, replace=False).tolist())
        for user in range(USERS - 2)
    ]
    rated[2] = [ITEMS - 1]
    return [*rated, [], []]


def triples(rated: Sequence[Sequence[int]]) -> Triples:
    """Ratings of 3 stars for every item of every user."""
    users = np.repeat(np.arange(len(rated), dtype=np.int32), [len(items) for items in rated])
    items = np.array([item for mine in rated for item in mine], dtype=np.int32)
    return Triples(users, items, np.full(items.size, 3.0))


def embeddings(users: int = USERS, dim: int = DIM) -> NDArray[np.float64]:
    """On the grid of ``CONFIG``, all different: the first coordinate is the user's index / 256."""
    table = np.zeros((users, dim))
    table[:, 0] = np.arange(users) / 256
    table[:, 1:] = -0.25
    return table


def expand(
    rated: Sequence[Sequence[int]] | None = None,
    given: NDArray[np.float64] | None = None,
    *,
    network: LocalNetwork | None = None,
    run: Run | None = None,
    number: int = 0,
    **settings: Any,
) -> Neighbourhood:
    """One expansion under ``CONFIG`` and other ``settings``."""
    config = replace(CONFIG, **settings)
    rated = histories() if rated is None else rated
    return find_neighbours(
        config,
        triples(rated),
        embeddings(len(rated)) if given is None else given,
        SimulationRng(5 if config.seed is None else config.seed),
        MemoryRun() if run is None else run,
        LocalNetwork() if network is None else network,
        number=number,
    )


def owners(found: Neighbourhood) -> list[list[int]]:
    """Whose embeddings everybody has received, in their order."""
    whose = np.rint(found.embeddings[:, 0] * 256).astype(int).tolist()
    return [whose[start:end] for start, end in pairwise(found.starts.tolist())]


def sharing(rated: Sequence[Sequence[int]], group: int = 2) -> list[set[int]]:
    """Everybody's neighbours by brute force: others with a common item of ``group`` holders."""
    sets = [set(items) for items in rated]
    counted = {item for item in set().union(*sets) if sum(item in mine for mine in sets) >= group}
    return [
        {v for v, other in enumerate(sets) if v != u and mine & other & counted}
        for u, mine in enumerate(sets)
    ]
