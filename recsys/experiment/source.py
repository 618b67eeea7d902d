"""Are the data still those that an experiment began with?"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.catalogue import find
from recsys.data.checkins import CheckIns
from recsys.data.rating_catalogue import find_ratings
from recsys.data.ratings import Ratings
from recsys.errors import DataError
from recsys.tasks import RATING, Task


def checkins_digest(data: CheckIns) -> str:
    """SHA-256 over all that trainings can see of ``data``; its name does not count."""
    # Known homes belong to synthetic cities alone, and no training reads them.
    arrays = (data.users, data.pois, data.lat, data.lon, data.category, data.order, data.counts)
    return _digest(arrays, (data.user_ids, data.poi_ids, data.category_names))


def ratings_digest(data: Ratings) -> str:
    """The same of ratings, of their range and of the graphs that came with them."""
    triples, graphs = data.triples, (data.user_graph, data.item_graph)
    arrays: list[NDArray[Any] | None] = [triples.users, triples.items, triples.values, data.test]
    arrays.append(np.array([data.low, data.high]))
    for graph in graphs:
        arrays += [None] if graph is None else [graph.source, graph.target]
    return _digest(arrays, (data.user_ids, data.item_ids))


def load_source(task: Task, name: str) -> tuple[str, str]:
    """The name that the set called ``name`` gives itself, and its digest; DataError if wrong."""
    if task is RATING:
        ratings = find_ratings(name).load()
        return ratings.name, ratings_digest(ratings)
    checkins = find(name).load()
    return checkins.name, checkins_digest(checkins)


def check_source(task: Task, name: str, digest: str) -> None:
    """Raise DataError unless the set called ``name`` still has ``digest``, or if it is gone."""
    if load_source(task, name)[1] != digest:
        raise DataError(
            f"{name}: the data are not those that the experiment began with",
            remedy="bring those back, or start a new experiment",
        )


def _digest(arrays: Sequence[NDArray[Any] | None], names: Sequence[Sequence[str]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{little.dtype.str}{little.shape}".encode())
        digest.update(little.tobytes())
    for ids in names:
        digest.update(json.dumps(list(ids)).encode())
    return digest.hexdigest()
