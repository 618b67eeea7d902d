"""The messages of one-time-pad aggregation: one frozen type for each step and direction.

Source: Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
    CCS 2017 (eprint 2017/281), section 4.0.1, with the key exchange of section 4.0.2.
Model: messages come from anyone; the transport must tell who sent them (see ``PadServer``).
Leaks: a masked vector shows its length; a roster shows who takes part.
Differs: the vectors of one round travel as one message for each sum, and the server tells the
    members whether a round's sums came about.
"""

import struct
from typing import Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import PUBLIC_BYTES
from mpc.core.wire import Message

SESSION_BYTES = 16
MAX_ID = 2**32 - 1
"""The largest client id, round id and sum id."""

SERVER = -1
"""The server's party id in errors and in the in-process network; clients have ids >= 0."""

_ROUTE = struct.Struct("<3I")


def check_session(session: bytes) -> None:
    """ParameterError unless ``session`` is 16 bytes."""
    if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
        size = len(session) if isinstance(session, bytes) else type(session).__name__
        raise ParameterError(
            f"session must be {SESSION_BYTES} bytes, got {size}", remedy="draw it with Rng.bytes"
        )


def _check_public(public: bytes) -> None:
    if len(public) != PUBLIC_BYTES:
        raise ParameterError(f"a public key is {PUBLIC_BYTES} bytes, got {len(public)}")


class AdvertiseKey(Message, frozen=True, tag="pads.key"):
    """Client to server: the client's public key for this session."""

    session: bytes
    client: int
    public: bytes

    def __post_init__(self) -> None:
        """Refuse sizes and ids out of range with ParameterError."""
        check_session(self.session)
        integer("client", self.client, 0, MAX_ID)
        _check_public(self.public)


class Roster(Message, frozen=True, tag="pads.roster"):
    """Server to every client: all members, in rising order, with their public keys."""

    session: bytes
    clients: tuple[int, ...]
    publics: tuple[bytes, ...]

    def __post_init__(self) -> None:
        """Refuse sizes and ids out of range, and lists of different length."""
        check_session(self.session)
        if len(self.clients) != len(self.publics):
            raise ParameterError(f"{len(self.clients)} clients, {len(self.publics)} public keys")
        for client, public in zip(self.clients, self.publics, strict=True):
            integer("client", client, 0, MAX_ID)
            _check_public(public)


class MaskedVector(Message, frozen=True, tag="pads.masked"):
    """Client to server: one vector of one round plus the client's net pad for that sum.

    The three ids of the route take four bytes each whatever their value, so that all masked
    vectors of a session have one length. bits: l of the ring Z_{2^l}.  payload: the elements as
    little-endian words. ``make`` builds one from its parts.
    """

    session: bytes
    route: bytes
    bits: int
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse a session or route of the wrong size, and bits outside [1, 64]."""
        check_session(self.session)
        if len(self.route) != _ROUTE.size:
            raise ParameterError(f"route must be {_ROUTE.size} bytes, got {len(self.route)}")
        integer("bits", self.bits, 1, 64)

    @classmethod
    def make(
        cls, *, session: bytes, client: int, round: int, sum_id: int, bits: int, payload: bytes
    ) -> Self:
        """The message of ``client`` for sum ``sum_id`` of ``round``; ids lie in [0, 2^32)."""
        ids = {"client": client, "round": round, "sum_id": sum_id}
        route = _ROUTE.pack(*(integer(name, value, 0, MAX_ID) for name, value in ids.items()))
        return cls(session, route, bits, payload)

    @property
    def client(self) -> int:
        """Whose vector this is."""
        return int.from_bytes(self.route[:4], "little")

    @property
    def round(self) -> int:
        """The round it belongs to."""
        return int.from_bytes(self.route[4:8], "little")

    @property
    def sum_id(self) -> int:
        """Which of the round's sums it belongs to."""
        return int.from_bytes(self.route[8:], "little")

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """The ids in numbers, and the payload's size."""
        ids = {"client": self.client, "round": self.round, "sum_id": self.sum_id}
        shown = [(name, str(value)) for name, value in (ids | {"bits": self.bits}).items()]
        return [*shown, ("payload", f"<{len(self.payload)} bytes>")]


class RoundConfirmed(Message, frozen=True, tag="pads.confirmed"):
    """Server to every client: the round's sums were formed from the vectors of all members."""

    session: bytes
    round: int

    def __post_init__(self) -> None:
        """Refuse a session of the wrong size and a round out of range."""
        check_session(self.session)
        integer("round", self.round, 0, MAX_ID)


class RoundBurnt(Message, frozen=True, tag="pads.burnt"):
    """Server to every client: vectors were missing, no sum was formed, the round id is spent.

    missing: the ids of the members without a complete set of vectors; for a person to read, no
    client acts on it.
    """

    session: bytes
    round: int
    missing: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a session of the wrong size and ids out of range."""
        check_session(self.session)
        integer("round", self.round, 0, MAX_ID)
        for client in self.missing:
            integer("client", client, 0, MAX_ID)
