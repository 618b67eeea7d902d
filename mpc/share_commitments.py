"""Shamir shares that show when they were altered: a salted commitment to each, published.

    held, published = share_committed(words(seed), 5, 3, session)
    # held[i] to holder i + 1 alone, by a channel that hides it; ``published`` to everybody
    published.check(held[1])
    seed = secret_of(reconstruct_committed([held[0], held[2], held[4]], published))

Each share carries its salt, 32 uniform bytes, and whoever has both can compare them with the
dealer's commitment, the SHA-256 of share, salt and all public terms.

Source: hashes of shares: Krawczyk, "Distributed fingerprints and secure information dispersal"
    (PODC 1993); altered shares as a problem: Tompa and Woll, "How to share a secret with cheaters"
    (Journal of Cryptology 1, 1988).
Model: as ``mpc.shamir``, and holders may alter their shares. Everybody has the same commitments,
    from an honest dealer; a dealer who commits to shares of no polynomial is not noticed. That an
    altered share passes needs a collision of SHA-256; that commitments hide the shares holds in
    the random-oracle model. Without the salt, a commitment to a share of few bits would open it.
Leaks: number and size of the secrets, n and t.
Error: none.
Bytes: 2 for each element of 16 bits and an eighth of one more, a salt of 32 and a header, to each
    holder; 32 for each holder to everybody.
"""

import hashlib
import hmac
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.shamir import FIELD, MAX_PARTIES, Elements, pack, reconstruct, share, unpack

SESSION_BYTES = 16
SALT_BYTES = 32
DIGEST_BYTES = 32
_MAX_ELEMENTS = 1 << 27


class SaltedShare(Message, frozen=True, tag="shamir.share"):
    """One holder's share: ``pack`` of its elements, and the salt of its commitment; both secret."""

    session: bytes
    index: int
    payload: bytes
    salt: bytes

    def __post_init__(self) -> None:
        """Refuse sizes and an index out of range."""
        if len(self.session) != SESSION_BYTES or len(self.salt) != SALT_BYTES:
            raise ParameterError(f"session has {SESSION_BYTES} bytes, salt {SALT_BYTES}")
        integer("index", self.index, 1, MAX_PARTIES)


class Commitments(Message, frozen=True, tag="shamir.commitments"):
    """What everybody knows of one sharing: threshold, elements of a share, a digest a holder."""

    session: bytes
    threshold: int
    size: int
    digests: bytes

    def __post_init__(self) -> None:
        """Refuse sizes out of range, and a threshold above the number of holders."""
        n, rest = divmod(len(self.digests), DIGEST_BYTES)
        if len(self.session) != SESSION_BYTES or rest or not 2 <= n <= MAX_PARTIES:
            raise ParameterError(f"session has {SESSION_BYTES} bytes, a digest {DIGEST_BYTES}")
        integer("threshold", self.threshold, 2, n)
        integer("size", self.size, 0, _MAX_ELEMENTS)

    def check(self, held: SaltedShare) -> Elements:
        """The elements of a share (size,); PeerError, with its index, if it is not the dealer's."""
        n, index = len(self.digests) // DIGEST_BYTES, held.index
        if held.session != self.session or index > n:
            raise PeerError("a share belongs to another sharing", party=index)
        digest = self.digests[(index - 1) * DIGEST_BYTES : index * DIGEST_BYTES]
        made = _digest(self.session, n, self.threshold, index, held.payload, held.salt)
        if not hmac.compare_digest(made, digest):
            raise PeerError(f"the share of index {index} was altered", party=index)
        try:
            return unpack(held.payload, self.size)
        except WireError as error:
            raise PeerError(f"the share of index {index}: {error.message}", party=index) from None


def share_committed(
    secret: ArrayLike, n: int, t: int, session: bytes, *, rng: Rng = SYSTEM_RNG
) -> tuple[tuple[SaltedShare, ...], Commitments]:
    """Split elements of Z_65537, (size,), into ``n`` shares with commitments to them.

    session: 16 bytes, fresh for each sharing.
    Returns the holders' shares, of index 1 to n, and what is published. Raises ParameterError as
    ``mpc.shamir.share``.
    """
    given = FIELD.check(secret)
    if given.ndim != 1:
        raise ParameterError(f"the secret must have one axis, got shape {given.shape}")
    rows = share(given, n, t, rng=rng)
    salts = rng.bytes(SALT_BYTES * len(rows))
    held = tuple(
        SaltedShare(session, i + 1, pack(row), salts[i * SALT_BYTES : (i + 1) * SALT_BYTES])
        for i, row in enumerate(rows)
    )
    digests = (_digest(session, n, t, each.index, each.payload, each.salt) for each in held)
    return held, Commitments(session, t, given.size, b"".join(digests))


def reconstruct_committed(held: Sequence[SaltedShare], published: Commitments) -> Elements:
    """The secret (size,) from at least ``threshold`` shares, every one of which is checked.

    Raises PeerError for the first that was altered, ParameterError for too few or a repeat.
    """
    rows = [published.check(each) for each in held]
    stacked = np.stack(rows) if rows else np.empty((0, published.size), np.uint32)
    return reconstruct([each.index for each in held], stacked, published.threshold)


def _digest(session: bytes, n: int, t: int, index: int, payload: bytes, salt: bytes) -> bytes:
    text = label("mpc.shamir.commitment", session, n, t, index, payload, salt)
    return hashlib.sha256(text).digest()
