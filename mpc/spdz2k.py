"""Sharing with MACs over Z_{2^(k+s)}: parties that alter what they send are caught.

A number x of Z_{2^k} is shared modulo 2^(k+s), and so is its MAC alpha x, under a key alpha that is
shared too and that nobody knows. All that was opened is checked in one batch: before a result is
opened, because an altered product would make it tell of a factor, and before a result counts.

Source: Cramer, Damgard, Escudero, Scholl and Xing, "SPDZ2k: efficient MPC mod 2^k for dishonest
    majority" (CRYPTO 2018). Names: k, s, alpha as there; see ``mpc.spdz2k_check`` for the rest.
Model: malicious; n-1 parties collude and see honest messages of a step before they send their own.
    Key, masks and triples come from a trusted dealer. Channels authenticate; between the parties
    they need not hide anything.
Leaks: what is opened. Whether a run aborts depends on the attacker and on the key, on no input.
Error: an altered opening passes a check with a probability of at most (s+1) 2^-s.
Rounds: one for inputs, an opening or a product; four for a check.
Differs: a dealer takes the place of the paper's oblivious transfers and sacrifice. There is no
    protection against a lie about one's own input, and no fairness: who speaks last may have seen
    the result and refuse it to the others, or to some of them.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.programs import Open, Program, Tell
from mpc.spdz2k_check import (
    COIN_BYTES,
    REMEDY,
    Transcript,
    coins,
    committed,
    joint_seeds,
    residue,
)
from mpc.spdz2k_supply import Authenticated, MacSupply, Masks, Random, Sizes, spread
from mpc.supply import Dims, Product

__all__ = ["Authenticated", "MacSession", "MacSupply", "Sizes"]


class MacSession:
    """One computation with MACs. What it opens counts only once ``check`` has come to its end.

    Arrays of public or own elements have the shape (*b, *s), shares (present, *b, *s), with the
    supply's *b in front: () for a single computation. With *b there are several of them side by
    side, each with key, coins, transcript and check of its own.
    supply: where key shares, masks and triples come from.  rng: for coins and salts of the check.
    """

    def __init__(self, supply: MacSupply, *, rng: Rng = SYSTEM_RNG) -> None:
        self.supply = supply
        self.seats = supply.seats
        self.sizes = supply.sizes
        self.ring = supply.sizes.ring
        self._rng = rng
        self._opened: list[RingArray] = []
        self._macs: list[RingArray] = []
        self._transcript = Transcript(math.prod(supply.batch))
        self._is_over = False  # for good, after a check that failed or was broken off

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
        """x + public elements (*b, *s): party 0 adds them, everybody her part to the MAC."""
        return self._take_in(Authenticated(x.value.copy(), x.mac.copy()), value)

    def _take_in(self, x: Authenticated, value: RingArray) -> Authenticated:
        """``add_public`` in place."""
        ring = self.ring
        if 0 in self.seats.present:
            x.value[0] = ring.add(x.value[0], value)
        for row in range(len(x.mac)):
            key, mac = self.supply.alpha[row, ...], x.mac[row, ...]
            ring.add(mac, ring.mul(spread(key, value.ndim), value), out=mac)
        return x

    def input(self, x: dict[int, RingArray], shape: Dims, owner: int) -> Program[Authenticated]:
        """Shares of the data that ``owner`` brings: one step. See ``input_sum``."""
        return self.input_sum(x, shape, (owner,))

    def input_sum(
        self, x: dict[int, RingArray], shape: Dims, owners: Sequence[int]
    ) -> Program[Authenticated]:
        """Shares of the sum of what each of ``owners`` brings: one step.

        x: the data (*b, *s) of the owners who are present, elements of Z_{2^k}.  shape: (*b, *s).
        What she brings is an owner's own choice: no MAC protects from a lie about it.
        """
        masks = self.supply.take_masks(shape, owners)
        return (yield from self._brought(masks, x, shape, owners))

    def sum_to(
        self, party: int, x: dict[int, RingArray], shape: Dims, owners: Sequence[int]
    ) -> Program[RingArray | None]:
        """``input_sum``, then ``open_to`` of the sum, with one sharing of all masks: two steps."""
        masks = self.supply.take_masks(shape, owners, party)
        total = yield from self._brought(masks, x, shape, owners)
        return (yield from self._unmasked(total, masks.output))

    def _brought(
        self, masks: Masks, x: dict[int, RingArray], shape: Dims, owners: Sequence[int]
    ) -> Program[Authenticated]:
        """What the owners bring, in place of their masks in the sum of all masks."""
        self._expect_open()
        ring, known = self.ring, masks.inputs
        payloads = dict.fromkeys(self.seats.present, b"")
        for owner, own in known.items():
            if owner not in x or x[owner].shape != shape:
                raise ParameterError(f"party {owner} must bring an input of shape {shape}")
            payloads[owner] = ring.to_bytes(ring.sub(self.sizes.lift(x[owner]), own, out=own))
        size = math.prod(shape) * ring.element_bytes()
        sizes = tuple(size if party in owners else 0 for party in range(self.seats.n))
        told = yield Tell(sizes, tuple(payloads.values()))
        total = self._elements(told, shape, owners)
        # Whoever got other summands has the same sum, or will be found out: nothing else is used.
        self._transcript.note(ring.to_bytes(total))
        return self._take_in(masks.total, total)

    def multiply(self, x: Authenticated, y: Authenticated) -> Program[Authenticated]:
        """x y, element by element, both of one shape: one step."""
        a, b, c = self.supply.take(Product(x.shape))
        d, e = yield from self._open(self.sub(x, a), self.sub(y, b))
        z = self.add(c, self.add(self.scale(b, d), self.scale(a, e)))
        return self._take_in(z, self.ring.mul(d, e))

    def open(self, x: Authenticated) -> Program[RingArray]:
        """The data of x (*b, *s), to everybody, unchecked until ``check``: elements of Z_{2^k}.

        The upper s bits, which tell how x came about, are masked. One step, after a check of what
        has been opened so far, if anything.
        """
        yield from self.check()
        (mask,) = self.supply.take(Random(x.shape))
        top = Authenticated(self.sizes.top(mask.value), self.sizes.top(mask.mac))
        (opened,) = yield from self._open(self.add(x, top))
        return self.sizes.lower(opened)

    def open_to(self, party: int, x: Authenticated) -> Program[RingArray | None]:
        """The data of x to one party alone, None where she is not present: otherwise as ``open``.

        What everybody sees is masked in the whole ring; she knows the lower k bits of the mask.
        """
        masks = self.supply.take_masks(x.shape, (), party)
        return (yield from self._unmasked(self.add(x, masks.total), masks.output))

    def _unmasked(
        self, masked: Authenticated, output: RingArray | None
    ) -> Program[RingArray | None]:
        yield from self.check()
        (opened,) = yield from self._open(masked)
        return None if output is None else self.sizes.data.sub(self.sizes.lower(opened), output)

    def check(self) -> Program[None]:
        """Whether all that was opened since the last check is right: four steps, or none.

        Raises AbortError if not, and nothing goes on in this session. What it has opened so far may
        serve only if this returns.
        """
        self._expect_open()
        if not self._opened:
            return
        self._is_over = True
        ring, batch = self.ring, self.supply.batch
        rows, count = len(self.seats.present), self._transcript.count
        # The coins are drawn when nothing can be altered any more.
        mine = self._rng.words((rows, count, COIN_BYTES), np.uint8)
        seeds = yield from committed(mine, self._transcript, self.seats, self._rng)
        z, macs = _side_by_side(self._opened), _side_by_side(self._macs)
        chi = coins(z.shape[-1], self.sizes, joint_seeds(seeds)).reshape(*batch, -1)
        sigma = residue(self.supply.alpha, z, macs, chi, ring)
        parts = yield from committed(self._bytes(sigma), self._transcript, self.seats, self._rng)
        told = [part.tobytes() for part in parts]
        total = self._elements(told, (count,), range(self.seats.n))
        wrong = sum(any(ring.to_bytes(each)) for each in total)
        if wrong:
            where = f" in {wrong} of {count} computations" if batch else ""
            raise AbortError(
                f"a MAC does not fit{where}: somebody altered what was opened", remedy=REMEDY
            )
        self._opened, self._macs, self._is_over = [], [], False

    def _open(self, *values: Authenticated) -> Program[tuple[RingArray, ...]]:
        self._expect_open()
        opened: tuple[RingArray, ...] = yield Open(self.ring, tuple(v.value for v in values))
        self._transcript.note(*(self.ring.to_bytes(z) for z in opened))
        batch = self.supply.batch
        self._opened += [z.reshape(*batch, -1) for z in opened]
        self._macs += [v.mac.reshape(len(v.mac), *batch, -1) for v in values]
        return opened

    def _elements(self, told: Sequence[bytes], shape: Dims, senders: Sequence[int]) -> RingArray:
        """The sum of the elements that ``senders`` have told; PeerError for what are none."""
        total = self.ring.reduce(np.zeros(shape, np.uint8))
        for sender in senders:
            try:
                self.ring.add(total, self.ring.from_bytes(told[sender], shape), out=total)
            except WireError as error:
                self._is_over = True
                raise PeerError(error.message, party=sender) from None
        return total

    def _bytes(self, elements: RingArray) -> NDArray[np.uint8]:
        """Elements (present, *b) as bytes (present, count, size)."""
        data = self.ring.to_bytes(elements)
        return np.frombuffer(data, np.uint8).reshape(len(elements), self._transcript.count, -1)

    def _expect_open(self) -> None:
        if self._is_over:
            raise StateError("this session was aborted", remedy=REMEDY)


def _side_by_side(arrays: list[RingArray]) -> RingArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)
