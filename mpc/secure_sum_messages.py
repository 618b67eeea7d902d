"""The messages of the secure sum, and the public terms that every party checks them against.

Source: PriRec (Chen et al., 2020), Algorithm 1, lines 4 and 8.
Model: bytes come from anyone; what does not fit the terms is refused and changes nothing.
Leaks: the header names session, round, receiver, sender and addressee in the clear.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Self, TypeVar

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.ring import Ring, RingArray
from mpc.core.wire import Message

SESSION_BYTES = 16
MIN_NEIGHBOURS = 3
MAX_ID = 2**32 - 1
MAX_DIM = 2**27 - 1  # so that a message of 64-bit elements stays below the wire's limit

_ROUTE = struct.Struct("<4I")


class SumMessage(Message, frozen=True):
    """What all messages of a secure sum carry; ``make`` builds one from its parts.

    The four numbers of the route take four bytes each whatever their value, so that all messages
    of one kind have the same length: a receiver checks it before decoding, traffic is a formula in
    N and D, and a length tells nothing about who writes to whom.
    """

    session: bytes
    route: bytes
    bits: int
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse a session id or a route of the wrong size, and bits outside [1, 64]."""
        if len(self.session) != SESSION_BYTES:
            raise ParameterError(
                f"session must be {SESSION_BYTES} bytes, got {len(self.session)}",
                remedy="draw it with Rng.bytes",
            )
        if len(self.route) != _ROUTE.size:
            raise ParameterError(f"route must be {_ROUTE.size} bytes, got {len(self.route)}")
        integer("bits", self.bits, 1, 64)

    @classmethod
    def make(
        cls,
        *,
        session: bytes,
        round: int,
        receiver: int,
        sender: int,
        to: int,
        bits: int,
        payload: bytes,
    ) -> Self:
        """A message of the sum for ``receiver`` in ``round``, from ``sender``, addressed ``to``.

        Round and ids lie in [0, 2^32).
        """
        numbers = {"round": round, "receiver": receiver, "sender": sender, "to": to}
        route = _ROUTE.pack(*(integer(k, v, 0, MAX_ID) for k, v in numbers.items()))
        return cls(session, route, bits, payload)

    @property
    def round(self) -> int:
        """The round of the session."""
        return int.from_bytes(self.route[:4], "little")

    @property
    def receiver(self) -> int:
        """Who learns the sum."""
        return int.from_bytes(self.route[4:8], "little")

    @property
    def sender(self) -> int:
        """Whose message this is."""
        return int.from_bytes(self.route[8:12], "little")

    @property
    def to(self) -> int:
        """Who is to read it."""
        return int.from_bytes(self.route[12:], "little")

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """The route in numbers, and the payload's size."""
        numbers = {"round": self.round, "receiver": self.receiver, "sender": self.sender}
        shown = numbers | {"to": self.to, "bits": self.bits}
        return [
            *((k, str(v)) for k, v in shown.items()),
            ("payload", f"<{len(self.payload)} bytes>"),
        ]


class ShareMessage(SumMessage, frozen=True):
    """Line 4: one share of the sender's input, for another neighbour."""


class PartialSum(SumMessage, frozen=True):
    """Line 8: the sum of all shares that the sender holds, for the receiver."""


SumMessageT = TypeVar("SumMessageT", bound=SumMessage)


@cache
def wire_bytes(kind: type[SumMessage], payload: int) -> int:
    """Bytes on the wire of a message with ``payload`` bytes, header included."""
    blank = {"round": 0, "receiver": 0, "sender": 0, "to": 0, "bits": 1}
    message = kind.make(session=bytes(SESSION_BYTES), payload=bytes(payload), **blank)
    return len(message.to_bytes())


