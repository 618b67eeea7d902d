"""Items of correlated randomness from a seed for each party, and a correction for the last one.

    dealer = SeedDealer(3, ring, session)
    supply = SeedSupply(dealer.grant(2))  # at party 2, who is the last one
    supply.receive(dealer.correct(Product((1000,))))  # to her alone, one message for each item
    shares = supply.take(Product((1000,)))

Each item has a number, from 0. A party's part of it is the stream of a key that is derived from her
seed, the session, the number and the item's name, read as ``mpc.supply.deal`` reads it. Where two
parties ask for different items they get unrelated numbers and a wrong result, and no stream ever
masks two secrets.

Source: seeds in place of shares as in ``mpc.additive.share_compressed``.
Model: as ``mpc.supply``, and the seeds' secrecy is computational. Grants and corrections reach
    their party by a channel that hides and authenticates them; with a correction, the other n-1
    parties together would know the bound component itself.
Leaks: to the last party the items, in their order; to whoever sees messages their sizes.
Error: none.
Bytes: a grant of 32 bytes and a header for each party, once; for each item the bound components to
    the last party, and nothing to the others.
"""

from collections import deque

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.keys import derive
from mpc.core.prg import SEED_BYTES, Prg, PrgFactory
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.programs import MAX_PARTIES, SESSION_BYTES, Seats, read_arrays
from mpc.supply import Item, Shares, deal, expand

DEALER = -1
"""The ``party`` of errors about the dealer."""


class SupplyGrant(Message, frozen=True, tag="supply.grant"):
    """What the dealer gives to one party: her seed, secret, and the public terms."""

    session: bytes
    party: int
    n: int
    bits: int
    seed: bytes

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        if len(self.session) != SESSION_BYTES or len(self.seed) != SEED_BYTES:
            raise ParameterError(f"session has {SESSION_BYTES} bytes, seed {SEED_BYTES}")
        integer("party", self.party, 0, integer("n", self.n, 2, MAX_PARTIES) - 1)
        integer("bits", self.bits, 1, 64)


class Correction(Message, frozen=True, tag="supply.correction"):
    """The last party's shares of the bound components of one item."""

    session: bytes
    number: int
    name: bytes
    payload: bytes


def stream(
    seed: bytes, session: bytes, number: int, item: Item, ring: Ring, prg: PrgFactory = Prg
) -> Rng:
    """What a party with this ``seed`` draws her part of one item from."""
    return prg(derive(seed, "mpc.supply.item", session, number, ring.bits, item.name), 0)


class SeedDealer:
    """The dealer for parties elsewhere: a grant for each, then a correction for each item.

    It holds everybody's shares, and is a ``Supply`` of ``programs.together`` too.
    session: 16 bytes, fresh for each dealer.
    """

    def __init__(
        self,
        n: int,
        ring: Ring,
        session: bytes,
        *,
        rng: Rng = SYSTEM_RNG,
        prg: PrgFactory = Prg,
    ) -> None:
        n = integer("n", n, 2, MAX_PARTIES)
        seeds = [rng.bytes(SEED_BYTES) for _ in range(n)]
        self._grants = [SupplyGrant(session, p, n, ring.bits, s) for p, s in enumerate(seeds)]
        self.seats = Seats(n)
        self._ring, self._prg = ring, prg
        self._number = 0

    def grant(self, party: int) -> SupplyGrant:
        """For ``party`` alone, by a channel that hides it."""
        return self._grants[integer("party", party, 0, len(self._grants) - 1)]

    def correct(self, item: Item) -> Correction:
        """The next item's correction, for the last party alone."""
        number, ring = self._number, self._ring
        bound = self.take(item).bound
        payload = b"".join(ring.to_bytes(rows[-1, ...]) for rows in bound)
        return Correction(self._grants[0].session, number, item.name, payload)

    def take(self, item: Item) -> Shares:
        """The next item with all parties' shares, as ``mpc.supply.deal`` deals it."""
        session, number, ring = self._grants[0].session, self._number, self._ring
        rngs = [stream(g.seed, session, number, item, ring, self._prg) for g in self._grants]
        shares = deal(item, len(rngs), ring, rngs)
        self._number += 1
        return shares

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a SeedDealer holds seeds and is not picklable")


class SeedSupply:
    """One party's supply, from her grant. It counts in memory: a grant serves one such object.

    For the last party ``receive`` takes the corrections, in their order, before ``take``.
    """

    def __init__(self, grant: SupplyGrant, *, prg: PrgFactory = Prg) -> None:
        self.seats = Seats(grant.n, grant.party)
        self._ring = Ring(grant.bits)
        self._session, self._seed, self._prg = grant.session, grant.seed, prg
        self._is_last = grant.party == grant.n - 1
        self._number = 0
        self._corrections: deque[Correction] = deque()

    def receive(self, correction: Correction) -> None:
        """Take the correction of the item after those that have one.

        Raises StateError unless we are the last party, PeerError for another session or number.
        """
        if not self._is_last:
            raise StateError("only the last party needs corrections")
        awaited = self._number + len(self._corrections)
        if correction.session != self._session or correction.number != awaited:
            raise PeerError(
                f"a correction is not that of item {awaited} of this session", party=DEALER
            )
        self._corrections.append(correction)

    def take(self, item: Item) -> Shares:
        """See ``Supply.take``.

        For the last party: StateError while the item's correction is missing or is that of another
        item, PeerError if it does not fit, and nothing is used up.
        """
        corrections = self._correction(item) if self._is_last else None
        rng = stream(self._seed, self._session, self._number, item, self._ring, self._prg)
        self._number += 1
        seats = self.seats
        shares = expand(item, seats.present[0], seats.n, self._ring, rng)
        if corrections is not None:
            self._corrections.popleft()
            for rows, correction in zip(shares.bound, corrections, strict=True):
                rows[0] = correction
        return shares

    def _correction(self, item: Item) -> list[RingArray]:
        if not self._corrections:
            raise StateError(f"the correction of item {self._number} has not come yet")
        correction = self._corrections[0]
        if correction.name != item.name:
            raise StateError(
                f"the dealer's item {self._number} is another one",
                remedy="let the dealer make the items that the program asks for, in its order",
            )
        try:
            return read_arrays(correction.payload, item.bound, self._ring)
        except WireError as error:
            raise PeerError(error.message, party=DEALER) from None

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a SeedSupply counts what it used up and can't be copied or pickled")
