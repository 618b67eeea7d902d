"""Small cohorts and gradients for tests of aggregation."""

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from recsys.data.ratings import Triples
from recsys.ratings.aggregate import Aggregation, open_aggregation
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Floats, Gradients
from recsys.ratings.pseudo import PseudoItems, pseudo_keys
from recsys.run import MemoryRun
from recsys.simulation import SimulationRng

USERS, ITEMS, WIDTH, WEIGHTS = 11, 9, 3, 5
SEED = 6
COHORTS = [
    np.array([0, 2, 3, 7, 10], dtype=np.int32),
    np.array([1, 4, 5, 6, 8, 9], dtype=np.int32),
]


def train() -> Triples:
    """User u rated (5 u + 2) % 7 items, the last ones; so two of them rated nothing."""
    counts = [(5 * user + 2) % 7 for user in range(USERS)]
    users = np.repeat(np.arange(USERS, dtype=np.int32), counts)
    items = [np.arange(ITEMS - count, ITEMS, dtype=np.int32) for count in counts]
    return Triples(users, np.concatenate(items), np.ones(users.size))


def gradients(
    members: NDArray[np.int32],
    seed: int = 0,
    *,
    width: int = WIDTH,
    weights: int = WEIGHTS,
    scale: float = 1.0,
) -> Gradients:
    """Normal gradients of the items that these users rated; who rated nothing takes no part."""
    rng = np.random.default_rng(seed)
    ratings = train()
    starts = ratings.starts(USERS)
    members = members[(starts[members + 1] > starts[members])]
    items = [ratings.items[starts[user] : starts[user + 1]] for user in members]
    ends = np.cumsum([0, *(part.size for part in items)])
    return Gradients(
        members=members,
        starts=ends.astype(np.int64),
        items=np.concatenate([*items, np.zeros(0, dtype=np.int32)]),
        rows=scale * rng.standard_normal((ends[-1], width)),
        weights=scale * rng.standard_normal((members.size, weights)),
    )


def plain_sum(given: Gradients, n_items: int = ITEMS) -> tuple[Floats, Floats]:
    """The sum in floating point, client by client and row by row."""
    rows = np.zeros((n_items, given.rows.shape[1]))
    for at, item in enumerate(given.items):
        rows[item] += given.rows[at]
    return rows, given.weights.sum(axis=0)


def opened(
    *,
    network: LocalNetwork | None = None,
    cohorts: list[NDArray[np.int32]] | None = None,
    width: int = WIDTH,
    weights: int = WEIGHTS,
    run: MemoryRun | None = None,
    keys: NDArray[np.uint8] | None = None,
    **changes: object,
) -> Aggregation:
    """A seeded aggregation over ``COHORTS`` with a minimum of 3 members."""
    settings = {"seed": SEED, "min_cohort": 3, **changes}
    config = RatingConfig(**settings)  # type: ignore[arg-type]
    sim, run = SimulationRng(SEED), run or MemoryRun()
    pseudo = None
    if keys is None:
        keys = pseudo_keys(USERS, sim, run, seeded=config.seed is not None)
    if config.pseudo:
        pseudo = PseudoItems(train(), USERS, ITEMS, config.pseudo, keys, config.pseudo_items)
    return open_aggregation(
        config,
        cohorts or COHORTS,
        ITEMS,
        width,
        weights,
        sim,
        run,
        network or LocalNetwork(),
        pseudo,
        keys,
    )
