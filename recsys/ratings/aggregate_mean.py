"""The mean of all ratings, of which only the two totals of each cohort are learned.

Model: as ``secagg.cohort``: semi-honest; of the n members of a cohort up to n - 2 collude with the
    recommender, and nobody drops out. With ``full`` as ``recsys.rounds``.
Leaks: to the recommender the sum and the number of the ratings of each cohort, exactly.
Error: a user's sum is rounded to a multiple of 2^-24, so the mean is off by at most 2^-25.
Differs: the paper does not centre ratings, and so needs no mean.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.fixed import FixedPoint
from recsys.errors import PrivacyRefusal
from recsys.pads import CohortPads
from recsys.ratings.gradients import Floats
from recsys.rounds import CohortRounds
from recsys.run import Run

_RING = Ring(64)
_SUMS = FixedPoint(_RING, 24)


class MeanRating:
    """Adds up everybody's (sum of ratings, number of ratings), group by group.

    cohorts: disjoint, int32 arrays of rising users.  Each is a group; one with fewer than ``least``
    members joins the next.  network: carries the protocol; None adds up in the plain ring, with
    the same result and nothing sent.  full: by the protocol that survives drop-outs, although
    nobody is missing here; otherwise by one-time pads.
    """

    def __init__(
        self,
        cohorts: Sequence[NDArray[np.int32]],
        least: int,
        run: Run,
        network: LocalNetwork | None,
        *,
        full: bool = False,
    ) -> None:
        self._groups = _joined(cohorts, least)
        self._least = least
        self._run = run
        self._network = network
        self._full = full

    def of(self, sums: Floats, counts: NDArray[np.int64]) -> float:
        """The mean, from the users' sums (users,) and counts (users,); each call agrees new keys.

        Raises PrivacyRefusal with fewer users than a group needs, ParameterError where there is no
        rating, or one of a user without a cohort, or a sum that is too large or not finite.
        """
        if not self._groups:
            raise PrivacyRefusal(
                f"fewer than {self._least} users: the totals of so few ratings tell too much about "
                "each",
                remedy="train with more users, without centring, or lower --min-cohort (never "
                "below 3)",
            )
        alone = np.setdiff1d(np.flatnonzero(counts), np.concatenate(self._groups))
        if alone.size:
            raise ParameterError(f"{alone.size} users have ratings, but belong to no cohort")
        _check(sums, sum(group.size for group in self._groups))
        encoded = [
            np.stack([_SUMS.encode(sums[group]), _RING.reduce(counts[group])], axis=1)
            for group in self._groups
        ]
        totals = self._summed(encoded)
        count = int(totals[1])
        if count < 1:
            raise ParameterError("there is no rating, so there is no mean")
        return float(_SUMS.decode(totals[0])) / count

    def _summed(self, encoded: list[RingArray]) -> RingArray:
        if self._network is None:
            return _RING.sum(np.concatenate(encoded), axis=0)
        cohorts: CohortPads | CohortRounds
        least, network = self._least, self._network
        if self._full:
            cohorts = CohortRounds(
                self._groups, 2, _RING, min_cohort=least, network=network, tell=self._run.tell
            )
        else:
            cohorts = CohortPads(
                self._groups,
                2,
                _RING,
                min_cohort=least,
                watermark=self._run.watermark(),
                network=network,
                tell=self._run.tell,
            )
            cohorts.begin(0, 1)
        totals = [cohorts.run_round(group, 0, vectors) for group, vectors in enumerate(encoded)]
        return _RING.sum(np.stack(totals), axis=0)


def _check(sums: Floats, users: int) -> None:
    limit = _SUMS.headroom(users)
    if not np.all(np.abs(sums) <= limit):  # false for NaN too
        raise ParameterError(
            f"a user's sum of ratings is not finite, or beyond {limit:.6g}",
            remedy="scale the ratings down",
        )


def _joined(cohorts: Sequence[NDArray[np.int32]], least: int) -> list[NDArray[np.int32]]:
    """The cohorts, joined in order until each has ``least`` members; none if all are too few."""
    groups: list[NDArray[np.int32]] = []
    waiting = np.zeros(0, dtype=np.int32)
    for members in cohorts:
        waiting = np.union1d(waiting, members).astype(np.int32)
        if waiting.size >= least:
            groups.append(waiting)
            waiting = waiting[:0]
    if waiting.size and groups:
        groups[-1] = np.union1d(groups[-1], waiting).astype(np.int32)
    return groups
