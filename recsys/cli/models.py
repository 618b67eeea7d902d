"""Which class trains and loads which model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recsys.baselines.fm import FM
from recsys.data.geo import haversine, spherical_mean
from recsys.model_files import read_model
from recsys.prirec import PriRec
from recsys.recommender import Recommendation, Recommender

_CLASSES: tuple[type[Recommender], ...] = (FM, PriRec)


def recommender_class(model: str) -> type[Recommender]:
    """The class of a model that ``TrainConfig`` knows."""
    return {name: cls for cls in _CLASSES for name in cls.models}[model]


def load_recommender(folder: Path) -> Recommender:
    """The model of a run folder, whichever it is. DataError if there is none or it is damaged."""
    _, config = read_model(folder)
    return recommender_class(config.model).load(folder)


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
