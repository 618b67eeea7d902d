"""What every way to sum gradients offers, and what a reader of a run should know about it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.clipped_laplace import ClippedLaplace
from mpc.core.errors import StateError
from recsys.drop_outs import DropOuts
from recsys.ratings.aggregate_mean import MeanRating
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Encoding, encode
from recsys.ratings.gradients import Floats, Gradients, GridGradients, PartSum, RoundSum
from recsys.simulation import SimulationRng


@dataclass(frozen=True)
class AggregationFacts:
    """What left the devices, for ledger and report.

    aggregate, mode: as in the configuration.  smallest, largest: of the cohorts.
    secagg, drop_rate: how sums are protected, and what drops out of them; of ``secure`` alone.
    coordinates: of a vector over the whole catalogue.
    mechanism: the noise on every coordinate that is sent, None without any.
    all_items: whether every client sends all coordinates, so that none tells what she rated, and a
    loss for the whole vector exists.
    """

    aggregate: str
    mode: str
    smallest: int
    largest: int
    coordinates: int
    mechanism: ClippedLaplace | None
    all_items: bool
    secagg: str = "pads"
    drop_rate: float = 0.0

    @property
    def epsilon(self) -> float:
        """Loss for one coordinate that a client sends, in one round, in nats; infinite without."""
        return math.inf if self.mechanism is None else self.mechanism.epsilon

    def vector_epsilon(self, rounds: int) -> float:
        """Loss for a client's whole vector over so many rounds; infinite where items show."""
        if self.mechanism is None or not self.all_items:
            return math.inf
        return self.mechanism.vector_epsilon(self.coordinates, rounds)


@dataclass(frozen=True, eq=False, kw_only=True)
class UploadPlan:
    """What a user's device needs in order to upload. keys: uint8 (users, 32), each user's own."""

    config: RatingConfig
    layout: Layout
    encoding: Encoding
    sim: SimulationRng
    keys: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(UploadPlan):
    """What all ways to sum have in common.

    cohorts: int32 arrays of rising users, disjoint.
    drop_outs: of the cohorts, where sums are secure; None for nobody.
    """

    cohorts: Sequence[NDArray[np.int32]]
    mean: MeanRating
    drop_outs: DropOuts | None = None


class Aggregation(ABC):
    """Sums of the gradients of a cohort's clients, formed once for each (cohort, round).

    Every cohort has its rounds 0, 1, 2, ...: where each is summed once in an epoch, the round is
    the epoch. (Numbers that skip would be right, but cost pads that nobody uses.)
    clipped: entries that a bound changed, over the whole run.
    """

    def __init__(self, plan: Plan) -> None:
        self.clipped = 0
        self._plan = plan

    @property
    def plan(self) -> Plan:
        """What it has in common with other ways to sum."""
        return self._plan

    def begin(self, round_: int, end: int) -> None:  # noqa: B027 - most have nothing to do
        """Prepare round ``round_``; ``end`` is the first that is never needed."""

    def sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        """The sum over the clients of ``gradients``, of one cohort in one round.

        Rounds of a cohort rise, and no client is in two cohorts of a round: a client's coins
        follow from (user, item, round). Members of the cohort who are not among the clients have
        nothing to add; with ``secure`` they send zeros like everybody.
        Raises DivergenceError for a gradient that is not finite, ParameterError for arrays that do
        not fit together.
        """
        self._plan.layout.check(gradients)
        return self._sum(cohort, round_, gradients)

    def mean(self, sums: Floats, counts: NDArray[np.int64]) -> float:
        """The mean of all ratings, from each user's sum (users,) and count (users,) of hers.

        Nobody's own sum or count is learned, only the totals of each cohort. See ``MeanRating``.
        """
        return self._plan.mean.of(sums, counts)

    def combine(self, cohort: int, round_: int, parts: Sequence[PartSum]) -> RoundSum:
        """As ``sum``, of what all clients but those who are absent add up to in parts.

        Raises StateError where a sum needs each client's own (``recsys.ratings.aggregate_part``).
        """
        raise StateError(f"{type(self).__name__} needs what each client sends, and has no parts")

    def absent(self, cohort: int, round_: int) -> NDArray[np.int32]:
        """Members of the cohort who drop out of the sum of a round, rising; nobody by default."""
        return np.zeros(0, dtype=np.int32)

    @abstractmethod
    def upload_bytes(self, items: int) -> int:
        """What a client sends in one round who uploads so many items, exactly; also if simulated.

        With ``secure`` it does not depend on them.
        """

    @abstractmethod
    def describe(self) -> AggregationFacts:
        """What a ledger needs to know."""

    def _facts(self, *, all_items: bool) -> AggregationFacts:
        plan = self._plan
        sizes = [members.size for members in plan.cohorts]
        return AggregationFacts(
            aggregate=plan.config.aggregate,
            mode=plan.config.mode,
            smallest=min(sizes),
            largest=max(sizes),
            coordinates=plan.layout.size,
            mechanism=plan.encoding.mechanism,
            all_items=all_items,
            secagg=plan.config.secagg,
            drop_rate=plan.config.drop_rate,
        )

    @abstractmethod
    def _sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        """As ``sum``, of arrays that fit together."""

    def _encode(self, gradients: Gradients, round_: int) -> tuple[GridGradients, int]:
        plan = self._plan
        grid, clipped = encode(gradients, plan.encoding.grid, plan.sim, round_)
        self.clipped += clipped
        return grid, clipped

    def _decode(self, total: NDArray[Any]) -> tuple[Floats, Floats]:
        """Rows and weights of a vector of integer sums, which counts modulo the ring."""
        quantizer = self._plan.encoding.quantizer
        return self._plan.layout.split(quantizer.decode(quantizer.ring.reduce(total)))
