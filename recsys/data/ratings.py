"""Ratings in memory: who gave which item how many stars, and in which part of the split.

A rating has one row. Users and items are indices from 0 without gaps; the ids that the source gave
them come back unchanged, whatever they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Triples:
    """Ratings sorted by user, then item, each pair once.

    users, items: int32 (n,), indices.  values: float64 (n,), in the set's own units.
    """

    users: Indices
    items: Indices
    values: Floats

    def __len__(self) -> int:
        return self.users.size

    def starts(self, users: int) -> NDArray[np.int64]:
        """int64 (users + 1,): the rows of user u are starts[u] to starts[u + 1]."""
        return np.searchsorted(self.users, np.arange(users + 1)).astype(np.int64)

    def part(self, chosen: NDArray[Any]) -> "Triples":
        """The rows that a mask, or rising row numbers, choose."""
        return Triples(self.users[chosen], self.items[chosen], self.values[chosen])


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph over users or items that came with the data.

    source, target: int32 (m,), each edge once, source at most target.
    """

    source: Indices
    target: Indices


@dataclass(frozen=True, eq=False)
class Ratings:
    """A rating data set as its publisher gave it.

    name: of the set.  triples: all ratings.  test: bool (n,), the published test part, or None
    where there is none.  user_ids, item_ids: external ids, the position being the index; users and
    items without any rating may be among them.
    low, high: the smallest and largest rating that can be given, public.
    user_graph, item_graph: published with the set, or None.
    notes: one sentence for each thing that a user of the set should know.
    """

    name: str
    triples: Triples
    test: NDArray[np.bool_] | None
    user_ids: Sequence[str]
    item_ids: Sequence[str]
    low: float
    high: float
    user_graph: Graph | None = None
    item_graph: Graph | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_users(self) -> int:
        """Users, those without a rating included."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Items, those without a rating included."""
        return len(self.item_ids)


@dataclass(frozen=True, eq=False)
class RatingParts:
    """Ratings split for training, validation and test; all fields as in ``Ratings``.

    notes: also what the split left out or could not do.
    """

    name: str
    train: Triples
    validation: Triples
    test: Triples
    user_ids: Sequence[str]
    item_ids: Sequence[str]
    low: float
    high: float
    user_graph: Graph | None = None
    item_graph: Graph | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def n_users(self) -> int:
        """Users, those without a training rating included."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Items, those without a training rating included."""
        return len(self.item_ids)
