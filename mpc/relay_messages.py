"""What travels over a relay: an offer of a public key, and letters of public size.

Source: ours; the form of ``mpc.secure_sum_messages``.
Model: bytes come from anyone. A letter says in the clear whose it is, for which session and epoch,
    and nothing else; ``mpc.relay`` decides whether to believe it.
Leaks: session, epoch, sender and addressee of every letter, and its length, which is agreed.
"""

import struct
from functools import cache

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import PUBLIC_BYTES, TAG_BYTES, label
from mpc.core.wire import Message

SESSION_BYTES = 16
SIGNATURE_BYTES = 64
MAX_PARTY = 2**32 - 1
MAX_EPOCH = 2**16 - 1
"""Keys go from epoch to epoch by a step each: whoever names a far one must not keep us busy."""

MAX_LETTER = 2**28

_ROUTE = struct.Struct("<3I")
_LENGTH = struct.Struct("<I")


def check_session(session: bytes) -> None:
    """ParameterError unless ``session`` is 16 bytes."""
    if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
        raise ParameterError(f"session must be {SESSION_BYTES} bytes")


class Offer(Message, frozen=True, tag="relay.offer"):
    """A party's public key for one session, signed where parties have identities."""

    session: bytes
    party: int
    public: bytes
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        check_session(self.session)
        integer("party", self.party, 0, MAX_PARTY)
        if len(self.public) != PUBLIC_BYTES or len(self.signature) not in (0, SIGNATURE_BYTES):
            raise ParameterError("an offer has a key of 32 bytes and a signature of 64, or none")

    @property
    def text(self) -> bytes:
        """What the party signs."""
        return label("relay.offer", self.session, self.party, self.public)


class Letter(Message, frozen=True, tag="relay.letter"):
    """A sealed payload from one party to another. Numbers take four bytes whatever their value."""

    session: bytes
    route: bytes
    sealed: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        check_session(self.session)
        if len(self.route) != _ROUTE.size:
            raise ParameterError(f"route must be {_ROUTE.size} bytes, got {len(self.route)}")

    @classmethod
    def make(cls, session: bytes, epoch: int, sender: int, to: int, sealed: bytes) -> "Letter":
        """The letter of ``sender`` to ``to`` in ``epoch``."""
        route = _ROUTE.pack(
            integer("epoch", epoch, 0, MAX_EPOCH),
            integer("sender", sender, 0, MAX_PARTY),
            integer("to", to, 0, MAX_PARTY),
        )
        return cls(session, route, sealed)

    @property
    def epoch(self) -> int:
        """The epoch of the session."""
        return int.from_bytes(self.route[:4], "little")

    @property
    def sender(self) -> int:
        """Who says to have written it."""
        return int.from_bytes(self.route[4:8], "little")

    @property
    def to(self) -> int:
        """Who is to read it."""
        return int.from_bytes(self.route[8:], "little")

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """The route in numbers, and the size of the rest."""
        numbers = {"epoch": self.epoch, "sender": self.sender, "to": self.to}
        shown = [(name, str(value)) for name, value in numbers.items()]
        return [*shown, ("sealed", f"<{len(self.sealed)} bytes>")]


def padded(payload: bytes, size: int) -> bytes:
    """``payload`` behind its length, filled up with zeros to ``size`` bytes and the length's.

    Raises ParameterError for a payload above ``size``.
    """
    size = integer("size", size, 0, MAX_LETTER)
    if len(payload) > size:
        raise ParameterError(
            f"a payload of {len(payload)} bytes does not fit into letters of {size}",
            remedy="agree on the largest size that any payload of the session takes",
        )
    return _LENGTH.pack(len(payload)) + payload + bytes(size - len(payload))


def unpadded(data: bytes) -> bytes | None:
    """Inverse of ``padded``; None for what it does not make."""
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    payload, rest = data[_LENGTH.size :][:length], data[_LENGTH.size :][length:]
    return payload if len(payload) == length and not any(rest) else None


@cache
def letter_bytes(size: int) -> int:
    """Bytes on the wire of a letter that takes payloads of up to ``size`` bytes."""
    sealed = bytes(_LENGTH.size + size + TAG_BYTES)
    return len(Letter.make(bytes(SESSION_BYTES), 0, 0, 0, sealed).to_bytes())


def sealed_bytes(size: int) -> int:
    """Bytes of ciphertext and tag of a payload of up to ``size`` bytes."""
    return _LENGTH.size + size + TAG_BYTES
