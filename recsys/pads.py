"""One-time-pad cohorts of a training run: pads expanded in bulk, long vectors summed in chunks.

A new cipher context for each pair and round would cost more than the pads themselves, so each pair
expands a block of rounds at once: as many as fit into ``BLOCK_BYTES`` over all users. A vector of
a cohort that takes more than ``CHUNK_BYTES`` is summed chunk by chunk, each a round of its own to
``secagg``, with pads of its own. Where not even one round of everybody's pads fits into
``BLOCK_BYTES``, a cohort's pads are expanded as its chunks need them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.keystream import BLOCK_BYTES as AES_BYTES
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from secagg.cohort import PadCohort
from secagg.messages import MaskedVector
from secagg.pads import MAX_PAD_BYTES
from secagg.params import PadParams
from secagg.watermark import Watermark

BLOCK_BYTES = 1 << 30
"""Most bytes of pads that wait for their rounds, over all cohorts."""

CHUNK_BYTES = 1 << 26
"""Most bytes of a cohort's vectors that are masked at a time."""

MAX_BLOCK = 1 << 10
"""Most rounds in a block: what is expanded and not used when training stops early is lost."""

Part = Callable[[int, int], RingArray]
"""(start, stop) -> these elements of every member's vector, (members, stop - start)."""

Tell = Callable[[str], None]
"""Takes a few words on how far something is that takes long."""


def silent(text: str) -> None:
    """Nobody listens."""


class CohortPads:
    """Agrees all pair keys, once; afterwards ``begin`` and ``run_round`` serve round after round.

    Nothing is ever checkpointed: a run that resumes makes a new object, under new sessions and
    keys, and starts it at any round.
    tell: hears of every cohort that has agreed.
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
        tell: Tell = silent,
    ) -> None:
        sizes = [members.size for members in cohorts]
        self._dim = dim
        self._chunk = chunk_elements(max(sizes), dim, ring)
        self._chunks = -(-dim // self._chunk)  # the last one is filled up with zeros
        self._block = block_rounds(sizes, self._chunks * self._chunk, ring)
        self._expanded_to = 0
        self._cohorts = []
        for done, members in enumerate(cohorts):
            tell(f"key agreement: {done} of {len(cohorts)} cohorts")
            params = PadParams(
                session=SYSTEM_RNG.bytes(16),
                clients=tuple(int(user) for user in members),
                ring=ring,
                dim=self._chunk,
                rounds_per_epoch=self._block * self._chunks,
                min_cohort=min_cohort,
            )
            cohort = PadCohort(params, watermark=watermark, network=network)
            cohort.agree()
            self._cohorts.append(cohort)
        largest = params.round_bytes * max(sizes)
        everybody = params.round_bytes * sum(sizes) * self._chunks
        self._ahead = everybody <= BLOCK_BYTES and largest * self._chunks <= MAX_PAD_BYTES
        # How many chunks' pads are expanded at a time where none are made ahead.
        self._stretch = max(1, MAX_PAD_BYTES // largest)

    def begin(self, round_: int, end: int) -> None:
        """Have the pads of ``round_`` ready; ``end`` is the first round that is never needed.

        Rises through the rounds. At the start of a block all cohorts expand it, after a durable
        claim on its regions.
        """
        if round_ < self._expanded_to or not self._ahead:
            return
        block_end = (round_ // self._block + 1) * self._block
        self._expanded_to = min(block_end, max(end, round_ + 1))
        for cohort in self._cohorts:
            rounds = self._expanded_to - round_
            cohort.expand(round_ * self._chunks, rounds * self._chunks)

    def run_round(self, cohort: int, round_: int, encoded: RingArray) -> RingArray:
        """The ring sum of the members' vectors, (members, dim) -> (dim,)."""
        return self.run_parts(cohort, round_, lambda start, stop: encoded[:, start:stop])

    def run_parts(self, cohort: int, round_: int, part: Part) -> RingArray:
        """The same of vectors that ``part`` gives chunk by chunk, in order: (dim,)."""
        total: list[RingArray] = []
        for at in range(self._chunks):
            if not self._ahead and at % self._stretch == 0:
                count = min(self._stretch, self._chunks - at)
                self._cohorts[cohort].expand(round_ * self._chunks + at, count)
            start = at * self._chunk
            x = _filled(part(start, min(start + self._chunk, self._dim)), self._chunk)
            sums = self._cohorts[cohort].run_round(round_ * self._chunks + at, x[:, np.newaxis])
            total.append(sums[0])
        return np.concatenate(total)[: self._dim]


def _filled(x: NDArray[Any], width: int) -> NDArray[Any]:
    """``x`` with zeros behind its last column, up to ``width`` columns."""
    missing = width - x.shape[1]
    return np.pad(x, ((0, 0), (0, missing))) if missing else x


def chunk_elements(members: int, dim: int, ring: Ring) -> int:
    """Elements of a vector of ``dim`` that are summed at a time; ``dim`` itself if they fit.

    Otherwise whole cipher blocks, as evenly as they go.
    """
    size = ring.element_bytes()
    if members * dim * size <= CHUNK_BYTES:
        return dim
    unit = AES_BYTES // size
    most = max(unit, CHUNK_BYTES // (members * size))
    even = -(-dim // -(-dim // most))
    return -(-even // unit) * unit


def upload_bytes(sizes: Sequence[int], dim: int, ring: Ring) -> int:
    """What one member of cohorts of these sizes sends in one round, exactly."""
    chunk = chunk_elements(max(sizes), dim, ring)
    # Neither session nor members change the size of a masked vector.
    params = PadParams(bytes(16), (0, 1, 2), ring, chunk)
    return -(-dim // chunk) * params.message_bytes[MaskedVector]


def block_rounds(sizes: Sequence[int], dim: int, ring: Ring) -> int:
    """How many rounds are expanded at once, at least 1."""
    each = dim * ring.element_bytes() + 16  # a slot is rounded up to whole cipher blocks
    most = min(BLOCK_BYTES // (sum(sizes) * each), MAX_PAD_BYTES // (max(sizes) * each), MAX_BLOCK)
    return max(1, most)
