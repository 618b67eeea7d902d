"""Who is who: Ed25519 identities of clients, and where their public keys are found.

Source: Ed25519 (RFC 8032); Bonawitz et al., CCS 2017, section 6.2: a public-key infrastructure
    that lets clients register identities and verify each other's signatures. The paper's
    d^SK, d^PK are an ``Identity`` and its ``public``.
Model: ``Identities`` is trusted: every client must get the same honest keys from it, by a way that
    the server cannot alter. Everything else about identities the server may forge.
Leaks: a signature shows what was signed, by whom.
Differs: the paper leaves the infrastructure open; here it is an interface with two forms.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mpc.core.checks import integer
from mpc.core.durable import PUBLIC, write_durably
from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from secagg.full.params import RoundParams
from secagg.messages import MAX_ID

PRIVATE_BYTES = 32
PUBLIC_BYTES = 32


class Identity:
    """A client's long-lived signing key. The private half never appears in a repr or a pickle."""

    __slots__ = ("_private", "public")

    def __init__(self, private: bytes) -> None:
        if not isinstance(private, bytes) or len(private) != PRIVATE_BYTES:
            raise ParameterError(f"private must be {PRIVATE_BYTES} bytes")
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, rng: Rng = SYSTEM_RNG) -> "Identity":
        """A fresh identity from 32 bytes of ``rng``."""
        return cls(rng.bytes(PRIVATE_BYTES))

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, for the owner's own storage."""
        return self._private.private_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._private.sign(text)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Identity holds a private key and is not picklable")

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()})"


class Identities(Protocol):
    """Where the public key of every client is found: the paper's public-key infrastructure."""

    def public(self, client: int) -> bytes | None:
        """The 32 bytes of ``client``'s public key; None if there is no such client."""


class MemoryIdentities:
    """Public keys by client id, held in memory.

    Raises ParameterError for an id or a key out of range, and for one key under two ids: whoever
    holds it would count twice among the signers.
    """

    def __init__(self, publics: Mapping[int, bytes]) -> None:
        self._publics = _checked(publics)

    def public(self, client: int) -> bytes | None:
        """See ``Identities.public``."""
        return self._publics.get(client)


class _IdentityFile(Message, frozen=True, tag="full.identities"):
    """(id, public key) in rising order of ids, and a SHA-256 over them."""

    rows: tuple[tuple[int, bytes], ...]
    check: bytes


class FileIdentities:
    """Public keys by client id from a file, read once.

    ``FileIdentities.write(path, publics)`` makes one. The checksum is against damage, not against
    forgery: the file must come by a way that the server cannot alter.
    Raises WireError for a file that ``write`` did not make.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = _IdentityFile.from_bytes(Path(path).read_bytes())
        if file.check != _checksum(file.rows):
            raise WireError("the file of identities is damaged")
        self._publics = _checked(dict(file.rows))

    @classmethod
    def write(cls, path: str | os.PathLike[str], publics: Mapping[int, bytes]) -> "FileIdentities":
        """Replace the file in one step, and read it back. ParameterError as MemoryIdentities."""
        rows = tuple(sorted(_checked(publics).items()))
        data = _IdentityFile(rows, _checksum(rows)).to_bytes()
        write_durably(Path(path), data, mode=PUBLIC)
        return cls(path)

    def public(self, client: int) -> bytes | None:
        """See ``Identities.public``."""
        return self._publics.get(client)


def _checksum(rows: tuple[tuple[int, bytes], ...]) -> bytes:
    return hashlib.sha256(_IdentityFile(rows, b"").to_bytes()).digest()


def _checked(publics: Mapping[int, bytes]) -> dict[int, bytes]:
    exact = {integer("a client", client, 0, MAX_ID): key for client, key in publics.items()}
    for client, key in exact.items():
        if not isinstance(key, bytes) or len(key) != PUBLIC_BYTES:
            raise ParameterError(f"the public key of client {client} must be {PUBLIC_BYTES} bytes")
    if len(set(exact.values())) < len(exact):
        raise ParameterError("two clients have the same public key")
    return exact


def is_valid(identities: Identities, client: int, text: bytes, signature: bytes) -> bool:
    """Whether ``signature`` is one of ``client``, whom ``identities`` knows, on ``text``."""
    public = identities.public(client)
    return public is not None and verifies(public, text, signature)


def verifies(public: bytes, text: bytes, signature: bytes) -> bool:
    """Whether ``signature`` is one on ``text`` by the owner of ``public``; False for no key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def keys_text(params: RoundParams, client: int, keys: bytes) -> bytes:
    """What ``client`` signs in step 1: its two public keys of this very round.

    Whatever the round's context will be: it may not be known yet.
    """
    return label("secagg.full.keys", params.offer_digest, client, keys)


def roster_hash(params: RoundParams, members: bytes, keys: bytes) -> bytes:
    """What stands for a complete roster: who is in it, with which keys."""
    return hashlib.sha256(label("secagg.full.roster", params.digest, members, keys)).digest()


def survivors_text(params: RoundParams, roster: bytes, members: bytes) -> bytes:
    """What a client signs in step 4: the set U_3, under the round and the hash of its roster."""
    return label("secagg.full.survivors", params.digest, roster, members)
