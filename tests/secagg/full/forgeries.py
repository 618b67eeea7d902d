"""What a cheating server sends to a client: rosters, deliveries and requests as it likes.

Each ``Attack`` names the check of ``ClientChecks`` that refuses it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpc.core.errors import AbortError, PeerError
from mpc.core.keys import KeyPair
from secagg.full.client import Client
from secagg.full.identity import Identity, keys_text, roster_hash, survivors_text
from secagg.full.messages import (
    KEYS_BYTES,
    SEALED_BYTES,
    Delivered,
    Roster,
    RoundMessage,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
)
from secagg.full.params import Variant
from tests.secagg.full.world import (
    CLIENTS,
    SESSION,
    Driven,
    bits,
    changed,
    identity,
    params,
    signing,
)

ME, PEER = CLIENTS[0], CLIENTS[1]
HONEST, MALICIOUS = params(), params(variant="malicious")


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
    both = [
        honest.keys[KEYS_BYTES : KEYS_BYTES + 32],
        honest.keys[KEYS_BYTES + 32 : 2 * KEYS_BYTES],
    ]
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
