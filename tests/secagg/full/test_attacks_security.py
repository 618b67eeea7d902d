"""Attacks of a cheating server, carried to the end: against the client, and against a twin of it.

The server tells each client what it likes, goes on with whoever answers, pools what it has with
corrupt clients, and tries to take every mask off a victim's vector. Against twins that lack the one
check (the rule may stand at two places) it ends up with the victim's input, exactly. Against the
clients that run it ends up with nothing, and whoever has refused stays silent for the session.

``A`` is the victim, clients are honest where nothing else is said. Not every check stands alone
between a server and an input: where another one covers for it, ``test_client.py`` shows what a twin
without it would say.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError, WireError
from mpc.core.keys import KeyPair, open_sealed
from mpc.core.ring import RingArray
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.identity import keys_text
from secagg.full.masking import client_streams, unmask
from secagg.full.messages import (
    AdvertiseKeys,
    Delivered,
    MaskedInput,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.params import RoundParams
from secagg.full.sharing import channel_keys, self_mask_key
from tests.secagg.full.hostile import KEY, SEED, ClosedError, Hostile, Ids, Told
from tests.secagg.full.replicas import coins, new_client
from tests.secagg.full.world import CLIENTS, SESSION, Circle, identity, params

A, B, C, D, E = CLIENTS


def without(*names: str) -> type[Client]:
    """A twin in which the checks of these names pass everything."""

    def passes(self: Client, *arguments: object) -> None:
        return None

    return type("Twin", (Client,), dict.fromkeys(names, passes))


class AnswersTwice(Client):
    """A twin that is ready again for the last two steps once it has answered."""

    def unmask(self, request: UnmaskRequest) -> UnmaskShares:
        secrets, before = self._secrets, Phase.MASKED
        answer = super().unmask(request)
        self._secrets, self._phase = secrets, before
        return answer


class NoSelfMask(Client):
    """A twin whose vectors carry the pairwise masks only."""

    def mask(self, delivered: Delivered, x: RingArray) -> MaskedInput:
        agreed, secrets = self.params, self._secrets
        assert secrets is not None
        masked = super().mask(delivered, x)
        own = client_streams(self.client, self_mask_key(secrets._seed, agreed.digest, self.client), [])
        vector = agreed.ring.from_bytes(masked.payload, (agreed.dim,))
        unmask(vector, [(-sign, stream) for sign, stream in own], agreed.ring)
        return MaskedInput.make(
            agreed.session,
            agreed.round,
            self.client,
            bits=masked.bits,
            payload=agreed.ring.to_bytes(vector),
        )


class Lax(RoundParams):
    """Twin params, under which any threshold goes."""

    def _check_thresholds(self, n: int) -> None:
        return


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


def own_keys_in_every_peer_s_place(world: Hostile) -> RingArray:
    """The server's own keys in every peer's place: it reads the shares and knows the masks."""
    world.advertise()
    rng = coins("keys of the server")
    own = {u: (KeyPair.generate(rng), KeyPair.generate(rng)) for u in CLIENTS if u != A}
    forged = {}
    for u, (channel, mask) in own.items():
        keys = channel.public + mask.public
        # It signs with a key of its own, for it has nobody else's.
        signature = identity(-1).sign(keys_text(world.params, u, keys))
        told = world.advertised[u]
        forged[u] = AdvertiseKeys(told.session, told.route, keys, signature)
        world.privates[mask.public] = mask
    world.share({A: CLIENTS}, forged)
    if A in world.shared:
        world.use_own_keys(A, {u: channel for u, (channel, _) in own.items()})
        world.mask({A: CLIENTS})
    return world.peel(A)


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
    """``A`` masks with ``D`` and ``E`` alone; then all agree that these two left, and ``A`` did not.

    Everybody signs one and the same set of survivors.
    """
    world.advertise()
    world.share(world.everybody)
    world.mask({**world.everybody, A: (A, D, E)})
    survivors = dict.fromkeys((A, B, C), (A, B, C))
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
    "the server's own keys": Attack(
        own_keys_in_every_peer_s_place,
        MALICIOUS,
        PeerError,
        "did not sign these keys",
        without("check_key_signatures"),
    ),
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
        "clients [5, 9] that took no part before",
        without("check_subset"),
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


# Points of low order: whoever listens knows every key that is agreed with them.

THREE = (A, B, C)
PRIME = 2**255 - 19
LOW_ORDER = [
    number.to_bytes(32, "little")
    for number in (
        0,
        1,
        PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
]


class ZeroKey(KeyPair):
    """What a listener has: no private key, and the result that needs none."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def exchange(self, peer: bytes) -> bytes:
        return bytes(32)


