"""Who takes part, signed by an operator: names, identities, and the nodes that they run on.

    SignedRoster.sign(entries, operator).write(path)     the operator, once; then by any way
    SignedRoster.from_file(path, operator.public)        everybody, who knows the operator's key

Source: ours; Ed25519 (RFC 8032). Bonawitz et al., CCS 2017, section 6.2, ask for a public-key
    infrastructure: this is the smallest, one authority and no revocation.
Model: the operator is trusted to list honest people's own keys, and its public key comes to every
    client by a way that the server cannot alter. The roster itself may come from the server.
Leaks: the roster is public.
Differs: a certificate authority signs one key at a time. Here everybody sees the same complete
    list: two rosters of one operator have different digests, so clients notice where the digest is
    part of what they agree on (``RoundParams.context``). An old roster of the operator stays a
    roster of the operator: to take somebody off the list, change the digest that clients expect, or
    the operator's key.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mpc.core.checks import integer
from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.wire import Message
from secagg.full.identity import PUBLIC_BYTES, Identity, verifies
from secagg.messages import MAX_ID

MAX_ENTRIES = 2**16 - 1
MAX_NAME = 128
NODE_BYTES = 32
"""A SHA-256."""


@dataclass(frozen=True)
class Entry:
    """One client.

    client: its id, in [0, 2^32).  name: 1 to 128 printable characters.  public: its Ed25519 public
    key, 32 bytes.  node: SHA-256 of the public key by which the transport knows its node; ``b""``
    where none is bound.
    Raises ParameterError for anything else.
    """

    client: int
    name: str
    public: bytes
    node: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", integer("client", self.client, 0, MAX_ID))
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= MAX_NAME:
            raise ParameterError(f"the name of client {self.client} takes 1 to {MAX_NAME} letters")
        if not self.name.isprintable() or self.name != self.name.strip():
            raise ParameterError(f"the name of client {self.client} has letters that do not show")
        _check_bytes(f"the public key of client {self.client}", self.public, PUBLIC_BYTES)
        if self.node:
            _check_bytes(f"the node of client {self.client}", self.node, NODE_BYTES)

    def __repr__(self) -> str:
        return f"Entry({self.client}, {self.name!r}, public={self.public.hex()})"


class _RosterFile(Message, frozen=True, tag="secagg.roster"):
    """(id, name, public key, node) in rising order of ids, and the operator's signature."""

    rows: tuple[tuple[int, str, bytes, bytes], ...]
    signature: bytes


class SignedRoster:
    """Clients by id, under an operator's signature: ``Identities`` for the malicious variant.

    ``sign`` and ``from_bytes`` make one.
    """

    def __init__(self, entries: Iterable[Entry], operator: bytes, signature: bytes) -> None:
        self._entries = _checked(entries)
        self._operator, self._signature = operator, signature
        self._publics = {entry.client: entry.public for entry in self._entries}
        self._clients = {entry.public: entry.client for entry in self._entries}
        self._nodes = {entry.node: entry.client for entry in self._entries if entry.node}
        if not verifies(operator, _text(operator, self._entries), signature):
            raise WireError(f"the operator with the key {operator.hex()} did not sign this roster")

    @classmethod
    def sign(cls, entries: Iterable[Entry], operator: Identity) -> "SignedRoster":
        """The roster of ``entries``, in the order of ids.

        Raises ParameterError for no entry or more than 65535, and where two have the same id, name,
        key or node: whoever holds a key that is listed twice would count twice.
        """
        rows = _checked(entries)
        return cls(rows, operator.public, operator.sign(_text(operator.public, rows)))

    @classmethod
    def from_bytes(cls, data: bytes, operator: bytes) -> "SignedRoster":
        """The roster that ``to_bytes`` gave. WireError unless the operator with this key signed it.

        operator: the 32 bytes of its public key, from elsewhere than ``data``.
        """
        _check_bytes("the operator's public key", operator, PUBLIC_BYTES)
        file = _RosterFile.from_bytes(data)
        try:
            given = tuple(Entry(*row) for row in file.rows)
            rising = _checked(given)
        except ParameterError as error:
            raise WireError(f"no roster: {error.message}") from error
        if rising != given:
            raise WireError("no roster: its entries do not rise by their ids")
        return cls(given, operator, file.signature)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], operator: bytes) -> "SignedRoster":
        """The roster in a file, read once; see ``from_bytes``. OSError if there is no such file."""
        return cls.from_bytes(Path(path).read_bytes(), operator)

    def to_bytes(self) -> bytes:
        """The canonical encoding, with the signature."""
        rows = tuple((e.client, e.name, e.public, e.node) for e in self._entries)
        return _RosterFile(rows, self._signature).to_bytes()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the file in one step; on return it survives a power failure."""
        write_durably(Path(path), self.to_bytes(), mode=PUBLIC)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All clients, by rising id."""
        return self._entries

    @property
    def operator(self) -> bytes:
        """The public key of whoever signed."""
        return self._operator

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the operator's key and all entries."""
        return hashlib.sha256(_text(self._operator, self._entries)).digest()

    def public(self, client: int) -> bytes | None:
        """See ``Identities.public``."""
        return self._publics.get(client)

    def client_of(self, public: bytes) -> int | None:
        """The id of whoever has this Ed25519 public key; None if nobody."""
        return self._clients.get(public)

    def client_of_node(self, fingerprint: bytes) -> int | None:
        """The id of the client on the node whose public key has this SHA-256; None if nobody."""
        return self._nodes.get(fingerprint)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"SignedRoster({len(self)} clients, operator={self._operator.hex()})"


def _checked(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    rows = tuple(sorted(entries, key=lambda entry: entry.client))
    integer("the number of entries", len(rows), 1, MAX_ENTRIES)
    for field in ("client", "name", "public", "node"):
        counts = Counter(value for row in rows if (value := getattr(row, field)) != b"")
        again = {value for value, count in counts.items() if count > 1}
        if again:
            clients = [row.client for row in rows if getattr(row, field) in again]
            raise ParameterError(f"entries of clients {clients[:8]} have the same {field}")
    return rows


def _text(operator: bytes, entries: tuple[Entry, ...]) -> bytes:
    """What the operator signs: an injective encoding of its key and everything that is listed."""
    parts: list[bytes | int] = []
    for entry in entries:
        parts += [entry.client, entry.name.encode(), entry.public, entry.node]
    return label("secagg.signed-roster", operator, len(entries), *parts)


def _check_bytes(name: str, data: bytes, size: int) -> None:
    if not isinstance(data, bytes) or len(data) != size:
        got = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise ParameterError(f"{name} must be {size} bytes, got {got}")
