"""Labelled rows, and the random split of each user's rows into training, validation and test."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.data.sampling import rank_in_group
from recsys.simulation import SimulationRng

TEST, VALIDATION, TRAIN = 0, 1, 2
"""The parts, in the order in which they are served with negatives."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one or more parts.

    user, poi, record: int64 (n,); record tells repeated visits of a pair apart, from 0.
    positive: bool (n,).
    """

    user: NDArray[np.int64]
    poi: NDArray[np.int64]
    record: NDArray[np.int64]
    positive: NDArray[np.bool_]

    def at(self, index: NDArray[np.int64]) -> "Rows":
        """The rows at the positions ``index``."""
        return Rows(self.user[index], self.poi[index], self.record[index], self.positive[index])

    def repeat(self, times: NDArray[np.int64]) -> "Rows":
        """Each row as often as ``times`` says, as records 0, 1, 2, ..."""
        index = np.repeat(np.arange(times.size), times)
        rows = self.at(index)
        return Rows(rows.user, rows.poi, rank_in_group(index), rows.positive)

    def with_negatives(self, of: NDArray[np.int64], poi: NDArray[np.int64]) -> "Rows":
        """These rows, then a negative for each position in ``of``, at ``poi``."""
        return Rows(
            np.concatenate([self.user, self.user[of]]),
            np.concatenate([self.poi, poi]),
            np.concatenate([self.record, np.zeros_like(of)]),
            np.concatenate([self.positive, np.zeros(of.size, dtype=np.bool_)]),
        )


@dataclass(frozen=True, eq=False)
class RowCoins:
    """Coins that belong to users and POIs by the ids they had before any filter.

    user_coins, poi_coins: int64 (n_users,) and (n_pois,), those ids.
    """

    sim: SimulationRng
    user_coins: NDArray[np.int64]
    poi_coins: NDArray[np.int64]

    def draw(self, purpose: str, rows: Rows) -> NDArray[np.uint64]:
        """One coin for each row, uint64 (n,)."""
        return self.sim.coins(
            purpose, self.user_coins[rows.user], self.poi_coins[rows.poi], rows.record
        )


def keep_some(rows: Rows, most: int, coins: RowCoins) -> NDArray[np.int64]:
    """Positions, ascending, of at most ``most`` random rows of each user."""
    by_coin = np.lexsort((coins.draw("kept positives", rows), rows.user))
    return np.sort(by_coin[rank_in_group(rows.user[by_coin]) < most])


def split(
    rows: Rows, test_fraction: float, validation_fraction: float, coins: RowCoins
) -> NDArray[np.int64]:
    """The part of each row, int64 (n,).

    ``test_fraction`` of each user's rows, rounded halves up, are for the test; then
    ``validation_fraction`` of all other rows are for validation. One positive of each user stays
    in training.
    """
    by_coin = np.lexsort((coins.draw("split", rows), rows.user))
    user = rows.user[by_coin]
    tested = np.floor(test_fraction * np.bincount(user) + 0.5)
    part = np.full(user.size, TRAIN)
    part[by_coin[rank_in_group(user) < tested[user]]] = TEST
    # A user's last positive is in the test part only if all are: it goes back to training.
    positive = by_coin[rows.positive[by_coin]]
    spared = positive[np.diff(rows.user[positive], append=-1) != 0]
    part[spared] = TRAIN
    eligible = part == TRAIN
    wanted = int(validation_fraction * eligible.sum() + 0.5)
    eligible[spared] = False
    candidates = np.flatnonzero(eligible)
    order = np.argsort(coins.draw("validation", rows.at(candidates)), kind="stable")
    part[candidates[order[:wanted]]] = VALIDATION
    return part
