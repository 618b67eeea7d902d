"""Key agreement, key derivation with one label for each purpose, and sealing.

Source: X25519 (RFC 7748), HKDF-SHA-256 (RFC 5869), AES-256-GCM (NIST SP 800-38D).
Model: an all-zero shared secret is refused, so a peer cannot force a known key with a point of
    low order. Both public keys and the caller's context enter the derivation. Whose a public key
    is, X25519 does not say: authenticate keys before use. A sealed message binds neither sender
    nor key (AES-GCM is not key-committing): put names and round into the key's derivation.
Leaks: a public key shows its point, a sealed message its length; keys stay in memory until
    Python frees them, and are not wiped.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng

PUBLIC_BYTES = 32
KEY_BYTES = 32
TAG_BYTES = 16
# In a label, each part follows its length.
_SCHEME = b"\0\0\0\x09privrec/1"
_INTEGER = b"\0\0\0\x09i"
_SHA256 = SHA256()
_MAX_DERIVED = 255 * 32  # HKDF counts its blocks of one hash in one byte
_PRIME = 2**255 - 19
_NONCE = bytes(12)


def label(purpose: str, *context: bytes | int) -> bytes:
    """An injective encoding of a purpose and its context: no two label lists share an encoding.

    Integers lie in [0, 2^64); ParameterError otherwise.
    """
    text = purpose.encode()
    parts = [_SCHEME, len(text).to_bytes(4, "big"), text]
    for part in context:
        # The kind is encoded too, so that the integer 7 and its eight bytes stay different.
        if isinstance(part, bytes):
            parts += ((len(part) + 1).to_bytes(4, "big"), b"b", part)
        else:
            number = integer("an integer in a label", part, 0, 2**64 - 1)
            parts += (_INTEGER, number.to_bytes(8, "big"))
    return b"".join(parts)


def hkdf(
    secret: bytes, *, info: bytes, salt: bytes | None = None, length: int = KEY_BYTES
) -> bytes:
    """HKDF-SHA-256, extract and expand (RFC 5869), of a secret that is not uniform.

    length: bytes wanted, in [1, 8160].
    """
    length = integer("length", length, 1, _MAX_DERIVED)
    return HKDF(algorithm=_SHA256, length=length, salt=salt, info=info).derive(secret)


def derive(key: bytes, purpose: str, *context: bytes | int, length: int = KEY_BYTES) -> bytes:
    """A key for one purpose from a uniform ``key`` of 32 bytes: the expand step of HKDF.

    length: bytes wanted, in [1, 8160].
    """
    return expand_key(key, label(purpose, *context), length)


def expand_key(key: bytes, info: bytes, length: int = KEY_BYTES) -> bytes:
    """``derive`` under a ``label`` made before: for one step of many keys at once."""
    length = integer("length", length, 1, _MAX_DERIVED)
    return HKDFExpand(_SHA256, length, info).derive(_sized(key, "key"))


def _sized(key: bytes, name: str) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        size = len(key) if isinstance(key, bytes) else type(key).__name__
        raise ParameterError(f"{name} must be {KEY_BYTES} bytes, got {size}")
    return key


class KeyPair:
    """An X25519 key pair. The private half never appears in a repr or a pickle."""

    __slots__ = ("_private", "public")

    def __init__(self, private: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(_sized(private, "private"))
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

        Takes any 32 bytes, as RFC 7748 does: the top bit is ignored, the rest counts modulo p.
        Raises WireError for a key of the wrong size or of low order (all-zero result).
        """
        if not isinstance(peer, bytes) or len(peer) != PUBLIC_BYTES:
            size = len(peer) if isinstance(peer, bytes) else type(peer).__name__
            raise WireError(f"a public key is {PUBLIC_BYTES} bytes, got {size}")
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError as error:
            raise WireError("the peer's public key has low order: all-zero result") from error

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a KeyPair holds a private key and is not picklable")

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"

    def agree(
        self, peer: bytes, purpose: str, *context: bytes | int, length: int = KEY_BYTES
    ) -> bytes:
        """The key that both ends derive for ``purpose``: HKDF over both public keys.

        length: bytes wanted, in [1, 8160]; 32 by default.
        Raises WireError for what ``exchange`` refuses, for our own key, and for a second spelling
        of a point, which would pass every comparison of public keys as a different one.
        """
        shared = self.exchange(peer)
        if int.from_bytes(peer, "little") >= _PRIME:
            raise WireError("the peer's public key is not reduced modulo 2^255 - 19")
        own = self.public
        if peer == own:
            raise WireError("the peer's public key is our own")
        first, second = (own, peer) if own < peer else (peer, own)
        return hkdf(shared, info=label(purpose, first, second, *context), length=length)


class SealingKey:
    """AES-256-GCM for exactly one message: a key that serves once needs no nonce.

    The object cannot be copied or pickled, for a copy would serve a second time.
    """

    __slots__ = ("_unused",)

    def __init__(self, key: bytes) -> None:
        self._unused = [_sized(key, "key")]

    def seal(self, plaintext: bytes, associated: bytes = b"") -> bytes:
        """Ciphertext and tag, 16 bytes longer than ``plaintext``. StateError the second time.

        associated: what the receiver must know already, authenticated but not sent.
        """
        try:
            key = self._unused.pop()  # one step, so that two threads cannot both find it unused
        except IndexError:
            raise StateError(
                "this sealing key has served its one message",
                remedy="derive a key for each (session, round, sender, receiver)",
            ) from None
        return AESGCM(key).encrypt(_NONCE, plaintext, associated)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a SealingKey serves once and can be neither copied nor pickled")

    def __repr__(self) -> str:
        return f"SealingKey(used={not self._unused})"


def open_sealed(key: bytes, sealed: bytes, associated: bytes = b"") -> bytes:
    """The plaintext of ``SealingKey(key).seal``; WireError if a bit or the context was altered."""
    try:
        return AESGCM(_sized(key, "key")).decrypt(_NONCE, sealed, associated)
    except InvalidTag as error:
        raise WireError("a sealed message does not authenticate") from error
