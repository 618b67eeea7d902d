"""Triples without a dealer: every two parties multiply their shares under Paillier.

c = a b is the sum of all a_i b_j. Party i sends encryptions of a_i to everybody. For each other
party i, party j multiplies them by her b_j, adds a mask, packs the results and sends them back; i
decrypts, and the two hold shares of a_i b_j: what i reads, and minus the mask.

    keys = [generate() for _ in range(n)]  # each party makes her own and publishes keys[p].public
    supply = together(triples(items, seats, publics, keys, ring), n)

Source: Gilboa, "Two party RSA key generation" (CRYPTO 1999), section 4, for products of shares by
    homomorphic encryption; packed responses as in ABY (Demmler, Schneider and Zohner, NDSS 2015,
    section III.A.5). Names: l is ``ring.bits``, sigma the statistical security.
Model: semi-honest, n-1 parties collude; authentic public keys. Requests rest on the assumption of
    their encryptor (``mpc.paillier.encrypt.encryptor_for``), responses on nothing computational
    against the key's owner: she reads a b_j plus a mask of 2 l + sigma bits and more, which is
    within a statistical distance of 2^-sigma of the mask alone, in a ciphertext that a textbook
    residue has made anew. A malicious party can send encryptions of other numbers and learn more:
    do not use these triples where MACs are to catch her.
Leaks: the items asked for.
Error: none: a slot has room for product and mask, so that nothing wraps but modulo 2^l.
Rounds: two for any number of items. Bytes, to each other party: a ciphertext for each free element
    that is sent, and one for each ``slots`` elements of a product and each key's owner.
Differs: responses go to everybody, like all messages of programs; only the owner can read hers.
    Pairs for truncation can't be made so: their bits are no product of shares.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.ciphertext import Ciphertext, vector_bytes, vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Textbook, encryptor_for
from mpc.paillier.keys import PrivateKey, PublicKey
from mpc.paillier.products import dot
from mpc.programs import Program, Seats, Tell
from mpc.supply import Item, MatrixProduct, Product, Shares, Square

SIGMA = 40
"""Bits by which a mask is longer than what it hides, at least."""

_MOST_SIGMA = 1 << 10


class TripleSupply:
    """Items made beforehand, in memory, each handed out once."""

    def __init__(self, seats: Seats) -> None:
        self.seats = seats
        self._items: defaultdict[bytes, deque[Shares]] = defaultdict(deque)

    def put(self, item: Item, shares: Shares) -> None:
        """Keep one more item, behind those of its kind."""
        self._items[item.name].append(shares)

    def take(self, item: Item) -> Shares:
        """See ``Supply.take``. StateError if none of this kind is left."""
        if not self._items[item.name]:
            raise StateError("no item of this kind and size is left", remedy="make more of them")
        return self._items[item.name].popleft()

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a TripleSupply hands out its items once and can't be copied or pickled")


def triples(
    items: Sequence[Item],
    seats: Seats,
    publics: Sequence[PublicKey],
    privates: Sequence[PrivateKey],
    ring: Ring,
    *,
    sigma: int = SIGMA,
    rng: Rng = SYSTEM_RNG,
) -> Program[TripleSupply]:
    """Make ``items`` (Product, Square, MatrixProduct) among all parties: two steps.

    publics: the keys of all n parties.  privates: those of the parties present, in their order.
    sigma: at least 40; less only where all keys are ``small_for_tests``.
    Raises ParameterError for other items and for keys without room for a single slot, PeerError for
    what are no ciphertexts, AbortError for a response that has not the form of one.
    """
    plan = Plan(items, seats.n, ring, sigma, publics)
    if [publics[party] for party in seats.present] != [key.public for key in privates]:
        raise ParameterError("there must be the private key of each party present, and no other")
    free = [[_drawn(item, ring, rng) for item in items] for _ in privates]
    own = [[item.follow(part, ring) for item, part in zip(items, f, strict=True)] for f in free]
    bound = [[c.reshape(-1).copy() for (c,) in rows] for rows in own]
    asked = tuple(plan.ask(party, free[row], rng=rng) for row, party in enumerate(seats.present))
    requests = yield Tell(tuple(map(plan.request_bytes, range(seats.n))), asked)
    answers = []
    for row, party in enumerate(seats.present):
        payload = b""
        for owner in plan.others(party):
            taken = plan.read(requests[owner], owner, plan.request_count(owner), owner)
            part, masks = plan.answer(taken, owner, party, free[row], rng=rng)
            plan.add(bound[row], [-mask for mask in masks], owner, party)
            payload += part
        answers.append(payload)
    told = yield Tell(tuple(map(plan.answer_bytes, range(seats.n))), tuple(answers))
    for row, owner in enumerate(seats.present):
        for party in plan.others(owner):
            values = plan.open(told[party], owner, party, privates[row])
            plan.add(bound[row], values, owner, party)
    supply = TripleSupply(seats)
    for index, item in enumerate(items):
        parts = [np.stack([row[index][k] for row in free]) for k in range(len(item.free))]
        c = np.stack([row[index] for row in bound])
        c = c.reshape(len(privates), *item.bound[0])
        supply.put(item, Shares(tuple(parts), (c,)))
    return supply


def _drawn(item: Item, ring: Ring, rng: Rng) -> tuple[RingArray, ...]:
    return tuple(ring.random(shape, rng) for shape in item.free)


@dataclass(frozen=True, eq=False)
class _Form:
    """An item's products as sums: entry e is the sum of a[left[e, k]] b[right[e, k]] over k.

    is_square: b is a, so that a_i a_j comes up twice and each two parties multiply once.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    is_square: bool

    @classmethod
    def of(cls, item: Item) -> "_Form":
        """ParameterError for an item whose bound component is no product of its free ones."""
        if isinstance(item, Product | Square):
            places = np.arange(math.prod(item.shape)).reshape(-1, 1)
            return cls(places, places, isinstance(item, Square))
        if not isinstance(item, MatrixProduct):
            raise ParameterError(
                f"a {type(item).__name__} is no product of shares", remedy="get it from a dealer"
            )
        a, b = (np.arange(math.prod(s)).reshape(s) for s in (item.left, item.right))
        a = a if a.ndim > 1 else a[np.newaxis]
        b = b if b.ndim > 1 else b[:, np.newaxis]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (rows, terms), columns = a.shape[-2:], b.shape[-1]
        full = (*batch, rows, columns, terms)
        entries = math.prod(full[:-1])
        left = np.broadcast_to(a[..., :, np.newaxis, :], full)
        right = np.broadcast_to(b.swapaxes(-1, -2)[..., np.newaxis, :, :], full)
        return cls(left.reshape(entries, terms), right.reshape(entries, terms), False)

    def is_asked(self, owner: int, n: int) -> bool:
        """Whether ``owner`` sends her elements at all."""
        return not self.is_square or owner < n - 1

    def is_answered(self, owner: int, party: int) -> bool:
        """Whether ``party`` multiplies the elements of ``owner``."""
        return self.left.size > 0 and (not self.is_square or owner < party)


