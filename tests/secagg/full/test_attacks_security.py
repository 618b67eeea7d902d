"""Attacks of a cheating server, carried to the end: against the client, and against a twin of it.

The server tells each client what it likes, goes on with whoever answers, pools what it has with
corrupt clients, and tries to take every mask off a victim's vector. Against twins that lack the one
check (the rule may stand at two places) it ends up with the victim's input, exactly. Against the
clients that run it ends up with nothing, and whoever has refused stays silent for the session.

``A`` is the victim, clients are honest where nothing else is said. Not every check stands alone
between a server and an input: where another one covers for it, ``test_client_attacks.py`` shows
what a twin without it would say.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair
from mpc.core.ring import RingArray
from secagg.full.client import Client, Phase
from secagg.full.identity import keys_text
from secagg.full.messages import AdvertiseKeys
from secagg.full.params import RoundParams
from tests.secagg.full.hostile import KEY, SEED, ClosedError, Hostile, Ids, Told
from tests.secagg.full.replicas import coins, new_client
from tests.secagg.full.twins import AnswersTwice, Lax, SignsForOthers, without
from tests.secagg.full.world import CLIENTS, SESSION, Circle, identity, params

A, B, C, D, E = CLIENTS


@dataclass(frozen=True)
class Attack:
    """run: returns the victim's input, or raises ClosedError.

    twin: what the clients are made of, and ``lax`` the params where the check lies there.
    refusal: the error by which clients of the real kind stop it, with the rule that it names.
    """

    run: Callable[[Hostile], RingArray]
    agreed: RoundParams
    refusal: type[Exception]
    rule: str
    twin: type[Client] = Client
    lax: RoundParams | None = None
    corrupt: Ids = ()

    def against_the_client(self) -> Hostile:
        return Hostile(self.agreed, corrupt=self.corrupt)

    def against_the_twin(self) -> Hostile:
        return Hostile(self.lax or self.agreed, self.twin, corrupt=self.corrupt)


# Keys.


def own_keys(sign: Callable[[Hostile, int, bytes], bytes], world: Hostile) -> RingArray:
    """The server's own keys in every peer's place: it reads the shares and knows the masks."""
    world.advertise()
    rng = coins("keys of the server")
    own = {u: (KeyPair.generate(rng), KeyPair.generate(rng)) for u in CLIENTS if u != A}
    forged = {}
    for u, (channel, mask) in own.items():
        keys = channel.public + mask.public
        told = world.advertised[u]
        forged[u] = AdvertiseKeys(told.session, told.route, keys, sign(world, u, keys))
        world.privates[mask.public] = mask
    world.share({A: CLIENTS}, forged)
    if A in world.shared:
        world.use_own_keys(A, {u: channel for u, (channel, _) in own.items()})
        world.mask({A: CLIENTS})
    return world.peel(A)


def by_itself(world: Hostile, u: int, keys: bytes) -> bytes:
    """A signature of a key that the server made."""
    return identity(-1).sign(keys_text(world.params, u, keys))


def by_a_corrupt_client(world: Hostile, u: int, keys: bytes) -> bytes:
    """Signed by ``E`` in each one's name."""
    return identity(E).sign(keys_text(world.params, E, keys))


def as_the_true_keys(world: Hostile, u: int, keys: bytes) -> bytes:
    """The client's own signature on its own keys."""
    return world.advertised[u].signature


# Survivors.


def split_survivors(world: Hostile) -> None:
    """All but ``A`` are told the truth about who shared; then everybody another set of survivors.

    ``A`` masks with ``B`` and ``C`` alone, and these are dropped for t clients each, while all are
    told that ``A`` is there.
    """
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, B, C)})
    world.sign(SETS)


SETS: Told = {A: (A, B, C), B: (A, B, D), C: (A, C, D), D: (A, D, E), E: (A, D, E)}


def survivors_with_the_signatures_there_are(world: Hostile) -> RingArray:
    split_survivors(world)
    world.unmask(SETS)
    return world.peel(A)


def survivors_with_signatures_on_other_sets(world: Hostile) -> RingArray:
    split_survivors(world)
    any_set = {u: text for (u, _), text in world.signatures.items()}
    world.unmask(SETS, lambda members: {u: any_set[u] for u in members if u in any_set})
    return world.peel(A)


