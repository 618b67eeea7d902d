"""Exact laws of what the server and up to n - 2 clients see, over two rounds and two sums.

The kernels, the key agreement, the ratchet and the layout are the ones that run; the keystream is
a random function of (derived key, position), walked over all outcomes. There are three members, so
a coalition is the server alone or with one client. Its view: every masked vector of both rounds,
and every pad word that its client can compute. With two bits each pair of the four slots (round,
sum) is walked, the two others being left unmasked and unseen; with one bit all four at once.
"""

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.prg import PrgFactory
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.masks import accumulate, mask, net_pad
from secagg.params import PadParams, Region
from secagg.schedule import PairChains
from tests.secagg.ideal import RandomFunction
from tests.secagg.session import key_pair, params, roster
from tests.support.enumerate import joint, law, tapes

CLIENTS = (2, 5, 9)
COALITIONS: tuple[int | None, ...] = (None, *CLIENTS)
ROUNDS = (0, 1)
SLOTS = frozenset(range(4))  # two rounds times two sums
Law = dict[bytes, Fraction]
Inputs = dict[int, NDArray[Any]]
Expand = Callable[[PairChains, Region, int], NDArray[Any]]
Twin = Callable[[PrgFactory], PrgFactory]


def bulk(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
    """Net pads (B, 1, sums, 1), by the method that ``PadSupply`` calls."""
    return chains.net_pads(region, (batch,))


class World:
    """A session's pads under all outcomes: each client's net pads, and what it can compute.

    epoch: rounds per epoch; 2 puts both rounds into one epoch, 1 into two.
    slots: the (round, sum) pairs looked at, numbered along the rounds.
    """

    def __init__(
        self,
        *,
        bits: int,
        epoch: int,
        slots: frozenset[int] = SLOTS,
        expand: Expand = bulk,
        twin: Twin = lambda prg: prg,
    ) -> None:
        agreed = params(CLIENTS, bits=bits, dim=1, sums=2, epoch=epoch)
        self.ring = agreed.ring
        self.slots = sorted(slots)
        values = tapes([2**bits] * (len(CLIENTS) * len(slots)))
        in_epoch = slots if epoch == 2 else frozenset(range(agreed.sums_per_round))
        self.function = RandomFunction(agreed, values, in_epoch)
        self.pads: dict[int, NDArray[Any]] = {}
        self.known: dict[int, NDArray[Any]] = {}
        for client in CLIENTS:
            keys = key_pair(client)
            chains = PairChains(agreed, client, keys, roster(agreed), prg=twin(self.function))
            pads: list[NDArray[Any]] = []
            known: list[NDArray[Any]] = []
            for round in ROUNDS:
                region = next(agreed.regions(round, 1))[1]
                pads.append(expand(chains, region, len(values)).reshape(len(values), -1))
                known += self._words(agreed, chains, region, len(values))
            self.pads[client] = np.concatenate(pads, axis=1)[:, self.slots]
            self.known[client] = joint(*known)

    @staticmethod
    def _words(
        agreed: PadParams, chains: PairChains, region: Region, batch: int
    ) -> Iterator[NDArray[Any]]:
        size = agreed.ring.element_bytes()
        shape = (batch, (region.stop - region.start) // size)
        for _, stream in chains.streams(region):
            words = net_pad([(1, stream)], shape, agreed.ring)
            yield words[:, :: agreed.slot_bytes // size]

    def law(self, x: Inputs, coalition: int | None, missing: int | None = None) -> Law:
        """The exact law of the view of the server and, if not None, one client.

        missing: a client whose vectors never arrive.
        """
        arrived = [client for client in CLIENTS if client != missing]
        parts = [mask(x[client], self.pads[client], self.ring) for client in arrived]
        return law(joint(*parts, *([] if coalition is None else [self.known[coalition]])))

    def inputs_with_sums(self, sums: NDArray[Any], corrupt: int | None) -> Iterator[Inputs]:
        """All honest inputs with these sums; a corrupt client's own input stays fixed."""
        free = [client for client in CLIENTS if client != corrupt]
        values = range(2**self.ring.bits)
        for drawn in itertools.product(values, repeat=len(self.slots) * (len(free) - 1)):
            chosen = np.array(drawn, dtype=self.ring.dtype).reshape(len(free) - 1, -1)
            x = dict(zip(free, chosen, strict=False))
            if corrupt is not None:
                x[corrupt] = np.ones(len(self.slots), dtype=self.ring.dtype)
            rest = self.ring.sum(np.stack(list(x.values())), axis=0)
            x[free[-1]] = self.ring.sub(sums, rest)
            yield x

    def laws_of_one_class(self, corrupt: int | None, seed: int) -> Iterator[Law]:
        """The laws of all inputs with the same, arbitrarily chosen sums."""
        size = 2**self.ring.bits
        chosen = np.random.default_rng(seed).integers(0, size, len(self.slots))
        sums = chosen.astype(self.ring.dtype)
        return (self.law(x, corrupt) for x in self.inputs_with_sums(sums, corrupt))

    def hides(self) -> bool:
        """Whether no coalition's law tells inputs with the same sums apart."""
        return all(
            all_equal(self.laws_of_one_class(corrupt, seed))
            for seed, corrupt in enumerate(COALITIONS)
        )


def all_equal(laws: Iterator[Law]) -> bool:
    first = next(laws)
    return all(other == first for other in laws)


PAIRS_OF_SLOTS = [frozenset(pair) for pair in itertools.combinations(SLOTS, 2)]


@pytest.mark.parametrize("epoch", [2, 1], ids=["one epoch", "two epochs"])
@pytest.mark.parametrize("corrupt", COALITIONS)
def test_one_bit_the_view_depends_on_the_sums_alone(epoch: int, corrupt: int | None) -> None:
    world = World(bits=1, epoch=epoch)
    assert all_equal(world.laws_of_one_class(corrupt, seed=epoch))


@pytest.mark.parametrize("corrupt", COALITIONS)
@pytest.mark.parametrize("slots", PAIRS_OF_SLOTS, ids=lambda slots: f"slots {sorted(slots)}")
def test_two_bits_the_view_depends_on_the_sums_alone(
    slots: frozenset[int], corrupt: int | None
) -> None:
    world = World(bits=2, epoch=2, slots=slots)
    assert all_equal(world.laws_of_one_class(corrupt, seed=len(slots)))


# A corrupt client that is missing itself can complete the round on its own.
INCOMPLETE = [(c, m) for c, m in itertools.product(COALITIONS, CLIENTS) if c != m]


@pytest.mark.parametrize(("corrupt", "missing"), INCOMPLETE)
@pytest.mark.parametrize("bits", [1, 2])
def test_an_incomplete_round_shows_nothing(bits: int, corrupt: int | None, missing: int) -> None:
    """Not even a sum: the law is the same for all inputs of the honest clients."""
    world = World(bits=bits, epoch=2, slots=frozenset({0}))
    laws = (
        world.law(dict(zip(CLIENTS, np.array(x, world.ring.dtype), strict=True)), corrupt, missing)
        for x in itertools.product(range(2**bits), repeat=3)
        if corrupt is None or x[CLIENTS.index(corrupt)] == 0
    )
    assert all_equal(laws)


@pytest.mark.parametrize("bits", [1, 2])
def test_the_pads_of_all_slots_are_different_points(bits: int) -> None:
    slots = SLOTS if bits == 1 else PAIRS_OF_SLOTS[0]
    assert World(bits=bits, epoch=2, slots=slots).function.points == len(CLIENTS) * len(slots)


def test_the_law_does_show_the_sums() -> None:
    world = World(bits=1, epoch=2)
    zero = np.zeros(4, dtype=np.uint8)
    one = np.array([0, 0, 0, 1], dtype=np.uint8)
    for corrupt in COALITIONS:
        silent = world.law(dict.fromkeys(CLIENTS, zero), corrupt)
        assert world.law({2: one, 5: zero, 9: zero}, corrupt) != silent


@pytest.mark.parametrize("epoch", [2, 1])
def test_the_pads_cancel_on_every_tape(epoch: int) -> None:
    world = World(bits=1, epoch=epoch)
    stacked = np.stack([world.pads[client] for client in CLIENTS])
    total = np.zeros(stacked.shape[1:], dtype=world.ring.dtype)
    accumulate(total, stacked, world.ring)
    assert not total.any()


# Broken twins. Each differs from the protocol in one place, and the same test finds it.


def reused_round(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
    """The second round takes the region of the first."""
    first = Region(region.epoch, 0, region.stop - region.start)
    return chains.net_pads(first, (batch,))


def reused_sum(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
    """The sum id is left out of the offset."""
    pads = chains.net_pads(region, (batch,))
    return np.broadcast_to(pads[:, :, :1], pads.shape)


def one_peer_left_out(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
    """Client 2 and client 5 share no pad."""
    streams = chains.streams(region)
    kept = [
        signed
        for peer, signed in zip(chains.peers, streams, strict=True)
        if {peer, chains.client} != {2, 5}
    ]
    flat = net_pad(kept, (batch, region.stop - region.start), Ring(1))
    return flat.reshape(batch, 1, 2, -1)[..., :1]


def last_slot_bare(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
    """The second sum of each round goes out unmasked."""
    pads = chains.net_pads(region, (batch,)).copy()
    pads[:, :, 1] = 0
    return pads


@pytest.mark.parametrize("expand", [reused_round, reused_sum, one_peer_left_out, last_slot_bare])
def test_a_broken_twin_is_caught(expand: Expand) -> None:
    assert not World(bits=1, epoch=2, expand=expand).hides()


def test_a_ratchet_that_stands_still_is_caught() -> None:
    def without_epoch(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
        return chains.net_pads(Region(0, region.start, region.stop), (batch,))

    assert not World(bits=1, epoch=1, expand=without_epoch).hides()


def test_a_wrong_sign_is_caught() -> None:
    def always_added(chains: PairChains, region: Region, batch: int) -> NDArray[Any]:
        streams = [(1, stream) for _, stream in chains.streams(region)]
        flat = net_pad(streams, (batch, region.stop - region.start), Ring(2))
        return flat.reshape(batch, 1, 2, -1)[..., :1]

    # With one bit adding and subtracting are the same. With two, the pads do not cancel, and a
    # corrupt client reads the difference of the two other inputs.
    twin = World(bits=2, epoch=2, slots=PAIRS_OF_SLOTS[0], expand=always_added)
    assert twin.ring.sum(np.stack(list(twin.pads.values())), axis=0).any()
    assert not twin.hides()


def test_a_pad_without_the_top_residue_is_caught() -> None:
    class Biased(Rng):
        def __init__(self, stream: Rng) -> None:
            self._stream = stream

        def fill(self, out: NDArray[Any]) -> None:
            self._stream.fill(out)
            out[out == 3] = 0  # as randint(0, R - 1) does: the top residue never comes

    def biased(prg: PrgFactory) -> PrgFactory:
        return lambda key, offset: Biased(prg(key, offset))

    twin = World(bits=2, epoch=2, slots=PAIRS_OF_SLOTS[0], twin=biased)
    assert not twin.hides()
