"""Correlated randomness: what a trusted dealer makes beforehand, each item used once.

Every item has *free* components, which are uniform, and *bound* ones, which are a function of the
free ones: for a triple, a and b are free and c = a b is bound. All are shared additively: each
party draws her shares, and only the last one's of bound components are corrections that the dealer
computes. ``LocalDealer`` is dealer and parties in one process; ``mpc.supply_seeds`` and
``mpc.supply_files`` deal to parties elsewhere, ``mpc.paillier_triples`` does without a dealer.

Source: Beaver (CRYPTO 1991) for triples from a dealer.
Model: the dealer is trusted and sees no input; n-1 parties collude. Perfect given uniform bytes. An
    item that serves twice gives away the difference of two secrets, so a supply hands every item
    out once.
Leaks: which items are asked for, in which order: a public function of the program.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import label
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import MAX_PARTIES, Seats, pieces

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

    @property
    def is_elementwise(self) -> bool:
        """Whether all components have one shape and ``follow`` takes any part of it by itself."""
        return False

    @property
    def name(self) -> bytes:
        """Kind and size as bytes, which no other item has."""
        shapes = (*self.free, *self.bound)
        numbers = [number for shape in shapes for number in (len(shape), *shape)]
        return label(f"mpc.supply.{type(self).__name__}", len(self.free), *numbers)


@dataclass(frozen=True, eq=False)
class Shares:
    """The components' shares, each (present, *s): the taker's own, to be overwritten at will."""

    free: tuple[RingArray, ...] = field(repr=False)
    bound: tuple[RingArray, ...] = field(repr=False)

    def of(self, row: int) -> "Shares":
        """A view of one row, (1, *s) for each component."""
        free, bound = ([rows[row : row + 1] for rows in part] for part in (self.free, self.bound))
        return Shares(tuple(free), tuple(bound))


class Supply(Protocol):
    """Where a program takes its items from."""

    @property
    def seats(self) -> Seats:
        """Whose shares ``take`` returns."""

    def take(self, item: Item) -> Shares:
        """The next item, which nobody gets again; all parties ask in the same order."""


def deal(item: Item, n: int, ring: Ring, rngs: Sequence[Rng]) -> Shares:
    """All n parties' shares of one item, the shares of party j drawn from ``rngs[j]``.

    An elementwise item is dealt piece by piece (``pieces``). In each, every party draws her free
    components, then, but for the last party, her bound ones.
    Raises ParameterError unless there is a generator for each of 2 to 2^16 parties.
    """
    n = integer("n", n, 2, MAX_PARTIES)
    if len(rngs) != n:
        raise ParameterError(f"{n} parties draw from as many generators, got {len(rngs)}")
    shares = _empty(item, n, ring)
    for free, bound in _parts(item, shares, ring):
        totals = [np.zeros_like(rows[0, ...]) for rows in free]
        for party, rng in enumerate(rngs):
            mine = [rows[party, ...] for rows in free]
            _draw(mine, [] if party == n - 1 else [rows[party, ...] for rows in bound], ring, rng)
            for total, own in zip(totals, mine, strict=True):
                ring.add(total, own, out=total)
        for rows, secret in zip(bound, item.follow(totals, ring), strict=True):
            correction = rows[n - 1, ...]
            correction[...] = secret
            for other in rows[:-1]:
                ring.sub(correction, other, out=correction)
    return shares


def expand(item: Item, party: int, n: int, ring: Ring, rng: Rng) -> Shares:
    """What ``deal`` draws for one ``party``, rows (1, *s); the last one's bound ones stay zero."""
    shares = _empty(item, 1, ring)
    for rows in shares.bound:
        rows[...] = 0
    for free, bound in _parts(item, shares, ring):
        mine = [] if party == n - 1 else [rows[0, ...] for rows in bound]
        _draw([rows[0, ...] for rows in free], mine, ring, rng)
    return shares


def _draw(free: Sequence[RingArray], bound: Sequence[RingArray], ring: Ring, rng: Rng) -> None:
    for own in (*free, *bound):
        ring.fill(own, rng)


def _empty(item: Item, rows: int, ring: Ring) -> Shares:
    free = tuple(np.empty((rows, *shape), ring.dtype) for shape in item.free)
    return Shares(free, tuple(np.empty((rows, *shape), ring.dtype) for shape in item.bound))


Parts = Iterator[tuple[list[RingArray], list[RingArray]]]


def _parts(item: Item, shares: Shares, ring: Ring) -> Parts:
    """Views of the components' rows, (rows, m) each for the m elements of a piece, or whole."""
    if not item.is_elementwise:
        yield list(shares.free), list(shares.bound)
        return
    free, bound = ([rows.reshape(len(rows), -1) for rows in c] for c in (shares.free, shares.bound))
    for piece in pieces(math.prod(item.free[0]), ring):
        yield [rows[:, piece] for rows in free], [rows[:, piece] for rows in bound]


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

    @property
    def name(self) -> bytes:
        """See ``Item.name``."""
        return label("mpc.supply.Truncation", self.frac_bits, *self.shape)

    @property
    def is_elementwise(self) -> bool:
        """Yes."""
        return True

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

    @property
    def is_elementwise(self) -> bool:
        """Yes."""
        return True

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

    @property
    def is_elementwise(self) -> bool:
        """Yes."""
        return True

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
        return (matmul_shape(self.left, self.right),)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        return (np.matmul(*free) & ring.mask,)


def matmul_shape(left: Dims, right: Dims) -> Dims:
    """The shape of numpy's matmul of two shapes; ParameterError where it has none."""
    column = right[-2:-1] if len(right) > 1 else right
    if not left or not right or left[-1:] != column:
        raise ParameterError(f"matrices of shapes {left} and {right} have no product")
    try:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise ParameterError(f"stacks of shapes {left} and {right} do not go together") from None
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
