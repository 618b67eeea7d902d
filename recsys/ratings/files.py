"""A trained rating model on disk, separated by who holds what, and never pickled.

recommender/model.npz  what the recommender learned, and the items' ids
users/models.npz       each user's own parameters, training ratings and id; folder 0700, file 0600
public/model.json      settings, range of the ratings, digest, version of this format
"""

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
from recsys.data.ratings import Triples
from recsys.errors import DataError
from recsys.metrics import model_digest
from recsys.model_files import pack_arrays, read_arrays
from recsys.ratings.config import RatingConfig
from recsys.training import Arrays

FORMAT = 1
KIND = "ratings"


@dataclass(frozen=True)
class RatingFiles:
    """A trained model.

    arrays: what was learned, by name.  private: names of those that only users hold.
    tables: what ``RatingScorer.tables`` gave.  train: the ratings that were trained on; what a user
    rated is not new to her, and whom it names has a model of her own.
    """

    arrays: Arrays
    private: frozenset[str]
    tables: dict[str, NDArray[Any]]
    train: Triples
    user_ids: Sequence[str]
    item_ids: Sequence[str]
    low: float
    high: float

    @cached_property
    def _users(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.user_ids)}

    @cached_property
    def _items(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.item_ids)}

    def user_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external user ids; -1 for unknown ones."""
        return np.array([self._users.get(str(name), -1) for name in ids], dtype=np.int32)

    def item_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external item ids; -1 for unknown ones."""
        return np.array([self._items.get(str(name), -1) for name in ids], dtype=np.int32)

    def rated(self, user: int) -> NDArray[np.int32]:
        """The items that the user rated in training."""
        low, high = np.searchsorted(self.train.users, [user, user + 1])
        return self.train.items[low:high]


def write_rating_model(folder: Path, files: RatingFiles, config: RatingConfig) -> None:
    """Write the three parts; public/model.json comes last and makes the model complete."""
    shared: dict[str, NDArray[Any]] = {"item_ids": np.array(files.item_ids, dtype=np.str_)}
    private: dict[str, NDArray[Any]] = {
        "user_ids": np.array(files.user_ids, dtype=np.str_),
        "train_users": files.train.users,
        "train_items": files.train.items,
        "train_values": files.train.values,
    }
    for name, array in files.arrays.items():
        (private if name in files.private else shared)[f"model.{name}"] = array
    for name, table in files.tables.items():
        private[f"table.{name}"] = table
    for name in ("recommender", "users", "public"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "users").chmod(0o700)
    write_durably(folder / "recommender" / "model.npz", pack_arrays(shared))
    write_durably(folder / "users" / "models.npz", pack_arrays(private))
    public = {
        "format": FORMAT,
        "kind": KIND,
        "config": config.to_dict(),
        "low": files.low,
        "high": files.high,
        "arrays": sorted(files.arrays),
        "tables": sorted(files.tables),
        "model_digest": model_digest(files.arrays),
    }
    text = json.dumps(public, indent=2) + "\n"
    write_durably(folder / "public" / "model.json", text.encode(), mode=PUBLIC)


def holds_rating_model(folder: Path) -> bool:
    """Whether ``folder`` holds a finished rating model, as far as its public part tells."""
    try:
        public = json.loads((folder / "public" / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(public, dict) and public.get("kind") == KIND


def read_rating_model(folder: Path) -> tuple[RatingFiles, RatingConfig]:
    """Inverse of ``write_rating_model``. DataError if a file is missing, damaged or of another."""
    public = _read_public(folder / "public" / "model.json")
    shared = read_arrays(folder / "recommender" / "model.npz")
    private = read_arrays(folder / "users" / "models.npz")
    arrays = shared | private
    try:
        config = RatingConfig.from_dict(public["config"])
        files = RatingFiles(
            arrays={name: arrays[f"model.{name}"] for name in public["arrays"]},
            private=frozenset(n for n in public["arrays"] if f"model.{n}" in private),
            tables={name: private[f"table.{name}"] for name in public["tables"]},
            train=Triples(private["train_users"], private["train_items"], private["train_values"]),
            user_ids=tuple(private["user_ids"].tolist()),
            item_ids=tuple(shared["item_ids"].tolist()),
            low=float(public["low"]),
            high=float(public["high"]),
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


def _read_public(path: Path) -> dict[str, Any]:
    try:
        public: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = (public.get("kind"), public.get("format"))
    except FileNotFoundError:
        raise DataError(
            "no trained model here",
            file=str(path),
            expected="the --out folder of a finished 'privrec train'",
        ) from None
    except (OSError, ValueError, AttributeError):
        raise DataError("damaged file", file=str(path), remedy="train again") from None
    if found != (KIND, FORMAT):
        raise DataError(
            f"model of kind and format {found!r}", file=str(path), expected=repr((KIND, FORMAT))
        )
    return public
