"""A trained rating model on disk, as ``recsys.model_parts``.

recommender/model.npz  what the recommender learned, and the items' ids
users/models.npz       each user's own parameters, training ratings and id
public/model.json      settings and the range of the ratings
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.data.ratings import Triples
from recsys.model_parts import (
    IdRows,
    Kind,
    ModelParts,
    holds_kind,
    of_one_model,
    read_parts,
    write_parts,
)
from recsys.ratings.config import RatingConfig
from recsys.training import Arrays

KIND = Kind(1, "ratings")


@dataclass(frozen=True)
class RatingFiles:
    """A trained model.

    arrays: what was learned, by name.  private: names of those that only users hold.
    tables: what ``RatingScorer.tables`` gave.  train: the ratings that were trained on; what a user
    rated is not new to her, and whom it names has a model of her own.
    """

    arrays: Arrays
    private: frozenset[str]
    tables: Mapping[str, NDArray[Any]]
    train: Triples
    user_ids: Sequence[str]
    item_ids: Sequence[str]
    low: float
    high: float

    @cached_property
    def _users(self) -> IdRows:
        return IdRows(self.user_ids)

    @cached_property
    def _items(self) -> IdRows:
        return IdRows(self.item_ids)

    def user_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external user ids; -1 for unknown ones."""
        return self._users.of(ids)

    def item_index(self, ids: Sequence[object]) -> NDArray[np.int32]:
        """Rows of external item ids; -1 for unknown ones."""
        return self._items.of(ids)

    def rated(self, user: int) -> NDArray[np.int32]:
        """The items that the user rated in training."""
        low, high = np.searchsorted(self.train.users, [user, user + 1])
        return self.train.items[low:high]


def write_rating_model(folder: Path, files: RatingFiles, config: RatingConfig) -> None:
    """Write the three parts below ``folder``."""
    parts = ModelParts(
        arrays=files.arrays,
        private=files.private,
        tables=files.tables,
        shared={"item_ids": np.array(files.item_ids, dtype=np.str_)},
        own={
            "user_ids": np.array(files.user_ids, dtype=np.str_),
            "train_users": files.train.users,
            "train_items": files.train.items,
            "train_values": files.train.values,
        },
        public={"config": config.to_dict(), "low": files.low, "high": files.high},
    )
    write_parts(folder, KIND, parts)


def holds_rating_model(folder: Path) -> bool:
    """Whether ``folder`` holds a finished rating model, as far as its public part tells."""
    return holds_kind(folder, KIND)


def read_rating_model(folder: Path) -> tuple[RatingFiles, RatingConfig]:
    """Inverse of ``write_rating_model``. DataError if a file is missing, damaged or of another."""
    parts = read_parts(folder, KIND)
    own = parts.own
    with of_one_model(folder):
        config = RatingConfig.from_dict(parts.public["config"])
        files = RatingFiles(
            arrays=parts.arrays,
            private=parts.private,
            tables=parts.tables,
            train=Triples(own["train_users"], own["train_items"], own["train_values"]),
            user_ids=tuple(own["user_ids"].tolist()),
            item_ids=tuple(parts.shared["item_ids"].tolist()),
            low=float(parts.public["low"]),
            high=float(parts.public["high"]),
        )
    return files, config