def split_request(world: Hostile) -> RingArray:
    """One half is asked with ``A`` among the survivors, the other half without it."""
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    everybody, rest = (A, B, C, D), (B, C, D)
    halves: Told = {A: everybody, B: everybody, C: rest, D: rest}
    world.sign(halves)
    world.unmask(halves)
    return world.peel(A)


def split_request_with_a_corrupt_client(world: Hostile) -> RingArray:
    """As before; ``E`` signs both sets, and the server has both its shares of everything."""
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    rest = (B, C, D, E)
    halves: Told = {A: CLIENTS, B: CLIENTS, C: rest, D: rest}
    world.sign(halves)
    world.unmask(halves)
    return world.peel(A)


def peers_of_a_that_did_not_share(world: Hostile) -> RingArray:
    """``A`` masks with ``D`` and ``E`` alone; then all agree that these two left.

    Everybody signs one and the same set of survivors, with ``A`` in it.
    """
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, D, E)})
    survivors = dict.fromkeys((A, B, C), (A, B, C))
    world.sign(survivors)
    world.unmask(survivors)
    return world.peel(A)


def signatures_of_others(world: Hostile) -> RingArray:
    """As before, but ``A`` is not asked: ``D`` and ``E`` sign, who are no survivors."""
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, D, E)})
    survivors = dict.fromkeys((B, C, D, E), (A, B, C))
    world.sign(survivors)
    world.unmask(survivors)
    return world.peel(A)


# Cohorts.


def shrunk_cohort(world: Hostile) -> RingArray:
    """``A`` masks with ``B`` alone, and the others agree that ``B`` left."""
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, B)})
    survivors = dict.fromkeys((C, D, E), (A, C, D, E))
    world.sign(survivors)
    world.unmask(survivors)
    return world.peel(A)


def shrunk_sum(world: Hostile) -> RingArray:
    """Two survivors, one of them corrupt: its input taken off the sum leaves the other's."""
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    world.unmask({A: (A, B)})
    both = world.peel(A, B)
    return world.params.ring.sub(both, world.x[B])


SIX = (*CLIENTS, 41)
CIRCLE = params(SIX, threshold=3, graph=Circle(SIX, 2))
assert Circle(SIX, 2).neighbours(A) == (B, C, E, 41)


def shrunk_neighbourhood(world: Hostile) -> RingArray:
    """Of the neighbours of ``A`` only the corrupt ``B`` is said to be left; ``D`` is none."""
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, B, D)})
    world.unmask({u: SIX for u in SIX if u != A})
    return world.peel(A)


# Requests.


def second_request(world: Hostile) -> RingArray:
    """After the honest request another one, in which ``A`` has left."""
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    world.sign(world.everybody)
    world.unmask(world.everybody)
    rest = tuple(u for u in world.params.clients if u != A)
    again = dict.fromkeys(rest, rest)
    world.sign(again)
    world.unmask(again)
    return world.peel(A)


