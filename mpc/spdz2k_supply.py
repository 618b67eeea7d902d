"""Correlated randomness with MACs: what a trusted dealer makes for ``mpc.spdz2k`` beforehand.

Source: Cramer, Damgard, Escudero, Scholl and Xing, "SPDZ2k" (CRYPTO 2018), for numbers of k bits
    shared with their MACs modulo 2^(k+s); seeds in place of shares as in ``mpc.supply``.
Model: the dealer is trusted and sees no input; up to n-1 parties are malicious. A key, a mask or a
    triple serves once.
Leaks: which items are asked for, in which order: a public function of the program.
Differs: the paper's parties make all this among themselves, by oblivious transfers, and sacrifice
    half of the triples. A mask of several inputs that are only added up comes as the sum of their
    masks: nobody needs a share of a single one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wide_ring import WideRing
from mpc.programs import Seats
from mpc.supply import Dims, Item, Shares, deal

MAX_BITS = 64


@dataclass(frozen=True)
class Sizes:
    """k bits of data and s bits of security, both in [1, 64]; shares and MACs have k + s."""

    k: int
    s: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 1, MAX_BITS))
        object.__setattr__(self, "s", integer("s", self.s, 1, MAX_BITS))

    @cached_property
    def ring(self) -> Ring:
        """Z_{2^(k+s)}: one machine word up to 64 bits, two beyond."""
        bits = self.k + self.s
        return Ring(bits) if bits <= MAX_BITS else WideRing(bits)

    @cached_property
    def data(self) -> Ring:
        """Z_{2^k}."""
        return Ring(self.k)

    @property
    def failure(self) -> Fraction:
        """The probability with which an altered opening passes a check, at most."""
        return Fraction(self.s + 1, 1 << self.s)

    def lift(self, x: RingArray) -> RingArray:
        """Data elements as elements of the large ring, whose upper s bits are zero."""
        return self.ring.reduce(self.data.check(x))

    def lower(self, x: RingArray) -> RingArray:
        """The data in elements of the large ring: modulo 2^k."""
        words = self.ring.low_words(x) if isinstance(self.ring, WideRing) else x
        return self.data.reduce(words)

    def top(self, x: RingArray) -> RingArray:
        """2^k x, whose lower k bits are zero."""
        return self.ring.mul(x, self.ring.reduce(1 << self.k))


@dataclass(frozen=True)
class Random(Item):
    """Uniform elements that nobody knows."""

    shape: Dims

    @property
    def free(self) -> tuple[Dims, ...]:
        """The elements."""
        return (self.shape,)

    @property
    def bound(self) -> tuple[Dims, ...]:
        """Nothing."""
        return ()

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        return ()


@dataclass(frozen=True, eq=False)
class WithMacs(Item):
    """An item with the MAC of every component behind its own bound ones.

    alpha: the key, (*b), the first axes of every component; a party holds the item without it.
    """

    item: Item
    alpha: RingArray | None = field(default=None, repr=False)

    @property
    def free(self) -> tuple[Dims, ...]:
        """Those of the item."""
        return self.item.free

    @property
    def bound(self) -> tuple[Dims, ...]:
        """Those of the item, then a MAC for each free and each bound component."""
        return (*self.item.bound, *self.item.free, *self.item.bound)

    def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
        """See ``Item.follow``."""
        if self.alpha is None:
            raise ParameterError("only the dealer knows the key")
        bound = self.item.follow(free, ring)
        return (*bound, *(ring.mul(spread(self.alpha, x.ndim), x) for x in (*free, *bound)))


def spread(key: RingArray, ndim: int) -> RingArray:
    """A key with axes of length 1 behind its own, up to ``ndim``."""
    return key.reshape((*key.shape, *(1,) * (ndim - key.ndim)))


@dataclass(frozen=True, eq=False)
class Authenticated:
    """Shares of numbers and of their MACs, both (present, *b, *s)."""

    value: RingArray = field(repr=False)
    mac: RingArray = field(repr=False)

    @property
    def shape(self) -> Dims:
        """(*b, *s): the shape of the numbers."""
        return tuple(self.value.shape[1:])


@dataclass(frozen=True, eq=False)
class Masks:
    """Uniform masks that single parties know, and their sum, which is shared.

    total: shares of the sum of all masks.  inputs: those of the owners who are present, (*b, *s) in
    the large ring.  output: the lower k bits of the output's mask, where its party is present; its
    upper s bits are known to nobody.
    """

    total: Authenticated
    inputs: dict[int, RingArray] = field(repr=False)
    output: RingArray | None = field(repr=False)


class MacSupply(ABC):
    """Where a session takes its key, masks and triples from; each serves once.

    batch: *b, the leading axes of all arrays: computations side by side, each with a key of its
        own. () for a single one.
    alpha: shares of the key, (present, *b).
    What is taken is the taker's own, to be overwritten at will.
    """

    seats: Seats
    sizes: Sizes
    batch: Dims
    alpha: RingArray

    @abstractmethod
    def take(self, item: Item) -> tuple[Authenticated, ...]:
        """The next item: its free components, then its bound ones, with their MACs."""

    @abstractmethod
    def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
        """Masks of inputs and of an output, shared as their sum (*b, *s); see ``Masks``.

        owners: who bring an input each.  party: to whom an output is to go, if any.
        """


def split(shares: Shares, item: Item) -> tuple[Authenticated, ...]:
    """The components of ``item``, dealt as ``WithMacs``, with their MACs."""
    values = (*shares.free, *shares.bound[: len(item.bound)])
    macs = shares.bound[len(item.bound) :]
    return tuple(Authenticated(v, m) for v, m in zip(values, macs, strict=True))


def check_parties(owners: Sequence[int], party: int | None, n: int) -> None:
    """ParameterError unless the owners are distinct parties of the n, and ``party`` is one."""
    named = (*owners, *(() if party is None else (party,)))
    if len(set(owners)) != len(owners) or not all(0 <= each < n for each in named):
        raise ParameterError(f"owners of inputs are distinct, all parties lie in [0, {n})")


class LocalMacDealer(MacSupply):
    """The dealer and all n parties in one process.

    streams: where what each party holds is drawn from; by default all from ``rng``, from which the
        dealer also draws what nobody knows.
    """

    def __init__(
        self,
        n: int,
        sizes: Sizes,
        *,
        batch: Dims = (),
        rng: Rng = SYSTEM_RNG,
        streams: Sequence[Rng] | None = None,
    ) -> None:
        self.seats = Seats(n)
        self.sizes = sizes
        self.batch = batch
        self._rng = rng
        self._streams = [rng] * n if streams is None else list(streams)
        (self.alpha,) = deal(Random(batch), n, sizes.ring, self._streams).free
        self._key = sizes.ring.sum(self.alpha, axis=0)

    def take(self, item: Item) -> tuple[Authenticated, ...]:
        """See ``MacSupply.take``."""
        return split(self._deal(item), item)

    def _deal(self, item: Item) -> Shares:
        return deal(WithMacs(item, self._key), self.seats.n, self.sizes.ring, self._streams)

    def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
        """See ``MacSupply.take_masks``."""
        n, ring = self.seats.n, self.sizes.ring
        check_parties(owners, party, n)
        output, total = None, ring.reduce(np.zeros(shape, np.uint8))
        if party is not None:
            output = self.sizes.data.random(shape, self._streams[party])
            upper = self.sizes.top(ring.random(shape, self._rng))
            ring.add(self.sizes.lift(output), upper, out=total)
        # For each party her mask, her share and her share of the MAC, drawn in one go.
        space = np.empty((n, 3, *shape), ring.dtype)
        for seat, stream in enumerate(self._streams):
            ring.fill(space[seat, drawn_components(seat in owners, seat == n - 1)], stream)
        inputs = {owner: space[owner, 0, ...] for owner in owners}
        for mask in inputs.values():
            ring.add(total, mask, out=total)
        return Masks(self._shared(space[:, 1:], total), inputs, output)

    def _shared(self, rows: RingArray, secret: RingArray) -> Authenticated:
        """Shares of ``secret`` and of its MAC: (n, 2, *s), of which the last row is still empty."""
        ring = self.sizes.ring
        mac = ring.mul(spread(self._key, secret.ndim), secret)
        for component, value in enumerate((secret, mac)):
            others = ring.sum(rows[:-1, component], axis=0)
            rows[-1, component] = ring.sub(value, others, out=others)
        return Authenticated(rows[:, 0], rows[:, 1])


def drawn_components(is_told: bool, is_last: bool) -> slice:
    """Which of (mask, share, share of the MAC) a party draws; the last one's shares are bound."""
    return slice(0 if is_told else 1, 1 if is_last else 3)