def listened(world: Hostile) -> RingArray:
    """``B`` and ``C`` advertise, under their own signatures, four points of low order."""
    world.advertise()
    forged, channels = {}, {}
    for u, (first, second) in {B: LOW_ORDER[:2], C: LOW_ORDER[2:4]}.items():
        keys, told = first + second, world.advertised[u]
        signature = identity(u).sign(keys_text(world.params, u, keys))
        forged[u] = AdvertiseKeys(told.session, told.route, keys, signature)
        channels[u], world.privates[second] = ZeroKey(first), ZeroKey(second)
    world.share({A: THREE}, forged)
    if A in world.shared:
        world.use_own_keys(A, channels)
        world.mask({A: THREE})
    return world.peel(A)


LISTENED = params(THREE, threshold=2, variant="malicious")


def test_keys_of_low_order_are_refused_before_a_share_leaves() -> None:
    world = Hostile(LISTENED)
    with pytest.raises(ClosedError):
        listened(world)
    [(who, error)] = world.refusals
    assert who == A
    assert isinstance(error, PeerError)
    assert error.party == B
    assert "low order" in error.message
    assert world.clients[A].phase is Phase.ABORTED


@pytest.mark.parametrize("public", LOW_ORDER, ids=range(len(LOW_ORDER)))
def test_every_point_of_low_order_gives_zero(public: bytes) -> None:
    with pytest.raises(WireError, match="low order"):
        KeyPair.generate().exchange(public)


def test_a_twin_that_takes_keys_of_low_order_tells_a_listener_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing = KeyPair.exchange

    def exchange(keys: KeyPair, peer: bytes) -> bytes:
        try:
            return refusing(keys, peer)
        except WireError:
            return bytes(32)

    monkeypatch.setattr(KeyPair, "exchange", exchange)
    world = Hostile(LISTENED)
    assert np.array_equal(listened(world), world.x[A])
    assert not world.refusals


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


# Alive in four rounds of a session, dropped in the fifth.


class OneKeyForTheSession(Client):
    """A twin whose mask key serves in every round of the session."""

    def __init__(self, agreed: RoundParams, client: int, **more: Any) -> None:
        super().__init__(agreed, client, **more)
        assert self._secrets is not None
        self._secrets._mask = KeyPair(coins(f"{agreed.session!r} {client}").bytes(32))
        self._secrets.keys = self._secrets.keys[:32] + self._secrets._mask.public


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
        for key in keys:
            # Nor do they open what was sealed, in whosever place.
            for u, v in permutations(CLIENTS, 2):
                out, back = channel_keys(key, publics[v][0], world.params.digest, u, v)
                for opening in (out, back, key.private_bytes()):
                    for piece in (world.piece(u, v), world.piece(v, u)):
                        with pytest.raises(WireError):
                            open_sealed(opening, piece)


def test_a_twin_with_one_key_for_the_session_opens_rounds_1_to_4_with_the_5th() -> None:
    worlds = five_rounds(OneKeyForTheSession, MALICIOUS)
    secret = worlds[-1].secret(A, KEY)
    assert secret is not None
    for world in worlds[:-1]:
        world.privates[KeyPair(secret).public] = KeyPair(secret)
        assert np.array_equal(world.peel(A), world.x[A])
