"""Exact laws: what a coalition below the threshold sees depends on the sums alone; broken twins.

Coalitions are the server alone or with one client, t = 2. See ``laws.py`` for what is walked.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.prg import Prg, PrgFactory
from mpc.core.rng import Rng
from secagg.full.masking import mask
from secagg.masks import SignedStreams
from tests.secagg.full.hostile import Hostile
from tests.secagg.full.laws import CLIENTS, KEY, SEED, Coefficients, Round, Scenario, World

A, B, C = CLIENTS
EVERY = [
    Scenario((first, second), corrupt)
    for corrupt in (None, *CLIENTS)
    for first, second in itertools.product((None, *CLIENTS), repeat=2)
    if corrupt is None or corrupt not in (first, second)
]
"""A client that is late and corrupt hides nothing from the coalition, and is hidden nothing."""


def name(scenario: Scenario) -> str:
    return f"late {scenario.late} with {scenario.corrupt}"


def classes(world: World) -> Iterator[NDArray[Any]]:
    """All inputs, those with the same sums together."""
    size = range(2**world.ring.bits)
    return (world.with_these_sums(sums) for sums in itertools.product(size, repeat=2))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_one_bit_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    """All twelve masks of both rounds are walked."""
    world = World(1, scenario, walk_known=True)
    assert len(world.pads) == 12
    assert all(world.hides(x) for x in classes(world))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_two_bits_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    world = World(2, scenario)
    assert world.hides(world.with_these_sums((1, 2)))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_with_all_shares_the_view_depends_on_the_sums_alone(scenario: Scenario) -> None:
    """The shares of one client after another, in each round, are walked with the masks."""
    for number, owner in itertools.product(range(2), CLIENTS):
        if owner == scenario.corrupt:
            continue
        world = World(1, scenario, focus=(number, owner))
        assert world.hidden == [SEED if owner == scenario.late[number] else KEY]
        assert world.hides(world.with_these_sums((1, 0)))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_the_kernels_give_the_sums_on_every_tape(scenario: Scenario) -> None:
    world = World(1, scenario, walk_known=True)
    for x, sums in zip(classes(world), itertools.product(range(2), repeat=2), strict=True):
        for number, total in enumerate(sums):
            assert (world.sums(number, x) == total).all()


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_the_law_does_show_the_sums(scenario: Scenario) -> None:
    world = World(1, scenario, walk_known=True)
    for one, other in itertools.combinations((x[:1] for x in classes(world)), 2):
        assert not world.hides(np.concatenate([one, other]))


@pytest.mark.parametrize("scenario", EVERY, ids=name)
def test_what_is_opened_is_the_seed_of_survivors_and_the_key_of_the_late(
    scenario: Scenario,
) -> None:
    """What the laws take as known, told by numbers of shares, is what the protocol intends."""
    for number, late in enumerate(scenario.late):
        one = Round(number, 1)
        expected = {(u, KEY if u == late else SEED) for u in CLIENTS}
        if scenario.corrupt is not None:
            expected |= {(scenario.corrupt, SEED), (scenario.corrupt, KEY)}
        assert one.opened(late, scenario.corrupt) == expected


@pytest.mark.parametrize("bits", [1, 2])
def test_the_parties_run_these_kernels(bits: int) -> None:
    """What a client sends in a round of its own is what ``Round`` makes with its secrets."""
    one = Round(3, bits)
    world = Hostile(one.params)
    world.advertise()
    for u, client in world.clients.items():
        assert client._secrets is not None
        assert client._secrets._mask is not None
        one.keys[u], one.seeds[u] = client._secrets._mask, client._secrets._seed
    world.share(world.everybody)
    world.mask(world.everybody)
    for u in CLIENTS:
        assert np.array_equal(world.masked[u], mask(world.x[u], one.streams(u, Prg), one.ring))
    held = {u: client._secrets._held for u, client in world.clients.items() if client._secrets}
    world.unmask(world.everybody)
    for owner, holder in itertools.product(CLIENTS, repeat=2):
        rows = list(one.answer(held[holder], np.ones(len(CLIENTS), np.bool_)))
        mine = world.shares[owner, SEED][CLIENTS.index(holder) + 1]
        assert np.array_equal(mine, rows[CLIENTS.index(owner)])


# Broken twins. Each differs in one place, and the same walk finds it where it does harm.


class SameKeys(Round):
    """The second round has the keys and the seeds of the first, and its labels."""

    def __init__(self, number: int, bits: int) -> None:
        super().__init__(0, bits)


class SameSelfMask(Round):
    """Only the self masks are those of the first round."""

    def self_key(self, u: int) -> bytes:
        return Round(0, 1).self_key(u)


class SamePairMasks(Round):
    """Only the pairwise masks are those of the first round."""

    def pair(self, u: int, v: int) -> bytes:
        return Round(0, 1).pair(u, v)


class NoSelfMask(Round):
    def streams(self, u: int, prg: PrgFactory) -> SignedStreams:
        return super().streams(u, prg)[1:]


class OnePairBare(Round):
    """The first two clients share no mask."""

    def streams(self, u: int, prg: PrgFactory) -> SignedStreams:
        return [
            stream
            for v, stream in zip(
                (u, *(v for v in CLIENTS if v != u)), super().streams(u, prg), strict=True
            )
            if {u, v} != {A, B}
        ]


class OneSeedForAll(Round):
    """All clients' self masks come from one seed, under one label."""

    def self_key(self, u: int) -> bytes:
        return super().self_key(CLIENTS[0])


