"""Sharing with MACs over Z_{2^(k+s)}: parties that alter what they send are caught.

A number x of Z_{2^k} is shared modulo 2^(k+s), and so is its MAC alpha x, under a key alpha that is
shared too and that nobody knows. What was opened is checked in one batch before a result counts.

Source: Cramer, Damgard, Escudero, Scholl and Xing, "SPDZ2k: efficient MPC mod 2^k for dishonest
    majority" (CRYPTO 2018). Names: k, s, alpha as there; the checked values are z_j, their MACs
    m_j, the coins chi_j.
Model: malicious; n-1 parties collude and see honest messages of a step before they send their own.
    Key, MACs, masks and triples come from a trusted dealer. Channels authenticate.
Leaks: what is opened. An abort may depend on the attacker's choice alone, and on nothing secret.
Error: an altered opening passes with a probability of at most (s+1) 2^-s in each batch.
Rounds: an opening takes one; the check of a batch takes four.
Differs: a dealer takes the place of the paper's oblivious transfers and sacrifice. There is no
    protection against a lie about one's own input, and no fairness: who aborts last may have seen
    the result.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError, StateError
from mpc.core.keys import label
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import Open, Program, Seats, Tell
from mpc.supply import Dims, Item, Product, Shares, deal

DIGEST_BYTES = 32
_COIN_BYTES = SEED_BYTES


@dataclass(frozen=True)
class Sizes:
    """k bits of data and s bits of security, in one ring of k + s <= 64 bits."""

    k: int
    s: int

    def __post_init__(self) -> None:
        integer("k", self.k, 1, 63)
        integer("s", self.s, 1, 64 - self.k)

    @property
    def ring(self) -> Ring:
        """Z_{2^(k+s)}."""
        return Ring(self.k + self.s)

    @property
    def data(self) -> Ring:
        """Z_{2^k}."""
        return Ring(self.k)

    def lift(self, x: RingArray) -> RingArray:
        """Data elements as elements of the large ring."""
        return self.data.check(x).astype(self.ring.dtype)

    def lower(self, x: RingArray) -> RingArray:
        """The data in elements of the large ring: modulo 2^k."""
        return self.data.reduce(x)


@dataclass(frozen=True)
class Random(Item):
    """Uniform elements of the large ring."""

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
    """An item with the MAC of every component behind its own bound ones."""

    item: Item
    alpha: RingArray = field(repr=False)

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
        bound = self.item.follow(free, ring)
        return (*bound, *(ring.mul(self.alpha, x) for x in (*free, *bound)))


@dataclass(frozen=True, eq=False)
class Authenticated:
    """Shares of numbers and of their MACs, both (present, *s)."""

    value: RingArray = field(repr=False)
    mac: RingArray = field(repr=False)


class MacSupply:
    """A trusted dealer and all n parties in one process: key, masks and triples with MACs.

    alpha: shares of the key, (n,).
    """

    def __init__(self, n: int, sizes: Sizes, *, rng: Rng = SYSTEM_RNG) -> None:
        self.seats = Seats(n)
        self.sizes = sizes
        self._rng = rng
        self.alpha = sizes.ring.random((n,), rng)
        self._alpha = sizes.ring.sum(self.alpha, axis=0)

    def take(self, item: Item) -> tuple[Authenticated, ...]:
        """The next item: its free components, then its bound ones, with their MACs."""
        shares = self._deal(item)
        values = (*shares.free, *shares.bound[: len(item.bound)])
        macs = shares.bound[len(item.bound) :]
        return tuple(Authenticated(v, m) for v, m in zip(values, macs, strict=True))

    def take_input(self, shape: Dims, party: int) -> tuple[Authenticated, RingArray | None]:
        """A mask that is known to ``party``: its shares, and the mask where she is present."""
        (mask,) = self.take(Random(shape))
        known = self.sizes.ring.sum(mask.value, axis=0) if party in self.seats.present else None
        return mask, known

    def _deal(self, item: Item) -> Shares:
        n = self.seats.n
        return deal(WithMacs(item, self._alpha), n, self.sizes.ring, [self._rng] * n)


class MacSession:
    """One computation with MACs: its openings wait for ``check``, before which no result counts.

    supply: where key shares, masks and triples come from.  rng: for the coins of the check.
    """

    def __init__(self, supply: MacSupply, *, rng: Rng = SYSTEM_RNG) -> None:
        self.supply = supply
        self.sizes = supply.sizes
        self.ring = supply.sizes.ring
        self._rng = rng
        self._opened: list[RingArray] = []
        self._macs: list[RingArray] = []
        self._transcript = hashlib.sha256(label("mpc.spdz2k.transcript"))
        self._is_over = False

    def add(self, x: Authenticated, y: Authenticated) -> Authenticated:
        """x + y: no message."""
        ring = self.ring
        return Authenticated(ring.add(x.value, y.value), ring.add(x.mac, y.mac))

    def sub(self, x: Authenticated, y: Authenticated) -> Authenticated:
        """x - y: no message."""
        ring = self.ring
        return Authenticated(ring.sub(x.value, y.value), ring.sub(x.mac, y.mac))

    def scale(self, x: Authenticated, factor: RingArray) -> Authenticated:
        """x times public elements: no message."""
        ring = self.ring
        return Authenticated(ring.mul(x.value, factor), ring.mul(x.mac, factor))

    def add_public(self, x: Authenticated, value: RingArray) -> Authenticated:
        """x + public elements: party 0 adds them, everybody adds her part to the MAC."""
        ring = self.ring
        key = self.supply.alpha.reshape(-1, *(1,) * np.ndim(value))
        mac = ring.add(x.mac, ring.mul(key, value))
        return Authenticated(self.supply.seats.add_public(x.value, value, ring), mac)

    def input(
        self, shape: Dims, mine: dict[int, RingArray], owners: Sequence[int]
    ) -> Program[list[Authenticated]]:
        """Shares of the data that each of ``owners`` brings: one step.

        mine: the data of the owners who are present, elements of Z_{2^k} (*shape).
        """
        self._expect_open()
        ring, seats = self.ring, self.supply.seats
        masks = [self.supply.take_input(shape, owner) for owner in owners]
        size = int(np.prod(shape, dtype=np.int64)) * ring.element_bytes()
        payloads = dict.fromkeys(seats.present, b"")
        for owner, (_, known) in zip(owners, masks, strict=True):
            if known is not None:
                masked = ring.sub(self.sizes.lift(mine[owner]), known)
                payloads[owner] += ring.to_bytes(masked)
        counts = [sum(owner == party for owner in owners) for party in range(seats.n)]
        told = yield Tell(tuple(size * c for c in counts), tuple(payloads.values()))
        self._note(*told)
        taken = [0] * seats.n
        inputs = []
        for owner, (mask, _) in zip(owners, masks, strict=True):
            data = told[owner][taken[owner] : taken[owner] + size]
            taken[owner] += size
            inputs.append(self.add_public(mask, ring.from_bytes(data, shape)))
        return inputs

    def multiply(self, x: Authenticated, y: Authenticated) -> Program[Authenticated]:
        """x y, element by element: one step."""
        a, b, c = self.supply.take(Product(x.value.shape[1:]))
        d, e = yield from self._open(self.sub(x, a), self.sub(y, b))
        z = self.add(c, self.add(self.scale(b, d), self.scale(a, e)))
        return self.add_public(z, self.ring.mul(d, e))

    def open(self, x: Authenticated) -> Program[RingArray]:
        """The data of x, to everybody, unchecked until ``check``: elements of Z_{2^k}.

        The upper s bits, which tell how x came about, are masked.
        """
        (mask,) = self.supply.take(Random(x.value.shape[1:]))
        top = self.scale(mask, self.ring.reduce(1 << self.sizes.k))
        (opened,) = yield from self._open(self.add(x, top))
        return self.sizes.lower(opened)

    def _open(self, *values: Authenticated) -> Program[tuple[RingArray, ...]]:
        self._expect_open()
        opened: tuple[RingArray, ...] = yield Open(self.ring, tuple(v.value for v in values))
        self._note(*(self.ring.to_bytes(z) for z in opened))
        self._opened += [z.reshape(-1) for z in opened]
        self._macs += [v.mac.reshape(len(v.mac), -1) for v in values]
        return opened

    def check(self) -> Program[None]:
        """Whether all that was opened is right: four steps. AbortError if not; no use after it."""
        self._expect_open()
        self._is_over = True
        if not self._opened:
            return
        ring = self.ring
        rows = len(self.supply.seats.present)
        seeds = yield from self._committed([self._rng.bytes(_COIN_BYTES) for _ in range(rows)])
        z, macs = np.concatenate(self._opened), np.concatenate(self._macs, axis=1)
        joint = hashlib.sha256(label("mpc.spdz2k.coins", *seeds)).digest()
        chi = coins(z.size, self.sizes, Prg(joint))
        sigma = residue(self.supply.alpha, z, macs, chi, ring)
        parts = yield from self._committed([ring.to_bytes(each) for each in sigma])
        total = ring.sum([ring.from_bytes(part, ()) for part in parts])
        if total != 0:
            raise AbortError(
                "a MAC does not fit: somebody altered what was opened",
                remedy="use none of the results of this computation",
            )

    def _committed(self, mine: list[bytes]) -> Program[tuple[bytes, ...]]:
        """Everybody's byte strings of one size, told by nobody before all have committed."""
        n, size = self.supply.seats.n, len(mine[0])
        seen = self._transcript.digest()
        sealed = [value + self._rng.bytes(DIGEST_BYTES) for value in mine]
        present = self.supply.seats.present
        commitments = tuple(
            _commitment(seen, party, value) for party, value in zip(present, sealed, strict=True)
        )
        before = yield Tell((DIGEST_BYTES,) * n, commitments)
        self._note(*before)
        after = yield Tell((size + DIGEST_BYTES,) * n, tuple(sealed))
        self._note(*after)
        for party, (commitment, value) in enumerate(zip(before, after, strict=True)):
            # Made over all that was seen so far: who was told something else is found out here.
            if not hmac.compare_digest(commitment, _commitment(seen, party, value)):
                raise AbortError(
                    f"party {party} did not open what she had committed to, or has seen other "
                    "messages",
                    remedy="use none of the results of this computation",
                )
        return tuple(value[:size] for value in after)

    def _note(self, *parts: bytes) -> None:
        for part in parts:
            self._transcript.update(len(part).to_bytes(8, "big") + part)

    def _expect_open(self) -> None:
        if self._is_over:
            raise StateError("this computation has been checked and is over")


def coins(count: int, sizes: Sizes, rng: Rng) -> RingArray:
    """chi: uniform in [0, 2^s), (count,), in the dtype of the large ring."""
    drawn = rng.words((count,), sizes.ring.dtype)
    return np.bitwise_and(drawn, sizes.ring.dtype.type((1 << sizes.s) - 1))


def residue(
    alpha: RingArray, z: RingArray, macs: RingArray, chi: RingArray, ring: Ring
) -> RingArray:
    """sigma of every party present: its share of sum_j chi_j (m_j - alpha z_j), which is zero.

    alpha (p, ...), z and chi (m, ...), macs (p, m, ...): leading axes of parties and openings, then
    any others, which broadcast.
    """
    combined = ring.sum(ring.mul(chi, z), axis=0)
    return ring.sub(ring.sum(ring.mul(chi, macs), axis=1), ring.mul(alpha, combined))


def _commitment(seen: bytes, party: int, value: bytes) -> bytes:
    if len(seen) != DIGEST_BYTES:
        raise ParameterError("a transcript's digest has 32 bytes")
    return hashlib.sha256(label("mpc.spdz2k.commitment", seen, party, value)).digest()
