"""Cohorts of a training run over the full protocol, which survives drop-outs.

Every round of every cohort agrees on keys of its own, so nothing is prepared and nothing is kept;
that makes it much dearer than pads where rounds are many and vectors short. All members of a cohort
are neighbours.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from recsys.drop_outs import missing
from recsys.errors import PrivacyRefusal
from recsys.pads import Tell, silent
from secagg.full.history import History
from secagg.full.messages import AdvertiseKeys, MaskedInput, SharedKeys, Step, UnmaskShares
from secagg.full.params import RoundParams
from secagg.full.run import LocalRound

_SENT = (AdvertiseKeys, SharedKeys, MaskedInput, UnmaskShares)
"""What a member sends in a round."""

NOBODY = np.zeros(0, dtype=np.intp)


class CohortRounds:
    """One session for each cohort; ``run`` serves round after round, in rising order.

    cohorts: int32 arrays of rising users.  min_cohort: the fewest summands of a sum.
    tell: hears of every round of a cohort, for each takes seconds where cohorts are large.
    Nothing is checkpointed: a run that resumes makes a new object, under new sessions.
    """

    def __init__(
        self,
        cohorts: Sequence[NDArray[np.int32]],
        dim: int,
        ring: Ring,
        *,
        min_cohort: int,
        network: LocalNetwork,
        tell: Tell = silent,
    ) -> None:
        self._tell = tell
        self._dim, self._ring, self._least = dim, ring, min_cohort
        self._network = network
        self._clients = [tuple(int(user) for user in members) for members in cohorts]
        self._sessions = [SYSTEM_RNG.bytes(16) for _ in cohorts]
        self._histories = [{user: History() for user in clients} for clients in self._clients]

    def run(
        self,
        cohort: int,
        round_: int,
        vector: Callable[[int], RingArray],
        gone: NDArray[np.intp] = NOBODY,
    ) -> RingArray:
        """The ring sum (dim,) of the vectors of all members but those who are gone.

        vector: a member's, (dim,), by its position; asked for one after the other.
        gone: positions of those who leave after sharing keys.
        Raises AbortError for too few others.
        """
        clients = self._clients[cohort]
        self._tell(f"round {round_ + 1}: cohort {cohort + 1} of {len(self._clients)}")
        params = round_params(
            self._sessions[cohort], round_, clients, self._ring, self._dim, self._least
        )
        places = {client: at for at, client in enumerate(clients)}
        parties = LocalRound(
            params,
            lambda client: vector(places[client]),
            drop_outs={Step.MASKED_INPUT: [clients[at] for at in gone.tolist()]},
            history=self._histories[cohort],
            network=self._network,
        )
        return parties.run().total

    def run_round(
        self, cohort: int, round_: int, encoded: RingArray, gone: NDArray[np.intp] = NOBODY
    ) -> RingArray:
        """The same of all members' vectors at once, (members, dim)."""
        return self.run(cohort, round_, lambda at: encoded[at], gone)


def threshold(members: int) -> int:
    """Members without whom no sum is formed: more than two thirds of a cohort."""
    return 2 * members // 3 + 1


def colluding(members: int) -> int:
    """Members who may collude with the recommender: two honest ones are left in every sum."""
    return threshold(members) - 2


def round_params(
    session: bytes, round_: int, clients: tuple[int, ...], ring: Ring, dim: int, least: int
) -> RoundParams:
    """The parameters of one round of a cohort."""
    n = len(clients)
    return RoundParams(
        session,
        round_,
        clients,
        threshold(n),
        ring,
        dim,
        colluding=colluding(n),
        min_survivors=least,
    )


def upload_bytes(sizes: Sequence[int], dim: int, ring: Ring) -> int:
    """What one member of the largest of these cohorts sends in one round, exactly."""
    clients = tuple(range(max(sizes)))
    params = round_params(bytes(16), 0, clients, ring, dim, len(clients))
    return sum(params.message_bytes[kind] for kind in _SENT)


def check_drop_outs(sizes: Sequence[int], rate: float, min_cohort: int) -> None:
    """PrivacyRefusal if, of some cohort, fewer than a sum may have are left in a round."""
    for size in sizes:
        left, least = size - missing(size, rate), max(threshold(size), min_cohort)
        if left < least:
            raise PrivacyRefusal(
                f"of a cohort of {size} users {left} stay with a drop rate of {rate:g}, and a sum "
                f"needs {least}",
                remedy="lower --drop-rate, or train with a larger --cohort",
            )
