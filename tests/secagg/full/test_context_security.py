"""Clients that are told different things about a round share no mask of it, so no sum opens.

A server that may tell each client what its numbers mean, or what model they are about, separates
one client's input from the sum without touching the protocol: it lets one client write its numbers
a thousand times as large as all others. So whatever clients must agree on stands in the round's
context, and the context in every key that two of them share.
"""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from secagg.full import round_secrets
from secagg.full.client import Client, Phase
from secagg.full.masking import pair_key, unmask
from secagg.full.messages import Delivered, MaskedInput, Roster, SharedKeys
from secagg.full.params import RoundParams, Variant
from secagg.full.run import LocalRound
from secagg.full.sharing import channel_keys, self_mask_key
from secagg.masks import SignedStreams, sign
from secagg.vectors import VectorCodec
from tests.secagg.full.hostile import ClosedError, Hostile, Ids
from tests.secagg.full.replicas import coins, copy_of_client
from tests.secagg.full.world import (
    CLIENTS,
    SESSION,
    VARIANTS,
    Driven,
    bits,
    local,
    params,
    total,
)

VARIANT = pytest.mark.parametrize("variant", VARIANTS)
A, B, C, D, E = CLIENTS
T = 3
TRUE, OTHER = (hashlib.sha256(text).digest() for text in (b"one codec", b"another codec"))


class Told(Client):
    """A client that is told a context with the roster, by ``contexts``."""

    contexts: Mapping[int, bytes] = {}

    def share_keys(self, roster: Roster, *, context: bytes | None = None) -> SharedKeys:
        return super().share_keys(roster, context=self.contexts[self.client])


def told(contexts: Mapping[int, bytes]) -> type[Told]:
    return type("Told", (Told,), {"contexts": contexts})


def halves(group: Ids) -> dict[int, bytes]:
    """Who is told what: ``group`` the other context, all others the true one."""
    return {u: OTHER if u in group else TRUE for u in CLIENTS}


GROUPS = [group for size in (1, 2, 3, 4) for group in combinations(CLIENTS, size)]


class Split(Hostile):
    """A server that tells ``group`` another context than all others."""

    def __init__(self, agreed: RoundParams, group: Ids) -> None:
        super().__init__(agreed, told(halves(group)))
        self.advertise()
        self.share(self.everybody)

    def delivery(self, u: int, named: Ids) -> Delivered:
        """What ``u`` receives where these clients are said to have shared."""
        sealed = b"".join(self.piece(v, u) for v in named if v != u)
        return self._to(u, Delivered, members=bits(self.params, *named), sealed=sealed)


# Agreement.


@VARIANT
def test_clients_told_one_context_late_give_the_sum_of_those_who_knew_it(variant: Variant) -> None:
    """Late or early is the same context: masked vectors cancel between the two."""
    agreed = params(variant=variant)
    late = local(agreed, make_client=told(dict.fromkeys(CLIENTS, TRUE)))
    for u in (A, B):
        known = Driven(agreed.with_context(TRUE), victim=u)
        late.clients[u] = known.clients[u]
    late.server.bind(TRUE)
    assert np.array_equal(late.run().total, total(agreed, Driven(agreed).x, CLIENTS))


def test_a_context_that_another_one_contradicts_changes_nothing() -> None:
    agreed = params(context=TRUE)
    world = Driven(agreed).keys()
    roster = world.server.roster(A)
    with pytest.raises(ParameterError, match="another context already"):
        world.client.share_keys(roster, context=OTHER)
    with pytest.raises(ParameterError, match="at most 32 bytes"):
        Driven(params()).keys().client.share_keys(roster, context=bytes(33))
    assert world.client.phase is Phase.ADVERTISED
    world.server.receive_shares(world.client.share_keys(roster, context=TRUE))


def test_keys_are_shared_under_one_context_only() -> None:
    """A server that learns what it likes better cannot ask again."""
    world = Driven(params()).keys()
    world.client.share_keys(world.server.roster(A), context=TRUE)
    with pytest.raises(StateError):
        world.client.share_keys(world.server.roster(A), context=OTHER)


def test_an_offer_says_nothing_about_the_context() -> None:
    """What a client signs with its keys holds for whatever it will be told with the roster."""
    early, late = params(variant="malicious"), params(variant="malicious", context=TRUE)
    offers = [Driven(agreed, rng=coins("A")).client.advertise() for agreed in (early, late)]
    assert offers[0] == offers[1]


# What a server gets that tells clients different contexts.


@VARIANT
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_who_is_told_of_clients_with_another_context_does_not_mask(
    group: Ids, variant: Variant
) -> None:
    """Every set of clients that the server can name: all of them in one context, or a refusal."""
    world = Split(params(threshold=T, variant=variant), group)
    rest = tuple(u for u in CLIENTS if u not in group)
    for u in CLIENTS:
        own, peers = set(group if u in group else rest), [v for v in CLIENTS if v != u]
        for named in ({u, *some} for n in range(5) for some in combinations(peers, n)):
            client = copy_of_client(world.clients[u])
            delivery = world.delivery(u, tuple(sorted(named)))
            if len(named) >= T and named <= own:
                assert isinstance(client.mask(delivery, world.x[u]), MaskedInput)
                continue
            few = len(named) < T
            with pytest.raises(AbortError if few else PeerError, match=r"3 needed|do not open"):
                client.mask(delivery, world.x[u])
            assert client.phase is Phase.ABORTED
            assert client._secrets is None


