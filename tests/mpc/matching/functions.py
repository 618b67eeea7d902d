"""Keyed functions put in the place of the real one: an ideal one, and one small enough to list."""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from mpc.core.errors import PeerError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng

Draw = Callable[[], bytes]


class Ideal:
    """A random function, drawn lazily for each (key, input), behind perfect blinding.

    An element is a random name that only this object can look behind, as a trusted party would.
    draw: an output; by default 16 fresh uniform bytes.
    """

    element_bytes = 8

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw: Draw = partial(SYSTEM_RNG.bytes, 16) if draw is None else draw
        self.table: dict[tuple[bytes, bytes], bytes] = {}
        self.names: dict[bytes, bytes] = {}

    def generate(self, rng: Rng) -> tuple[bytes, bytes]:
        key = rng.bytes(self.element_bytes)
        return key, key

    def blind(
        self, inputs: Sequence[bytes], rng: Rng
    ) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        elements = tuple(rng.bytes(self.element_bytes) for _ in inputs)
        self.names.update(zip(elements, inputs, strict=True))
        return elements, elements

    def evaluate(
        self, key: bytes, elements: Sequence[bytes], rng: Rng
    ) -> tuple[tuple[bytes, ...], bytes]:
        if any(element not in self.names for element in elements):
            raise WireError("no element")
        return tuple(elements), key

    def finalize(
        self, kept: Any, evaluated: Sequence[bytes], public: bytes, proof: bytes
    ) -> list[bytes]:
        if proof != public or tuple(evaluated) != kept:
            raise PeerError("the proof does not hold", party=-1)
        return [self.output(public, self.names[element]) for element in kept]

    def output(self, public: bytes, given: bytes) -> bytes:
        """The function itself."""
        if (public, given) not in self.table:
            self.table[public, given] = self._draw()
        return self.table[public, given]


class SmallGroup:
    """The blinding of RFC 9497 in the subgroup of order 11 modulo 23: H(x)^r, r in [1, 11).

    It has no proof: what is listed with it is what the key holder sees of a request.
    """

    element_bytes = 1
    order, modulus, generator = 11, 23, 2

    def hashed(self, given: bytes) -> int:
        """An element other than 1 for each input."""
        exponent = 1 + int.from_bytes(sha256(given).digest(), "big") % (self.order - 1)
        return pow(self.generator, exponent, self.modulus)

    def generate(self, rng: Rng) -> tuple[int, bytes]:
        key = 1 + int(rng.uniform(self.order - 1))
        return key, bytes([pow(self.generator, key, self.modulus)])

    def blind(self, inputs: Sequence[bytes], rng: Rng) -> tuple[list[int], tuple[bytes, ...]]:
        blinds = [1 + int(rng.uniform(self.order - 1)) for _ in inputs]
        pairs = zip(inputs, blinds, strict=True)
        return blinds, tuple(bytes([pow(self.hashed(x), r, self.modulus)]) for x, r in pairs)

    def evaluate(
        self, key: int, elements: Sequence[bytes], rng: Rng
    ) -> tuple[tuple[bytes, ...], bytes]:
        return tuple(bytes([pow(element[0], key, self.modulus)]) for element in elements), b""

    def finalize(
        self, kept: list[int], evaluated: Sequence[bytes], public: bytes, proof: bytes
    ) -> list[bytes]:
        inverses = (pow(blind, -1, self.order) for blind in kept)
        pairs = zip(evaluated, inverses, strict=True)
        return [bytes([pow(element[0], inverse, self.modulus)]) for element, inverse in pairs]
