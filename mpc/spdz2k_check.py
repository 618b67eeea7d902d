"""The check of MACs in one batch, and what keeps its parties from cheating in it.

Source: Cramer, Damgard, Escudero, Scholl and Xing, "SPDZ2k" (CRYPTO 2018), section 4 (BatchCheck).
    Names: the checked values are z_j, their MACs m_j, the coins chi_j, the key alpha.
Model: malicious; n-1 parties collude and are rushing. SHA-256 as a random oracle: commitments hide
    and bind, coins are uniform as soon as one party's seed is.
Leaks: nothing, as long as nobody has altered anything: sigma is a fresh sharing of zero. Otherwise
    sigma tells of the key, which serves no more after that.
Error: values altered by differences that are not all 0 mod 2^k pass with a probability of at most
    (s+1) 2^-s, whatever else the attacker sends.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import AbortError
from mpc.core.keys import label
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from mpc.programs import Program, Seats, Tell
from mpc.spdz2k_supply import Sizes

DIGEST_BYTES = 32
SALT_BYTES = 32
COIN_BYTES = SEED_BYTES

REMEDY = "use none of the results of this computation"


def residue(
    alpha: RingArray, z: RingArray, macs: RingArray, chi: RingArray, ring: Ring
) -> RingArray:
    """sigma of every party present: her share of sum_j chi_j (m_j - alpha z_j), which is zero.

    alpha (present, *b), z and chi (*b, m), macs (present, *b, m) for m checked values; returns
    (present, *b).
    """
    combined = ring.sum(ring.mul(chi, z), axis=-1)
    ours = np.stack([ring.sum(ring.mul(chi, row), axis=-1) for row in macs])
    return ring.sub(ours, ring.mul(alpha, combined))


def coins(count: int, sizes: Sizes, seeds: Sequence[bytes]) -> RingArray:
    """chi: uniform in [0, 2^s), (b, count) in the large ring, each row from a seed of 32 bytes."""
    small = Ring(sizes.s)
    drawn = np.empty((len(seeds), count), small.dtype)
    for row, seed in zip(drawn, seeds, strict=True):
        small.fill(row, Prg(seed))
    return sizes.ring.reduce(drawn)


class Transcript:
    """What has been seen in each of ``count`` computations side by side, hashed.

    All sizes are public, so that different transcripts are different bytes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._hashes = [hashlib.sha256(label("mpc.spdz2k.transcript")) for _ in range(count)]

    def note(self, *parts: bytes) -> None:
        """Add messages; each is cut into equal pieces, one for each computation."""
        for part in parts:
            for each, piece in zip(self._hashes, _cut(part, self.count), strict=True):
                each.update(piece)

    def seen(self) -> list[bytes]:
        """For each computation, what a commitment made now starts with."""
        return [
            hashlib.sha256(label("mpc.spdz2k.commitment", each.digest())).digest()
            for each in self._hashes
        ]


def committed(
    values: NDArray[np.uint8], transcript: Transcript, seats: Seats, rng: Rng
) -> Program[NDArray[np.uint8]]:
    """Everybody's values, told by nobody before all have committed to theirs: two steps.

    values: (present, b, size).  Returns (n, b, size).
    Raises AbortError if a commitment does not open, or was made by somebody who has seen other
    messages than we have: a party who tells one thing to some and another to others is found out.
    """
    n, (rows, count, size) = seats.n, values.shape
    sealed = np.concatenate([values, rng.words((rows, count, SALT_BYTES), np.uint8)], axis=-1)
    seen = transcript.seen()
    mine = zip(seats.present, sealed, strict=True)
    commitments = tuple(_commitment(seen, party, row.tobytes()) for party, row in mine)
    before = yield Tell((count * DIGEST_BYTES,) * n, commitments)
    transcript.note(*before)
    told = tuple(row.tobytes() for row in sealed)
    after = yield Tell((count * (size + SALT_BYTES),) * n, told)
    transcript.note(*after)
    for party, (commitment, value) in enumerate(zip(before, after, strict=True)):
        if not hmac.compare_digest(commitment, _commitment(seen, party, value)):
            raise AbortError(
                f"party {party} did not open what she had committed to, or has seen other messages",
                remedy=REMEDY,
            )
    opened = np.frombuffer(b"".join(after), np.uint8).reshape(n, count, -1)
    return opened[..., :size]


def joint_seeds(seeds: NDArray[np.uint8]) -> list[bytes]:
    """A seed of coins for each computation from those of all parties (n, b, 32)."""
    prefix = label("mpc.spdz2k.coins", len(seeds))
    return [
        hashlib.sha256(prefix + column.tobytes()).digest() for column in np.moveaxis(seeds, 1, 0)
    ]


def _commitment(seen: Sequence[bytes], party: int, value: bytes) -> bytes:
    """The commitments of one party to her values in all computations."""
    who = party.to_bytes(4, "big")
    pieces = zip(seen, _cut(value, len(seen)), strict=True)
    return b"".join([hashlib.sha256(b"".join((first, who, v))).digest() for first, v in pieces])


def _cut(data: bytes, count: int) -> Iterator[memoryview]:
    size, view = len(data) // count, memoryview(data)
    return (view[start * size : (start + 1) * size] for start in range(count))
