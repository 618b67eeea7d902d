"""From items to tokens: the client's arithmetic, for any verifiable oblivious keyed function.

Source: RFC 9497 section 3.3.2 for the functions of a VOPRF. The first 16 bytes of an output are
    the token.
Model: the oblivious function hides its inputs from the key holder and proves that the published
    key was used; without the key its outputs look uniform. Tests put in an ideal one.
Leaks: to the key holder m blinded elements, to the matcher m tokens in rising order, which
    depends on no order of the items.
"""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc import oprf
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.items import ItemSet, padded_inputs
from mpc.matching.messages import KEY_HOLDER, TOKEN_BYTES
from mpc.oprf_batch import Map


class ObliviousFunction(Protocol):
    """A keyed function that its key holder evaluates on blinded inputs, with one proof for all."""

    @property
    def element_bytes(self) -> int:
        """Bytes of a blinded input and of its evaluation."""

    def generate(self, rng: Rng) -> tuple[Any, bytes]:
        """A fresh secret key, kept out of every repr, and its public key."""

    def blind(self, inputs: Sequence[bytes], rng: Rng) -> tuple[Any, tuple[bytes, ...]]:
        """What the client keeps, and one element for each input."""

    def evaluate(
        self, key: Any, elements: Sequence[bytes], rng: Rng
    ) -> tuple[tuple[bytes, ...], bytes]:
        """The elements under ``key``, and the proof; WireError for what is no element."""

    def finalize(
        self, kept: Any, evaluated: Sequence[bytes], public: bytes, proof: bytes
    ) -> list[bytes]:
        """The outputs; PeerError for a false proof or a wrong number, WireError for no element."""


@dataclass(frozen=True)
class Ristretto:
    """The VOPRF over ristretto255 with SHA-512 (``mpc.oprf``).

    map: spreads the work over workers; the caller's, such as an executor's.
    """

    map: Map = builtins.map
    element_bytes = 32

    def generate(self, rng: Rng) -> tuple[oprf.ServerKey, bytes]:
        """A fresh key pair."""
        key = oprf.ServerKey.generate(rng=rng)
        return key, key.public

    def blind(self, inputs: Sequence[bytes], rng: Rng) -> tuple[oprf.Blinding, tuple[bytes, ...]]:
        """Blinds uniform over all scalars but zero: the elements are independent of the inputs."""
        return oprf.blind(inputs, rng=rng, map=self.map)

    def evaluate(
        self, key: oprf.ServerKey, elements: Sequence[bytes], rng: Rng
    ) -> tuple[tuple[bytes, ...], bytes]:
        """One scalar multiplication for each element, two more for the proof."""
        return oprf.evaluate(key, elements, rng=rng, map=self.map)

    def finalize(
        self, kept: oprf.Blinding, evaluated: Sequence[bytes], public: bytes, proof: bytes
    ) -> list[bytes]:
        """Outputs of 64 bytes, after the proof has been verified."""
        return oprf.finalize(kept, evaluated, public, proof, party=KEY_HOLDER, map=self.map)


RISTRETTO = Ristretto()


@dataclass(frozen=True)
class Blinded:
    """A client's request, and what she keeps until the answer."""

    elements: tuple[bytes, ...]
    kept: Any = field(repr=False)


def blind_items(
    chosen: ItemSet,
    m: int,
    session: bytes,
    function: ObliviousFunction,
    *,
    rng: Rng = SYSTEM_RNG,
) -> Blinded:
    """Pad to ``m`` inputs and blind them all; ``session`` as in ``padded_inputs``."""
    kept, elements = function.blind(padded_inputs(chosen, m, session, rng=rng), rng)
    return Blinded(elements, kept)


def open_tokens(
    blinded: Blinded,
    evaluated: Sequence[bytes],
    proof: bytes,
    public: bytes,
    function: ObliviousFunction,
) -> NDArray[np.uint8]:
    """The tokens, uint8 (m, 16) in rising order; narrower where the function's outputs are.

    Raises PeerError or WireError if the evaluation is not that of the published key.
    """
    outputs = function.finalize(blinded.kept, evaluated, public, proof)
    # Sorting makes an upload independent of the order of items, and takes no randomness.
    cut = sorted(output[:TOKEN_BYTES] for output in outputs)
    return np.frombuffer(b"".join(cut), dtype=np.uint8).reshape(len(cut), -1)
