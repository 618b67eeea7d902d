"""What a client shares, how shares travel, and how secrets come back and are recognised.

Per (session, round) a client draws two secrets of 32 bytes: the seed of its self mask, the paper's
b_u, and the private key that agrees on its pairwise masks, s_u^SK. Both are shared t-of-m over
Z_65537 among the m clients of its closed neighbourhood, in one matrix product.

    self mask key  HKDF-Expand(b_u, "self-mask", round, u)
    check value    HKDF-Expand(b_u, "self-mask-check", round, u)
    pair mask key  HKDF(X25519(s_u, s_v), "pair-mask", both public keys, round, both ids)
    channel keys   HKDF(X25519(c_u, c_v), "shares", both public keys, round, both ids), 64 bytes:
                   one key from the smaller id to the greater one, one back; each seals one message

Source: Bonawitz et al., CCS 2017, section 4 and Figure 4 (rounds 1 and 4); Shamir, CACM 1979.
Model: fewer than t holders learn nothing. The check value is one more output of the function that
    makes the mask's key, so it shows nothing of either while HMAC-SHA-256 is pseudo-random, and
    two seeds with one check value are a collision of it. A mask key is recognised by its public
    key, up to the bits that X25519 ignores. An altered share is therefore noticed; whose it is,
    ``secagg.full.recovery`` finds out.
Leaks: number of shares.
Error: none.
Differs: the paper authenticates no share that a client returns.
"""

import hmac

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import WireError
from mpc.core.keys import KEY_BYTES, KeyPair, derive
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.shamir import FIELD, Elements, Field, share, words

SECRETS = 2
"""The self-mask seed is row 0, the mask key row 1 of what a holder has."""

WORDS = 16
"""Elements of Z_65537 in a secret of 32 bytes."""

_PIECE = 1 << 20  # products held at a time


def self_mask_key(seed: bytes, digest: bytes, client: int) -> bytes:
    """The key of ``client``'s self mask in the round with this digest."""
    return derive(seed, "secagg.full.self-mask", digest, client)


def self_mask_check(seed: bytes, digest: bytes, client: int) -> bytes:
    """32 bytes by which the server knows the seed when it has put it together."""
    return derive(seed, "secagg.full.self-mask-check", digest, client)


def is_seed(seed: bytes, check: bytes, digest: bytes, client: int) -> bool:
    """Whether ``check`` is the seed's."""
    return hmac.compare_digest(self_mask_check(seed, digest, client), check)


def channel_keys(keys: KeyPair, public: bytes, digest: bytes, own: int, peer: int) -> list[bytes]:
    """The keys that seal what ``own`` sends to ``peer``, and what comes back, in this order.

    Raises WireError as ``KeyPair.agree``.
    """
    low, high = sorted((own, peer))
    both = keys.agree(public, "secagg.full.shares", digest, low, high, length=2 * KEY_BYTES)
    halves = [both[:KEY_BYTES], both[KEY_BYTES:]]
    return halves if own < peer else halves[::-1]


def deal(
    seed: bytes, private: bytes, holders: int, threshold: int, *, rng: Rng = SYSTEM_RNG
) -> Elements:
    """Shares of both secrets for ``holders``: uint32 (holders, 2, 16), any ``threshold`` enough."""
    secrets = np.stack([words(seed), words(private)])
    return share(secrets, holders, threshold, rng=rng)


def pack_rows(shares: Elements) -> NDArray[np.uint8]:
    """Each row of Z_65537 elements (n, w) as ``mpc.shamir.pack`` would do: uint8 (n, 2w + w/8)."""
    low = shares.astype("<u2").view(np.uint8)
    top = np.packbits(shares == 0x10000, axis=1, bitorder="little")
    return np.concatenate([low, top], axis=1)


def unpack_rows(data: bytes, width: int) -> Elements:
    """Inverse of ``pack_rows`` for rows of ``width`` elements, a multiple of 8.

    Raises WireError for bytes that it does not make.
    """
    size = 2 * width + width // 8
    if len(data) % size:
        raise WireError(f"shares take {size} bytes each, got {len(data)} bytes")
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    low = np.ascontiguousarray(rows[:, : 2 * width]).view("<u2").astype(np.uint32)
    top = np.unpackbits(rows[:, 2 * width :], axis=1, bitorder="little").astype(np.uint32)
    if (low * top).any():
        raise WireError("the bytes encode no share")
    return low + (top << np.uint32(16))


def weights(
    indices: NDArray[np.uint64], at: NDArray[np.uint64] | int = 0, *, field: Field = FIELD
) -> NDArray[np.uint64]:
    """Lagrange's weights at ``at`` for many sets of t distinct indices at once: (S, t) to (S, t).

    All numbers are residues modulo p as uint64, so a product never wraps.
    """
    p = np.uint64(field.prime)
    points = (indices + (p - np.asarray(at, np.uint64) % p)) % p  # so that ``at`` moves to 0
    above, below = np.ones_like(points), np.ones_like(points)
    for j in range(points.shape[1]):
        # The factor of the point itself is 1 in both.
        others = np.arange(points.shape[1]) != j
        point = points[:, j : j + 1]
        above = np.where(others, above * point % p, above)
        below = np.where(others, below * ((point + p - points) % p) % p, below)
    return above * _inverse(below, field) % p


def _inverse(x: NDArray[np.uint64], field: Field) -> NDArray[np.uint64]:
    """x^(p-2) modulo p, element by element."""
    p, power, out = np.uint64(field.prime), x, np.ones_like(x)
    for bit in bin(field.prime - 2)[:1:-1]:
        if bit == "1":
            out = out * power % p
        power = power * power % p
    return out


def recover(indices: NDArray[np.uint64], shares: Elements, *, field: Field = FIELD) -> Elements:
    """Many secrets at once: indices (S, t), distinct in each row, shares (S, t, w) to (S, w).

    Weights are computed once for each different set of indices. An altered share gives a wrong
    secret.
    """
    sets, which = np.unique(indices, axis=0, return_inverse=True)
    table, p = weights(sets, field=field), np.uint64(field.prime)
    out = np.empty((len(shares), shares.shape[2]), np.uint32)
    step = max(1, _PIECE // max(1, shares[:1].size))
    for start in range(0, len(shares), step):
        part = slice(start, start + step)
        products = table[which[part].reshape(-1), :, None] * shares[part] % p
        out[part] = products.sum(axis=1) % p
    return out
