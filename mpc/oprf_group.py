"""The group of the oblivious PRF: ristretto255 by libsodium, and the interface that a test fills.

Source: RFC 9496 (ristretto255), RFC 9497 sections 2.1 and 4.1; libsodium through rbcl. The RFCs
    write the group additively: ``multiply(s, P)`` is s * P, ``add(P, Q)`` is P + Q.
Model: elements and scalars are their canonical encodings, bytes of fixed length. libsodium
    multiplies, and computes with scalars, in constant time. Choosing random scalars goes through
    Python integers, which promise nothing of the kind; nothing here is wiped from memory.
Error: none. Random scalars are exactly uniform.
Differs: RFC 9497 lets RandomScalar return zero in its text for ristretto255, and excludes it in
    section 2.1; here it never does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import rbcl

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import Rng

UNIFORM_BYTES = 64
"""Bytes that the maps to elements and to scalars take: enough to hide the reduction."""


class Group(Protocol):
    """A group of prime order. Elements and scalars are bytes: equal ones have equal encodings.

    Scalars that are handed in are canonical; elements may come from anyone.
    """

    @property
    def name(self) -> str:
        """What the identifier of a ciphersuite calls the group."""

    @property
    def order(self) -> int:
        """The prime order."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""

    @property
    def scalar_bytes(self) -> int:
        """Bytes of a scalar, little-endian."""

    @property
    def identity(self) -> bytes:
        """The neutral element."""

    def multiply(self, scalar: bytes, element: bytes) -> bytes:
        """scalar * element; WireError if ``element`` encodes none."""

    def multiply_base(self, scalar: bytes) -> bytes:
        """Scalar times the generator."""

    def add(self, one: bytes, other: bytes) -> bytes:
        """The sum; WireError if one of them encodes no element."""

    def from_uniform(self, data: bytes) -> bytes:
        """The element that 64 uniform bytes map to; nobody knows its logarithm."""

    def reduce(self, data: bytes) -> bytes:
        """The scalar that 64 bytes, little-endian, are modulo the order."""

    def scalar_multiply(self, one: bytes, other: bytes) -> bytes:
        """The product of two scalars."""

    def scalar_subtract(self, one: bytes, other: bytes) -> bytes:
        """The difference of two scalars."""

    def scalar_invert(self, scalar: bytes) -> bytes:
        """The inverse of a scalar that is not zero."""


@dataclass(frozen=True)
class Ristretto255:
    """ristretto255 (RFC 9496); all its objects are equal."""

    name = "ristretto255"
    order = 2**252 + 27742317777372353535851937790883648493
    element_bytes = 32
    scalar_bytes = 32
    identity = bytes(32)

    def multiply(self, scalar: bytes, element: bytes) -> bytes:
        """scalar * element; WireError if ``element`` encodes none. Constant time but for refusals.

        scalar: canonical, 32 bytes.
        """
        try:
            product: bytes = rbcl.crypto_scalarmult_ristretto255(scalar, element)
        except RuntimeError:
            # libsodium refuses the identity as a result and what does not decode alike.
            self._check(element)
            return self.identity
        return product

    def multiply_base(self, scalar: bytes) -> bytes:
        """Scalar times the generator, from libsodium's table of its multiples."""
        product: bytes = rbcl.crypto_scalarmult_ristretto255_base_allow_scalar_zero(scalar)
        return product

    def add(self, one: bytes, other: bytes) -> bytes:
        """The sum; WireError if one of them encodes no element."""
        total: bytes = rbcl.crypto_core_ristretto255_add(one, other)
        if total == self.identity:
            # rbcl drops the error of libsodium and returns zeros, the encoding of the identity.
            self._check(one)
            self._check(other)
        return total

    def from_uniform(self, data: bytes) -> bytes:
        """The one-way map of RFC 9496 section 4.3.4, from 64 bytes."""
        element: bytes = rbcl.crypto_core_ristretto255_from_hash(data)
        return element

    def reduce(self, data: bytes) -> bytes:
        """The scalar that 64 bytes, little-endian, are modulo the order."""
        scalar: bytes = rbcl.crypto_core_ristretto255_scalar_reduce(data)
        return scalar

    def scalar_multiply(self, one: bytes, other: bytes) -> bytes:
        """The product of two scalars."""
        product: bytes = rbcl.crypto_core_ristretto255_scalar_mul(one, other)
        return product

    def scalar_subtract(self, one: bytes, other: bytes) -> bytes:
        """The difference of two scalars."""
        difference: bytes = rbcl.crypto_core_ristretto255_scalar_sub(one, other)
        return difference

    def scalar_invert(self, scalar: bytes) -> bytes:
        """The inverse of a scalar that is not zero."""
        inverse: bytes = rbcl.crypto_core_ristretto255_scalar_invert(scalar)
        return inverse

    def _check(self, element: bytes) -> None:
        if not rbcl.crypto_core_ristretto255_is_valid_point(element):
            raise WireError("32 bytes encode no element of ristretto255")


