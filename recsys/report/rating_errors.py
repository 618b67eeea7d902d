"""Where a rating model errs: by the rating that was given, and by how much it knows of a user.

Leaks: figures over groups of at least ``LEAST`` test ratings, or of as many users, so that no
    figure is about one of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Floats, RatingParts, Triples

LEAST = 20
_LEVELS = 12
_GROUPS = 8


@dataclass(frozen=True)
class Level:
    """Test ratings of one value, or of an interval with that mean.

    predicted, spread: mean and standard deviation of what the model says of them.
    """

    rating: float
    count: int
    predicted: float
    spread: float
    rmse: float


@dataclass(frozen=True)
class Activity:
    """Test ratings of users with about as many training ratings.

    low, high: the fewest and the most training ratings of these users, mean: on average.
    """

    low: int
    high: int
    mean: float
    users: int
    count: int
    rmse: float


def by_rating(test: Triples, predicted: Floats, low: float, high: float) -> list[Level]:
    """A level for each rating that was given often enough; intervals where there are too many."""
    levels, place = np.unique(test.values, return_inverse=True)
    if levels.size > _LEVELS:
        edges = np.linspace(low, high, _LEVELS)[1:-1]
        place = np.searchsorted(edges, test.values, side="right")
    found = []
    for index in np.unique(place):
        chosen = place == index
        if chosen.sum() < LEAST:
            continue
        true, said = test.values[chosen], predicted[chosen]
        found.append(
            Level(
                rating=float(true.mean()),
                count=int(chosen.sum()),
                predicted=float(said.mean()),
                spread=float(said.std()),
                rmse=float(np.sqrt(np.mean((true - said) ** 2))),
            )
        )
    return found


def by_activity(parts: RatingParts, predicted: Floats) -> list[Activity]:
    """Groups of users by rising number of training ratings, with about as many users each."""
    trained = np.bincount(parts.train.users, minlength=parts.n_users)
    tested = np.unique(parts.test.users)
    groups = min(_GROUPS, tested.size // LEAST)
    if not groups:
        return []
    found = []
    order = tested[np.argsort(trained[tested], kind="stable")]
    for users in _without_ties(order, trained, groups):
        chosen = np.isin(parts.test.users, users)
        error = parts.test.values[chosen] - predicted[chosen]
        counts = trained[users]
        found.append(
            Activity(
                low=int(counts.min()),
                high=int(counts.max()),
                mean=float(counts.mean()),
                users=users.size,
                count=int(chosen.sum()),
                rmse=float(np.sqrt(np.mean(error**2))),
            )
        )
    return found


def _without_ties(
    order: NDArray[np.int32], trained: NDArray[np.int64], groups: int
) -> list[NDArray[np.int32]]:
    """``order`` cut into at most ``groups``, equal counts never apart, each of ``LEAST`` users."""
    counts = trained[order]
    cuts = [0]
    for part in range(1, groups):
        wanted = counts[part * order.size // groups]
        cut = int(np.searchsorted(counts, wanted))
        if cut - cuts[-1] >= LEAST and order.size - cut >= LEAST:
            cuts.append(cut)
    return np.split(order, cuts[1:])
