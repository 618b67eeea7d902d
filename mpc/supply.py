"""Correlated randomness: what a trusted dealer makes beforehand, each item used once.

Every item has *free* components, which are uniform, and *bound* ones, which are a function of the
free ones: for a triple, a and b are free and c = a b is bound. All are shared additively. A party's
shares come from a seed of its own; only the last party needs a correction for each bound component.

Source: Beaver (CRYPTO 1991) for triples from a dealer; seeds in place of shares as in
    ``mpc.additive.share_compressed``.
Model: the dealer is trusted and sees no input; n-1 parties collude. Perfect given uniform bytes,
    computational from seeds. An item that serves twice gives away the difference of two secrets, so
    a supply hands every item out once, and numbers them.
Leaks: which items are asked for, in which order: a public function of the program.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mpc.core.checks import integer
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import MAX_PARTIES, Seats

Dims = tuple[int, ...]


class Item(ABC):
    """A kind and size of correlated randomness; public."""

    @property
    @abstractmethod
    def free(self) -> tuple[Dims, ...]:
        """Shapes of the uniform components."""

    @property
    @abstractmethod
    def bound(self) -> tuple[Dims, ...]:
        """Shapes of the components that follow from them."""

    @abstractmethod
    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """The bound components of free ones."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The components' shares, each (present, *s)."""

    free: tuple[RingArray, ...] = field(repr=False)
    bound: tuple[RingArray, ...] = field(repr=False)


class Supply(Protocol):
    """Where a program takes its items from."""

    @property
    def seats(self) -> Seats:
        """Whose shares ``take`` returns."""

    def take(self, item: Item) -> Shares:
        """The next item, which nobody gets again; all parties ask in the same order."""


def deal(item: Item, n: int, ring: Ring, rngs: Sequence[Rng]) -> Shares:
    """All n parties' shares of one item, the shares of party j drawn from ``rngs[j]``.

    Each party draws its free components, then, but for the last, its bound ones.
    """
    n = integer("n", n, 2, MAX_PARTIES)
    free = tuple(np.empty((n, *shape), ring.dtype) for shape in item.free)
    bound = tuple(np.empty((n, *shape), ring.dtype) for shape in item.bound)
    for party, rng in enumerate(rngs):
        for rows in free if party == n - 1 else (*free, *bound):
            ring.fill(_row(rows, party), rng)
    secrets = item.follow([ring.sum(rows, axis=0) for rows in free], ring)
    for rows, secret in zip(bound, secrets, strict=True):
        # Words wrap, and 2^l divides their modulus.
        correction = np.subtract(secret, rows[:1], out=rows[n - 1 :])
        for party in range(1, n - 1):
            np.subtract(correction, rows[party], out=correction)
        np.bitwise_and(correction, ring.mask, out=correction)
    return Shares(free, bound)


def _row(rows: RingArray, party: int) -> RingArray:
    """A view of one party's row, also where it is a single number."""
    return rows[party] if rows.ndim > 1 else rows[party : party + 1]


class LocalDealer:
    """A dealer and all n parties in one process: the supply of ``programs.together``."""

    def __init__(self, n: int, ring: Ring, *, rng: Rng = SYSTEM_RNG) -> None:
        self.seats = Seats(n)
        self._ring = ring
        self._rng = rng

    def take(self, item: Item) -> Shares:
        """See ``Supply.take``."""
        n = self.seats.n
        return deal(item, n, self._ring, [self._rng] * n)


@dataclass(frozen=True)
class Truncation(Item):
    """For ``mpc.truncation``: r is free; r's bits between f and l-1, and its top bit, are bound."""

    shape: Dims
    frac_bits: int

    @property
    def free(self) -> tuple[Dims, ...]:
        """The mask r."""
        return (self.shape,)

    @property
    def bound(self) -> tuple[Dims, ...]:
        """(r mod 2^(l-1)) >> f, and r >> (l-1)."""
        return (self.shape, self.shape)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        (r,) = free
        word = ring.dtype.type
        below = r & word((1 << (ring.bits - 1)) - 1)
        return below >> word(self.frac_bits), r >> word(ring.bits - 1)


@dataclass(frozen=True)
class Product(Item):
    """A triple for element-wise products: c = a b."""

    shape: Dims

    @property
    def free(self) -> tuple[Dims, ...]:
        """The factors a and b."""
        return (self.shape, self.shape)

    @property
    def bound(self) -> tuple[Dims, ...]:
        """The product c."""
        return (self.shape,)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        return (ring.mul(*free),)


@dataclass(frozen=True)
class Square(Item):
    """A pair for squares: c = a^2."""

    shape: Dims

    @property
    def free(self) -> tuple[Dims, ...]:
        """The number a."""
        return (self.shape,)

    @property
    def bound(self) -> tuple[Dims, ...]:
        """Its square c."""
        return (self.shape,)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        return (ring.mul(free[0], free[0]),)


@dataclass(frozen=True)
class MatrixProduct(Item):
    """A triple for a matrix product: c = a @ b, as numpy multiplies the two shapes."""

    left: Dims
    right: Dims

    @property
    def free(self) -> tuple[Dims, ...]:
        """The factors a and b."""
        return (self.left, self.right)

    @property
    def bound(self) -> tuple[Dims, ...]:
        """The product c."""
        empty = np.empty(self.left, np.bool_), np.empty(self.right, np.bool_)
        return (np.matmul(*empty).shape,)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        return (np.matmul(*free) & ring.mask,)
