"""What a client refuses before a secret leaves, each with a twin that lacks the check.

The server here is the adversary: it writes rosters, deliveries and requests as it likes. Each
twin replaces one check of ``ClientChecks`` or one step of ``Client`` and then does what the honest
client refuses.
"""

import copy
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import AbortError, ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.identity import Identity, keys_text, roster_hash, survivors_text
from secagg.full.messages import (
    KEYS_BYTES,
    SEALED_BYTES,
    SHARE_BYTES,
    Delivered,
    RoundAborted,
    RoundDone,
    RoundMessage,
    Roster,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
)
from secagg.full.params import RoundParams, Variant
from secagg.messages import SERVER
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    SESSION,
    VARIANTS,
    Driven,
    bits,
    identity,
    params,
    signing,
)

ME, PEER = CLIENTS[0], CLIENTS[1]
HONEST, MALICIOUS = params(), params(variant="malicious")


def changed(message: RoundMessage, **fields: Any) -> Any:
    """The message with some fields replaced."""
    own = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message)(**{**own, **fields})


def phase(client: Client) -> Phase:
    return client.phase  # through a call, since a type checker takes it for unchanging


def ignore(*names: str) -> type[Client]:
    """A broken twin: the checks of these names pass everything."""

    def passes(self: Client, *arguments: object) -> None:
        return None

    return type("Twin", (Client,), dict.fromkeys(names, passes))


@dataclass(frozen=True)
class Attack:
    """A message of a cheating server for one step, the rule against it, and how it is refused."""

    step: Step
    forge: Callable[[Driven], RoundMessage]
    rule: tuple[str, ...]
    error: type[Exception] = PeerError
    variant: Variant = "semi-honest"

    def start(self, kind: type[Client] = Client, **more: Any) -> Driven:
        agreed = MALICIOUS if self.variant == "malicious" else HONEST
        world = Driven(agreed, kind=kind, **more)
        return world.before(self.step)

    def deliver(self, world: Driven) -> RoundMessage:
        message = self.forge(world)
        client = world.client
        if isinstance(message, Roster):
            return client.share_keys(message)
        if isinstance(message, Delivered):
            return client.mask(message, world.x[ME])
        if isinstance(message, SurvivorsRequest):
            return client.sign_survivors(message)
        assert isinstance(message, UnmaskRequest)
        return client.unmask(message)


# Rosters. A roster lists 64 bytes for each of the five clients, in order.


def roster(world: Driven, **keys: bytes) -> Roster:
    """The honest roster with channel or mask key of the peer (position 1) replaced."""
    honest = world.server.roster(ME)
    both = [honest.keys[KEYS_BYTES : KEYS_BYTES + 32], honest.keys[KEYS_BYTES + 32 : 2 * KEYS_BYTES]]
    both = [keys.get("channel", both[0]), keys.get("mask", both[1])]
    replaced = honest.keys[:KEYS_BYTES] + b"".join(both) + honest.keys[2 * KEYS_BYTES :]
    return changed(honest, keys=replaced)  # type: ignore[no-any-return]


def own_key_altered(world: Driven) -> Roster:
    honest = world.server.roster(ME)
    foreign = KeyPair.generate().public + KeyPair.generate().public
    return changed(honest, keys=foreign + honest.keys[KEYS_BYTES:])  # type: ignore[no-any-return]


def one_key_twice(world: Driven) -> Roster:
    third = world.server.roster(ME).keys[2 * KEYS_BYTES :][:32]
    return roster(world, channel=third)


def part_of_roster(world: Driven, *clients: int) -> Roster:
    honest = world.server.roster(ME)
    kept = [CLIENTS.index(client) for client in clients]
    rows = b"".join(honest.keys[at * KEYS_BYTES : (at + 1) * KEYS_BYTES] for at in kept)
    signed = b"".join(honest.signatures[at * 64 : (at + 1) * 64] for at in kept)
    return changed(  # type: ignore[no-any-return]
        honest, members=bits(world.params, *clients), keys=rows, signatures=signed
    )


