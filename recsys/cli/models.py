"""What the command line adds to a model: how far its places are."""

from collections.abc import Sequence

import numpy as np

from recsys.data.geo import haversine, spherical_mean
from recsys.recommender import Recommendation, Recommender


def distances_from_home(
    model: Recommender, user: str, pois: Sequence[Recommendation]
) -> list[float | None]:
    """Km from the mean place of a known user's training visits to each POI; None without visits."""
    files = model.files
    visited = files.visited(int(files.user_index([user])[0]))
    if not visited.size:
        return [None] * len(pois)
    here = np.zeros(visited.size, dtype=np.int64)
    lat, lon = spherical_mean(here, files.lat[visited], files.lon[visited], 1)
    away = haversine(lat, lon, [poi.lat for poi in pois], [poi.lon for poi in pois])
    return [float(km) for km in away]
