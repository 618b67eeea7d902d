"""A supply of net pads for one client or many: claimed, expanded in bulk, each served once.

Source: Bonawitz et al., CCS 2017, section 4.0.1; write-ahead claims are ours.
Model: rounds only move forward. A pad is claimed before it exists and gone once it has masked a
    vector; nothing here is ever written to disk, and a forked process is refused.
"""

import os
from collections.abc import Sequence

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError
from mpc.core.ring import RingArray
from secagg.masks import mask
from secagg.messages import MAX_ID
from secagg.params import PadParams
from secagg.schedule import PairChains
from secagg.watermark import Watermark

MAX_PAD_BYTES = 1 << 28
"""Most bytes of pads held at a time; a single round may be larger."""


class PadSupply:
    """Net pads of the clients behind ``ends``, for rounds that only move forward.

    key_id: the name of these clients' keys on the watermark. Serves one thread at a time.
    """

    def __init__(
        self, params: PadParams, ends: Sequence[PairChains], watermark: Watermark, key_id: bytes
    ) -> None:
        self._params = params
        self._ends = tuple(ends)
        self._watermark = watermark
        self._key_id = key_id
        self._pads: dict[int, RingArray] = {}
        self._claimed_to = 0  # rounds below are claimed or passed over
        self._next = 0  # rounds below were served or passed over
        self._process = os.getpid()

    @property
    def next_round(self) -> int:
        """The lowest round id that can still be masked."""
        return next(iter(self._pads), max(self._next, self._claimed_to))

    def expand(self, first_round: int, rounds: int) -> None:
        """Claim and make the pads of ``rounds`` rounds from ``first_round`` on.

        Rounds passed over are lost. Raises StateError for a round claimed before, by this object
        or by any other on the same watermark, and ParameterError for more than MAX_PAD_BYTES.
        """
        self._check_process()
        first_round = integer("first_round", first_round, 0, MAX_ID)
        rounds = integer("rounds", rounds, 1, MAX_ID + 1 - first_round)
        spent = max(self._claimed_to, self._next)
        if first_round < spent:
            raise StateError(
                f"the pads of rounds before {spent} are claimed or given up, got {first_round}",
                remedy="go on with a later round",
            )
        held = (len(self._pads) + rounds) * len(self._ends) * self._params.round_bytes
        if rounds > 1 and held > MAX_PAD_BYTES:
            raise ParameterError(
                f"{held} bytes of pads exceed the {MAX_PAD_BYTES} held at a time",
                remedy="expand fewer rounds at once",
            )
        regions = list(self._params.regions(first_round, rounds))
        for end in self._ends:
            # Before the claim: a mistyped round id must not spend the key up to it.
            end.check_epoch(regions[-1][1].epoch)
        for count, region in regions:
            # Durable before a byte of it exists: a crash loses pads, it never repeats them.
            self._watermark.claim(self._key_id, region.epoch, region.start, region.stop)
            self._claimed_to = first_round + count
            block = np.empty(
                (count, len(self._ends), *self._params.shape), dtype=self._params.ring.dtype
            )
            for at, end in enumerate(self._ends):
                block[:, at] = end.net_pads(region)
            for row in block:
                self._pads[first_round] = row
                first_round += 1

    def check_round(self, round: int) -> None:
        """StateError unless the pads of ``round`` can still be had, ParameterError if no id."""
        integer("round", round, 0, MAX_ID)
        self._check_process()
        if round < self._next or (round < self._claimed_to and round not in self._pads):
            raise StateError(
                f"the pads of round {round} are spent; the next round is {self.next_round}",
                remedy="take a later round id",
            )

    def mask(self, round: int, x: RingArray) -> RingArray:
        """x plus the pads of ``round``, which no longer exist afterwards; drops earlier rounds.

        x: (clients, sums_per_round, dim), ring elements.  Returns the same shape.
        Raises StateError if ``round`` was served or passed over.
        """
        self.check_round(round)
        expected = (len(self._ends), *self._params.shape)
        if self._params.ring.check(x).shape != expected:
            raise ParameterError(f"x must have shape {expected}, got {x.shape}")
        if round not in self._pads:
            self.expand(round, 1)
        pad = self._pads.pop(round)
        self.skip_to(round + 1)
        masked = mask(x, pad, self._params.ring)
        pad[...] = 0
        return masked

    def skip_to(self, round: int) -> None:
        """Give up every round below ``round``."""
        self._next = max(self._next, round)
        while self._pads and (first := next(iter(self._pads))) < self._next:
            self._pads.pop(first)[...] = 0

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            # A fork copies pads and chains: both processes would mask with the same ones.
            raise StateError(
                "these pads belong to another process",
                remedy="agree new keys in each process",
            )

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PadSupply holds pads and is not picklable: a resumed run agrees anew")

    def __repr__(self) -> str:
        return f"PadSupply(clients={len(self._ends)}, next_round={self.next_round})"
