"""Sums of some of a round's clients, formed wherever their gradients were computed.

Only simulations add up like this: a protocol needs what every client sends. The sums are of
integers, so they are the same however a round is parted.
"""

from dataclasses import dataclass, field

import numpy as np

from recsys.ratings.aggregate_base import Aggregation
from recsys.ratings.aggregate_clear import ClearSum, widened
from recsys.ratings.aggregate_secure import SimulatedSum
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Grid, encode
from recsys.ratings.gradients import Gradients, PartSum
from recsys.ratings.pseudo import PseudoItems
from recsys.simulation import SimulationRng

Combining = SimulatedSum | ClearSum
"""Aggregations that put sums of parts together."""


@dataclass(frozen=True, eq=False)
class Adder:
    """All that encoding and adding take, and no more; it can be sent to a worker.

    pseudo: with every user's key for them, where users upload pseudo-interacted items.
    """

    config: RatingConfig
    layout: Layout
    grid: Grid
    sim: SimulationRng
    pseudo: PseudoItems | None = field(repr=False)

    def add(self, round_: int, gradients: Gradients) -> PartSum:
        """The clients' sum before noise. Raises what ``Aggregation.sum`` does."""
        layout = self.layout
        layout.check(gradients)
        total, senders, clipped = layout.nothing(), np.zeros(layout.n_items, dtype=np.int64), 0
        for part in widened(gradients, self.pseudo, round_, self.config):
            encoded, cut = encode(part, self.grid, self.sim, round_)
            total += layout.total(encoded)
            senders += layout.senders(encoded)
            clipped += cut
        return PartSum(gradients.members.size, total, senders, clipped)


def adder_of(aggregation: Aggregation, pseudo: PseudoItems | None) -> Adder | None:
    """What forms the parts that ``aggregation`` combines; None where it needs each client's own."""
    if not isinstance(aggregation, Combining):
        return None
    plan = aggregation.plan
    return Adder(plan.config, plan.layout, plan.encoding.grid, plan.sim, pseudo)
