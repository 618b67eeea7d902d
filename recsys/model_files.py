"""A trained model of visits on disk, as ``recsys.model_parts``.

recommender/model.npz  V, the POIs' public features and coordinates; for FM, w too
users/models.npz       each user's linear model, features and visits
public/model.json      settings and feature names
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recsys.config import TrainConfig
from recsys.features import Features
from recsys.model_parts import IdRows, Kind, ModelParts, of_one_model, read_parts, write_parts
from recsys.scorers import make_scorer
from recsys.scoring import Scorer
from recsys.training import Arrays

Floats = NDArray[np.float64]
KIND = Kind(2)


@dataclass(frozen=True)
class ModelFiles:
    """A trained model.

    arrays: what was learned, by name; a factorization machine has w, (D + 1,) or one row for each
    user, and v (D, K).  private: names of the arrays that only users hold.  scorer: what makes a
    score of them.
    visit_users, visit_pois: known visits that are not held out, sorted by user: what is not new.
    """

    arrays: Arrays
    private: frozenset[str]
    scorer: Scorer
    features: Features
    user_ids: tuple[str, ...]
    poi_ids: tuple[str, ...]
    lat: Floats
    lon: Floats
    category: NDArray[np.int32]
    category_names: tuple[str, ...]
    visit_users: NDArray[np.int32]
    visit_pois: NDArray[np.int32]

    @cached_property
    def _users(self) -> IdRows:
        return IdRows(self.user_ids)

    @cached_property
    def _pois(self) -> IdRows:
        return IdRows(self.poi_ids)

    def user_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external user ids; -1 for unknown ones."""
        return self._users.of(ids)

    def poi_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external POI ids; -1 for unknown ones."""
        return self._pois.of(ids)

    def visited(self, user: int) -> NDArray[np.int32]:
        """The POIs that the user is known to have visited, held-out visits apart."""
        low, high = np.searchsorted(self.visit_users, [user, user + 1])
        return self.visit_pois[low:high]

    def category_of(self, poi: int) -> str:
        """Name of the POI's category, empty where unknown."""
        index = int(self.category[poi])
        return self.category_names[index] if index >= 0 else ""

    def is_trained(self, users: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each user index has visits of her own behind her model; False for -1."""
        return np.isin(users, self.visit_users)

    def score(self, users: NDArray[np.int32], pois: NDArray[np.int32]) -> Floats:
        """The logit of a visit; -1 takes the fallback that ``Predictions`` describes."""
        return self.scorer.score(self.arrays, users, pois)


def write_model(folder: Path, files: ModelFiles, config: TrainConfig) -> None:
    """Write the three parts below ``folder``."""
    features = files.features
    parts = ModelParts(
        arrays=files.arrays,
        private=files.private,
        tables=files.scorer.tables,
        shared={
            "poi_features": features.poi,
            "poi_ids": np.array(files.poi_ids, dtype=np.str_),
            "lat": files.lat,
            "lon": files.lon,
            "category": files.category,
            "category_names": np.array(files.category_names, dtype=np.str_),
        },
        own={
            "user_features": features.user,
            "user_ids": np.array(files.user_ids, dtype=np.str_),
            "visit_users": files.visit_users,
            "visit_pois": files.visit_pois,
        },
        public={"config": config.to_dict(), "features": list(features.names)},
    )
    write_parts(folder, KIND, parts)


def read_model(folder: Path) -> tuple[ModelFiles, TrainConfig]:
    """Inverse of ``write_model``. DataError if a file is missing, damaged or of another model."""
    parts = read_parts(folder, KIND)
    shared, own = parts.shared, parts.own
    with of_one_model(folder):
        config = TrainConfig.from_dict(parts.public["config"])
        features = Features(
            own["user_features"], shared["poi_features"], tuple(parts.public["features"]), ()
        )
        files = ModelFiles(
            arrays=parts.arrays,
            private=parts.private,
            scorer=make_scorer(config.model, features, parts.tables),
            features=features,
            user_ids=tuple(own["user_ids"].tolist()),
            poi_ids=tuple(shared["poi_ids"].tolist()),
            lat=shared["lat"],
            lon=shared["lon"],
            category=shared["category"],
            category_names=tuple(shared["category_names"].tolist()),
            visit_users=own["visit_users"],
            visit_pois=own["visit_pois"],
        )
    return files, config
