"""What the parties of a program see, for tests that compare laws."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.ring import Ring
from mpc.programs import Open, Program
from mpc.supply import Item, LocalDealer, Shares
from tests.support.enumerate import joint

T = TypeVar("T")


class Watched(LocalDealer):
    """A dealer that keeps what it has dealt."""

    dealt: list[Shares]

    def take(self, item: Item) -> Shares:
        shares = self.make(item)
        self.dealt = [*getattr(self, "dealt", []), copied(shares)]
        return shares

    def make(self, item: Item) -> Shares:
        """What is dealt: twins deal something else."""
        return super().take(item)


def copied(shares: Shares) -> Shares:
    """What a program can't overwrite any more."""
    return Shares(*(tuple(rows.copy() for rows in part) for part in (shares.free, shares.bound)))


def spied(program: Program[T]) -> tuple[T, list[NDArray[Any]]]:
    """The result, and every array of shares that was opened: all parties' rows."""
    sent: list[NDArray[Any]] = []
    try:
        request = next(program)
        while True:
            assert isinstance(request, Open)
            sent += [shares.copy() for shares in request.shares]
            request = program.send(
                tuple(request.ring.sum(shares, axis=0) for shares in request.shares)
            )
    except StopIteration as end:
        return end.value, sent


def view(
    coalition: Sequence[int],
    inputs: Sequence[NDArray[Any]],
    dealer: Watched,
    sent: Sequence[NDArray[Any]],
) -> NDArray[np.uint64]:
    """Shares of the inputs and of all items that the coalition holds, and all that was sent."""
    rows = [x[party] for x in inputs for party in coalition]
    for shares in dealer.dealt:
        rows += [part[party] for part in (*shares.free, *shares.bound) for party in coalition]
    return joint(*rows, *(part[party] for part in sent for party in range(len(part))))


def shared(secret: int, masks: NDArray[Any], ring: Ring) -> NDArray[Any]:
    """All sharings of one secret: masks (tapes, n - 1) are the first parties' shares."""
    rows = masks.T.astype(ring.dtype)
    last = ring.sub(ring.reduce(secret), ring.sum(rows, axis=0))
    return np.concatenate([rows, last[np.newaxis]])
