"""Synthetic ratings: biases, a few hidden tastes and noise, for teaching and for tests.

Source: the model that is learned of Y. Koren, R. Bell and C. Volinsky, "Matrix Factorization
    Techniques for Recommender Systems" (IEEE Computer 42, 8, 2009), eq. 4, drawn forwards.
Model: a rating is mean + user bias + item bias + user tastes times item traits + noise, rounded to
    1, 2, 3, 4 or 5. Popular items are rated more often and somewhat better; which items a user
    rates depends on her tastes in no other way.
Differs: nobody in it exists.

Every coin belongs to an index: with the same seed, users that are added change no rating of others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.ratings import Floats, Ratings, Triples
from recsys.data.sampling import fractions
from recsys.simulation import SimulationRng

NAME = "synthetic-ratings"
LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)

MAX_SIZE = 1_000_000
"""Most users, and most items."""

MAX_PAIRS = 1 << 30
"""Most pairs of user and item, each of which costs a coin: one of Netflix's size is too large."""

_MEAN = 3.5
_USER_BIAS = 0.35  # standard deviations
_ITEM_BIAS = 0.4
_TASTE = 0.7
_NOISE = 0.55
_TASTES = 2
_LIKED = 0.5  # correlation of an item's bias with the logarithm of its popularity
_POPULARITY = 1.0  # standard deviation of that logarithm
_ACTIVITY = 0.5  # that of the number of ratings per user
_CHUNK = 1 << 22  # pairs at once


@dataclass(frozen=True)
class SyntheticRatingsConfig:
    """Size and seed; on one machine the same config always gives the same ratings.

    users, items: in [1, 10^6], and at most 2^30 pairs.
    per_user: mean number of ratings of a user, in [1, items]; None for 40, or a quarter of the
        items where that is less. Where it is near ``items`` the mean stays below it.
    seed: in [0, 2^64).
    """

    users: int = 600
    items: int = 400
    per_user: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        integer("users", self.users, 1, MAX_SIZE)
        integer("items", self.items, 1, MAX_SIZE)
        integer("seed", self.seed, 0, 2**64 - 1)
        if self.users * self.items > MAX_PAIRS:
            raise ParameterError(
                f"users times items must be at most 2^30, got {self.users * self.items}"
            )
        mean = self.mean_ratings
        is_number = isinstance(mean, int | float) and not isinstance(mean, bool)
        if not (is_number and 1 <= mean <= self.items):
            raise ParameterError(
                f"per_user must lie in [1, {self.items}], the number of items, "
                f"got {self.per_user!r}"
            )

    @property
    def mean_ratings(self) -> float:
        """``per_user``, or its default at this size."""
        return min(40.0, max(1.0, self.items / 4)) if self.per_user is None else self.per_user


def synthetic_ratings(config: SyntheticRatingsConfig | None = None) -> Ratings:
    """The ratings of ``config``, the default ones if None.

    Users are named u0, u1, ... and items i0, i1, ...; there is no published test part, and items
    that nobody chose stay without a rating.
    """
    config = config or SyntheticRatingsConfig()
    sim = SimulationRng(config.seed)
    user, item = np.arange(config.users), np.arange(config.items)
    fame = _normal(sim, "popularity", item)
    users, items = _chosen(sim, _activity(sim, config), np.exp(_POPULARITY * fame))
    quality = _LIKED * fame + np.sqrt(1 - _LIKED**2) * _normal(sim, "item bias", item)
    taste, trait = (
        _normal(sim, purpose, index[:, np.newaxis], np.arange(_TASTES))
        for purpose, index in (("user taste", user), ("item trait", item))
    )
    liking = (taste[users] * trait[items]).sum(axis=1) / np.sqrt(_TASTES)
    rating = (
        _MEAN
        + _USER_BIAS * _normal(sim, "user bias", user)[users]
        + _ITEM_BIAS * quality[items]
        + _TASTE * liking
        + _NOISE * _normal(sim, "noise", users, items)
    )
    return Ratings(
        name=NAME,
        triples=Triples(users, items, np.clip(np.rint(rating), LEVELS[0], LEVELS[-1])),
        test=None,
        user_ids=tuple(f"u{i}" for i in range(config.users)),
        item_ids=tuple(f"i{i}" for i in range(config.items)),
        low=LEVELS[0],
        high=LEVELS[-1],
    )


def _normal(sim: SimulationRng, purpose: str, *index: NDArray[np.integer]) -> Floats:
    drawn: Floats = ndtri(fractions(sim.coins(purpose, *index)))
    return drawn


def _activity(sim: SimulationRng, config: SyntheticRatingsConfig) -> NDArray[np.int64]:
    """How many items each user rates: log-normal around the mean, at least 1."""
    user = np.arange(config.users)
    spread = np.exp(_ACTIVITY * _normal(sim, "activity", user) - _ACTIVITY**2 / 2)
    beyond_first = (config.mean_ratings - 1) * spread
    # The fraction is rounded by a coin, which keeps the mean where it is below 1.
    coin = fractions(sim.coins("activity rounding", user))
    many: NDArray[np.int64] = 1 + np.floor(beyond_first + coin).astype(np.int64)
    return np.minimum(many, config.items)


def _chosen(
    sim: SimulationRng, many: NDArray[np.int64], weight: Floats
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct items of each user, drawn one after the other in proportion to their weights.

    The ``many`` first of exponential waiting times with the weights as rates (P. Efraimidis and P.
    Spirakis, "Weighted random sampling with a reservoir", 2006).
    """
    item = np.arange(weight.size)
    step = max(1, _CHUNK // weight.size)
    users, items = [], []
    for first in range(0, many.size, step):
        user = np.arange(first, min(first + step, many.size))
        waiting = -np.log(fractions(sim.coins("choice", user[:, np.newaxis], item))) / weight
        order = np.argsort(waiting, axis=1, kind="stable")
        taken = np.zeros(order.shape, dtype=np.bool_)
        np.put_along_axis(taken, order, item < many[user, np.newaxis], axis=1)
        row, column = np.nonzero(taken)
        users.append((row + first).astype(np.int32))
        items.append(column.astype(np.int32))
    return np.concatenate(users), np.concatenate(items)
