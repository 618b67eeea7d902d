"""Sums of uploads that the recommender sees one by one, as in the paper.

``UploadedSum`` packs every client's upload into bytes and reads it as the recommender does;
``ClearSum`` adds up the same integers, and noise of the same law.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1 and Eq. 1: pseudo-interacted items, then
    clipping and Laplace noise on every coordinate that is sent, then a sum.
Model: the recommender sees every upload, and follows the protocol. With noise, epsilon-LDP for each
    coordinate that is sent, as ``ldp.clipped_laplace``; the noise of one hides nothing of another.
Leaks: to the recommender who uploads which items in which round (``recsys.ratings.pseudo`` says
    what pseudo-interacted ones hide of that), and each grid value with its noise. Without noise
    that is everything. A run that is killed and resumed repeats its last uploads to the bit
    (``recsys.ratings.aggregate_noise``).
Error: that of the encoding. An upload's value leaves its word with a probability of at most 2^-60,
    and is then the nearest that fits, which the simulation leaves out.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from mpc.core.rng import SYSTEM_RNG
from recsys.ratings.aggregate_base import Aggregation, AggregationFacts, Plan
from recsys.ratings.aggregate_noise import SummedNoise, upload_of
from recsys.ratings.aggregate_vector import Integers
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import noise_reach
from recsys.ratings.gradients import Gradients, GridGradients, PartSum, RoundSum
from recsys.ratings.pseudo import PseudoItems, with_pseudo
from recsys.ratings.uploads import UploadFormat, word_for
from secagg.messages import SERVER, SESSION_BYTES

UPLOAD = "ratings.gradients"

_PART_ENTRIES = 1 << 21
"""Entries of the clients whose uploads are made at a time."""


class ClearAggregation(Aggregation):
    """Encoding and decoding around a sum of integers; subclasses say how that is formed."""

    def __init__(self, plan: Plan, pseudo: PseudoItems | None) -> None:
        super().__init__(plan)
        self._pseudo = pseudo
        noise, bound = plan.encoding.mechanism, plan.encoding.grid.bound
        reach = bound + (noise_reach(noise.noise, 1) if noise else 0)
        session = SYSTEM_RNG.bytes(SESSION_BYTES)
        self._format = UploadFormat(session, plan.layout, word_for(reach))

    def upload_bytes(self, items: int) -> int:
        """See ``Aggregation.upload_bytes``."""
        return self._format.size(items)

    def describe(self) -> AggregationFacts:
        """See ``Aggregation.describe``."""
        return self._facts(all_items=False)

    def _uploads(self, round_: int, gradients: Gradients) -> Iterator[tuple[GridGradients, int]]:
        """What the clients upload before noise, some at a time, and their clipped entries."""
        for part in widened(gradients, self._pseudo, round_, self._plan.config):
            yield self._encode(part, round_)

    def _round_sum(
        self, clients: int, total: Integers, senders: NDArray[np.int64], clipped: int
    ) -> RoundSum:
        rows, weights = self._decode(total)
        return RoundSum(clients, rows, weights, senders=senders, clipped=clipped)


class ClearSum(ClearAggregation):
    """The plain sum of the very same integers, and of noise of the same law; nothing is sent."""

    def __init__(self, plan: Plan, pseudo: PseudoItems | None) -> None:
        super().__init__(plan, pseudo)
        self._noise = SummedNoise(plan)

    def combine(self, cohort: int, round_: int, parts: Sequence[PartSum]) -> RoundSum:
        """See ``Aggregation.combine``."""
        self.clipped += sum(part.clipped for part in parts)
        return self._of_parts(cohort, round_, parts)

    def _sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        layout = self._plan.layout
        parts = (
            PartSum(grid.members.size, layout.total(grid), layout.senders(grid), cut)
            for grid, cut in self._uploads(round_, gradients)
        )
        return self._of_parts(cohort, round_, parts)

    def _of_parts(self, cohort: int, round_: int, parts: Iterable[PartSum]) -> RoundSum:
        layout, clients = self._plan.layout, 0
        total, senders, clipped = layout.nothing(), np.zeros(layout.n_items, dtype=np.int64), 0
        for part in parts:
            clients += part.clients
            total += part.total
            senders += part.senders
            clipped += part.clipped
        total += self._noise.vector(cohort, round_, senders, clients)
        return self._round_sum(clients, total, senders, clipped)


class UploadedSum(ClearAggregation):
    """Everybody's real upload: packed by the client, counted, read and added by the recommender."""

    def __init__(self, plan: Plan, pseudo: PseudoItems | None, network: LocalNetwork) -> None:
        super().__init__(plan, pseudo)
        self._network = network

    def _sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        layout = self._plan.layout
        total, senders, clipped = layout.nothing(), np.zeros(layout.n_items, dtype=np.int64), 0
        for grid, cut in self._uploads(round_, gradients):
            for at, user in enumerate(grid.members):
                data = self._carried(int(user), self._message(grid, at, round_))
                # From here on the recommender, who knows whose message this is and no more.
                items, values = self._format.read(data, int(user), round_)
                layout.add(total, items, values)
                senders[items] += 1
            clipped += cut
        return self._round_sum(gradients.members.size, total, senders, clipped)

    def _message(self, grid: GridGradients, at: int, round_: int) -> bytes:
        """What client ``at`` of ``grid`` sends: her noise on every value, and her items."""
        user = int(grid.members[at])
        items, values = upload_of(self._plan, grid, user, round_)
        return self._format.message(user, round_, items, values).to_bytes()

    def _carried(self, user: int, data: bytes) -> bytes:
        if not self._network.records:
            self._network.count(UPLOAD, 1, len(data))
            return data
        self._network.send(user, SERVER, UPLOAD, data)
        return self._network.receive(SERVER)[-1].data


def widened(
    gradients: Gradients, pseudo: PseudoItems | None, round_: int, config: RatingConfig
) -> Iterator[Gradients]:
    """The clients some at a time, with rows for their pseudo-interacted items."""
    for part in _parts(gradients, config.pseudo):
        if pseudo is None:
            yield part
        else:
            chosen = pseudo.draw(part.members, round_)
            # By each client's own coins of the round: if a repeated round had new rows for pseudo
            # items, those that stay the same would be the real ones.
            yield with_pseudo(part, chosen, frac_bits=config.frac_bits)


def _parts(gradients: Gradients, extra: int) -> Iterator[Gradients]:
    """The clients in order, as many at a time as are not too much with ``extra`` items for each."""
    width = gradients.rows.shape[1]
    sizes = (np.diff(gradients.starts) + extra) * width + gradients.weights.shape[1]
    first, size = 0, 0
    for client in range(gradients.members.size + 1):
        last = client == gradients.members.size
        if client > first and (last or size + sizes[client] > _PART_ENTRIES):
            yield _clients(gradients, first, client)
            first, size = client, 0
        if not last:
            size += int(sizes[client])


def _clients(gradients: Gradients, first: int, end: int) -> Gradients:
    rows = slice(gradients.starts[first], gradients.starts[end])
    return Gradients(
        members=gradients.members[first:end],
        starts=gradients.starts[first : end + 1] - rows.start,
        items=gradients.items[rows],
        rows=gradients.rows[rows],
        weights=gradients.weights[first:end],
    )
