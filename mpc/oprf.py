"""Oblivious PRF: a client learns a keyed function of her inputs, the key holder nothing of them.

The client blinds her inputs, the server multiplies the blinded elements by its key, the client
takes the blinds off and hashes. In VOPRF mode the server proves that it used its published key,
by one proof for a whole batch.

Source: RFC 9497 (December 2023), ciphersuite ristretto255-SHA512, modes 0x00 (OPRF) and 0x01
    (VOPRF): ``blind`` is Blind, ``evaluate`` BlindEvaluate, ``finalize`` Finalize, ``output_of``
    Evaluate, ``ServerKey.derive`` DeriveKeyPair, each on a batch. skS is the key, pkS its public
    key.
Model: client and server may both be malicious. The inputs are hidden perfectly, given uniform
    blinds; the key rests on the one-more gap Diffie-Hellman assumption in ristretto255 and on
    SHA-512 as a random oracle. In OPRF mode nothing ties a server to one key.
Leaks: the number of inputs in a batch. Whoever holds the key computes the function on any input,
    so it can look outputs up in a dictionary; a client learns one output for each evaluation.
Error: none; outputs are exact. A false proof passes with probability 2^-252 for each hash tried.
Differs: blinds and the proof's random scalar are never zero. POPRF mode is left out.
"""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.oprf_batch import Map, joined, spread
from mpc.oprf_group import check_elements, invert_all, is_scalar, random_scalars
from mpc.oprf_proof import generate_proof, verify_proof
from mpc.oprf_suite import (
    MAX_INPUT_BYTES,
    OPRF,
    OUTPUT_BYTES,
    VOPRF,
    Suite,
    check_input,
)

__all__ = [
    "MAX_BATCH",
    "MAX_INPUT_BYTES",
    "OPRF",
    "OUTPUT_BYTES",
    "SERVER",
    "VOPRF",
    "Blinding",
    "Evaluation",
    "ServerKey",
    "Suite",
    "blind",
    "evaluate",
    "finalize",
    "output_of",
]

MAX_BATCH = 2**16 - 1
"""The most inputs of one batch: a proof counts its elements in two bytes."""

SERVER = -1
"""The server's party id in errors, unless the caller gives another."""


class ServerKey:
    """The server's key pair for one suite. The secret half never appears in a repr or a pickle.

    A key of one suite is not to be used in another: each has its own.
    """

    __slots__ = ("_secret", "public", "suite")

    def __init__(self, secret: bytes, suite: Suite = VOPRF) -> None:
        """The pair of a secret scalar as ``to_bytes`` gives it; ParameterError for any other."""
        group = suite.group
        if not isinstance(secret, bytes) or not is_scalar(group, secret) or not any(secret):
            raise ParameterError(
                f"a secret key is {group.scalar_bytes} bytes, little-endian, above 0 and below the "
                "order of the group"
            )
        self._secret = secret
        self.suite = suite
        self.public = group.multiply_base(secret)

    @classmethod
    def generate(cls, suite: Suite = VOPRF, *, rng: Rng = SYSTEM_RNG) -> "ServerKey":
        """A fresh pair (GenerateKeyPair)."""
        return cls(random_scalars(suite.group, 1, rng)[0], suite)

    @classmethod
    def derive(cls, seed: bytes, info: bytes = b"", suite: Suite = VOPRF) -> "ServerKey":
        """The pair that a seed and a public ``info`` determine (DeriveKeyPair).

        seed: 32 uniform secret bytes.  info: at most 65535 bytes.  ParameterError for others.
        """
        return cls(suite.derive_scalar(seed, info), suite)

    @classmethod
    def from_bytes(cls, data: bytes, suite: Suite = VOPRF) -> "ServerKey":
        """The pair that ``to_bytes`` wrote. WireError for bytes that are no secret key."""
        try:
            return cls(data, suite)
        except ParameterError as error:
            raise WireError(error.message) from None

    def to_bytes(self) -> bytes:
        """The secret scalar, 32 bytes, for the owner's own storage. It does not name the suite."""
        return self._secret

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a ServerKey holds a secret and is not picklable")

    def __repr__(self) -> str:
        return f"ServerKey(mode={self.suite.mode}, public={self.public.hex()})"


