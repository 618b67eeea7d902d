"""The visits that a node holds: its partition of a named set, or check-ins of its own.

Model: a node reads no other user's visits beside a file of its own. With a partition every machine
    that runs a node can read the whole set: this is for simulations, and for trying a deployment
    out.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.config import TrainConfig
from recsys.data.catalogue import resolve
from recsys.data.checkins import CheckIns, DistinctPairs
from recsys.data.prepare import Pairs, PrepareConfig, Prepared, prepare
from recsys.errors import DataError
from recsys.model_parts import IdRows
from recsys.simulation import SimulationRng


@dataclass(frozen=True, eq=False)
class Places:
    """What is public about POIs. lat, lon, category: as ``CheckIns``."""

    poi_ids: tuple[str, ...]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    category: NDArray[np.int32]
    category_names: tuple[str, ...]

    @classmethod
    def of(cls, data: CheckIns | Prepared) -> "Places":
        """Those of a set."""
        return cls(data.poi_ids, data.lat, data.lon, data.category, data.category_names)

    def nobody(self) -> Prepared:
        """A prepared set of these POIs that no user is in: what the recommender has."""
        none = np.zeros(0, dtype=np.int32)
        pairs = Pairs(none, none, none.astype(np.int8))
        visited = DistinctPairs(none.astype(np.int64), none.astype(np.int64), None)
        parts: dict[str, Any] = dict.fromkeys(("train", "validation", "test"), pairs)
        return Prepared(name="POIs", user_ids=(), visited=visited, notes=(), **parts, **vars(self))

    def check(self, other: "Places") -> None:
        """DataError unless ``other`` lists the same POIs in the same order."""
        same = (
            self.poi_ids == other.poi_ids
            and self.category_names == other.category_names
            and np.array_equal(self.lat, other.lat)
            and np.array_equal(self.lon, other.lon)
            and np.array_equal(self.category, other.category)
        )
        if not same:
            raise DataError(
                "the POIs of this node's partition are not those of the server",
                remedy="give all machines the same set under the setting data",
            )


@dataclass(frozen=True, eq=False)
class NodeVisits:
    """A node's users and their visits. ids: uint32 (users,), their numbers in the whole set, if
    any.

    own: whether they are check-ins of the node's own.  left_out: of those, rows at POIs that are
    not in the catalogue.
    """

    prepared: Prepared
    ids: NDArray[np.uint32] | None
    own: bool
    left_out: int = 0


def public_places(data: str, catalogue: str, config: PrepareConfig) -> Places:
    """The POIs that the recommender knows: of the catalogue, or of the set after preparation."""
    if catalogue:
        return Places.of(resolve(catalogue))
    return Places.of(_whole(data, config, 0))


def partition(
    data: str, part: tuple[int, int], places: Places, config: TrainConfig, seed: int
) -> NodeVisits:
    """Of every so many users of a named set one; part: (which, of how many).

    seed: of the coins of the split.  DataError if its POIs are not ``places``, or nobody is left.
    """
    whole = _whole(data, config.prepare, seed)
    places.check(Places.of(whole))
    index, parts = part
    ids = np.arange(index, whole.n_users, parts, dtype=np.uint32)
    return NodeVisits(restricted(whole, ids), ids, own=False)


def own_visits(path: str, places: Places, config: TrainConfig, seed: int) -> NodeVisits:
    """Check-ins of the node's own at the POIs of the catalogue, prepared without the others'."""
    data = resolve(path)
    rows = IdRows(places.poi_ids).of(data.poi_ids)[data.pois]
    known = rows >= 0
    on_catalogue = replace(
        data,
        users=data.users[known],
        pois=rows[known],
        order=None if data.order is None else data.order[known],
        counts=data.counts[known],
        **vars(places),
    )
    # Which POIs count was decided with the catalogue; a node cannot know who else comes to one.
    alone = replace(config.prepare, min_visitors=0, bounds=None)
    prepared = prepare(on_catalogue, alone, SimulationRng(seed))
    return NodeVisits(prepared, None, own=True, left_out=int(np.count_nonzero(~known)))


def restricted(whole: Prepared, users: NDArray[np.uint32]) -> Prepared:
    """``whole`` with some of its users alone, numbered anew from 0."""
    if not users.size:
        raise DataError(
            f"{whole.name}: none of its {whole.n_users} users falls to this node",
            remedy="take fewer nodes, or a larger set",
        )
    place = np.full(whole.n_users, -1, dtype=np.int64)
    place[users] = np.arange(users.size)
    keys = whole.visited.keys
    user, poi = np.divmod(keys, whole.n_pois)
    kept = place[user] >= 0
    last = whole.visited.last
    visited = DistinctPairs(
        keys=place[user[kept]] * whole.n_pois + poi[kept],
        visits=whole.visited.visits[kept],
        last=None if last is None else last[kept],
    )
    return replace(
        whole,
        train=_pairs(whole.train, place),
        validation=_pairs(whole.validation, place),
        test=_pairs(whole.test, place),
        user_ids=tuple(whole.user_ids[user] for user in users.tolist()),
        visited=visited,
    )


@lru_cache(maxsize=2)
def _whole(data: str, config: PrepareConfig, seed: int) -> Prepared:
    """A simulation has many messages in one process."""
    return prepare(resolve(data), config, SimulationRng(seed))


def _pairs(pairs: Pairs, place: NDArray[np.int64]) -> Pairs:
    kept = place[pairs.users] >= 0
    users = place[pairs.users[kept]].astype(np.int32)
    return Pairs(users, pairs.pois[kept], pairs.labels[kept])
