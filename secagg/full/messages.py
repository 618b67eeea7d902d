"""The messages of the full protocol: one frozen type for each step and direction.

Source: Bonawitz et al., CCS 2017, Figure 4; Bell et al., CCS 2020, Algorithm 2.
Model: messages come from anyone; the transport must tell who sent them. What clients tell each
    other is sealed; what the server must not alter is signed in the malicious variant.
Leaks: who takes part in which step, and the length of the vectors.
Differs: a set of clients travels as one bit for each client of the round, and lists follow the
    order of ids, so a message's length is a function of public sizes and sets alone. In a sparse
    graph a client receives the keys of its neighbours only.
"""

import struct
from enum import IntEnum
from typing import Any, Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import PUBLIC_BYTES, TAG_BYTES
from mpc.core.wire import Message
from secagg.messages import MAX_ID, check_session

KEYS_BYTES = 2 * PUBLIC_BYTES
"""What one client advertises: its channel key, then its mask key."""

CHECK_BYTES = 32
SIGNATURE_BYTES = 64
SHARE_BYTES = 34
"""A share of a 32-byte secret: 16 elements of Z_65537, see ``mpc.shamir.pack``."""

SEALED_BYTES = 2 * SHARE_BYTES + TAG_BYTES
"""A share of a self-mask seed and one of a mask key, sealed."""

_ROUTE = struct.Struct("<2I")


class Step(IntEnum):
    """The five steps of a round, numbered from 1, and its two ends."""

    ADVERTISE_KEYS = 1
    SHARE_KEYS = 2
    MASKED_INPUT = 3
    CONSISTENCY_CHECK = 4
    UNMASKING = 5
    DONE = 6
    ABORTED = 7

    @property
    def title(self) -> str:
        """The paper's name."""
        if self is Step.MASKED_INPUT:
            return "MaskedInputCollection"
        return "".join(word.capitalize() for word in self.name.split("_"))


def _sized(name: str, data: bytes, *sizes: int) -> None:
    if len(data) not in sizes:
        raise ParameterError(f"{name} takes {' or '.join(map(str, sizes))} bytes, got {len(data)}")


def _multiple(name: str, data: bytes, size: int) -> None:
    if len(data) % size:
        raise ParameterError(f"{name} takes {size} bytes an entry, got {len(data)} in all")


class RoundMessage(Message, frozen=True):
    """What all messages carry: the session, and in the route the round and a client.

    The client is the sender of what goes to the server, and the receiver of what comes from it.
    Both numbers take four bytes whatever their value.
    """

    session: bytes
    route: bytes

    def __post_init__(self) -> None:
        """Refuse a session or a route of the wrong size with ParameterError."""
        check_session(self.session)
        _sized("route", self.route, _ROUTE.size)

    @classmethod
    def make(cls, session: bytes, round: int, client: int, **fields: Any) -> Self:
        """The message of ``client`` in ``round``, both in [0, 2^32), with the own fields."""
        route = _ROUTE.pack(
            integer("round", round, 0, MAX_ID), integer("client", client, 0, MAX_ID)
        )
        return cls(session=session, route=route, **fields)

    @property
    def round(self) -> int:
        """The round of the session."""
        return int.from_bytes(self.route[:4], "little")

    @property
    def client(self) -> int:
        """Who sent it to the server, or who receives it from the server."""
        return int.from_bytes(self.route[4:], "little")

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """The ids in numbers, and the sizes of everything else."""
        own = [item for item in super().__rich_repr__() if item[0] not in ("session", "route")]
        return [("round", str(self.round)), ("client", str(self.client)), *own]


class AdvertiseKeys(RoundMessage, frozen=True, tag="full.keys"):
    """Step 1, to the server: both fresh public keys, signed in the malicious variant."""

    keys: bytes
    signature: bytes = b""

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _sized("keys", self.keys, KEYS_BYTES)
        _sized("signature", self.signature, 0, SIGNATURE_BYTES)

    @property
    def channel(self) -> bytes:
        """The public key that seals shares; the paper's c^PK."""
        return self.keys[:PUBLIC_BYTES]

    @property
    def mask(self) -> bytes:
        """The public key that agrees on masks; the paper's s^PK."""
        return self.keys[PUBLIC_BYTES:]


class Roster(RoundMessage, frozen=True, tag="full.roster"):
    """Step 2, from the server: who advertised, and the keys in the closed neighbourhood.

    members: the paper's U_1.  keys, signatures: those of its members that are the receiver's
    neighbours or itself, in order.
    """

    members: bytes
    keys: bytes
    signatures: bytes = b""

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _multiple("keys", self.keys, KEYS_BYTES)
        entries = len(self.keys) // KEYS_BYTES
        _sized("signatures", self.signatures, 0, entries * SIGNATURE_BYTES)


