"""What every member of a one-time-pad session agrees on, and where each pad lies in its stream.

Source: Bonawitz et al., CCS 2017, section 4.0.1; the paper's R is 2^bits, its U the ``clients``.
Model: public values. Both ends of a pair must hold the same ones, so their digest enters the
    pair's key: members who differ get a wrong sum, never a repeated pad.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import PUBLIC_BYTES, label
from mpc.core.keystream import BLOCK_BYTES
from mpc.core.ring import Ring
from mpc.core.wire import Message
from secagg.messages import (
    MAX_ID,
    AdvertiseKey,
    MaskedVector,
    Roster,
    RoundBurnt,
    RoundConfirmed,
    check_session,
)

MIN_COHORT = 3
"""With two members each would read the other's input off the sum."""

# 2^34 blocks under one key keep AES-CTR within 2^-60 of a random function.
MAX_EPOCH_BYTES = 1 << 38

MAX_DIM = 2**27 - 1
"""Keeps a vector of 64-bit elements below the largest message."""

MAX_SUMS = 1 << 16

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, order=True)
class Region:
    """Bytes [start, stop) of the pad streams of one epoch, in whole cipher blocks of 16 bytes.

    Raises ParameterError for an empty or unaligned region, or one beyond an epoch's 2^38 bytes.
    """

    epoch: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        exact = {
            "epoch": integer("epoch", self.epoch, 0, MAX_ID),
            "start": integer("start", self.start, 0, MAX_EPOCH_BYTES - BLOCK_BYTES),
            "stop": integer("stop", self.stop, self.start + 1, MAX_EPOCH_BYTES),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        if self.start % BLOCK_BYTES or self.stop % BLOCK_BYTES:
            raise ParameterError(
                f"start and stop must be multiples of {BLOCK_BYTES}, got {self.start}, {self.stop}"
            )

    def overlaps(self, other: "Region") -> bool:
        """Whether some byte belongs to both regions."""
        same_epoch = self.epoch == other.epoch
        return same_epoch and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class PadParams:
    """The public parameters of one session.

    session: 16 bytes, fresh for each session.  clients: distinct ids in [0, 2^32), rising.
    dim: ring elements in one vector.  sums_per_round: vectors that each client sends in a round.
    rounds_per_epoch: rounds under one stream key, after which every pair moves to the next one.
    min_cohort: the least number of clients that the caller accepts, at least 3.
    Raises ParameterError for anything else.
    """

    session: bytes
    clients: tuple[int, ...]
    ring: Ring
    dim: int
    sums_per_round: int = 1
    rounds_per_epoch: int = 1024
    min_cohort: int = MIN_COHORT

    def __post_init__(self) -> None:
        check_session(self.session)
        if not isinstance(self.ring, Ring):
            raise ParameterError(f"ring must be a Ring, got {type(self.ring).__name__}")
        exact: dict[str, object] = {
            "clients": tuple(integer("a client", client, 0, MAX_ID) for client in self.clients),
            "dim": integer("dim", self.dim, 1, MAX_DIM),
            "sums_per_round": integer("sums_per_round", self.sums_per_round, 1, MAX_SUMS),
            "rounds_per_epoch": integer("rounds_per_epoch", self.rounds_per_epoch, 1, MAX_ID),
            "min_cohort": integer("min_cohort", self.min_cohort, MIN_COHORT, MAX_ID),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        if any(a >= b for a, b in zip(self.clients, self.clients[1:], strict=False)):
            raise ParameterError("clients must be distinct and in rising order")
        if len(self.clients) < self.min_cohort:
            raise ParameterError(
                f"a cohort has at least {self.min_cohort} clients, got {len(self.clients)}",
                remedy="merge it with another cohort: a small sum shows its addends",
            )
        needed = self.rounds_per_epoch * self.round_bytes
        if needed > MAX_EPOCH_BYTES:
            raise ParameterError(
                f"an epoch of {needed} pad bytes exceeds {MAX_EPOCH_BYTES} under one key",
                remedy="lower rounds_per_epoch, sums_per_round or dim",
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of one client's input of one round: (sums_per_round, dim)."""
        return self.sums_per_round, self.dim

    @cached_property
    def slot_bytes(self) -> int:
        """Pad bytes of one sum: the vector's size, rounded up to whole cipher blocks."""
        size = self.dim * self.ring.element_bytes()
        return -(-size // BLOCK_BYTES) * BLOCK_BYTES

    @property
    def round_bytes(self) -> int:
        """Pad bytes of all sums of one round."""
        return self.sums_per_round * self.slot_bytes

    def region(self, round: int, sum_id: int) -> Region:
        """Where the pads of (round, sum_id) lie; disjoint from every other such region."""
        sum_id = integer("sum_id", sum_id, 0, self.sums_per_round - 1)
        epoch, index = divmod(integer("round", round, 0, MAX_ID), self.rounds_per_epoch)
        start = index * self.round_bytes + sum_id * self.slot_bytes
        return Region(epoch, start, start + self.slot_bytes)

    def regions(self, first_round: int, rounds: int) -> Iterator[tuple[int, Region]]:
        """The pads of consecutive rounds as (number of rounds, region), one for each epoch."""
        first_round = integer("first_round", first_round, 0, MAX_ID)
        stop_round = first_round + integer("rounds", rounds, 1, MAX_ID + 1 - first_round)
        while first_round < stop_round:
            head = self.region(first_round, 0)
            end = min(stop_round, (head.epoch + 1) * self.rounds_per_epoch)
            count = end - first_round
            yield count, Region(head.epoch, head.start, head.start + count * self.round_bytes)
            first_round = end

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over everything that decides a pad's place and meaning."""
        sizes = (self.ring.bits, self.dim, self.sums_per_round, self.rounds_per_epoch)
        text = label("secagg.pad.params", self.session, *sizes, len(self.clients), *self.clients)
        return hashlib.sha256(text).digest()

    @cached_property
    def message_bytes(self) -> dict[type[Message], int]:
        """The most bytes that a message of each class takes in this session, by its class.

        All masked vectors take exactly that many.
        """
        payload = bytes(self.dim * self.ring.element_bytes())
        publics = (bytes(PUBLIC_BYTES),) * len(self.clients)
        largest: tuple[Message, ...] = (
            AdvertiseKey(self.session, self.clients[-1], publics[0]),
            Roster(self.session, self.clients, publics),
            MaskedVector.make(
                session=self.session,
                client=self.clients[-1],
                round=MAX_ID,
                sum_id=self.sums_per_round - 1,
                bits=self.ring.bits,
                payload=payload,
            ),
            RoundConfirmed(self.session, MAX_ID),
            RoundBurnt(self.session, MAX_ID, self.clients),
        )
        return {type(message): len(message.to_bytes()) for message in largest}

    def decode(self, kind: type[_M], data: bytes) -> _M:
        """The message of class ``kind`` in ``data``, refused unread if too large for the session.

        Raises WireError for whatever is not such a message.
        """
        return kind.from_bytes(data, limit=self.message_bytes[kind])
