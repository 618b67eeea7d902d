"""The noise of Eq. 1, as each client draws it, and as the sum of all of theirs.

Model: every coordinate that a client sends has discrete Laplace noise of her own
    (``ldp.clipped_laplace``). A simulation, which uses only sums of it, draws them at once: the sum
    for an item is over the clients who upload it, pseudo-interacted ones included.
Error: none, both have the exact law (``ldp.discrete_laplace``, ``ldp.summed_laplace``).
Leaks: a run that is killed and resumed repeats the rounds of its last epoch. A client's noise is a
    pseudo-random function of her own key, the round and all that she protects by it. So she repeats
    an upload to the bit, which tells nothing new. Were her gradients others, as under another
    version of a library, the noise would be another too, and the difference would not be bare.
Differs: under a seed the noise is reproducible, from a stream for each user and round, and for
    each cohort and round of a simulation; such a run has no privacy.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.discrete_laplace import DiscreteLaplace
from ldp.summed_laplace import SummedLaplace
from mpc.core.keys import derive
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from recsys.ratings.aggregate_base import Plan, UploadPlan
from recsys.ratings.aggregate_vector import Integers
from recsys.ratings.gradients import GridGradients


@dataclass(frozen=True)
class ClientNoise:
    """The noise of one client in one round, drawn in order."""

    law: DiscreteLaplace
    rng: Rng

    def sample(self, size: int) -> Integers:
        """The next ``size`` draws."""
        return self.law.sample(size, rng=self.rng)

    def perturb(self, values: Integers) -> Integers:
        """The values with noise on each."""
        return self.law.perturb(values, rng=self.rng)


def noise_of(
    plan: UploadPlan, user: int, round_: int, items: NDArray[np.int32], values: Integers
) -> ClientNoise | None:
    """Where the noise of a user comes from in a round; None where there is none.

    items, values: all that she will put noise on, in the clear.
    """
    mechanism = plan.encoding.mechanism
    if mechanism is None:
        return None
    if plan.config.seed is not None:
        return ClientNoise(mechanism.noise, privacy_rng(plan, "noise of a user", user, round_))
    protected = hashlib.sha256(items.astype("<i4").tobytes())
    protected.update(values.astype("<i8").tobytes())
    key = plan.keys[user].tobytes()
    seed = derive(key, "ratings.noise", round_, protected.digest(), length=SEED_BYTES)
    return ClientNoise(mechanism.noise, Prg(seed))


def upload_of(
    plan: UploadPlan, grid: GridGradients, user: int, round_: int
) -> tuple[NDArray[np.int32], Integers]:
    """What a user uploads where her items show: these, and her values, weights last, with noise."""
    items, values = plan.layout.upload(grid, user)
    noise = noise_of(plan, user, round_, items, values)
    return items, values if noise is None else noise.perturb(values)


def vector_of(plan: UploadPlan, grid: GridGradients, user: int, round_: int) -> Integers:
    """What a user adds to a sum over the whole catalogue: int64 (size,), noise on every entry."""
    items, values = plan.layout.upload(grid, user)
    noise = noise_of(plan, user, round_, items, values)
    whole = plan.layout.nothing() if noise is None else noise.sample(plan.layout.size)
    plan.layout.add(whole, items, values)
    return whole


class SummedNoise:
    """The sums of noise that simulations add.

    Raises ParameterError for a scale beyond what ``ldp.summed_laplace`` takes.
    """

    def __init__(self, plan: Plan) -> None:
        mechanism = plan.encoding.mechanism
        self._plan = plan
        self._law = None if mechanism is None else SummedLaplace(mechanism.noise.scale)

    def vector(
        self, cohort: int, round_: int, senders: NDArray[np.int64], clients: int
    ) -> Integers | int:
        """The noise on a whole vector: int64 (size,), or 0 where there is none.

        senders (n_items,): how many clients' noise each item has.  clients: each weight.
        """
        if self._law is None:
            return 0
        layout = self._plan.layout
        rng = privacy_rng(self._plan, "noise of a sum", cohort, round_)
        parts = [self._law.sample(senders, layout.width, rng=rng).reshape(-1)]
        if layout.n_weights:
            parts.append(self._law.sample(np.array([clients]), layout.n_weights, rng=rng)[0])
        return np.concatenate(parts)


def privacy_rng(plan: UploadPlan, purpose: str, *index: int) -> Rng:
    """The system's coins, or in a seeded run a stream of its own for each index."""
    if plan.config.seed is None:
        return SYSTEM_RNG
    key = plan.sim.coins(purpose, *index, np.arange(SEED_BYTES // 8))
    return Prg(key.astype("<u8").tobytes())
