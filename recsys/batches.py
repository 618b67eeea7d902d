"""Each user's training samples in local batches, shuffled anew in every epoch.

Round r of an epoch takes the r-th local batch of every user; who has fewer samples is padded with
samples of label 0, whose gradient is zero, so that a cohort is one dense array.

Everybody sends something in every round, so the rounds of an epoch decide what it costs. They are
as many as a user needs on average; who has more samples takes larger batches. Were they as many as
the busiest user needs, all others would send zeros most of the time, and everybody would know how
busy she is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, StateError
from recsys.data.prepare import Pairs
from recsys.simulation import SimulationRng


@dataclass(frozen=True)
class Batch:
    """pois int32 and labels float64, both (members, largest batch); label 0 marks padding.

    counts: float64 (members,), the number of real samples of each member.
    """

    pois: NDArray[np.int32]
    labels: NDArray[np.float64]
    counts: NDArray[np.float64]


class UserBatches:
    """Training pairs by user: ``shuffle`` opens an epoch, ``take`` serves its rounds.

    pairs: sorted by user.  users: how many there are.  local_batch: samples of a user in one
    round, at least 1; more for those who would not be done in ``rounds`` rounds.
    rounds: of one epoch; None for the mean number of batches of a user, rounded up, and 0 for that
    of the user with the most samples, whose batches are then no larger than all others.
    ids: the users' names in their coins, uint32 (users,), where they are not those of all users.
    counts: int64 (users,), each user's samples.
    """

    def __init__(
        self,
        pairs: Pairs,
        users: int,
        local_batch: int,
        sim: SimulationRng,
        rounds: int | None = None,
        ids: NDArray[np.uint32] | None = None,
    ) -> None:
        if local_batch < 1:
            raise ParameterError(f"local_batch must be at least 1, got {local_batch}")
        if rounds is not None and rounds < 0:
            raise ParameterError(f"rounds must be at least 0, got {rounds}")
        self._pairs = pairs
        self._sim = sim
        self._names = pairs.users if ids is None else ids[pairs.users]
        self.counts = np.bincount(pairs.users, minlength=users)
        self._starts = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        needed = pairs.users.size / users if rounds is None else self.counts.max(initial=0)
        self.rounds = rounds or -(-math.ceil(needed) // local_batch)
        self._sizes = np.maximum(local_batch, -(-self.counts // max(1, self.rounds)))
        self._epoch = -1
        self._shuffled: tuple[NDArray[np.int32], NDArray[np.float64]] | None = None

    def shuffle(self, epoch: int) -> None:
        """Order each user's samples by the coins of (user, POI, epoch), once for an epoch."""
        if epoch == self._epoch:
            return
        pairs = self._pairs
        coins = self._sim.coins("order", self._names, pairs.pois, epoch)
        order = np.lexsort((coins, pairs.users))
        # One more sample, of label 0, stands behind them all: the padding.
        pois = np.append(pairs.pois[order], np.int32(0))
        self._shuffled = pois, np.append(pairs.labels[order].astype(np.float64), 0.0)
        self._epoch = epoch

    def take(self, members: NDArray[np.int32], round_: int) -> Batch:
        """The members' local batches of round ``round_``, in [0, rounds).

        Raises StateError before the first ``shuffle``.
        """
        if self._shuffled is None:
            raise StateError("take called before shuffle")
        pois, labels = self._shuffled
        sizes = self._sizes[members][:, np.newaxis]
        place = np.arange(sizes.max(initial=0))
        offset = round_ * sizes + place
        real = (place < sizes) & (offset < self.counts[members][:, np.newaxis])
        index = np.where(real, self._starts[members][:, np.newaxis] + offset, pois.size - 1)
        return Batch(
            pois=pois[index],
            labels=labels[index],
            counts=real.sum(axis=1).astype(np.float64),
        )

    def active(self, round_: int) -> NDArray[np.int32]:
        """Users who still have a sample in this round."""
        return np.flatnonzero(self.counts > round_ * self._sizes).astype(np.int32)


def draw_cohorts(users: int, size: int, sim: SimulationRng) -> list[NDArray[np.int32]]:
    """Split all users at random into cohorts of at least ``size``, once for the whole training.

    The cohorts differ by at most one member; what would be left over joins the others, so nobody
    is starved. With fewer users than ``size`` there is one cohort of all of them.
    """
    if size < 1:
        raise ParameterError(f"cohort must be at least 1, got {size}")
    if users < 1:
        raise ParameterError(f"there must be at least 1 user, got {users}")
    order = sim.order("cohort", np.arange(users))
    parts = np.array_split(order, max(1, users // size))
    return [np.sort(part).astype(np.int32) for part in parts]