@VARIANT
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_server_that_tells_two_contexts_opens_no_sum_of_both(
    group: Ids, variant: Variant
) -> None:
    """At best that of one side alone, if it is large enough for a sum: never the other's."""
    agreed = params(threshold=T, variant=variant)
    world = Split(agreed, group)
    world.mask(world.everybody)
    world.sign(world.everybody)
    world.unmask(world.everybody)
    assert not world.masked
    assert not world.shares
    assert {u for u, error in world.refusals if "do not open" in error.message} == set(CLIENTS)

    rest = tuple(u for u in CLIENTS if u not in group)
    world = Split(agreed, group)
    sides = {u: group if u in group else rest for u in CLIENTS}
    for act in (world.mask, world.sign, world.unmask):
        act(sides)
    large = max(group, rest, key=len)
    world.params = agreed.with_context(OTHER if large == group else TRUE)
    assert np.array_equal(world.peel(*large), total(agreed, world.x, large))
    for some in (some for n in (1, 2, 3, 4, 5) for some in combinations(CLIENTS, n)):
        if set(some) != set(large):
            with pytest.raises(ClosedError):
                world.peel(*some)


# Twins. Shares that open across contexts would not help: the masks have it too.


def masks_between(u: int, v: int, keys: Mapping[int, KeyPair], digest: bytes) -> SignedStreams:
    """What ``u`` adds for its mask with ``v`` under its own context."""
    key = pair_key(keys[u], keys[v].public, digest, u, v)
    return [(sign(u, v), Prg(key, 0))]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_masks_under_two_contexts_do_not_cancel(
    group: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left in the sum are the masks of all pairs with one client on either side, twice."""

    def without_context(keys: KeyPair, public: bytes, _: bytes, own: int, peer: int) -> list[bytes]:
        return channel_keys(keys, public, bytes(32), own, peer)

    monkeypatch.setattr(round_secrets, "channel_keys", without_context)
    agreed = params(threshold=T)
    contexts, ring = halves(group), agreed.ring
    digests = {u: agreed.with_context(contexts[u]).digest for u in CLIENTS}
    world = Driven(agreed)
    world.clients = {u: told(contexts)(agreed, u) for u in CLIENTS}
    keys, seeds = {}, {}
    for u, client in world.keys().clients.items():
        assert client._secrets is not None
        assert client._secrets._mask is not None
        keys[u], seeds[u] = client._secrets._mask, client._secrets._seed
    world.shares()
    found = np.zeros(agreed.dim, ring.dtype)
    for u in CLIENTS:
        masked = world.clients[u].mask(world.server.delivery(u), world.x[u])
        ring.add(found, ring.from_bytes(masked.payload, (agreed.dim,)), out=found)
        unmask(found, [(-1, Prg(self_mask_key(seeds[u], digests[u], u), 0))], ring)
    expected = total(agreed, world.x, CLIENTS)
    noise = np.zeros(agreed.dim, ring.dtype)
    for u in CLIENTS:
        for v in CLIENTS:
            if (u in group) != (v in group):
                unmask(noise, masks_between(u, v, keys, digests[u]), ring)
    assert noise.any()
    assert np.array_equal(found, ring.add(expected, noise))


def test_the_seed_of_who_was_told_another_context_is_not_the_one_it_committed_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An honest server, at the end of a round that a liar in between has split: no sum."""
    monkeypatch.setattr(
        round_secrets,
        "channel_keys",
        lambda keys, public, _, own, peer: channel_keys(keys, public, bytes(32), own, peer),
    )
    parties = local(params(threshold=T), make_client=told(halves((A,))))
    parties.server.bind(TRUE)
    with pytest.raises(AbortError, match="Unmasking"):
        parties.run()


class Contextless(RoundParams):
    """A twin whose keys do not depend on the context."""

    @cached_property
    def digest(self) -> bytes:
        return self.offer_digest


# The values lie on a grid of 2^-12, which the fine codec writes in steps of 2^8.
GRID = 2.0**-12


def codec(frac_bits: int) -> VectorCodec:
    model = {"w": np.zeros(6)}
    return VectorCodec.like(model, clip=2.0, frac_bits=frac_bits, ring=Ring(32), parties=5)


def run_with_scales(kind: type[RoundParams], frac_bits: Mapping[int, int]) -> tuple[Any, Any]:
    """A round in which each client writes its numbers as it was told; inputs and total."""
    codecs = {u: codec(frac_bits[u]) for u in CLIENTS}
    rng = np.random.default_rng(5)
    x = {u: rng.integers(-(2**13), 2**13, 6) * GRID for u in CLIENTS}
    agreed = kind(SESSION, 7, CLIENTS, T, Ring(32), codecs[A].size)
    parties = LocalRound(
        agreed,
        {u: codecs[u].encode({"w": x[u]}).vector for u in CLIENTS},
        make_client=told({u: codecs[u].digest for u in CLIENTS}),
    )
    parties.server.bind(codecs[A].digest)
    return x, parties.run().total


def test_a_server_that_gives_one_client_a_finer_scale_reads_it_off_the_sum_of_a_twin() -> None:
    """The others' numbers are at most 4 * 8 in a sum whose victim counts in steps of 256."""
    x, found = run_with_scales(Contextless, {A: 20, **dict.fromkeys((B, C, D, E), 2)})
    signed = found.view(np.int32)
    assert np.array_equal(np.rint(signed / 2.0**8) * GRID, x[A])


def test_a_server_that_gives_one_client_a_finer_scale_gets_no_sum() -> None:
    with pytest.raises(PeerError, match="do not open"):
        run_with_scales(RoundParams, {A: 20, **dict.fromkeys((B, C, D, E), 2)})


def test_one_scale_for_all_gives_the_sum() -> None:
    x, found = run_with_scales(RoundParams, dict.fromkeys(CLIENTS, 12))
    assert np.array_equal(codec(12).sums(found)["w"], np.sum(list(x.values()), axis=0))
