"""Key agreement, key derivation with one label for each purpose, and sealing.

Source: X25519 (RFC 7748), HKDF-SHA-256 (RFC 5869), AES-256-GCM (NIST SP 800-38D).
Model: an all-zero shared secret is refused, so a peer cannot force a known key with a point of
    low order. Both public keys and the caller's context enter the derivation.
Leaks: a public key is 32 uniform-looking bytes; a sealed message shows its length.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng

PUBLIC_BYTES = 32
KEY_BYTES = 32
TAG_BYTES = 16
_SCHEME = b"privrec/1"


def label(purpose: str, *context: bytes | int) -> bytes:
    """An injective encoding of a purpose and its context: no two label lists share an encoding.

    Integers lie in [0, 2^64).
    """
    parts = [_SCHEME, purpose.encode()]
    for part in context:
        # The kind is encoded too, so that the integer 7 and its eight bytes stay different.
        parts.append(b"i" + part.to_bytes(8, "big") if isinstance(part, int) else b"b" + part)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def hkdf(
    secret: bytes, *, info: bytes, salt: bytes | None = None, length: int = KEY_BYTES
) -> bytes:
    """HKDF-SHA-256, extract and expand (RFC 5869), of a secret that is not uniform."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


def derive(key: bytes, purpose: str, *context: bytes | int, length: int = KEY_BYTES) -> bytes:
    """A key for one purpose from a uniform ``key`` of 32 bytes: the expand step of HKDF."""
    if len(key) != KEY_BYTES:
        raise ParameterError(f"key must be {KEY_BYTES} bytes, got {len(key)}")
    return HKDFExpand(SHA256(), length, label(purpose, *context)).derive(key)


class KeyPair:
    """An X25519 key pair. The private half never appears in a repr or a pickle."""

    __slots__ = ("_private", "public")

    def __init__(self, private: bytes) -> None:
        if len(private) != KEY_BYTES:
            raise ParameterError(f"a private key is {KEY_BYTES} bytes, got {len(private)}")
        self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, rng: Rng = SYSTEM_RNG) -> "KeyPair":
        """A fresh pair from 32 bytes of ``rng`` (clamping is part of X25519)."""
        return cls(rng.bytes(KEY_BYTES))

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, for the owner's own storage."""
        return self._private.private_bytes_raw()

    def exchange(self, peer: bytes) -> bytes:
        """The raw X25519 value with ``peer``'s public key; feed it to ``hkdf``, never use it bare.

        Raises WireError for a key of the wrong size or of low order (all-zero result).
        """
        if len(peer) != PUBLIC_BYTES:
            raise WireError(f"a public key is {PUBLIC_BYTES} bytes, got {len(peer)}")
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError as error:
            raise WireError("the peer's public key has low order: all-zero result") from error

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a KeyPair holds a private key and is not picklable")

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"

    def agree(self, peer: bytes, purpose: str, *context: bytes | int) -> bytes:
        """The 32-byte key that both ends derive for ``purpose``: HKDF over both public keys."""
        if peer == self.public:
            raise WireError("the peer's public key is our own")
        first, second = sorted((self.public, peer))
        return hkdf(self.exchange(peer), info=label(purpose, first, second, *context))


class SealingKey:
    """AES-256-GCM for exactly one message: a key that serves once needs no nonce."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ParameterError(f"key must be {KEY_BYTES} bytes, got {len(key)}")
        self._key: bytes | None = key

    def seal(self, plaintext: bytes, associated: bytes = b"") -> bytes:
        """Ciphertext and tag, 16 bytes longer than ``plaintext``. StateError the second time."""
        if self._key is None:
            raise StateError(
                "this sealing key has served its one message",
                remedy="derive a key for each (session, round, sender, receiver)",
            )
        key, self._key = self._key, None
        return AESGCM(key).encrypt(bytes(12), plaintext, associated)

    def __repr__(self) -> str:
        return f"SealingKey(used={self._key is None})"


def open_sealed(key: bytes, sealed: bytes, associated: bytes = b"") -> bytes:
    """The plaintext of ``SealingKey(key).seal``; WireError if a bit or the context was altered."""
    try:
        return AESGCM(key).decrypt(bytes(12), sealed, associated)
    except (InvalidTag, ValueError) as error:
        raise WireError("a sealed message does not authenticate") from error
