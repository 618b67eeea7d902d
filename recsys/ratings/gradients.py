"""What the clients of one round computed, before and after it is put on an integer grid.

Clients lie side by side: client k of a round has the rows starts[k] to starts[k + 1], one for each
item that she uploads. A row is the gradient of the item's embedding and, last, of its bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gradients:
    """The gradients of c clients: real numbers, which stay on their devices.

    members: int32 (c,), rising indices of users.  starts: int64 (c + 1,).
    items: int32 (e,), rising within a client, each item once.
    rows: float64 (e, d + 1).  weights: float64 (c, w), of all shared network weights, flat.
    """

    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    rows: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    def without(self, users: NDArray[np.int32]) -> "Gradients":
        """The same without the clients who are among ``users``."""
        kept = ~np.isin(self.members, users)
        if kept.all():
            return self
        sizes = np.diff(self.starts)
        rows = np.repeat(kept, sizes)
        return Gradients(
            members=self.members[kept],
            starts=np.concatenate([[0], np.cumsum(sizes[kept])]),
            items=self.items[rows],
            rows=self.rows[rows],
            weights=self.weights[kept],
        )


def joined(parts: Sequence[Gradients]) -> Gradients:
    """The clients of all parts, at least one, whose members rise from part to part."""
    if len(parts) == 1:
        return parts[0]
    sizes = [np.diff(part.starts) for part in parts]
    return Gradients(
        members=np.concatenate([part.members for part in parts]),
        starts=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]),
        items=np.concatenate([part.items for part in parts]),
        rows=np.concatenate([part.rows for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
    )


@dataclass(frozen=True, eq=False)
class GridGradients:
    """The same as multiples of 2^-frac_bits, int64: what a client sends, or masks and sends.

    Its items are those that the client uploads, pseudo-interacted ones included.
    """

    members: NDArray[np.int32]
    starts: NDArray[np.int64]
    items: NDArray[np.int32]
    rows: NDArray[np.int64] = field(repr=False)
    weights: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class PartSum:
    """What some clients of a round add up to before noise: exact, however a round is parted.

    clients: how many there are.  total: int64 (size,), of their whole vectors.
    senders: int64 (n_items,), how many upload an item.  clipped: entries that a bound changed.
    """

    clients: int
    total: NDArray[np.int64] = field(repr=False)
    senders: NDArray[np.int64] = field(repr=False)
    clipped: int


@dataclass(frozen=True, eq=False)
class RoundSum:
    """What the recommender learns of one round: the sum over its clients.

    clients: how many there are in the sum, those with nothing to add included.
    items: float64 (n_items, d + 1).  weights: float64 (w,).
    senders: int64 (n_items,), how many clients uploaded the item, where the recommender sees that;
    None where only the sum over the whole catalogue is known.
    clipped: entries that a bound changed, which only the clients know.
    """

    clients: int
    items: Floats
    weights: Floats
    senders: NDArray[Any] | None
    clipped: int
