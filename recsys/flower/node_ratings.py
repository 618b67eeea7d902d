"""The ratings that a node holds: its partition of a named set, or a file of its own.

Model: a node reads no other user's ratings of a file of its own. With a partition every machine
    that runs a node can read the whole set: this is for simulations, and for trying a deployment
    out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.rating_catalogue import find_ratings
from recsys.data.ratings import Ratings, Triples
from recsys.errors import DataError
from recsys.model_parts import IdRows

OWN_DATA = "privrec-data"
"""The key of ``node_config`` for the path of the node's own ratings."""

PARTITION, PARTITIONS = "partition-id", "num-partitions"
"""The keys that Flower gives to the nodes of a simulation."""


@dataclass(frozen=True, eq=False)
class NodeRatings:
    """ratings: of the node's users, whose rows are those of the whole set where it is a partition.

    own: whether they are a file of the node's own.  left_out: ratings of items that the catalogue
    does not have.
    """

    ratings: Ratings
    own: bool
    left_out: int


def read_ratings(
    data: str, node_config: Mapping[str, object], items: tuple[str, ...], low: float, high: float
) -> NodeRatings:
    """What this node trains on; its items are rows of ``items``.

    data: name of the set, or path to it, where the node has no file of its own.
    low, high: the range of ratings.
    Raises DataError for a set that is not there or a rating out of range; ParameterError for a node
    without a partition or a file.
    """
    own = node_config.get(OWN_DATA)
    if own is not None and (not isinstance(own, str) or not own):
        raise ParameterError(f"{OWN_DATA} must be a path, got {type(own).__name__}")
    name = data if own is None else own
    found = _loaded(name)
    if own is None:
        found = _partition(found, *partition_of(node_config))
    values = found.triples.values
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        raise DataError(
            f"{outside} ratings lie outside of [{low:g}, {high:g}]",
            file=name,
            remedy="the server's settings lowest and highest must span what can be given",
        )
    return _on_catalogue(found, items, low, high, own=own is not None)


def partition_of(node_config: Mapping[str, object]) -> tuple[int, int]:
    """Which partition a node has, and of how many. ParameterError where nothing says so."""
    index, count = node_config.get(PARTITION), node_config.get(PARTITIONS)
    if index is None or count is None:
        raise ParameterError(
            f"this node has neither {OWN_DATA} nor {PARTITION} and {PARTITIONS}",
            remedy=f"--node-config '{OWN_DATA}=\"/path/to/ratings.csv\"'",
        )
    parts = integer(PARTITIONS, count, 1, 2**31 - 1)  # type: ignore[arg-type]
    return integer(PARTITION, index, 0, parts - 1), parts  # type: ignore[arg-type]


@lru_cache(maxsize=2)
def _loaded(name: str) -> Ratings:
    """A simulation has many messages in one process."""
    return find_ratings(name).load()


def _partition(ratings: Ratings, index: int, parts: int) -> Ratings:
    """Of every ``parts`` users one."""
    return _chosen(ratings, ratings.triples.users % parts == index)


def _chosen(ratings: Ratings, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ratings:
    test = None if ratings.test is None else ratings.test[mask]
    return replace(
        ratings, triples=ratings.triples.part(mask), test=test, user_graph=None, item_graph=None
    )


def _on_catalogue(
    ratings: Ratings, items: tuple[str, ...], low: float, high: float, *, own: bool
) -> NodeRatings:
    rows = IdRows(items).of(ratings.item_ids)[ratings.triples.items]
    known = rows >= 0
    kept = _chosen(ratings, known)
    triples = kept.triples
    order = np.lexsort((rows[known], triples.users))
    triples = Triples(triples.users[order], rows[known][order], triples.values[order])
    test = None if kept.test is None else kept.test[order]
    moved = replace(kept, triples=triples, test=test, item_ids=items, low=low, high=high)
    return NodeRatings(moved, own, int((~known).sum()))
