"""What the dealer of ``mpc.spdz2k`` sends to each party before a computation: a seed, as a rule.

    dealer = KitDealer(n, sizes, session)
    dealer.take_masks((dim,), owners)  # the items that the program will ask for, in its order
    kits = dealer.kits()  # one for each party, by a channel that hides it
    supply = KitSupply(kits[2])  # at party 2

Source: as ``mpc.spdz2k_supply``. A party expands all that it holds from its seed; only the last one
    needs a correction for each bound component.
Model: the channel from the dealer hides and authenticates kits. A kit serves one computation: who
    used it a second time would give away the differences of its inputs. It names its session, and
    the object that holds it can be neither copied nor pickled; keep no copy of its bytes.
Leaks: a kit's length, which is a public function of the program.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError
from mpc.core.keys import label
from mpc.core.prg import SEED_BYTES, Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.programs import MAX_PARTIES, SESSION_BYTES, Seats
from mpc.spdz2k_supply import (
    Authenticated,
    LocalMacDealer,
    MacSupply,
    Masks,
    Random,
    Sizes,
    WithMacs,
    drawn_components,
    split,
)
from mpc.supply import Dims, Item, expand


class MacKit(Message, frozen=True, tag="spdz2k.kit"):
    """One party's part of all items of one computation.

    session: 16 bytes.  seat: of the party, below n.  k, s: see ``Sizes``.  items: the names of the
    items, in order.  corrections: of the bound components, for the last party alone.
    """

    session: bytes
    seat: int
    n: int
    k: int
    s: int
    seed: bytes
    items: tuple[bytes, ...]
    corrections: bytes

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        if len(self.session) != SESSION_BYTES or len(self.seed) != SEED_BYTES:
            raise ParameterError(f"session has {SESSION_BYTES} bytes, seed {SEED_BYTES}")
        integer("n", self.n, 2, MAX_PARTIES)
        integer("seat", self.seat, 0, self.n - 1)
        Sizes(self.k, self.s)
        if self.corrections and self.seat < self.n - 1:
            raise ParameterError("only the last party has corrections")


class KitDealer(LocalMacDealer):
    """The dealer for parties elsewhere: it takes their items itself, and ends with their kits."""

    def __init__(
        self,
        n: int,
        sizes: Sizes,
        session: bytes,
        *,
        rng: Rng = SYSTEM_RNG,
        prg: PrgFactory = Prg,
    ) -> None:
        n = integer("n", n, 2, MAX_PARTIES)
        self._seeds = [rng.bytes(SEED_BYTES) for _ in range(n)]
        super().__init__(n, sizes, rng=rng, streams=[prg(seed, 0) for seed in self._seeds])
        self._session = session
        self._items: list[bytes] = []
        self._corrections: list[bytes] = []
        self._is_over = False

    def take(self, item: Item) -> tuple[Authenticated, ...]:
        """See ``MacSupply.take``."""
        self._note(item.name)
        shares = self._deal(item)
        self._correct(rows[-1] for rows in shares.bound)
        return split(shares, item)

    def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
        """See ``MacSupply.take_masks``."""
        self._note(masks_name(shape, owners, party))
        masks = super().take_masks(shape, owners, party)
        self._correct((masks.total.value[-1], masks.total.mac[-1]))
        return masks

    def _note(self, name: bytes) -> None:
        if self._is_over:
            raise StateError("the kits have been made up already")
        self._items.append(name)

    def _correct(self, last: Iterable[RingArray]) -> None:
        self._corrections += [self.sizes.ring.to_bytes(row) for row in last]

    def kits(self) -> tuple[MacKit, ...]:
        """The parties' kits, in their order, with all items taken so far. Ends the dealing."""
        self._is_over = True
        k, s, n, items = self.sizes.k, self.sizes.s, self.seats.n, tuple(self._items)
        rest = b"".join(self._corrections)
        return tuple(
            MacKit(self._session, p, n, k, s, seed, items, rest if p == n - 1 else b"")
            for p, seed in enumerate(self._seeds)
        )

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a KitDealer holds seeds and is not picklable")


class KitSupply(MacSupply):
    """One party's supply, from her kit. StateError for an item that is not the kit's next."""

    def __init__(self, kit: MacKit, *, prg: PrgFactory = Prg) -> None:
        self.seats = Seats(kit.n, kit.seat)
        self.sizes = Sizes(kit.k, kit.s)
        self.batch = ()
        self.session = kit.session
        self._seat = kit.seat
        self._stream = prg(kit.seed, 0)
        self._items = list(kit.items[::-1])
        self._corrections, self._used = kit.corrections, 0
        (self.alpha,) = expand(Random(()), kit.seat, kit.n, self.sizes.ring, self._stream).free

    def take(self, item: Item) -> tuple[Authenticated, ...]:
        """See ``MacSupply.take``."""
        self._expect(item.name)
        n, ring = self.seats.n, self.sizes.ring
        shares = expand(WithMacs(item), self._seat, n, ring, self._stream)
        if self._seat == n - 1:
            for rows in shares.bound:
                rows[0] = self._correction(rows.shape[1:])
        return split(shares, item)

    def take_masks(self, shape: Dims, owners: Sequence[int], party: int | None = None) -> Masks:
        """See ``MacSupply.take_masks``."""
        self._expect(masks_name(shape, owners, party))
        seat, is_last, ring = self._seat, self._seat == self.seats.n - 1, self.sizes.ring
        output = self.sizes.data.random(shape, self._stream) if party == seat else None
        mine = np.empty((3, *shape), ring.dtype)
        ring.fill(mine[drawn_components(seat in owners, is_last)], self._stream)
        if is_last:
            mine[1], mine[2] = self._correction(shape), self._correction(shape)
        inputs = {seat: mine[0, ...]} if seat in owners else {}
        return Masks(Authenticated(mine[1:2], mine[2:]), inputs, output)

    def _expect(self, name: bytes) -> None:
        if not self._items or self._items[-1] != name:
            raise StateError(
                "the kit's next item is another one",
                remedy="let the dealer take the items that the program asks for, in its order",
            )
        self._items.pop()

    def _correction(self, shape: Dims) -> RingArray:
        ring = self.sizes.ring
        size = math.prod(shape) * ring.element_bytes()
        data = self._corrections[self._used : self._used + size]
        self._used += size
        return ring.from_bytes(data, shape)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a KitSupply serves once and can be neither copied nor pickled")


def masks_name(shape: Dims, owners: Sequence[int], party: int | None) -> bytes:
    """What ``take_masks`` is asked for, as bytes, which no other item has."""
    outputs = () if party is None else (party,)
    return label("mpc.spdz2k.masks", len(owners), *owners, len(outputs), *outputs, *shape)