MALICIOUS = params(threshold=3, variant="malicious")
FOUR = (A, B, C, D)
ATTACKS = {
    **{
        f"the server's own keys, signed {sign.__name__}": Attack(
            partial(own_keys, sign),
            MALICIOUS,
            PeerError,
            "did not sign these keys",
            without("check_key_signatures"),
        )
        for sign in (by_itself, by_a_corrupt_client, as_the_true_keys)
    },
    "survivors that differ, with the signatures there are": Attack(
        survivors_with_the_signatures_there_are,
        MALICIOUS,
        AbortError,
        "signed the survivors, 3 needed",
        without("check_signer_count"),
    ),
    "survivors that differ, with signatures on other sets": Attack(
        survivors_with_signatures_on_other_sets,
        MALICIOUS,
        PeerError,
        "did not sign these survivors",
        without("check_survivor_signatures"),
    ),
    "a request split over two halves": Attack(
        split_request,
        params(FOUR, threshold=3, variant="malicious"),
        AbortError,
        "2 clients signed the survivors, 3 needed",
        lax=Lax(SESSION, 7, FOUR, 2, MALICIOUS.ring, 4, "malicious"),
    ),
    "a request split over two halves, with a corrupt client": Attack(
        split_request_with_a_corrupt_client,
        params(threshold=4, variant="malicious", colluding=1),
        AbortError,
        "3 clients signed the survivors, 4 needed",
        lax=Lax(SESSION, 7, CLIENTS, 3, MALICIOUS.ring, 4, "malicious", colluding=1),
        corrupt=(E,),
    ),
    "peers who are said to have left": Attack(
        peers_of_a_that_did_not_share,
        MALICIOUS,
        PeerError,
        f"clients {[B, C]} that took no part before",
        without("check_subset"),
    ),
    "survivors that others sign for": Attack(
        signatures_of_others,
        MALICIOUS,
        PeerError,
        f"client {D} is not in the set of survivors",
        SignsForOthers,
    ),
    "a cohort shrunk to two": Attack(
        shrunk_cohort,
        MALICIOUS,
        AbortError,
        "2 clients of 3 needed",
        without("check_count", "check_threshold"),
    ),
    "a sum shrunk to two": Attack(
        shrunk_sum,
        params(FOUR, threshold=2, colluding=1),
        AbortError,
        "2 clients of 3 needed",
        without("check_count"),
        corrupt=(B,),
    ),
    "a neighbourhood shrunk to corrupt clients": Attack(
        shrunk_neighbourhood,
        CIRCLE,
        AbortError,
        "2 clients of 3 needed beside this one",
        without("check_threshold"),
        corrupt=(B,),
    ),
    "a second request, malicious": Attack(
        second_request, MALICIOUS, StateError, "in phase DONE", AnswersTwice
    ),
    "a second request, semi-honest": Attack(
        second_request, params(threshold=3), StateError, "in phase DONE", AnswersTwice
    ),
}
ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


@ATTACK
def test_an_attack_opens_nothing_and_is_refused_for_good(attack: Attack) -> None:
    world = attack.against_the_client()
    with pytest.raises(ClosedError):
        attack.run(world)
    _, error = world.refusals[0]
    assert isinstance(error, attack.refusal)
    assert attack.rule in error.message
    for u in {u for u, _ in world.refusals}:
        # Who has answered once is done; every other refusal is one for the whole session.
        done = attack.refusal is StateError
        assert world.clients[u].phase is (Phase.DONE if done else Phase.ABORTED)
        assert world.clients[u]._secrets is None
        later = replace(world.params, round=world.params.round + 1)
        with nullcontext() if done else pytest.raises(StateError):
            new_client(later, u, history=world.clients[u]._history)


@ATTACK
def test_a_twin_without_the_check_gives_the_victim_s_input(attack: Attack) -> None:
    world = attack.against_the_twin()
    assert np.array_equal(attack.run(world), world.x[A])
    assert not world.refusals


@pytest.mark.parametrize(("n", "t", "colluding"), [(4, 2, 0), (5, 3, 1), (6, 3, 0), (9, 6, 3)])
def test_a_threshold_that_two_halves_could_meet_is_refused(n: int, t: int, colluding: int) -> None:
    clients = tuple(range(n))
    with pytest.raises(ParameterError, match="against a malicious server"):
        params(clients, threshold=t, variant="malicious", colluding=colluding)
    params(clients, threshold=t + 1, variant="malicious", colluding=colluding)


# What never leaves a client.


def own_key_share_is_asked(kind: type[Client]) -> Hostile:
    """All others are survivors, ``A`` itself is told to have left."""
    world = Hostile(params(threshold=3), kind)
    world.advertise()
    world.share(world.everybody)
    world.mask(world.everybody)
    world.unmask({A: CLIENTS[1:]})
    return world


def test_a_client_never_gives_the_share_of_its_own_mask_key() -> None:
    world = own_key_share_is_asked(Client)
    [(who, error)] = world.refusals
    assert (who, type(error)) == (A, PeerError)
    assert "not in the set of survivors" in error.message
    assert not world.shares


def test_a_twin_that_need_not_survive_gives_the_share_of_its_own_mask_key() -> None:
    world = own_key_share_is_asked(without("check_own_membership"))
    assert (A, KEY) in world.shares
    assert (A, SEED) not in world.shares
