"""Ratings predicted by users' own stars, some users at a time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recsys.baselines._torch import one_thread
from recsys.data.ratings import Floats, Indices, Triples
from recsys.models.star import Groups
from recsys.models.star_devices import Devices, item_rows
from recsys.models.star_model import Inputs, StarModel

_ROWS = 1 << 15
"""Ratings and predictions of the users who are looked at at once."""


class StarScorer:
    """Scores by ``mean``, ``items``, ``weights`` and what users have of their own.

    ratings: those on the stars.  An item on a user's star is predicted as in training, where the
    model allows it without its rating; for any other her whole star counts. Who has no rating there
    has a representation and a bias of zero.
    """

    def __init__(self, model: StarModel, ratings: Triples, users: int) -> None:
        self.devices = Devices(model, ratings, users)

    @classmethod
    def stored(cls, model: StarModel, tables: Mapping[str, NDArray[Any]]) -> "StarScorer":
        """The inverse of ``tables``."""
        ratings = Triples(tables["users"], tables["items"], tables["values"])
        return cls(model, ratings, int(tables["n_users"][0]))

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """The ratings on the stars, and the number of users."""
        ratings, users = self.devices.ratings, self.devices.users
        return {
            "users": ratings.users,
            "items": ratings.items,
            "values": ratings.values,
            "n_users": np.array([users], dtype=np.int64),
        }

    def score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """See ``RatingScorer.score``."""
        known_item = items >= 0
        rated: Floats = arrays["mean"][0] + np.where(known_item, arrays["items"][items, -1], 0.0)
        known_user = np.isin(users, self.devices.active)
        pairs = np.flatnonzero(known_user)
        pairs = pairs[np.argsort(users[pairs], kind="stable")]
        with one_thread(), torch.no_grad():
            for part in self._parts(users[pairs]):
                at = pairs[part]
                rated[at] = self._score(arrays, users[at], items[at])
        return rated

    def _parts(self, users: Indices) -> list[slice]:
        """Ranges of the sorted ``users`` that end where a user does, each of about ``_ROWS``."""
        who, first, count = np.unique(users, return_index=True, return_counts=True)
        if not who.size:
            return []
        size = np.cumsum(count + self.devices.sizes[who])
        part = size // _ROWS
        begins = first[np.flatnonzero(np.diff(part, prepend=-1))].tolist()
        ends = [*begins[1:], users.size]
        return [slice(begin, end) for begin, end in zip(begins, ends, strict=True)]

    def _score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """For known users, sorted: a part of the pairs."""
        members, counts = np.unique(users, return_counts=True)
        inputs = self.devices.inputs(members, arrays)
        groups = Groups(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        embeddings, biases = item_rows(arrays, items)
        unknown = torch.from_numpy(items < 0)
        embeddings[unknown], biases[unknown] = 0.0, 0.0
        model = self.devices.model
        found = model.represent(inputs)
        rated = model.rate(inputs, found, embeddings, biases, groups)
        rated[unknown] = found.biases[groups.owners[unknown]]
        scores: Floats = rated.numpy() + arrays["mean"][0]
        self._replace_rated(scores, inputs, members, users, items)
        return scores

    def _replace_rated(
        self,
        scores: Floats,
        inputs: Inputs,
        members: NDArray[np.int32],
        users: Indices,
        items: Indices,
    ) -> None:
        """Predict what is on a star as training did."""
        ratings = self.devices.ratings
        rows, _ = self.devices.rows(members)
        base = 1 + int(max(ratings.items.max(initial=0), items.max(initial=0)))
        on_star = ratings.users[rows].astype(np.int64) * base + ratings.items[rows]
        wanted = users.astype(np.int64) * base + items
        place = np.minimum(np.searchsorted(on_star, wanted), on_star.size - 1)
        found = np.flatnonzero((on_star[place] == wanted) & (items >= 0))
        if found.size:
            errors = self.devices.model.errors(inputs).numpy()
            scores[found] = ratings.values[rows[place[found]]] - errors[place[found]]
