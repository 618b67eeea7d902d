"""The client: order and address of messages, inputs, rounds of a session, copies."""

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError, PeerError, StateError
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.messages import (
    KEYS_BYTES,
    SEALED_BYTES,
    RoundAborted,
    RoundDone,
    RoundMessage,
    Step,
)
from secagg.full.params import RoundParams, Variant
from secagg.messages import SERVER
from tests.secagg.full.forgeries import HONEST, MALICIOUS, ME, PEER, own_key_altered
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    SESSION,
    VARIANTS,
    Driven,
    bits,
    changed,
    identity,
    params,
    phase,
    signing,
)

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
