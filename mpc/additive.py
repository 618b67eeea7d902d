"""n-of-n additive sharing over Z_{2^l}: all shares add up to the secret, any n-1 are uniform.

Source: PriRec (Chen et al., 2020), section 2.4. Names: the paper's party count P is ``n``, its
    letter l is ``ring.bits``, <a>_j is row j of ``share``, and a - sum_j a_j is the *correction*.
Model: semi-honest, n-1 parties collude. Full sharing is perfect, given uniform bytes; the
    seed-compressed form is as secret as AES-256 in counter mode is random.
Leaks: shape and ring of the secret.
Error: none; reconstruction is exact for every n.
Differs: the seed-compressed form is not in the paper. It sends 32 bytes where the full form sends
    a whole share.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.prg import SEED_BYTES, Prg, PrgFactory
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng, Shape

MAX_PARTIES = 2**16

# Bytes of a row of shares that are dealt at once: all rows of a few parties stay in the second
# cache level until the correction is made.
_PIECE_BYTES = 2 * PIECE_BYTES


def deal(
    x: ArrayLike,
    n: int,
    ring: Ring,
    rng: Rng,
    *,
    out: tuple[RingArray, RingArray] | None = None,
) -> Iterator[RingArray]:
    """Yield the n shares of ``x`` one after the other: n-1 uniform masks, then the correction.

    x: ring dtype, any shape s, entries below 2^l.  Yields n arrays (*s), same dtype.
    out: two arrays (*s) to work in. The first then holds every mask in turn, so use each before
    asking for the next; the second ends as the correction, plus whatever the taker has added to it
    meanwhile. Without it each share is a new array.
    Raises ParameterError at once if n lies outside [2, 2^16] or an entry lies outside the ring.
    """
    secret = ring.check(x)
    n = integer("n", n, 2, MAX_PARTIES)
    if out is None:
        masks = (ring.random(secret.shape, rng) for _ in range(n - 1))
        return _deal(secret.copy(), masks, ring)
    place, rest = out
    rest[...] = secret
    return _deal(rest, (ring.fill(place, rng) for _ in range(n - 1)), ring)


def _deal(rest: RingArray, masks: Iterable[RingArray], ring: Ring) -> Iterator[RingArray]:
    for mask in masks:
        # Subtracted before the mask leaves, so that the taker may overwrite it. The word wraps,
        # and 2^l divides its modulus, so the surplus bits need clearing only once.
        np.subtract(rest, mask, out=rest)
        yield mask
    yield np.bitwise_and(rest, ring.mask, out=rest)


def share(x: ArrayLike, n: int, ring: Ring, *, rng: Rng = SYSTEM_RNG) -> RingArray:
    """Split ``x`` into ``n`` additive shares over Z_2^l; any n-1 of them are uniform.

    x: ring dtype, any shape s, entries below 2^l.  Returns (n, *s), same dtype, row i for party i;
    the last row is the correction, which the dealer keeps. Large arrays are dealt piece by piece.
    Raises ParameterError if n lies outside [2, 2^16] or an entry outside the ring.
    """
    secret = ring.check(x)
    n = integer("n", n, 2, MAX_PARTIES)
    shares = np.empty((n, *secret.shape), dtype=ring.dtype)
    flat, given = shares.reshape(n, -1), secret.reshape(-1)
    step = _PIECE_BYTES // ring.element_bytes()
    for start in range(0, given.size, step):
        rows = flat[:, start : start + step]
        rest = rows[n - 1]
        rest[...] = given[start : start + step]
        deque(_deal(rest, (ring.fill(row, rng) for row in rows[:-1]), ring), maxlen=0)
    return shares


def reconstruct(shares: ArrayLike, ring: Ring) -> RingArray:
    """Add all n shares (n, *s) back into the secret, shape s, ring dtype.

    Raises ParameterError for fewer than two rows or entries outside the ring. Nothing can tell
    that a row is missing or altered: the result is then a uniform-looking wrong value.
    """
    rows = ring.check(shares)
    if rows.ndim == 0 or rows.shape[0] < 2:
        raise ParameterError(f"shares must have shape (n, ...) with n >= 2, got {rows.shape}")
    return ring.sum(rows, axis=0)


@dataclass(frozen=True, eq=False)
class CompressedSharing:
    """n-1 seeds, one for each other party, and the correction that the dealer keeps."""

    seeds: tuple[bytes, ...] = field(repr=False)
    correction: RingArray = field(repr=False)


def share_compressed(
    x: ArrayLike, n: int, ring: Ring, *, rng: Rng = SYSTEM_RNG, prg: PrgFactory = Prg
) -> CompressedSharing:
    """Split ``x`` so that each other party's share is 32 bytes: party j's is ``expand(seeds[j])``.

    x: ring dtype, any shape s, entries below 2^l.  The seeds are fresh and serve this one sharing.
    Raises ParameterError if n lies outside [2, 2^16] or an entry outside the ring.
    """
    secret = ring.check(x)
    n = integer("n", n, 2, MAX_PARTIES)
    seeds = tuple(rng.bytes(SEED_BYTES) for _ in range(n - 1))
    masks = (expand(seed, secret.shape, ring, prg=prg) for seed in seeds)
    (correction,) = deque(
        _deal(secret.copy(), masks, ring), maxlen=1
    )  # one mask at a time in memory
    return CompressedSharing(seeds, correction)


def expand(seed: bytes, shape: Shape, ring: Ring, *, prg: PrgFactory = Prg) -> RingArray:
    """The share, of the given shape and ring dtype, that a 32-byte ``seed`` stands for.

    Dealer and holder compute it alike. ParameterError for a seed of another size.
    """
    return ring.random(shape, prg(seed, 0))