def server_key_signed_by_itself(world: Driven) -> Roster:
    """The server's own keys in the peer's place, with a signature of a key that it made."""
    keys = KeyPair.generate().public + KeyPair.generate().public
    signature = Identity.generate().sign(keys_text(world.params, PEER, keys))
    honest = world.server.roster(ME)
    signatures = honest.signatures[:64] + signature + honest.signatures[128:]
    forged = roster(world, channel=keys[:32], mask=keys[32:])
    return changed(forged, signatures=signatures)  # type: ignore[no-any-return]


def keys_of_another_round(world: Driven) -> Roster:
    """The peer's keys of the round before, with its true signature on them."""
    earlier = params(variant="malicious", round=world.params.round - 1)
    old = Client(earlier, PEER, **signing(earlier, PEER)).advertise()
    honest = world.server.roster(ME)
    signatures = honest.signatures[:64] + old.signature + honest.signatures[128:]
    forged = roster(world, channel=old.channel, mask=old.mask)
    return changed(forged, signatures=signatures)  # type: ignore[no-any-return]


def unsigned(world: Driven) -> Roster:
    return changed(world.server.roster(ME), signatures=b"")  # type: ignore[no-any-return]


# Deliveries and survivors.


def part_of_delivery(world: Driven, *clients: int) -> Delivered:
    honest = world.server.delivery(ME)
    peers = [client for client in CLIENTS if client != ME]
    kept = [peers.index(client) for client in clients if client != ME]
    pieces = (honest.sealed[at * SEALED_BYTES : (at + 1) * SEALED_BYTES] for at in kept)
    return changed(  # type: ignore[no-any-return]
        honest, members=bits(world.params, *clients), sealed=b"".join(pieces)
    )


def swapped_shares(world: Driven) -> Delivered:
    """Two peers' sealed shares in each other's place."""
    sealed = world.server.delivery(ME).sealed
    first, second = sealed[:SEALED_BYTES], sealed[SEALED_BYTES : 2 * SEALED_BYTES]
    exchanged = second + first + sealed[2 * SEALED_BYTES :]
    return changed(world.server.delivery(ME), sealed=exchanged)  # type: ignore[no-any-return]


def reflected_shares(world: Driven) -> Delivered:
    """Our own shares for the peer come back as the peer's for us."""
    ours = world.server._state.shares[0].sealed[:SEALED_BYTES]
    honest = world.server.delivery(ME)
    return changed(  # type: ignore[no-any-return]
        honest, sealed=ours + honest.sealed[SEALED_BYTES:]
    )


def of_another_recipient(world: Driven) -> Delivered:
    """The peer's shares for somebody else."""
    honest = world.server.delivery(ME)
    other = world.server.delivery(CLIENTS[2])
    place = 1  # of the peer among the senders to that client: 2, then 5
    piece = other.sealed[place * SEALED_BYTES : (place + 1) * SEALED_BYTES]
    return changed(  # type: ignore[no-any-return]
        honest, sealed=piece + honest.sealed[SEALED_BYTES:]
    )


def survivors(world: Driven, *clients: int) -> SurvivorsRequest:
    return SurvivorsRequest.make(
        SESSION, world.params.round, ME, members=bits(world.params, *clients)
    )


def request(world: Driven, *clients: int) -> UnmaskRequest:
    """A request for these survivors; in the malicious variant with the honest signatures."""
    return changed(  # type: ignore[no-any-return]
        world.question(), members=bits(world.params, *clients)
    )


def left_before(world: Driven, *clients: int) -> UnmaskRequest:
    return request(world, *clients)


def signed_by(world: Driven, signers: dict[int, Identity], *survivors: int) -> UnmaskRequest:
    """A request for survivors that these keys signed."""
    members = bits(world.params, *(survivors or CLIENTS))
    honest = world.server.roster(ME)
    text = survivors_text(
        world.params, roster_hash(world.params, honest.members, honest.keys), members
    )
    signatures = b"".join(key.sign(text) for _, key in sorted(signers.items()))
    packed = bits(world.params, *signers)
    return UnmaskRequest.make(
        *(SESSION, world.params.round, ME), members=members, signers=packed, signatures=signatures
    )


