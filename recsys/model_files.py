"""A trained model on disk, separated by who holds what, and never pickled.

recommender/model.npz  V, the POIs' public features and coordinates; for FM, w too
users/models.npz       each user's linear model, features and visits; folder 0700, file 0600
public/model.json      settings, feature names, digest, version of this format
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.errors import DataError
from recsys.features import Features
from recsys.metrics import model_digest
from recsys.scorers import make_scorer
from recsys.scoring import Scorer
from recsys.training import Arrays

Floats = NDArray[np.float64]
FORMAT = 2


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
    def _users(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.user_ids)}

    @cached_property
    def _pois(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.poi_ids)}

    def user_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external user ids; -1 for unknown ones."""
        return np.array([self._users.get(str(name), -1) for name in ids], dtype=np.int32)

    def poi_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external POI ids; -1 for unknown ones."""
        return np.array([self._pois.get(str(name), -1) for name in ids], dtype=np.int32)

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
    """Write the three parts; public/model.json comes last and makes the model complete."""
    features = files.features
    shared: dict[str, NDArray[Any]] = {
        "poi_features": features.poi,
        "poi_ids": np.array(files.poi_ids, dtype=np.str_),
        "lat": files.lat,
        "lon": files.lon,
        "category": files.category,
        "category_names": np.array(files.category_names, dtype=np.str_),
    }
    private: dict[str, NDArray[Any]] = {
        "user_features": features.user,
        "user_ids": np.array(files.user_ids, dtype=np.str_),
        "visit_users": files.visit_users,
        "visit_pois": files.visit_pois,
    }
    for name, array in files.arrays.items():
        (private if name in files.private else shared)[_array(name)] = array
    for name, table in files.scorer.tables.items():
        private[_table(name)] = table
    for name in ("recommender", "users", "public"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "users").chmod(0o700)
    write_durably(folder / "recommender" / "model.npz", pack_arrays(shared))
    write_durably(folder / "users" / "models.npz", pack_arrays(private))
    public = {
        "format": FORMAT,
        "config": config.to_dict(),
        "features": list(features.names),
        "arrays": sorted(files.arrays),
        "tables": sorted(files.scorer.tables),
        "model_digest": model_digest(files.arrays),
    }
    text = json.dumps(public, indent=2) + "\n"
    write_durably(folder / "public" / "model.json", text.encode(), mode=PUBLIC)


def read_model(folder: Path) -> tuple[ModelFiles, TrainConfig]:
    """Inverse of ``write_model``. DataError if a file is missing, damaged or of another model."""
    public = _read_public(folder / "public" / "model.json")
    shared = read_arrays(folder / "recommender" / "model.npz")
    private = read_arrays(folder / "users" / "models.npz")
    arrays = shared | private
    try:
        config = TrainConfig.from_dict(public["config"])
        features = Features(
            arrays["user_features"], arrays["poi_features"], tuple(public["features"]), ()
        )
        files = ModelFiles(
            arrays={name: arrays[_array(name)] for name in public["arrays"]},
            private=frozenset(name for name in public["arrays"] if _array(name) in private),
            scorer=make_scorer(
                config.model, features, {name: private[_table(name)] for name in public["tables"]}
            ),
            features=features,
            user_ids=tuple(arrays["user_ids"].tolist()),
            poi_ids=tuple(arrays["poi_ids"].tolist()),
            lat=arrays["lat"],
            lon=arrays["lon"],
            category=arrays["category"],
            category_names=tuple(arrays["category_names"].tolist()),
            visit_users=arrays["visit_users"],
            visit_pois=arrays["visit_pois"],
        )
        digest = public["model_digest"]
    except KeyError as error:
        raise DataError(f"{error} is missing", file=str(folder), remedy="train again") from None
    except ParameterError as error:
        raise DataError(error.message, file=str(folder), remedy=error.remedy) from None
    if model_digest(files.arrays) != digest:
        raise DataError(
            "the model arrays do not belong to public/model.json",
            file=str(folder),
            remedy="train again",
        )
    return files, config


def _array(name: str) -> str:
    """The name in its file of an array that was learned, apart from what comes with the data."""
    return f"model.{name}"


def _table(name: str) -> str:
    return f"table.{name}"


def pack_arrays(arrays: dict[str, NDArray[Any]]) -> bytes:
    """The bytes of an uncompressed .npz archive without pickled objects."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz archive; DataError if it is missing, damaged or holds objects."""
    try:
        # Opened here, because numpy leaves its own file open if the archive is damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise DataError(
            "no such file", file=str(path), expected="a model folder", remedy="train one first"
        ) from None
    except Exception:
        # Whatever zipfile and numpy make of damaged bytes: a flipped bit may claim encryption, an
        # unknown method or an impossible shape, and each has an exception of its own.
        raise DataError("damaged array file", file=str(path), remedy="train again") from None


def _read_public(path: Path) -> dict[str, Any]:
    try:
        public: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = public.get("format")
    except FileNotFoundError:
        raise DataError(
            "no trained model here",
            file=str(path),
            expected="the --out folder of a finished 'privrec train'",
        ) from None
    except (OSError, ValueError, AttributeError):
        raise DataError("damaged file", file=str(path), remedy="train again") from None
    if found != FORMAT:
        raise DataError(f"model format {found!r}", file=str(path), expected=f"format {FORMAT}")
    return public
