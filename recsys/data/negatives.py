"""Negative pairs: POIs that a user did not visit, drawn as counterparts of positive pairs.

Source: PriRec, section 4.1 (one random negative for each positive). Local negatives ask the harder
    question of POI recommendation: which of the POIs around would the user visit?
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.data.geo import nearest
from recsys.data.sampling import contains, draw_distinct, rank_in_group
from recsys.data.split import RowCoins, Rows

_CHUNK = 1 << 22  # coins in memory at once

Drawn = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Positions of the positives that got a negative, and the POI of each negative."""


@dataclass(frozen=True, eq=False)
class NegativeSampler:
    """Draws one negative for each positive: never a visited POI, never one POI twice for a user.

    lat, lon: float64 (n_pois,), degrees.
    visited: int64, ascending keys ``user * n_pois + poi`` of all known visits, whether or not the
        pair serves as a positive.
    """

    coins: RowCoins
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    visited: NDArray[np.int64]

    def uniform(self, positives: Rows) -> Drawn:
        """Negatives uniform over what the user never visited.

        positives: sorted by user; a user's first are served first. One who visited nearly
        everything gets each POI that is left, and no more.
        """
        users, n_pois = self.coins.user_coins, self.lat.size
        need = np.bincount(positives.user, minlength=users.size)
        user, poi = draw_distinct(
            self.coins.sim, "negatives", users, need, size=n_pois, excluded=self.visited
        )
        starts = np.cumsum(need) - need  # where a user's positives begin
        return starts[user] + rank_in_group(user), poi

    def local(self, positives: Rows, pool: int) -> Drawn:
        """Negatives uniform over what the user never visited of the ``pool`` POIs nearest by.

        positives: sorted by user; a user's first are served first. One whose pool is used up gets
        no negative.
        """
        users, n_pois = positives.user, self.lat.size
        around = nearest(self.lat, self.lon, min(pool, n_pois - 1))[0]
        positions, negatives = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        step = max(1, _CHUNK // max(1, around.shape[1]))
        start = 0
        while start < users.size:
            # A chunk ends where a user ends, so that nobody's draws depend on the others.
            end = np.searchsorted(users, users[min(start + step, users.size) - 1], side="right")
            waiting = np.arange(start, end)
            keys = self._nearby_in_random_order(positives.at(waiting), around)
            used = np.empty(0, dtype=np.int64)
            for wanted in keys.T:
                asked = wanted[waiting - start]
                free = np.flatnonzero(~contains(self.visited, asked) & ~contains(used, asked))
                # Of several positives that want the same POI, the first gets it.
                new, first = np.unique(asked[free], return_index=True)
                winners = free[first]
                positions.append(waiting[winners])
                negatives.append(new % n_pois)
                used = np.sort(np.concatenate([used, new]))
                waiting = np.delete(waiting, winners)
                if not waiting.size:
                    break
            start = int(end)
        return np.concatenate(positions), np.concatenate(negatives)

    def _nearby_in_random_order(
        self, positives: Rows, around: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Keys of each positive's pool, shape (n, pool), each row shuffled by coins of its own."""
        coins = self.coins.sim.coins(
            "local negatives",
            self.coins.user_coins[positives.user, np.newaxis],
            self.coins.poi_coins[positives.poi, np.newaxis],
            positives.record[:, np.newaxis],
            np.arange(around.shape[1]),
        )
        order = np.argsort(coins, axis=1, kind="stable")
        nearby = np.take_along_axis(around[positives.poi], order, axis=1)
        return positives.user[:, np.newaxis] * self.lat.size + nearby