@dataclass(frozen=True)
class SumTerms:
    """The public terms of one secure sum; all its parties hold equal ones.

    session: 16 bytes, fresh for each run.  round: serves once for each receiver.  neighbours: ids
    of the N >= 3 parties that add their inputs, the same order for everybody; the receiver is not
    among them.  dim: length of the vectors.  Ids and round lie in [0, 2^32).
    Raises ParameterError for anything else.
    """

    session: bytes
    round: int
    receiver: int
    neighbours: tuple[int, ...]
    dim: int
    ring: Ring

    def __post_init__(self) -> None:
        if not isinstance(self.session, bytes) or len(self.session) != SESSION_BYTES:
            raise ParameterError(f"session must be {SESSION_BYTES} bytes")
        check_count(len(self.neighbours))
        exact: dict[str, object] = {
            "round": integer("round", self.round, 0, MAX_ID),
            "receiver": integer("receiver", self.receiver, 0, MAX_ID),
            "neighbours": tuple(integer("a neighbour", p, 0, MAX_ID) for p in self.neighbours),
            "dim": integer("dim", self.dim, 1, MAX_DIM),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        if len(set(self.neighbours)) != len(self.neighbours):
            raise ParameterError("neighbours must be distinct: two seats would hold two shares")
        if self.receiver in self.neighbours:
            raise ParameterError(f"the receiver {self.receiver} must not be a neighbour too")

    def seat(self, party: int) -> int:
        """The place of ``party`` among the neighbours, from 0. ParameterError for anybody else."""
        if party not in self.neighbours:
            raise ParameterError(f"party {party} is not a neighbour in this sum")
        return self.neighbours.index(party)

    def others(self, party: int) -> frozenset[int]:
        """All neighbours but ``party``."""
        return frozenset(self.neighbours) - {party}

    def share_message(self, sender: int, to: int, share: RingArray) -> ShareMessage:
        """The share (dim) that neighbour ``sender`` made for neighbour ``to``, as a message."""
        return self._message(ShareMessage, sender, to, share)

    def partial_message(self, sender: int, partial: RingArray) -> PartialSum:
        """The partial sum (dim) of neighbour ``sender``, as a message to the receiver."""
        return self._message(PartialSum, sender, self.receiver, partial)

    def share_from_bytes(self, data: bytes) -> ShareMessage:
        """Decode a share, its exact length checked first. WireError for any other bytes."""
        return self._decode(ShareMessage, data)

    def partial_from_bytes(self, data: bytes) -> PartialSum:
        """Decode a partial sum, its exact length checked first. WireError for any other bytes."""
        return self._decode(PartialSum, data)

    def read_share(self, message: SumMessage, party: int) -> RingArray:
        """The share (dim) that ``message`` brings to neighbour ``party``.

        Raises PeerError if it belongs to another sum, sender, addressee or ring, WireError if its
        payload is not ``dim`` elements.
        """
        return self._read(message, ShareMessage, self.others(party), party)

    def read_partial(self, message: SumMessage) -> RingArray:
        """The partial sum (dim) that ``message`` brings to the receiver; refuses as read_share."""
        return self._read(message, PartialSum, frozenset(self.neighbours), self.receiver)

    def _message(
        self, kind: type[SumMessageT], sender: int, to: int, values: RingArray
    ) -> SumMessageT:
        return kind.make(
            session=self.session,
            round=self.round,
            receiver=self.receiver,
            sender=sender,
            to=to,
            bits=self.ring.bits,
            payload=self.ring.to_bytes(values),
        )

    def _decode(self, kind: type[SumMessageT], data: bytes) -> SumMessageT:
        size = wire_bytes(kind, self.dim * self.ring.element_bytes())
        if len(data) != size:
            raise WireError(f"a {kind.__name__} of this sum is {size} bytes, got {len(data)}")
        return kind.from_bytes(data, limit=size)

    def _read(
        self, message: SumMessage, kind: type[SumMessage], senders: frozenset[int], to: int
    ) -> RingArray:
        if type(message) is not kind:
            raise PeerError(
                f"a {type(message).__name__} came in the place of a {kind.__name__}",
                party=message.sender,
            )
        sum_id = (message.session, message.round, message.receiver)
        if sum_id != (self.session, self.round, self.receiver):
            raise PeerError("a message belongs to another sum", party=message.sender)
        if message.sender not in senders:
            raise PeerError(
                f"party {message.sender} has nothing to send to {to}", party=message.sender
            )
        if message.to != to:
            raise PeerError(f"a message for {message.to} came to {to}", party=message.sender)
        if message.bits != self.ring.bits:
            raise PeerError(
                f"a message in {message.bits} bits came into a sum in {self.ring.bits}",
                party=message.sender,
            )
        return self.ring.from_bytes(message.payload, (self.dim,))


def check_count(n: int) -> None:
    """Refuse a secure sum over fewer than three neighbours with ParameterError."""
    if n < MIN_NEIGHBOURS:
        raise ParameterError(
            f"a secure sum needs at least {MIN_NEIGHBOURS} neighbours, got {n}",
            remedy="the receiver and n - 2 neighbours may collude: with one or two neighbours, "
            "the sum or one colluder opens an input",
        )