class Plan:
    """Who sends what to whom for some items, and how products lie in a plaintext: all public."""

    def __init__(
        self,
        items: Sequence[Item],
        n: int,
        ring: Ring,
        sigma: int,
        publics: Sequence[PublicKey],
    ) -> None:
        if len(publics) != n:
            raise ParameterError(f"{n} parties have as many keys, got {len(publics)}")
        tests = all(public.small_for_tests for public in publics)
        sigma = integer("sigma", sigma, 1 if tests else SIGMA, _MOST_SIGMA)
        self._n, self._ring, self._publics = n, ring, tuple(publics)
        self._forms = [_Form.of(item) for item in items]
        self._sizes = [math.prod(item.free[0]) for item in items]
        terms = max((form.left.shape[1] for form in self._forms), default=1)
        # A sum of ``terms`` products is below 2^(2 l + ceil(log2 terms)).
        self.mask_bits = 2 * ring.bits + max(0, terms - 1).bit_length() + sigma
        self.slot_bits = self.mask_bits + 1
        # Packed numbers are not negative, and below n / 2.
        self.slots = [(public.bits - 2) // self.slot_bits for public in publics]
        if not min(self.slots):
            raise ParameterError(
                f"a slot takes {self.slot_bits} bits, more than a plaintext has",
                remedy="take larger keys, or a smaller ring",
            )

    def others(self, party: int) -> list[int]:
        """Everybody else, in order."""
        return [other for other in range(self._n) if other != party]

    def request_count(self, owner: int) -> int:
        """Ciphertexts that ``owner`` sends in the first step."""
        pairs = zip(self._forms, self._sizes, strict=True)
        return sum(size for form, size in pairs if form.is_asked(owner, self._n))

    def request_bytes(self, owner: int) -> int:
        """Bytes that ``owner`` sends in the first step."""
        return vector_bytes(self._publics[owner].bits, self.request_count(owner))

    def entries(self, owner: int, party: int) -> int:
        """Products that ``party`` makes of the elements of ``owner``."""
        return sum(len(form.left) for form in self._forms if form.is_answered(owner, party))

    def answer_count(self, owner: int, party: int) -> int:
        """Ciphertexts that ``party`` sends to ``owner`` in the second step."""
        return -(-self.entries(owner, party) // self.slots[owner])

    def answer_bytes(self, party: int) -> int:
        """Bytes that ``party`` sends in the second step, to all owners together."""
        return sum(self._answer_size(owner, party) for owner in self.others(party))

    def _answer_size(self, owner: int, party: int) -> int:
        return vector_bytes(self._publics[owner].bits, self.answer_count(owner, party))

    def ask(self, owner: int, free: Sequence[Sequence[RingArray]], *, rng: Rng) -> bytes:
        """The first step's payload of ``owner``, whose free components are ``free``."""
        numbers = [
            number
            for form, parts in zip(self._forms, free, strict=True)
            if form.is_asked(owner, self._n)
            for number in parts[0].reshape(-1).tolist()
        ]
        if not numbers:
            return b""
        encryptor = encryptor_for(self._publics[owner], rng=rng)
        return vector_to_bytes(encryptor.encrypt_many(numbers, rng=rng))

    def read(self, payload: bytes, owner: int, count: int, sender: int) -> list[Ciphertext]:
        """``count`` ciphertexts under the key of ``owner``; PeerError if they are none."""
        if not count:
            return []
        try:
            return vector_from_bytes(payload, self._publics[owner], count)
        except WireError as error:
            raise PeerError(error.message, party=sender) from None

    def answer(
        self,
        asked: Sequence[Ciphertext],
        owner: int,
        party: int,
        free: Sequence[Sequence[RingArray]],
        *,
        rng: Rng,
    ) -> tuple[bytes, list[int]]:
        """What ``party`` returns to ``owner``, and the masks that she added, one for each entry."""
        sums = list(self._products(asked, owner, party, free))
        if not sums:
            return b"", []
        slots, width = self.slots[owner], self.slot_bits
        size = -(-self.mask_bits // 8)
        data = rng.bytes(size * len(sums))
        drawn = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        masks = [mask & ((1 << self.mask_bits) - 1) for mask in drawn]
        packed = []
        for start in range(0, len(sums), slots):
            part, added = sums[start : start + slots], masks[start : start + slots]
            total = part[-1]
            for each in part[-2::-1]:
                total = total * (1 << width) + each
            packed.append(total + sum(mask << i * width for i, mask in enumerate(added)))
        # Against the key's owner only a textbook residue hides what was multiplied.
        fresh = Textbook(self._publics[owner]).rerandomise_many(packed, rng=rng)
        return vector_to_bytes(fresh), masks

    def _products(
        self,
        asked: Sequence[Ciphertext],
        owner: int,
        party: int,
        free: Sequence[Sequence[RingArray]],
    ) -> Iterator[Ciphertext]:
        start = 0
        for form, size, parts in zip(self._forms, self._sizes, free, strict=True):
            if not form.is_asked(owner, self._n):
                continue
            theirs, start = asked[start : start + size], start + size
            if form.is_answered(owner, party):
                mine = parts[-1].reshape(-1)
                for places, weights in zip(form.left.tolist(), mine[form.right], strict=True):
                    yield _dot([theirs[k] for k in places], weights.tolist())

    def open(self, payload: bytes, owner: int, party: int, private: PrivateKey) -> list[int]:
        """What ``owner`` reads in the payload of ``party``: product plus mask, for each entry."""
        start = sum(self._answer_size(o, party) for o in self.others(party) if o < owner)
        data = payload[start : start + self._answer_size(owner, party)]
        answers = self.read(data, owner, self.answer_count(owner, party), party)
        slots, width, values = self.slots[owner], self.slot_bits, []
        for number in private.decrypt_many(answers):
            if number < 0 or number >> slots * width:
                raise AbortError(f"party {party} has answered with what is no packed product")
            values += [number >> i * width & ((1 << width) - 1) for i in range(slots)]
        return values[: self.entries(owner, party)]

    def add(self, bound: list[RingArray], values: Sequence[int], owner: int, party: int) -> None:
        """Add one number for each entry of two parties to the products, modulo 2^l."""
        start = 0
        for form, c in zip(self._forms, bound, strict=True):
            if form.is_answered(owner, party):
                part = self._ring.reduce(list(values[start : start + len(c)]))
                start += len(c)
                for _ in range(2 if form.is_square else 1):
                    self._ring.add(c, part, out=c)


def _dot(ciphertexts: list[Ciphertext], weights: list[int]) -> Ciphertext:
    return ciphertexts[0] * weights[0] if len(weights) == 1 else dot(ciphertexts, weights)