class BothShares(Round):
    """Who is asked for one kind of share gives the other one, too."""

    def answer(self, held: NDArray[np.uint32], survivors: NDArray[np.bool_]) -> Iterator[Any]:
        yield from super().answer(held, survivors)
        yield from super().answer(held, ~survivors)


ALL, LATE, BOTH = Scenario((None, None)), Scenario((None, C)), Scenario((C, C))
WITH_C = Scenario((None, None), corrupt=C)
TWINS = [
    (SameKeys, {ALL: False, LATE: False, BOTH: False}),
    # Survivors' self masks are open anyway, so that their reuse shows for who is late twice.
    (SameSelfMask, {ALL: True, BOTH: False}),
    (SamePairMasks, {ALL: False, BOTH: False}),
    (NoSelfMask, {ALL: True, LATE: False, BOTH: False}),
    # The masks that the two share with the third still hide them, until its masks are known.
    (OnePairBare, {ALL: True, WITH_C: False, LATE: False}),
    (OneSeedForAll, {ALL: True, LATE: False, BOTH: False}),
    (BothShares, {ALL: False, LATE: False, BOTH: False}),
]


@pytest.mark.parametrize(("twin", "found"), TWINS, ids=[twin.__name__ for twin, _ in TWINS])
def test_a_broken_twin_is_caught(twin: type[Round], found: dict[Scenario, bool]) -> None:
    for scenario, hides in found.items():
        world = World(1, scenario, (Round, twin))
        assert all(world.hides(x) for x in classes(world)) == hides


@pytest.mark.parametrize("bits", [1, 2])
def test_a_keystream_without_the_top_residue_is_caught(bits: int) -> None:
    assert not World(bits, ALL, biased=True).hides(World(bits, ALL).with_these_sums((0, 0)))


class Replaced(Rng):
    """Coefficients of a biased sampler. values: what each of the five is replaced by."""

    def __init__(self, honest: Rng, *values: int) -> None:
        self._honest, self._values = honest, np.array(values, np.uint32)

    def uniform(self, *arguments: Any) -> NDArray[Any]:
        drawn: NDArray[Any] = self._values[self._honest.uniform(*arguments)]
        return drawn

    def fill(self, out: NDArray[Any]) -> None:
        self._honest.fill(out)


class Topless(Round):
    """The largest coefficient is never drawn, and zero twice as often."""

    def deal(self, secrets: NDArray[np.uint32], rng: Rng) -> NDArray[np.uint32]:
        return super().deal(secrets, Replaced(rng, 0, 1, 2, 3, 0))


class Monic(Round):
    """No coefficient is zero, so that the degree is exactly t - 1."""

    def deal(self, secrets: NDArray[np.uint32], rng: Rng) -> NDArray[np.uint32]:
        return super().deal(secrets, Replaced(rng, 1, 1, 2, 3, 4))


class OneSlope(Round):
    """The seed and the mask key of a client are shared with the same coefficients."""

    def deal(self, secrets: NDArray[np.uint32], rng: Rng) -> NDArray[np.uint32]:
        assert isinstance(rng, Coefficients)
        return super().deal(secrets, Coefficients(rng._values[:, [0, 0]]))


@pytest.mark.parametrize("twin", [Topless, Monic, OneSlope])
@pytest.mark.parametrize("late", [(None, None), (None, B), (None, C)])
def test_a_biased_sharing_is_caught(twin: type[Round], late: tuple[int | None, int | None]) -> None:
    """The one share of a secret that the corrupt client has tells something of the secret."""
    scenario = Scenario(late, A)
    for owner in (B, C):
        honest, broken = (
            World(1, scenario, (Round, kind), focus=(1, owner)) for kind in (Round, twin)
        )
        x = honest.with_these_sums((1, 0))
        assert honest.hides(x)
        assert not broken.hides(x)
