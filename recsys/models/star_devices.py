"""What the devices of many users hold and compute at once: ratings, inputs of a model, gradients.

Model: a local computation of each user. Vectorised over users, none of whom sees another's ratings,
    embedding or neighbours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recsys.data.ratings import Floats, Triples
from recsys.models.star import REAL, Groups
from recsys.models.star_model import ClientGradients, Inputs, StarModel
from recsys.ratings.gradients import Gradients
from recsys.simulation import SimulationRng
from recsys.training import Arrays

_LANES = 8  # bytes of a coin, each of which decides on one entry


@dataclass(frozen=True)
class Dropout:
    """Leaves out a share of the entries that a network reads, and scales the others up.

    share: in [0, 1); rounded to a multiple of 1 / 256.  Coins belong to (user, item, epoch), the
    user's own embedding counting as item ``n_items``.
    """

    share: float
    n_items: int
    sim: SimulationRng

    def masks(
        self, users: NDArray[np.int32], items: NDArray[np.int32], dim: int, epoch: int
    ) -> Tensor:
        """Factors for rows of (users, items), both (n,): (n, dim), 0 or 1 / (1 - share)."""
        words = np.arange(-(-dim // _LANES))
        coins = self.sim.coins("dropout", users[:, np.newaxis], items[:, np.newaxis], epoch, words)
        lanes = np.ascontiguousarray(coins, dtype="<u8").view(np.uint8)[:, :dim]
        dropped = min(round(256 * self.share), 255)
        return torch.from_numpy((lanes >= dropped) * (256 / (256 - dropped)))


@dataclass(frozen=True, eq=False)
class Devices:
    """All users by their ratings, of which those in ``ratings`` are on their stars.

    users: how many there are.
    """

    model: StarModel
    ratings: Triples
    users: int

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return self.ratings.starts(self.users)

    @cached_property
    def active(self) -> NDArray[np.int32]:
        """Users with a rating, rising."""
        return np.flatnonzero(np.diff(self._starts)).astype(np.int32)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 (users,), how many ratings everybody has."""
        return np.diff(self._starts)

    def rows(self, members: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which ratings are theirs, one member after the other, and starts (c + 1,) in them."""
        return ranges(self._starts[members], self._starts[members + 1])

    def inputs(
        self,
        members: NDArray[np.int32],
        arrays: Mapping[str, Floats],
        dropout: Dropout | None = None,
        epoch: int = 0,
        places: NDArray[np.intp] | None = None,
    ) -> Inputs:
        """What the ``members`` compute with, from the arrays of the state as they are.

        places: their rows in the arrays of what users hold; by default these have a row for all.
        """
        rows, starts = self.rows(members)
        at = members if places is None else places
        items = self.ratings.items[rows]
        embeddings, biases = item_rows(arrays, items)
        dim, clients = self.model.dim, members.size
        own = torch.zeros((clients, dim + 1), dtype=REAL)
        if "users" in arrays:
            own = torch.from_numpy(arrays["users"][at])
        met, neighbours = self._neighbours(at, arrays)
        rated = Groups(starts)
        item_masks = user_masks = None
        if dropout is not None and dim:
            owners = members[rated.owners.numpy()]
            item_masks = dropout.masks(owners, items, dim, epoch)
            own_items = np.full(clients, dropout.n_items, dtype=np.int32)
            user_masks = dropout.masks(members, own_items, dim, epoch)
        return Inputs(
            ratings=torch.from_numpy(self.ratings.values[rows] - arrays["mean"][0]),
            rated=rated,
            items=embeddings,
            item_biases=biases,
            users=own[:, :dim].contiguous(),
            user_biases=own[:, dim].contiguous(),
            neighbours=neighbours,
            met=met,
            weights={
                name: torch.from_numpy(array).expand(clients, *array.shape)
                for name, array in unflat(arrays["weights"], self.model.shapes()).items()
            },
            item_masks=item_masks,
            user_masks=user_masks,
        )

    def upload(self, members: NDArray[np.int32], found: ClientGradients) -> Gradients:
        """The part of the members' gradients that leaves their devices."""
        rows, starts = self.rows(members)
        biases = found.item_biases if self.model.bias else torch.zeros_like(found.item_biases)
        weights = [found.weights[name].flatten(1) for name in self.model.shapes()]
        none = torch.zeros((members.size, 0), dtype=REAL)
        return Gradients(
            members=members,
            starts=starts,
            items=self.ratings.items[rows],
            rows=torch.cat([found.items, biases.unsqueeze(1)], dim=1).numpy(),
            weights=torch.cat([none, *weights], dim=1).numpy(),
        )

    def _neighbours(
        self, at: NDArray[np.signedinteger[Any]], arrays: Mapping[str, Floats]
    ) -> tuple[Groups, Tensor]:
        if "neighbours" not in arrays:
            nobody = torch.zeros((0, self.model.dim), dtype=REAL)
            return Groups(np.zeros(at.size + 1, dtype=np.int64)), nobody
        given = arrays["neighbours"][at]
        counts = arrays["neighbour_counts"][at].astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        there = np.arange(given.shape[1]) < counts[:, np.newaxis]
        return Groups(starts), torch.from_numpy(given[there])


def ranges(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers from starts[k] to ends[k] for each k in turn; where each begins, (c + 1,)."""
    sizes = ends - starts
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes), bounds


def item_rows(arrays: Mapping[str, Floats], items: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Embeddings (n, d) and biases (n,) of items, from rows that have the bias last."""
    rows = torch.from_numpy(arrays["items"][items])
    return rows[:, :-1].contiguous(), rows[:, -1].contiguous()


def unflat(flat: Floats, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Views of a flat vector (w,) by name, in the order of ``shapes``."""
    views, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        views[name] = flat[at : at + size].reshape(shape)
        at += size
    return views
