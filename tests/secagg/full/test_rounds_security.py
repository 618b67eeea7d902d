"""What a lie about a late client, or a secret opened in a later round, gives a server: nothing.

A client that is late has sent its vector, and the server gets its mask key as if it had left: the
self mask keeps the vector closed. What is opened in one round opens nothing of another one.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mpc.core.errors import WireError
from mpc.core.keys import KeyPair, open_sealed
from secagg.full.client import Client
from secagg.full.history import History
from secagg.full.params import RoundParams
from secagg.full.sharing import channel_keys
from tests.secagg.full.hostile import KEY, SEED, ClosedError, Hostile
from tests.secagg.full.twins import NoSelfMask, OneKeyForTheSession
from tests.secagg.full.world import CLIENTS, params

A = CLIENTS[0]
MALICIOUS = params(threshold=3, variant="malicious")

# A client that is late: its vector arrives, and the server says that it did not.


def lie_about_a_late_client(world: Hostile) -> None:
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    rest = dict.fromkeys(CLIENTS[1:], CLIENTS[1:])
    world.sign(rest)
    world.unmask(rest)
    assert not world.refusals
    assert world.secret(A, KEY) is not None


@pytest.mark.parametrize("agreed", [MALICIOUS, params(threshold=3)], ids=["malicious", "honest"])
def test_a_late_client_s_self_mask_closes_its_vector(agreed: RoundParams) -> None:
    world = Hostile(agreed)
    lie_about_a_late_client(world)
    with pytest.raises(ClosedError, match=f"self mask of client {A}"):
        world.peel(A)
    # Under no seed that the server has learned, or could take for one, does the vector open.
    seeds = [world.secret(u, SEED) for u in CLIENTS[1:]] + [world.secret(A, KEY), bytes(32)]
    for seed in seeds:
        assert seed is not None
        assert not np.array_equal(world.peel_with(A, seed), world.x[A])
    others = world.peel(*CLIENTS[1:])
    assert np.array_equal(others, world.params.ring.sum(np.stack([*world.x.values()][1:]), axis=0))


def test_a_twin_without_self_mask_loses_its_input_to_that_lie() -> None:
    world = Hostile(MALICIOUS, NoSelfMask)
    lie_about_a_late_client(world)
    assert np.array_equal(world.peel_with(A, None), world.x[A])


# Alive in four rounds of a session, dropped in the fifth.


def five_rounds(kind: type[Client], agreed: RoundParams) -> list[Hostile]:
    """In the last one ``A`` is late: its vector arrives when the server has declared it missing."""
    history = {u: History() for u in CLIENTS}
    worlds = []
    for number in range(1, 6):
        world = Hostile(replace(agreed, round=number), kind, history=history)
        worlds.append(world)
        if number == 5:
            lie_about_a_late_client(world)
            break
        world.advertise()
        world.share(world.everybody)
        world.mask(world.everybody)
        world.sign(world.everybody)
        world.unmask(world.everybody)
        everything = world.params.ring.sum(np.stack([*world.x.values()]), axis=0)
        assert np.array_equal(world.peel(*CLIENTS), everything)
    return worlds


def known(worlds: list[Hostile]) -> set[bytes]:
    """Every secret that the server could put together, and all else of 32 bytes that it got."""
    found = {
        secret
        for world in worlds
        for u in CLIENTS
        for kind in (SEED, KEY)
        if (secret := world.secret(u, kind)) is not None
    }
    checks = {shared.check for world in worlds for shared in world.shared.values()}
    shares = {
        row.astype("<u2").tobytes()
        for world in worlds
        for held in world.shares.values()
        for row in held.values()
    }
    return found | checks | shares


@pytest.mark.parametrize("agreed", [MALICIOUS, params(threshold=3)], ids=["malicious", "honest"])
def test_alive_in_rounds_1_to_4_and_dropped_in_5_keeps_1_to_4_closed(agreed: RoundParams) -> None:
    """With everything that the server has of five rounds, as a key of every kind."""
    worlds = five_rounds(Client, agreed)
    secrets = known(worlds)
    assert worlds[-1].secret(A, KEY) in secrets
    keys = [KeyPair(secret) for secret in secrets]
    for world in worlds[:-1]:
        # The self mask is off in the honest course of a round; every pair's mask has to stay on.
        assert world.secret(A, SEED) is not None
        world.privates.update({key.public: key for key in keys})
        with pytest.raises(ClosedError, match=f"common mask of clients {A} and"):
            world.peel(A)
        publics = {u: (a.channel, a.mask) for u, a in world.advertised.items()}
        assert not {key.public for key in keys} & {p for pair in publics.values() for p in pair}
        # Nor do they open what was sealed, in whosever place.
        for key, u in product(keys, CLIENTS[1:]):
            openings = [key.private_bytes()]
            for own, peer in ((A, u), (u, A)):
                openings += channel_keys(key, publics[peer][0], world.params.digest, own, peer)
            for opening, piece in product(openings, (world.piece(A, u), world.piece(u, A))):
                with pytest.raises(WireError):
                    open_sealed(opening, piece)


def test_a_twin_with_one_key_for_the_session_opens_rounds_1_to_4_with_the_5th() -> None:
    worlds = five_rounds(OneKeyForTheSession, MALICIOUS)
    secret = worlds[-1].secret(A, KEY)
    assert secret is not None
    for world in worlds[:-1]:
        world.privates[KeyPair(secret).public] = KeyPair(secret)
        assert np.array_equal(world.peel(A), world.x[A])


# What no protocol for sums hides, and the module says: two sums have a difference.


def test_who_leaves_between_two_rounds_with_the_same_inputs_shows_its_own() -> None:
    """Against a malicious server, too: so a retry never takes the inputs of the round before."""
    history = {u: History() for u in CLIENTS}
    first = Hostile(MALICIOUS, history=history)
    first.advertise()
    first.share(first.everybody)
    first.mask(first.everybody)
    first.sign(first.everybody)
    first.unmask(first.everybody)
    second = Hostile(replace(MALICIOUS, round=MALICIOUS.round + 1), history=history)
    second.x = first.x
    lie_about_a_late_client(second)
    difference = MALICIOUS.ring.sub(first.peel(*CLIENTS), second.peel(*CLIENTS[1:]))
    assert np.array_equal(difference, first.x[A])
