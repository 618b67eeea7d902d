"""Are the check-ins still those that an experiment began with?"""

import hashlib
import json

import numpy as np

from recsys.data.catalogue import find
from recsys.data.checkins import CheckIns
from recsys.errors import DataError


def checkins_digest(data: CheckIns) -> str:
    """SHA-256 over all that trainings can see of ``data``; its name does not count."""
    digest = hashlib.sha256()
    # Known homes belong to synthetic cities alone, and no training reads them.
    arrays = (data.users, data.pois, data.lat, data.lon, data.category, data.order, data.counts)
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{little.dtype.str}{little.shape}".encode())
        digest.update(little.tobytes())
    for names in (data.user_ids, data.poi_ids, data.category_names):
        digest.update(json.dumps(names).encode())
    return digest.hexdigest()


def check_source(name: str, digest: str) -> None:
    """Raise DataError unless the set called ``name`` still has ``digest``, or if it is gone."""
    if checkins_digest(find(name).load()) != digest:
        raise DataError(
            f"{name}: the data are not those that the experiment began with",
            remedy="bring those back, or start a new experiment",
        )