RISTRETTO255 = Ristretto255()


def check_elements(group: Group, elements: Sequence[bytes]) -> None:
    """Refuse what has not the form of an element, and the identity, with WireError.

    Whether the bytes decode at all, only an operation of the group tells.
    """
    for index, element in enumerate(elements):
        if not isinstance(element, bytes) or len(element) != group.element_bytes:
            size = f"{len(element)} bytes" if isinstance(element, bytes) else type(element).__name__
            raise WireError(f"element {index} must be {group.element_bytes} bytes, got {size}")
        if element == group.identity:
            raise WireError(f"element {index} is the identity")


def sum_of(group: Group, elements: Sequence[bytes]) -> bytes:
    """The sum of at least one element."""
    total = elements[0]
    for element in elements[1:]:
        total = group.add(total, element)
    return total


def is_scalar(group: Group, data: bytes) -> bool:
    """Whether the bytes are the one encoding of a scalar, zero included."""
    return len(data) == group.scalar_bytes and int.from_bytes(data, "little") < group.order


def random_scalars(group: Group, count: int, rng: Rng) -> list[bytes]:
    """``count`` scalars, independent and uniform over all but zero (RFC 9497 section 4.7.1).

    Takes scalar_bytes of ``rng`` for each, with the bits above the order's highest cleared, then
    as many again for each that is zero or not below the order, until none is left.
    """
    size, top = group.scalar_bytes, (1 << group.order.bit_length()) - 1
    scalars = [b""] * count
    missing = list(range(count))
    while missing:
        data = rng.bytes(size * len(missing))
        refused = []
        for place, index in enumerate(missing):
            candidate = int.from_bytes(data[size * place : size * (place + 1)], "little") & top
            if 0 < candidate < group.order:
                scalars[index] = candidate.to_bytes(size, "little")
            else:
                refused.append(index)
        missing = refused
    return scalars


def invert_all(group: Group, scalars: Sequence[bytes]) -> list[bytes]:
    """The inverses of all scalars by one inversion and three products for each further scalar.

    Source: Montgomery, Mathematics of Computation 48 (1987), section 10.3.1.
    Raises ParameterError where one of them is zero.
    """
    integer("the number of scalars", len(scalars), 1, 1 << 32)
    products = [scalars[0]]
    for scalar in scalars[1:]:
        products.append(group.scalar_multiply(products[-1], scalar))
    if not any(products[-1]):
        raise ParameterError("zero has no inverse")
    rest = group.scalar_invert(products[-1])
    inverses = [b""] * len(scalars)
    for index in range(len(scalars) - 1, 0, -1):
        inverses[index] = group.scalar_multiply(rest, products[index - 1])
        rest = group.scalar_multiply(rest, scalars[index])
    inverses[0] = rest
    return inverses
