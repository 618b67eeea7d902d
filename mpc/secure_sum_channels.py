"""How the arrays of a batch of secure sums travel: handed over, or as counted messages.

Model: a channel sees what a network sees. ``DirectChannel`` stands for pairwise links that hide
    their content from everybody else; where phones have none, see ``mpc.secure_sum_relay``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.secure_sum_messages import (
    MAX_ID,
    SESSION_BYTES,
    PartialSum,
    ShareMessage,
    SumMessage,
    SumMessageT,
    SumTerms,
    check_count,
    wire_bytes,
)

SHARE = "secure_sum.share"
PARTIAL = "secure_sum.partial"


@dataclass(frozen=True, eq=False)
class Groups:
    """Who takes part in a batch of sums: sum b adds up neighbours[:, b] for receivers[b].

    session: 16 bytes.  round: below 2^32.  receivers: integers (B,), distinct.  neighbours:
    integers (N, B), N >= 3, distinct in each column and not its receiver.
    Raises ParameterError for anything else.
    """

    session: bytes
    round: int
    receivers: NDArray[np.integer]
    neighbours: NDArray[np.integer]

    def __post_init__(self) -> None:
        if not isinstance(self.session, bytes) or len(self.session) != SESSION_BYTES:
            raise ParameterError(f"session must be {SESSION_BYTES} bytes")
        object.__setattr__(self, "round", integer("round", self.round, 0, MAX_ID))
        for name, ndim in (("receivers", 1), ("neighbours", 2)):
            ids = np.asarray(getattr(self, name))
            if ids.dtype.kind not in "iu" or ids.ndim != ndim:
                raise ParameterError(
                    f"{name} must be integers in {ndim} dimension(s), got {ids.dtype} {ids.shape}"
                )
            if ids.size and not (ids.min() >= 0 and ids.max() <= MAX_ID):
                raise ParameterError(f"{name} must lie in [0, 2^32)")
            object.__setattr__(self, name, ids)
        self._check_members()

    def _check_members(self) -> None:
        n, batch = self.neighbours.shape
        check_count(n)
        if batch != self.receivers.size:
            raise ParameterError(
                f"neighbours must have one column for each of {self.receivers.size} receivers, "
                f"got {batch}"
            )
        if np.unique(self.receivers).size != batch:
            raise ParameterError(
                "receivers must be distinct: a round serves once for each receiver",
                remedy="put a second sum for the same receiver into another round",
            )
        members = np.sort(np.vstack([self.neighbours, self.receivers]), axis=0)
        if (members[1:] == members[:-1]).any():
            raise ParameterError("a receiver and her neighbours must be distinct parties")

    @classmethod
    def numbered(cls, n: int, batch: int) -> Self:
        """Stand-in ids where nobody cares: neighbours 0..n-1, receivers from n on."""
        neighbours = np.broadcast_to(np.arange(n)[:, np.newaxis], (n, batch))
        return cls(bytes(SESSION_BYTES), 0, np.arange(n, n + batch), neighbours)

    def terms(self, column: int, dim: int, ring: Ring) -> SumTerms:
        """The terms of the sum in ``column``."""
        neighbours = tuple(self.neighbours[:, column].tolist())
        receiver = int(self.receivers[column])
        return SumTerms(self.session, self.round, receiver, neighbours, dim, ring)


class Channel(Protocol):
    """Carries the arrays of one batch at a time; ``batch_sum`` calls it in this order."""

    def open(self, groups: Groups | None, shape: tuple[int, int, int], ring: Ring) -> None:
        """A batch of shape (N, B, D) begins; ``groups`` names its parties if the caller did."""

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        """Carry, for the sums in ``columns``, what each neighbour made for the one ``offset`` on.

        shares: (N, columns, D), row f from neighbour f for neighbour (f + offset) mod N.
        Returns what arrives, in the same layout. Offsets run from 1 to N-1.
        """

    def partials(self, partials: RingArray) -> RingArray:
        """Close the first round and carry the partial sums (N, B, D) to the receivers."""


class HandOver:
    """The default: arrays change hands and nothing is counted."""

    def open(self, groups: Groups | None, shape: tuple[int, int, int], ring: Ring) -> None:
        """See ``Channel.open``."""

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        """See ``Channel.shares``."""
        return shares

    def partials(self, partials: RingArray) -> RingArray:
        """See ``Channel.partials``."""
        return partials


class MessageChannel(ABC):
    """Sends every share and partial sum as a message of its own; subclasses say by which way."""

    def __init__(self, network: LocalNetwork) -> None:
        self.network = network
        self._terms: list[SumTerms] = []

    def open(self, groups: Groups | None, shape: tuple[int, int, int], ring: Ring) -> None:
        """See ``Channel.open``. Without ``groups`` parties get stand-in ids."""
        n, batch, dim = shape
        named = Groups.numbered(n, batch) if groups is None else groups
        self._terms = [named.terms(column, dim, ring) for column in range(batch)]

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        """See ``Channel.shares``."""
        arrived = np.empty_like(shares)
        for seat, row in enumerate(shares):
            for column, terms in enumerate(self._terms[columns]):
                sender = terms.neighbours[seat]
                to = terms.neighbours[(seat + offset) % len(shares)]
                message = self.carry(terms.share_message(sender, to, row[column]))
                arrived[seat, column] = terms.read_share(message, to)
        return arrived

    def partials(self, partials: RingArray) -> RingArray:
        """See ``Channel.partials``."""
        self.network.next_round()
        arrived = np.empty_like(partials)
        for seat, row in enumerate(partials):
            for column, terms in enumerate(self._terms):
                message = terms.partial_message(terms.neighbours[seat], row[column])
                arrived[seat, column] = terms.read_partial(self.carry(message))
        self.network.next_round()
        return arrived

    @abstractmethod
    def carry(self, message: SumMessage) -> SumMessage:
        """Bring ``message`` from its sender to its addressee, as bytes, and decode it there."""


def post(
    network: LocalNetwork, sender: int, receiver: int, kind: str, message: SumMessageT
) -> SumMessageT:
    """Send ``message`` over ``network`` and decode what comes out at the other end.

    Raises AbortError unless exactly one message arrives there.
    """
    network.send(sender, receiver, kind, message.to_bytes())
    arrived = network.receive(receiver)
    if len(arrived) != 1:
        raise AbortError(f"party {receiver} awaits one {kind} message, {len(arrived)} arrived")
    return type(message).from_bytes(arrived[0].data)


class DirectChannel(MessageChannel):
    """Neighbours reach each other and the receiver: one message for each share and partial sum.

    A network that records views gets every message. Any other is told how many messages of which
    size the batch stands for, header included, and the arrays themselves are handed over.
    """

    def open(self, groups: Groups | None, shape: tuple[int, int, int], ring: Ring) -> None:
        """See ``Channel.open``. Without ``groups`` parties get stand-in ids."""
        self._shape, self._ring = shape, ring
        if self.network.records:
            super().open(groups, shape, ring)

    def shares(self, columns: slice, offset: int, shares: RingArray) -> RingArray:
        """See ``Channel.shares``."""
        return super().shares(columns, offset, shares) if self.network.records else shares

    def partials(self, partials: RingArray) -> RingArray:
        """See ``Channel.partials``."""
        if self.network.records:
            return super().partials(partials)
        n, batch, dim = self._shape
        payload = dim * self._ring.element_bytes()
        messages = n * (n - 1) * batch
        self.network.count(SHARE, messages, messages * wire_bytes(ShareMessage, payload))
        self.network.next_round()
        self.network.count(PARTIAL, n * batch, n * batch * wire_bytes(PartialSum, payload))
        self.network.next_round()
        return partials

    def carry(self, message: SumMessage) -> SumMessage:
        """See ``MessageChannel.carry``."""
        kind = SHARE if isinstance(message, ShareMessage) else PARTIAL
        return post(self.network, message.sender, message.to, kind, message)