class SharedKeys(RoundMessage, frozen=True, tag="full.shares"):
    """Step 2, to the server: a sealed pair of shares for each neighbour in U_1, in order.

    check: by which the server knows the self-mask seed when it sees it.
    """

    check: bytes
    sealed: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _sized("check", self.check, CHECK_BYTES)
        _multiple("sealed", self.sealed, SEALED_BYTES)


class Delivered(RoundMessage, frozen=True, tag="full.delivered"):
    """Step 3, from the server: who shared (U_2), and what its neighbours sealed, in order."""

    members: bytes
    sealed: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _multiple("sealed", self.sealed, SEALED_BYTES)


class MaskedInput(RoundMessage, frozen=True, tag="full.masked"):
    """Step 3, to the server: the input plus all masks, as little-endian words of Z_2^bits."""

    bits: int
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse bits outside [1, 64]."""
        super().__post_init__()
        integer("bits", self.bits, 1, 64)


class SurvivorsRequest(RoundMessage, frozen=True, tag="full.survivors"):
    """Step 4, from the server: whose inputs arrived (U_3)."""

    members: bytes


class ConsistencySignature(RoundMessage, frozen=True, tag="full.signature"):
    """Step 4, to the server: the client's signature on U_3."""

    signature: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _sized("signature", self.signature, SIGNATURE_BYTES)


class UnmaskRequest(RoundMessage, frozen=True, tag="full.unmask"):
    """Step 5, from the server: U_3, and in the malicious variant signatures on it, in order."""

    members: bytes
    signers: bytes = b""
    signatures: bytes = b""

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _multiple("signatures", self.signatures, SIGNATURE_BYTES)


class UnmaskShares(RoundMessage, frozen=True, tag="full.opened"):
    """Step 5, to the server: one share for each member of U_2 in the closed neighbourhood.

    In order; of the self-mask seed for those in U_3, of the mask key for the others.
    """

    shares: bytes

    def __post_init__(self) -> None:
        """Refuse other sizes."""
        super().__post_init__()
        _multiple("shares", self.shares, SHARE_BYTES)


class RoundDone(RoundMessage, frozen=True, tag="full.done"):
    """From the server: the sum over ``members`` was formed."""

    members: bytes


class RoundAborted(RoundMessage, frozen=True, tag="full.aborted"):
    """From the server: too few parties in ``step``, without ``missing``; no sum was formed."""

    step: int
    missing: bytes

    def __post_init__(self) -> None:
        """Refuse a step that does not exist."""
        super().__post_init__()
        integer("step", self.step, Step.ADVERTISE_KEYS, Step.UNMASKING)


def largest(*, sets: int, beside: int, signers: int, payload: int) -> dict[type[Message], int]:
    """The most bytes a message of each class takes.

    sets: bytes of a set of clients.  beside: clients in the largest closed neighbourhood.
    signers: clients that sign.  payload: bytes of a masked vector.
    """
    one = SIGNATURE_BYTES if signers else 0
    fields: dict[type[RoundMessage], dict[str, Any]] = {
        AdvertiseKeys: {"keys": bytes(KEYS_BYTES), "signature": bytes(one)},
        Roster: {
            "members": bytes(sets),
            "keys": bytes(beside * KEYS_BYTES),
            "signatures": bytes(beside * one),
        },
        SharedKeys: {"check": bytes(CHECK_BYTES), "sealed": bytes((beside - 1) * SEALED_BYTES)},
        Delivered: {"members": bytes(sets), "sealed": bytes((beside - 1) * SEALED_BYTES)},
        MaskedInput: {"bits": 64, "payload": bytes(payload)},
        SurvivorsRequest: {"members": bytes(sets)},
        ConsistencySignature: {"signature": bytes(SIGNATURE_BYTES)},
        UnmaskRequest: {
            "members": bytes(sets),
            "signers": bytes(sets if signers else 0),
            "signatures": bytes(signers * SIGNATURE_BYTES),
        },
        UnmaskShares: {"shares": bytes(beside * SHARE_BYTES)},
        RoundDone: {"members": bytes(sets)},
        RoundAborted: {"step": int(Step.UNMASKING), "missing": bytes(sets)},
    }
    return {
        kind: len(kind.make(bytes(16), MAX_ID, MAX_ID, **own).to_bytes())
        for kind, own in fields.items()
    }
