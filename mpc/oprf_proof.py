"""The proof that one key made a whole batch of evaluations: 64 bytes, whatever the batch.

Source: RFC 9497 section 2.2, names as there: for a secret k with public key B = k * G, elements
    C[i] and D[i], the proof (c, s) shows that D[i] = k * C[i] for every i. Chaum and Pedersen's
    proof of equal logarithms, made non-interactive by hashing, of the sums M = sum d[i] * C[i]
    and Z = sum d[i] * D[i] whose weights d[i] are hashes of everything that is claimed.
Model: SHA-512 is a random oracle. A prover who lies about any D[i] has one chance in the group's
    order for each hash that it tries. Zero knowledge up to one part in the order: the random
    scalar is never zero, as the RFC has it.
Leaks: nothing about k. A random scalar that serves for two proofs gives k away.
"""

import builtins
import hashlib
import hmac
from collections.abc import Sequence
from functools import partial

from mpc.core.errors import WireError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.oprf_batch import Map, spread
from mpc.oprf_group import is_scalar, random_scalars, sum_of
from mpc.oprf_suite import Suite, prefixed


def seed_of(suite: Suite, public: bytes) -> bytes:
    """The seed of the weights: 64 bytes from the public key."""
    return hashlib.sha512(prefixed(public) + prefixed(b"Seed-" + suite.context)).digest()


def weight(suite: Suite, seed: bytes, index: int, blinded: bytes, evaluated: bytes) -> bytes:
    """d[i]: a scalar that depends on the pair, on its place and on the public key."""
    place = index.to_bytes(2, "big")
    pair = prefixed(blinded) + prefixed(evaluated)
    return suite.hash_to_scalar(prefixed(seed) + place + pair + b"Composite")


def composites(
    suite: Suite,
    public: bytes,
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
    *,
    key: bytes | None = None,
    map: Map = builtins.map,
) -> tuple[bytes, bytes]:
    """ComputeComposites: M and Z. With the ``key``, ComputeCompositesFast: Z is key * M.

    Raises WireError where bytes encode no element; with the key, ``evaluated`` must be its work.
    """
    part = partial(_composites, suite, seed_of(suite, public), key is None)
    places = range(len(blinded))
    parts = list(spread(part, map, places, blinded, evaluated))
    m, *z = (sum_of(suite.group, column) for column in zip(*parts, strict=True))
    return m, suite.group.multiply(key, m) if key is not None else z[0]


def _composites(
    suite: Suite,
    seed: bytes,
    both: bool,
    places: range,
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
) -> list[bytes]:
    """One piece's share of M, and of Z where ``both`` are wanted."""
    group = suite.group
    d = [weight(suite, seed, *pair) for pair in zip(places, blinded, evaluated, strict=True)]
    return [
        sum_of(group, [group.multiply(*pair) for pair in zip(d, column, strict=True)])
        for column in ((blinded, evaluated) if both else (blinded,))
    ]


def challenge(suite: Suite, public: bytes, *elements: bytes) -> bytes:
    """c: the hash of the public key, M, Z and the two commitments t2 and t3."""
    transcript = b"".join(prefixed(element) for element in (public, *elements))
    return suite.hash_to_scalar(transcript + b"Challenge")


def commitments(
    suite: Suite, public: bytes, m: bytes, z: bytes, c: bytes, s: bytes
) -> tuple[bytes, bytes]:
    """t2 = s * G + c * B and t3 = s * M + c * Z, as a verifier finds them from a proof (c, s)."""
    group = suite.group
    return (
        group.add(group.multiply_base(s), group.multiply(c, public)),
        group.add(group.multiply(s, m), group.multiply(c, z)),
    )


def generate_proof(
    suite: Suite,
    key: bytes,
    public: bytes,
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
    *,
    rng: Rng = SYSTEM_RNG,
    map: Map = builtins.map,
) -> bytes:
    """GenerateProof: c and s, one after the other. The claim must be true.

    key: a scalar, not zero.  blinded, evaluated: equally many elements, 1 to 65535.
    """
    group = suite.group
    m, z = composites(suite, public, blinded, evaluated, key=key, map=map)
    [r] = random_scalars(group, 1, rng)
    c = challenge(suite, public, m, z, group.multiply_base(r), group.multiply(r, m))
    return c + group.scalar_subtract(r, group.scalar_multiply(c, key))


def verify_proof(
    suite: Suite,
    public: bytes,
    blinded: Sequence[bytes],
    evaluated: Sequence[bytes],
    proof: bytes,
    *,
    map: Map = builtins.map,
) -> bool:
    """VerifyProof: whether one key, that of ``public``, made all of ``evaluated``.

    blinded, evaluated: equally many elements, 1 to 65535.
    Raises WireError for bytes that encode no proof, no public key or no element.
    """
    c, s = _read(suite, proof)
    _check_public(suite, public)
    m, z = composites(suite, public, blinded, evaluated, map=map)
    t2, t3 = commitments(suite, public, m, z, c, s)
    return hmac.compare_digest(challenge(suite, public, m, z, t2, t3), c)


def _read(suite: Suite, proof: bytes) -> tuple[bytes, bytes]:
    size = suite.group.scalar_bytes
    if not isinstance(proof, bytes) or len(proof) != 2 * size:
        raise WireError(f"a proof is {2 * size} bytes")
    c, s = proof[:size], proof[size:]
    if not (is_scalar(suite.group, c) and is_scalar(suite.group, s)):
        raise WireError("a proof is two scalars below the order of the group")
    return c, s


def _check_public(suite: Suite, public: bytes) -> None:
    if not isinstance(public, bytes) or len(public) != suite.group.element_bytes:
        raise WireError(f"a public key is {suite.group.element_bytes} bytes")
    if public == suite.group.identity:
        raise WireError("a public key is not the identity")