def signature_of_another_round(world: Driven) -> UnmaskRequest:
    """A signature that the peer gave on the same set, in a round with other keys."""
    honest = world.question()
    text = survivors_text(world.params, bytes(32), honest.members)
    signature = identity(PEER).sign(text)
    signatures = honest.signatures[:64] + signature + honest.signatures[128:]
    return changed(honest, signatures=signatures)  # type: ignore[no-any-return]


def trio(**replaced: Identity) -> dict[int, Identity]:
    named = {"first": CLIENTS[0], "second": CLIENTS[1], "third": CLIENTS[2]}
    return {client: replaced.get(name, identity(client)) for name, client in named.items()}


ATTACKS = {
    "our key altered": Attack(Step.SHARE_KEYS, own_key_altered, ("check_own_keys",)),
    "one key twice": Attack(Step.SHARE_KEYS, one_key_twice, ("check_distinct_keys",)),
    "our key in a peer's place": Attack(
        Step.SHARE_KEYS,
        lambda w: roster(w, mask=w.server.roster(ME).keys[:32]),
        ("check_distinct_keys",),
    ),
    "a shrunk roster": Attack(
        Step.SHARE_KEYS,
        lambda w: part_of_roster(w, ME, PEER),
        ("check_count", "check_threshold"),
        AbortError,
    ),
    "a roster without us": Attack(
        Step.SHARE_KEYS,
        lambda w: part_of_roster(w, *CLIENTS[1:]),
        ("check_own_membership", "check_own_keys"),
    ),
    "the server's key, signed by itself": Attack(
        Step.SHARE_KEYS,
        server_key_signed_by_itself,
        ("check_key_signatures",),
        variant="malicious",
    ),
    "the server's key under the peer's signature": Attack(
        Step.SHARE_KEYS,
        lambda w: roster(w, mask=KeyPair.generate().public),
        ("check_key_signatures",),
        variant="malicious",
    ),
    "keys of another round": Attack(
        Step.SHARE_KEYS, keys_of_another_round, ("check_key_signatures",), variant="malicious"
    ),
    "an unsigned roster": Attack(
        Step.SHARE_KEYS, unsigned, ("check_key_signatures",), variant="malicious"
    ),
    "a shrunk delivery": Attack(
        Step.MASKED_INPUT,
        lambda w: part_of_delivery(w, ME, PEER),
        ("check_count", "check_threshold"),
        AbortError,
    ),
    "a delivery without us": Attack(
        Step.MASKED_INPUT,
        lambda w: part_of_delivery(w, *CLIENTS[1:]),
        ("check_own_membership",),
    ),
    "survivors without us": Attack(
        Step.UNMASKING, lambda w: request(w, *CLIENTS[1:]), ("check_own_membership",)
    ),
    "too few survivors": Attack(
        Step.UNMASKING,
        lambda w: request(w, ME, PEER),
        ("check_count", "check_threshold"),
        AbortError,
    ),
    "to sign: survivors without us": Attack(
        Step.CONSISTENCY_CHECK,
        lambda w: survivors(w, *CLIENTS[1:]),
        ("check_own_membership",),
        variant="malicious",
    ),
    "to sign: too few survivors": Attack(
        Step.CONSISTENCY_CHECK,
        lambda w: survivors(w, ME, PEER),
        ("check_count", "check_threshold"),
        AbortError,
        variant="malicious",
    ),
    "other survivors than we signed": Attack(
        Step.UNMASKING,
        lambda w: signed_by(w, {c: identity(c) for c in CLIENTS[:4]}, *CLIENTS[:4]),
        ("check_signed_set",),
        variant="malicious",
    ),
    "too few signers": Attack(
        Step.UNMASKING,
        lambda w: signed_by(w, {c: identity(c) for c in CLIENTS[:2]}),
        ("check_signer_count",),
        AbortError,
        variant="malicious",
    ),
    "no signers": Attack(
        Step.UNMASKING,
        lambda w: signed_by(w, {}),
        ("check_signer_count",),
        AbortError,
        variant="malicious",
    ),
    "a forged signer": Attack(
        Step.UNMASKING,
        lambda w: signed_by(w, trio(third=Identity.generate())),
        ("check_survivor_signatures",),
        variant="malicious",
    ),
    "one signer under three names": Attack(
        Step.UNMASKING,
        lambda w: signed_by(w, trio(second=identity(ME), third=identity(ME))),
        ("check_survivor_signatures",),
        variant="malicious",
    ),
    "a signature under another roster": Attack(
        Step.UNMASKING,
        signature_of_another_round,
        ("check_survivor_signatures",),
        variant="malicious",
    ),
    "signers without signatures": Attack(
        Step.UNMASKING,
        lambda w: changed(w.question(), signatures=b""),
        ("check_survivor_signatures",),
        variant="malicious",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused_for_good(attack: Attack) -> None:
    history = History()
    world = attack.start(history=history)
    with pytest.raises(attack.error):
        attack.deliver(world)
    assert phase(world.client) is Phase.ABORTED
    assert world.client._secrets is None
    # Not even the honest message is answered now, nor a later round of this session.
    with pytest.raises(StateError, match="phase ABORTED"):
        attack.deliver(world)
    later = params(variant=attack.variant, round=world.params.round + 1)
    with pytest.raises(StateError, match="has refused to go on"):
        Client(later, ME, **signing(later, ME), history=history)
    other = params(variant=attack.variant, session=OTHER_SESSION)
    Client(other, ME, **signing(other, ME), history=history)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_twin_without_the_check_answers(attack: Attack) -> None:
    world = attack.start(ignore(*attack.rule))
    assert isinstance(attack.deliver(world), RoundMessage)


# U_3 beyond U_2, with somebody who left before sharing.


@pytest.mark.parametrize("kind", [Client, ignore("check_subset")], ids=["honest", "twin"])
def test_survivors_who_shared_nothing_are_refused(kind: type[Client]) -> None:
    world = Driven(HONEST, kind=kind)
    world.keys().shares(without=[40]).masked()
    forged = request(world, *CLIENTS)
    if kind is Client:
        with pytest.raises(PeerError, match=r"clients \[40\] that took no part"):
            world.client.unmask(forged)
        assert phase(world.client) is Phase.ABORTED
    else:
        assert world.client.unmask(forged)


def test_a_delivery_from_strangers_is_refused() -> None:
    world = Driven(HONEST).keys(without=[40]).shares()
    honest = world.server.delivery(ME)
    forged = changed(
        honest, members=bits(HONEST, *CLIENTS), sealed=honest.sealed + bytes(SEALED_BYTES)
    )
    with pytest.raises(PeerError, match=r"clients \[40\] that took no part"):
        world.client.mask(forged, world.x[ME])
    assert phase(world.client) is Phase.ABORTED


# Keys that are no good.

SPELT_TWICE = (2**255 - 19 + 9).to_bytes(32, "little")


@pytest.mark.parametrize("purpose", ["channel", "mask"])
@pytest.mark.parametrize(
    "public", [bytes(32), (1).to_bytes(32, "little"), SPELT_TWICE], ids=["zero", "one", "unreduced"]
)
def test_a_key_of_low_order_is_refused_before_a_share_leaves(purpose: str, public: bytes) -> None:
    world = Driven(HONEST).keys()
    with pytest.raises(PeerError, match="public key") as caught:
        world.client.share_keys(roster(world, **{purpose: public}))
    assert caught.value.party == PEER
    assert phase(world.client) is Phase.ABORTED


@pytest.mark.parametrize(
    "forge", [swapped_shares, reflected_shares, of_another_recipient], ids=lambda f: f.__name__
)
def test_shares_that_were_not_sealed_for_us_by_this_peer(
    forge: Callable[[Driven], Delivered],
) -> None:
    world = Driven(HONEST).keys().shares()
    with pytest.raises(PeerError, match="do not open") as caught:
        world.client.mask(forge(world), world.x[ME])
    assert caught.value.party == PEER
    assert phase(world.client) is Phase.ABORTED


def test_shares_of_another_round_do_not_open() -> None:
    old = Driven(params(round=6)).keys().shares().server.delivery(ME)
    world = Driven(HONEST).keys().shares()
    forged = changed(world.server.delivery(ME), sealed=old.sealed)
    with pytest.raises(PeerError, match="do not open"):
        world.client.mask(forged, world.x[ME])


# One answer.


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_second_request_is_refused(variant: Variant) -> None:
    world = Driven(params(variant=variant)).before(Step.UNMASKING)
    world.client.unmask(world.question())
    assert phase(world.client) is Phase.DONE
    assert world.client._secrets is None
    for question in (world.question(), request(world, *CLIENTS[:4])):
        with pytest.raises(StateError, match="phase DONE"):
            world.client.unmask(question)


class Answering(Client):
    """Broken twin: answers every request, with the secrets of the first time."""

    def unmask(self, request: UnmaskRequest) -> Any:
        secrets = self._secrets
        answer = super().unmask(request)
        self._secrets, self._phase = secrets, Phase.MASKED
        return answer


def test_a_twin_that_answers_twice_gives_both_shares_of_a_peer() -> None:
    world = Driven(HONEST, kind=Answering).before(Step.UNMASKING)
    first = world.client.unmask(request(world, *CLIENTS)).shares
    second = world.client.unmask(request(world, *CLIENTS[:4])).shares
    last = slice(4 * SHARE_BYTES, 5 * SHARE_BYTES)
    assert first[: last.start] == second[: last.start]
    assert first[last] != second[last]  # the seed's share, then the key's


def test_an_answer_holds_one_share_for_each_peer() -> None:
    world = Driven(HONEST).keys().shares().masked(without=[40])
    secrets = world.client._secrets
    assert secrets is not None
    held = secrets._held
    answer = world.client.unmask(world.question())
    assert len(answer.shares) == 5 * SHARE_BYTES
    seeds = secrets.answer(np.ones(5, np.bool_), np.arange(5))
    keys = secrets.answer(np.zeros(5, np.bool_), np.arange(5))
    assert answer.shares == seeds[: 4 * SHARE_BYTES] + keys[4 * SHARE_BYTES :]
    assert held.shape == (5, 2, 16)


def test_the_split_request_opens_nobody() -> None:
    """Half of the clients are told that 40 survived, half that it did not.

    The semi-honest variant falls: with t = 2 of 5 the server gets two shares of each secret. In the
    malicious one such a threshold is refused, and whoever signed one set answers for no other.
    """
    agreed = params(threshold=2)
    world = Driven(agreed).before(Step.UNMASKING)
    views = {2: CLIENTS, 5: CLIENTS, 9: CLIENTS[:4], 11: CLIENTS[:4]}
    for client, told in views.items():
        question = changed(world.server.unmask_request(client), members=bits(agreed, *told))
        world.clients[client].unmask(question)
    with pytest.raises(ParameterError, match="at least 3"):
        params(threshold=2, variant="malicious")
    world = Driven(MALICIOUS).before(Step.CONSISTENCY_CHECK)
    signatures: dict[bytes, list[int]] = {}
    for client, told in views.items():
        asked = changed(world.server.survivors_request(client), members=bits(MALICIOUS, *told))
        world.clients[client].sign_survivors(asked)
        signatures.setdefault(asked.members, []).append(client)
    # With 40 itself colluding, no set has more than three signers, and only one of them three.
    assert max(map(len, signatures.values())) + 1 == MALICIOUS.threshold
    assert sum(map(len, signatures.values())) + 2 < 2 * MALICIOUS.threshold + 1


def test_mask_secrets_are_gone_once_shared_and_pair_keys_once_used() -> None:
    world = Driven(HONEST).keys().shares()
    secrets = world.client._secrets
    assert secrets is not None
    assert secrets._mask is None
    assert len(secrets._pairs) == 4
    world.masked()
    assert not secrets._pairs
    assert not secrets._opening


def test_a_client_alive_in_one_round_and_dropped_in_the_next_shares_fresh_secrets() -> None:
    """Nothing that can be put together in one round serves in the other."""
    first, second = (
        Driven(params(round=round)).before(Step.UNMASKING).client._secrets for round in (1, 2)
    )
    assert first is not None
    assert second is not None
    assert first._seed != second._seed
    assert first.keys[:32] != second.keys[:32]
    assert first.keys[32:] != second.keys[32:]


# Order, address, wrong lists: refused without consequences.


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", range(1, 6))
def test_calls_out_of_order_change_nothing(variant: Variant, step: int) -> None:
    agreed = params(variant=variant)
    done = Driven(agreed).before(Step.UNMASKING)
    world = Driven(agreed).before(Step(step))
    if step == Step.CONSISTENCY_CHECK and variant == "semi-honest":
        return
    calls: dict[int, Callable[[], object]] = {
        1: world.client.advertise,
        2: lambda: world.client.share_keys(done.server.roster(ME)),
        3: lambda: world.client.mask(done.server.delivery(ME), done.x[ME]),
        4: lambda: world.client.sign_survivors(done.server.survivors_request(ME)),
        5: lambda: world.client.unmask(done.question()),
    }
    before = phase(world.client)
    for number, call in calls.items():
        if number != step:
            with pytest.raises(StateError):
                call()
    assert phase(world.client) is before
    for rest in range(step, 6):
        [world.keys, world.shares, world.masked, world.signed, world.opened][rest - 1]()


def misaddressed(message: RoundMessage, agreed: RoundParams) -> list[RoundMessage]:
    own = {
        name: getattr(message, name)
        for name in message.__struct_fields__
        if name not in ("session", "route")
    }
    kind = type(message)
    return [
        kind.make(OTHER_SESSION, agreed.round, ME, **own),
        kind.make(SESSION, agreed.round + 1, ME, **own),
        kind.make(SESSION, agreed.round, PEER, **own),
    ]


@pytest.mark.parametrize("step", range(2, 6))
def test_messages_for_others_change_nothing(step: int) -> None:
    world = Driven(MALICIOUS).before(Step(step))
    client, server = world.client, world.server
    make: dict[int, tuple[Callable[[int], RoundMessage], Callable[[Any], object]]] = {
        2: (server.roster, client.share_keys),
        3: (server.delivery, lambda message: client.mask(message, world.x[ME])),
        4: (server.survivors_request, client.sign_survivors),
        5: (server.unmask_request, client.unmask),
    }
    honest, receive = make[step][0](ME), make[step][1]
    before = phase(client)
    for message in misaddressed(honest, MALICIOUS):
        with pytest.raises(PeerError, match="came to client") as caught:
            receive(message)
        assert caught.value.party == SERVER
    for members in (b"", bits(MALICIOUS, *CLIENTS) + b"\0", b"\xff"):
        with pytest.raises(PeerError):
            receive(changed(honest, members=members))
    assert phase(client) is before
    receive(honest)


def test_lists_of_the_wrong_length_change_nothing() -> None:
    world = Driven(HONEST).keys()
    honest = world.server.roster(ME)
    for keys in (b"", honest.keys[:-KEYS_BYTES], honest.keys + bytes(KEYS_BYTES)):
        with pytest.raises(PeerError, match="keys must take"):
            world.client.share_keys(changed(honest, keys=keys))
    with pytest.raises(PeerError, match="signatures must take 0"):
        world.client.share_keys(changed(honest, signatures=bytes(64 * 5)))
    world.shares()
    delivery = world.server.delivery(ME)
    with pytest.raises(PeerError, match="sealed must take"):
        world.client.mask(changed(delivery, sealed=delivery.sealed[SEALED_BYTES:]), world.x[ME])
    world.masked()
    with pytest.raises(PeerError, match="signers and signatures must take 0"):
        world.client.unmask(changed(world.question(), signers=b"\x1f"))
    world.opened()


@pytest.mark.parametrize(
    "x",
    [
        np.zeros(3, np.uint32),
        np.zeros((1, 4), np.uint32),
        np.zeros(4, np.uint64),
        np.zeros(4, np.float64),
        [0, 0, 0, 0],
    ],
    ids=str,
)
def test_inputs_that_do_not_fit_change_nothing(x: Any) -> None:
    world = Driven(HONEST).keys().shares()
    with pytest.raises(ParameterError):
        world.client.mask(world.server.delivery(ME), x)
    world.masked().opened()


def test_an_input_is_not_changed() -> None:
    world = Driven(HONEST).keys().shares()
    before = {client: x.copy() for client, x in world.x.items()}
    world.masked()
    assert all(np.array_equal(world.x[client], before[client]) for client in CLIENTS)


# Construction, notices, copies.


def test_bad_construction_is_refused() -> None:
    with pytest.raises(ParameterError, match="client 3 is not one"):
        Client(HONEST, 3)
    with pytest.raises(ParameterError, match="belong to the malicious variant"):
        Client(HONEST, ME, **signing(MALICIOUS, ME))
    for missing in ("identity", "identities"):
        some = {k: v for k, v in signing(MALICIOUS, ME).items() if k != missing}
        with pytest.raises(ParameterError, match="belong to the malicious variant"):
            Client(MALICIOUS, ME, **some)
    with pytest.raises(ParameterError, match="another key for client 2"):
        Client(MALICIOUS, ME, **{**signing(MALICIOUS, ME), "identity": identity(PEER)})


def test_a_round_serves_once() -> None:
    history = History()
    Client(HONEST, ME, history=history)
    for round in (7, 6, 0):
        with pytest.raises(StateError, match="has served round"):
            Client(params(round=round), ME, history=history)
    Client(params(round=8), ME, history=history)


def test_a_refusal_ends_other_rounds_that_are_under_way() -> None:
    history = History()
    first = Driven(params(round=1), history=history).keys()
    second = Driven(params(round=2), history=history).keys()
    with pytest.raises(PeerError):
        second.client.share_keys(own_key_altered(second))
    with pytest.raises(StateError, match="refused to go on"):
        first.client.share_keys(first.server.roster(ME))


@pytest.mark.parametrize("kind", [RoundDone, RoundAborted])
def test_a_notice_drops_the_secrets(kind: type[RoundMessage]) -> None:
    fields: dict[str, Any] = (
        {"members": b"\x1f"} if kind is RoundDone else {"step": 3, "missing": b"\x01"}
    )
    world = Driven(HONEST).keys().shares()
    wrong = kind.make(SESSION, 8, ME, **fields)
    with pytest.raises(PeerError):
        world.client.close(wrong)  # type: ignore[arg-type]
    assert phase(world.client) is Phase.SHARED
    world.client.close(kind.make(SESSION, 7, ME, **fields))  # type: ignore[arg-type]
    assert phase(world.client) is Phase.ABORTED
    assert world.client._secrets is None
    with pytest.raises(StateError):
        world.client.mask(world.server.delivery(ME), world.x[ME])


def test_a_client_cannot_be_copied_and_shows_no_secret() -> None:
    client = Driven(HONEST).before(Step.UNMASKING).client
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not picklable"):
            duplicate(client)
        with pytest.raises(TypeError, match="not picklable"):
            duplicate(client._secrets)
    assert repr(client) == "Client(2, round=7, phase=MASKED)"
    assert repr(client._secrets) == "RoundSecrets(client=2)"


def test_a_forked_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StateError, match="another process"):
        world.client.unmask(world.question())
