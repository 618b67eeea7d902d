"""Sums over the whole catalogue: the recommender learns them, and nothing of their addends.

``PaddedSum`` makes every pad of every member through ``secagg``, ``FullSum`` runs the protocol that
survives drop-outs; ``SimulatedSum`` adds up the same integers in the plain ring, where unrated
items are no work.

Source: Bonawitz et al., CCS 2017: section 4.0.1 for the pads, Figure 4 for the full protocol;
    FedGNN (Wu et al., arXiv:2102.04925), Eq. 1, for clipping and noise.
Model: semi-honest. By pads, of the n members of a cohort up to n - 2 collude with the recommender,
    and nobody drops out; by the full protocol as ``recsys.rounds`` says. With noise, epsilon-LDP
    as ``ldp.clipped_laplace`` even where all others collude, as each member adds the whole noise
    to every coordinate by herself.
Leaks: to the recommender the sum of each cohort in each round, and who takes part. Which items a
    member rated is hidden in the sum: she sends every coordinate, zero or not. A run that is
    killed and resumed repeats the rounds of its last epoch: the same vectors with the same noise,
    under new pads.
Error: that of the encoding. A sum with noise leaves the ring with a probability of at most 2^-60
    for each entry. Without noise both are equal, with it they have the same law
    (``ldp.summed_laplace``).
Differs: the paper sends the item gradients in the clear, hidden among pseudo-interacted ones.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import RingArray
from recsys import rounds
from recsys.drop_outs import DropOuts
from recsys.pads import CohortPads, upload_bytes
from recsys.ratings.aggregate_base import Aggregation, AggregationFacts, Plan
from recsys.ratings.aggregate_noise import SummedNoise, noise_of, vector_of
from recsys.ratings.aggregate_vector import Integers
from recsys.ratings.gradients import Gradients, GridGradients, PartSum, RoundSum
from recsys.rounds import NOBODY, CohortRounds
from recsys.run import Run


class SecureAggregation(Aggregation):
    """Encoding and decoding around a sum in the ring; subclasses say how that is formed."""

    def upload_bytes(self, items: int) -> int:
        """See ``Aggregation.upload_bytes``."""
        plan = self._plan
        sizes = [members.size for members in plan.cohorts]
        count = rounds.upload_bytes if plan.config.secagg == "full" else upload_bytes
        return count(sizes, plan.layout.size, plan.encoding.quantizer.ring)

    def describe(self) -> AggregationFacts:
        """See ``Aggregation.describe``."""
        return self._facts(all_items=True)

    def _sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        members = self._plan.cohorts[cohort]
        strangers = np.setdiff1d(gradients.members, members)
        if strangers.size:
            raise ParameterError(f"{strangers.size} clients are not members of cohort {cohort}")
        gone = self._gone(cohort, round_)
        grid, clipped = self._encode(gradients.without(members[gone]), round_)
        rows, weights = self._decode(self._ring_sum(cohort, round_, grid, gone))
        clients = members.size - gone.size
        return RoundSum(clients, rows, weights, senders=None, clipped=clipped)

    def absent(self, cohort: int, round_: int) -> NDArray[np.int32]:
        """See ``Aggregation.absent``."""
        return self._plan.cohorts[cohort][self._gone(cohort, round_)]

    def _gone(self, cohort: int, round_: int) -> NDArray[np.intp]:
        """Positions of the members who drop out."""
        drop_outs: DropOuts | None = self._plan.drop_outs
        return NOBODY if drop_outs is None else drop_outs.gone(cohort, round_)

    @abstractmethod
    def _ring_sum(
        self, cohort: int, round_: int, grid: GridGradients, gone: NDArray[np.intp]
    ) -> NDArray[Any]:
        """The sum of all vectors that arrive, noise included: integers modulo the ring, (size,)."""


class SimulatedSum(SecureAggregation):
    """The plain sum of the very same integers, and of noise of the same law; nothing is sent."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._noise = SummedNoise(plan)

    def combine(self, cohort: int, round_: int, parts: Sequence[PartSum]) -> RoundSum:
        """See ``Aggregation.combine``."""
        gone, clipped = self._gone(cohort, round_), sum(part.clipped for part in parts)
        self.clipped += clipped
        total = self._plan.layout.nothing()
        for part in parts:
            total += part.total
        rows, weights = self._decode(self._noisy(cohort, round_, total, gone))
        clients = self._plan.cohorts[cohort].size - gone.size
        return RoundSum(clients, rows, weights, senders=None, clipped=clipped)

    def _ring_sum(
        self, cohort: int, round_: int, grid: GridGradients, gone: NDArray[np.intp]
    ) -> NDArray[Any]:
        return self._noisy(cohort, round_, self._plan.layout.total(grid), gone)

    def _noisy(
        self, cohort: int, round_: int, total: Integers, gone: NDArray[np.intp]
    ) -> NDArray[Any]:
        layout, clients = self._plan.layout, self._plan.cohorts[cohort].size - gone.size
        everybody = np.full(layout.n_items, clients)
        return total + self._noise.vector(cohort, round_, everybody, clients)


class PaddedSum(SecureAggregation):
    """Everybody's real work: her whole vector, her noise on it, her pads. Members are fixed."""

    def __init__(self, plan: Plan, run: Run, network: LocalNetwork) -> None:
        super().__init__(plan)
        self._pads = CohortPads(
            plan.cohorts,
            plan.layout.size,
            plan.encoding.quantizer.ring,
            min_cohort=plan.config.min_cohort,
            watermark=run.watermark(),
            network=network,
            tell=run.tell,
        )

    def begin(self, round_: int, end: int) -> None:
        """See ``Aggregation.begin``: pads are expanded in bulk."""
        self._pads.begin(round_, end)

    def _ring_sum(
        self, cohort: int, round_: int, grid: GridGradients, gone: NDArray[np.intp]
    ) -> NDArray[Any]:
        plan, members = self._plan, self._plan.cohorts[cohort]
        layout, ring = plan.layout, plan.encoding.quantizer.ring
        place = np.searchsorted(members, grid.members)
        sources = [
            noise_of(plan, int(user), round_, *layout.upload(grid, int(user))) for user in members
        ]

        def part(start: int, stop: int) -> RingArray:
            x = layout.dense(grid, place, members.size, ring, start, stop)
            for row, noise in zip(x, sources, strict=True):
                if noise is not None:
                    ring.add(row, ring.reduce(noise.sample(stop - start)), out=row)
            return x

        return self._pads.run_parts(cohort, round_, part)


class FullSum(SecureAggregation):
    """Everybody's real work in the full protocol; one member's vector is held at a time."""

    def __init__(self, plan: Plan, run: Run, network: LocalNetwork) -> None:
        super().__init__(plan)
        self._rounds = CohortRounds(
            plan.cohorts,
            plan.layout.size,
            plan.encoding.quantizer.ring,
            min_cohort=plan.config.min_cohort,
            network=network,
            tell=run.tell,
        )

    def _ring_sum(
        self, cohort: int, round_: int, grid: GridGradients, gone: NDArray[np.intp]
    ) -> NDArray[Any]:
        plan, members = self._plan, self._plan.cohorts[cohort]
        ring = plan.encoding.quantizer.ring

        def vector(at: int) -> RingArray:
            return ring.reduce(vector_of(plan, grid, int(members[at]), round_))

        return self._rounds.run(cohort, round_, vector, gone)
