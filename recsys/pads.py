"""One-time-pad cohorts of a training run, their pads expanded in bulk.

A new cipher context for each pair and round would cost more than the pads themselves, so each pair
expands a block of rounds at once: as many as fit into ``BLOCK_BYTES`` over all users.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from secagg.cohort import PadCohort
from secagg.pads import MAX_PAD_BYTES
from secagg.params import PadParams
from secagg.watermark import Watermark

BLOCK_BYTES = 1 << 30
"""Most bytes of pads that wait for their rounds, over all cohorts."""

MAX_BLOCK = 1 << 10
"""Most rounds in a block: what is expanded and not used when training stops early is lost."""


class CohortPads:
    """Agrees all pair keys, once; afterwards ``begin`` and ``run_round`` serve round after round.

    Nothing is ever checkpointed: a run that resumes makes a new object, under new sessions and
    keys, and starts it at any round.
    """

    def __init__(
        self,
        cohorts: Sequence[NDArray[np.int32]],
        dim: int,
        ring: Ring,
        *,
        min_cohort: int,
        watermark: Watermark,
        network: LocalNetwork,
    ) -> None:
        self._block = block_rounds([members.size for members in cohorts], dim, ring)
        self._expanded_to = 0
        self._cohorts = []
        for members in cohorts:
            params = PadParams(
                session=SYSTEM_RNG.bytes(16),
                clients=tuple(int(user) for user in members),
                ring=ring,
                dim=dim,
                rounds_per_epoch=self._block,
                min_cohort=min_cohort,
            )
            cohort = PadCohort(params, watermark=watermark, network=network)
            cohort.agree()
            self._cohorts.append(cohort)

    def begin(self, round_: int, end: int) -> None:
        """Have the pads of ``round_`` ready; ``end`` is the first round that is never needed.

        Rises through the rounds. At the start of a block all cohorts expand it, after a durable
        claim on its regions.
        """
        if round_ < self._expanded_to:
            return
        block_end = (round_ // self._block + 1) * self._block
        self._expanded_to = min(block_end, max(end, round_ + 1))
        for cohort in self._cohorts:
            cohort.expand(round_, self._expanded_to - round_)

    def run_round(self, cohort: int, round_: int, encoded: RingArray) -> RingArray:
        """The ring sum of the members' vectors, (members, dim) -> (dim,)."""
        total: RingArray = self._cohorts[cohort].run_round(round_, encoded[:, np.newaxis])[0]
        return total


def block_rounds(sizes: Sequence[int], dim: int, ring: Ring) -> int:
    """How many rounds are expanded at once, at least 1."""
    each = dim * ring.element_bytes() + 16  # a slot is rounded up to whole cipher blocks
    most = min(BLOCK_BYTES // (sum(sizes) * each), MAX_PAD_BYTES // (max(sizes) * each), MAX_BLOCK)
    return max(1, most)
