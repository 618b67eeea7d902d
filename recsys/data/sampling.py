"""Random distinct values for many rows at once, with coins that belong to the row.

Which values a row gets depends on (seed, purpose, row id) and on what the row excludes, never on
the other rows or on the order of work.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from recsys.simulation import SimulationRng

_CHUNK = 1 << 22  # coins in memory at once


def below(coins: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Map 64-bit coins to integers in [0, bound), 1 <= bound < 2^32; favours none by over 2^-32.

    The upper half of the product of the coin's upper half and ``bound`` (Lemire, "Fast Random
    Integer Generation in an Interval", 2019, without the rejection step).
    """
    return (((coins >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def fractions(coins: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Map 64-bit coins to odd multiples of 2^-41 in (0, 1), symmetric around 1/2.

    40 bits keep them so far from 1 that a product with a positive number stays below it.
    """
    halves: NDArray[np.float64] = (coins >> np.uint64(24)).astype(np.float64) + 0.5
    return halves * 2.0**-40


def rank_in_group(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of each entry among the equal entries of a sorted array, from 0."""
    starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    sizes = np.diff(starts, append=groups.size)
    return np.arange(groups.size) - np.repeat(starts, sizes)


def contains(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of ``wanted`` occur in the sorted array ``keys``."""
    if not keys.size:
        return np.zeros(wanted.shape, dtype=np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    found: NDArray[np.bool_] = keys[place] == wanted
    return found


def first_distinct(
    keys: NDArray[np.int64], size: int, most: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Each row's first ``most[row]`` different keys ``row * size + value``, row after row.

    Within a row the keys keep their order; of equal keys the first counts.
    """
    keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    keys = keys[np.argsort(keys // size, kind="stable")]
    row = keys // size
    return keys[rank_in_group(row) < most[row]]


def draw_distinct(
    sim: SimulationRng,
    purpose: str,
    rows: NDArray[np.int64],
    need: NDArray[np.int64],
    *,
    size: int,
    excluded: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row, ``need`` distinct values from [0, size) in random order, none excluded.

    rows: int64 (m,), the ids that the coins belong to, distinct, in [0, 2^32).
    need: int64 (m,), at least 0; a row with fewer values left gets all that are left.
    size: 1 <= size < 2^32.
    excluded: sorted distinct keys ``position * size + value``, position being that in ``rows``.
    Returns (positions, values), int64, sorted by position, each row's values in drawing order.
    """
    taken = np.bincount(excluded // size, minlength=rows.size)
    goal = np.minimum(need, size - taken)
    # Drawing and redrawing succeeds at least every second time while half the values are free;
    # rows that need more rank all their free values, which cannot fail.
    crowded = 2 * (taken + goal) > size
    few = np.where(crowded, 0, goal)
    drawn = _draw(sim, purpose, rows, few, size=size, excluded=excluded)
    full = np.flatnonzero(crowded)
    ranked = _rank(sim, purpose, rows, goal, chosen=full, size=size, excluded=excluded)
    keys = np.concatenate([drawn, *ranked])
    keys = keys[np.argsort(keys // size, kind="stable")]
    return keys // size, keys % size


def _draw(
    sim: SimulationRng,
    purpose: str,
    rows: NDArray[np.int64],
    goal: NDArray[np.int64],
    *,
    size: int,
    excluded: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Draw with replacement and keep each row's first ``goal`` new values; keys by row."""
    keys = np.empty(0, dtype=np.int64)
    slot = np.zeros(rows.size, dtype=np.int64)
    missing = goal.copy()
    while missing.any():
        tries = np.where(missing > 0, 2 * missing + 4, 0)
        position = np.repeat(np.arange(rows.size), tries)
        number = rank_in_group(position) + slot[position]
        value = below(sim.coins(purpose, rows[position], number), size)
        fresh = position * size + value
        free = fresh[~contains(excluded, fresh)]
        keys = first_distinct(np.concatenate([keys, free]), size, goal)
        slot += tries
        missing = goal - np.bincount(keys // size, minlength=rows.size)
    return keys


def _rank(
    sim: SimulationRng,
    purpose: str,
    rows: NDArray[np.int64],
    goal: NDArray[np.int64],
    *,
    chosen: NDArray[np.intp],
    size: int,
    excluded: NDArray[np.int64],
) -> Iterator[NDArray[np.int64]]:
    """The ``goal`` free values with the smallest coins, for the positions ``chosen``."""
    step = max(1, _CHUNK // size)
    for start in range(0, chosen.size, step):
        position = chosen[start : start + step]
        coins = sim.coins(f"{purpose}, ranked", rows[position, np.newaxis], np.arange(size))
        order = position[:, np.newaxis] * size + np.argsort(coins, axis=1, kind="stable")
        keys = order[~contains(excluded, order)]
        row = keys // size
        yield keys[rank_in_group(row) < goal[row]]
