"""Groups for the tests of the oblivious PRF: a small one to enumerate, and one that counts."""

from collections import Counter
from dataclasses import dataclass, field

from mpc.core.errors import WireError
from mpc.oprf_group import RISTRETTO255, Group


@dataclass(frozen=True)
class ToyGroup:
    """The subgroup of prime order 31 of the integers modulo 311, written additively."""

    name = "toy"
    order = 31
    element_bytes = 2
    scalar_bytes = 1
    identity = (1).to_bytes(2, "big")

    modulus = 311
    generator = pow(17, 10, 311)

    def multiply(self, scalar: bytes, element: bytes) -> bytes:
        power = pow(self._decode(element), scalar[0], self.modulus)
        return power.to_bytes(2, "big")

    def multiply_base(self, scalar: bytes) -> bytes:
        return self.multiply(scalar, self.generator.to_bytes(2, "big"))

    def add(self, one: bytes, other: bytes) -> bytes:
        product = self._decode(one) * self._decode(other) % self.modulus
        return product.to_bytes(2, "big")

    def from_uniform(self, data: bytes) -> bytes:
        return self.multiply_base(self.reduce(data))

    def reduce(self, data: bytes) -> bytes:
        return bytes([int.from_bytes(data, "little") % self.order])

    def scalar_multiply(self, one: bytes, other: bytes) -> bytes:
        return bytes([one[0] * other[0] % self.order])

    def scalar_subtract(self, one: bytes, other: bytes) -> bytes:
        return bytes([(one[0] - other[0]) % self.order])

    def scalar_invert(self, scalar: bytes) -> bytes:
        return bytes([pow(scalar[0], -1, self.order)])

    def elements(self) -> list[bytes]:
        """All elements but the identity."""
        return [self.multiply_base(bytes([n])) for n in range(1, self.order)]

    def _decode(self, element: bytes) -> int:
        number = int.from_bytes(element, "big")
        if not 0 < number < self.modulus or pow(number, self.order, self.modulus) != 1:
            raise WireError("bytes encode no element of the toy group")
        return number


@dataclass
class CountingGroup:
    """Another group, and how often each of its operations was called."""

    inner: Group = RISTRETTO255
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def order(self) -> int:
        return self.inner.order

    @property
    def element_bytes(self) -> int:
        return self.inner.element_bytes

    @property
    def scalar_bytes(self) -> int:
        return self.inner.scalar_bytes

    @property
    def identity(self) -> bytes:
        return self.inner.identity

    def multiply(self, scalar: bytes, element: bytes) -> bytes:
        self.calls["multiply"] += 1
        return self.inner.multiply(scalar, element)

    def multiply_base(self, scalar: bytes) -> bytes:
        self.calls["multiply_base"] += 1
        return self.inner.multiply_base(scalar)

    def add(self, one: bytes, other: bytes) -> bytes:
        self.calls["add"] += 1
        return self.inner.add(one, other)

    def from_uniform(self, data: bytes) -> bytes:
        self.calls["from_uniform"] += 1
        return self.inner.from_uniform(data)

    def reduce(self, data: bytes) -> bytes:
        self.calls["reduce"] += 1
        return self.inner.reduce(data)

    def scalar_multiply(self, one: bytes, other: bytes) -> bytes:
        self.calls["scalar_multiply"] += 1
        return self.inner.scalar_multiply(one, other)

    def scalar_subtract(self, one: bytes, other: bytes) -> bytes:
        self.calls["scalar_subtract"] += 1
        return self.inner.scalar_subtract(one, other)

    def scalar_invert(self, scalar: bytes) -> bytes:
        self.calls["scalar_invert"] += 1
        return self.inner.scalar_invert(scalar)