@dataclass(frozen=True, eq=False)
class Blinding:
    """What a client keeps from ``blind`` to ``finalize``: her inputs, their blinds, what she sent.

    It may be finalized again, as after a refused answer: the server sees the same elements.
    """

    suite: Suite
    elements: tuple[bytes, ...]
    inputs: tuple[bytes, ...] = field(repr=False)
    blinds: tuple[bytes, ...] = field(repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Blinding holds inputs and blinds and is not picklable")

    def __repr__(self) -> str:
        return f"Blinding(mode={self.suite.mode}, inputs={len(self.inputs)})"


class Evaluation(NamedTuple):
    """What the server returns: evaluated elements in the order sent, and one proof for them all.

    proof: 64 bytes in VOPRF mode, none in OPRF mode.
    """

    elements: tuple[bytes, ...]
    proof: bytes


def blind(
    inputs: Sequence[bytes],
    *,
    suite: Suite = VOPRF,
    rng: Rng = SYSTEM_RNG,
    map: Map = builtins.map,
) -> tuple[Blinding, tuple[bytes, ...]]:
    """The client's first step: what to keep, and one element of 32 bytes for each input, to send.

    inputs: 1 to 65535 byte strings of at most 65535 bytes each; repeats are fine, and look
    like any others.
    Raises ParameterError for others.
    """
    if not 1 <= len(inputs) <= MAX_BATCH:
        raise ParameterError(f"a batch has 1 to {MAX_BATCH} inputs, got {len(inputs)}")
    for data in inputs:
        check_input(data)
    blinds = random_scalars(suite.group, len(inputs), rng)
    elements = tuple(joined(spread(partial(_blinded, suite), map, inputs, blinds)))
    return Blinding(suite, elements, tuple(inputs), tuple(blinds)), elements


def _blinded(suite: Suite, inputs: Sequence[bytes], blinds: Sequence[bytes]) -> list[bytes]:
    return [
        suite.group.multiply(r, suite.input_element(x)) for x, r in zip(inputs, blinds, strict=True)
    ]


def evaluate(
    key: ServerKey,
    blinded: Sequence[bytes],
    *,
    rng: Rng = SYSTEM_RNG,
    map: Map = builtins.map,
) -> Evaluation:
    """The server's only step: the blinded elements under ``key``, with a proof in VOPRF mode.

    Who may ask, and how often, is the caller's to check: each element is one evaluation.
    Raises WireError for no or more than 65535 elements, for the identity, and for bytes that
    encode no element; then nothing is returned for the whole batch.
    """
    suite, secret = key.suite, key.to_bytes()
    _check_batch(suite, blinded)
    elements = joined(spread(partial(_evaluated, suite, secret), map, blinded))
    proof = b""
    if suite.verifiable:
        proof = generate_proof(suite, secret, key.public, blinded, elements, rng=rng, map=map)
    return Evaluation(tuple(elements), proof)


def _evaluated(suite: Suite, secret: bytes, blinded: Sequence[bytes]) -> list[bytes]:
    return [suite.group.multiply(secret, element) for element in blinded]


def finalize(
    blinding: Blinding,
    elements: Sequence[bytes],
    public: bytes = b"",
    proof: bytes = b"",
    *,
    party: int = SERVER,
    map: Map = builtins.map,
) -> list[bytes]:
    """The client's last step: an output of 64 bytes for each input, in order.

    elements, proof: the server's answer.  public: the key that it has published, the same for all
    clients; in OPRF mode neither key nor proof.  party: whom a PeerError is to name.
    Raises PeerError for an answer of another length than was asked, and for a proof that does not
    hold; WireError for bytes that are no element, proof or public key; ParameterError for a key
    or a proof in OPRF mode, which would promise a check that nobody makes.
    """
    suite = blinding.suite
    _check_batch(suite, elements)
    if len(elements) != len(blinding.elements):
        raise PeerError(
            f"{len(elements)} evaluations came for {len(blinding.elements)} elements", party=party
        )
    if suite.verifiable:
        if not verify_proof(suite, public, blinding.elements, elements, proof, map=map):
            raise PeerError(
                "the proof does not hold: another key, another batch or another order",
                party=party,
                remedy="use none of these evaluations",
            )
    elif public or proof:
        raise ParameterError("OPRF mode proves nothing, so it takes no public key and no proof")
    inverses = invert_all(suite.group, blinding.blinds)
    return joined(spread(partial(_opened, suite), map, blinding.inputs, inverses, elements))


def _opened(
    suite: Suite, inputs: Sequence[bytes], inverses: Sequence[bytes], elements: Sequence[bytes]
) -> list[bytes]:
    return [
        suite.output(x, suite.group.multiply(inverse, element))
        for x, inverse, element in zip(inputs, inverses, elements, strict=True)
    ]


def output_of(key: ServerKey, data: bytes) -> bytes:
    """What a client would get for the input ``data``, by the key alone (Evaluate).

    Raises ParameterError for an input that is not at most 65535 bytes.
    """
    suite = key.suite
    return suite.output(data, suite.group.multiply(key.to_bytes(), suite.input_element(data)))


def _check_batch(suite: Suite, elements: Sequence[bytes]) -> None:
    if not 1 <= len(elements) <= MAX_BATCH:
        raise WireError(f"a batch has 1 to {MAX_BATCH} elements, got {len(elements)}")
    check_elements(suite.group, elements)
