"""The server: what it refuses, whom it names, and how it unmasks."""

import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import (
    AbortError,
    ParameterError,
    PeerError,
    ProtocolError,
    StateError,
)
from mpc.core.keys import KeyPair
from secagg.full.client import Client
from secagg.full.identity import Identity
from secagg.full.messages import (
    SEALED_BYTES,
    SHARE_BYTES,
    AdvertiseKeys,
    RoundAborted,
    RoundDone,
    RoundMessage,
    Step,
)
from secagg.full.server import Server
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    SESSION,
    Circle,
    Driven,
    changed,
    identities,
    local,
    params,
    signing,
    total,
)
from tests.support.faults import flip_bit

HONEST, MALICIOUS = params(), params(variant="malicious")


def message_of(
    world: Driven, client: int, step: Step
) -> tuple[RoundMessage, Callable[[Any], None]]:
    """What ``client`` sends in ``step``, and what the server does with it."""
    server, sender = world.server, world.clients[client]
    if step is Step.ADVERTISE_KEYS:
        return sender.advertise(), server.receive_keys
    if step is Step.SHARE_KEYS:
        return sender.share_keys(server.roster(client)), server.receive_shares
    if step is Step.MASKED_INPUT:
        return sender.mask(server.delivery(client), world.x[client]), server.receive_masked
    if step is Step.CONSISTENCY_CHECK:
        signature = sender.sign_survivors(server.survivors_request(client))
        return signature, server.receive_signature
    return sender.unmask(server.unmask_request(client)), server.receive_unmask


STEPS = [Step(number) for number in range(1, 6)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_strangers_repeats_and_other_rounds_change_nothing(step: Step) -> None:
    world = Driven(MALICIOUS).before(step)
    message, receive = message_of(world, 5, step)
    own = {
        n: getattr(message, n) for n in message.__struct_fields__ if n not in ("session", "route")
    }
    kind = type(message)
    for wrong in (
        kind.make(OTHER_SESSION, 7, 5, **own),
        kind.make(SESSION, 8, 5, **own),
        kind.make(SESSION, 7, 6, **own),
    ):
        with pytest.raises(PeerError):
            receive(wrong)
    assert world.server.missing() == CLIENTS
    receive(message)
    with pytest.raises(PeerError, match=r"answered in .* already") as caught:
        receive(message)
    assert caught.value.party == 5
    assert world.server.missing() == (2, 9, 11, 40)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_early_and_late_messages_change_nothing(step: Step) -> None:
    messages = {}
    world = Driven(MALICIOUS)
    for other in STEPS:
        world = Driven(MALICIOUS).before(other)
        messages[other] = message_of(world, 5, other)[0]
    world = Driven(MALICIOUS).before(step)
    receive: dict[Step, Callable[[Any], None]] = {
        Step.ADVERTISE_KEYS: world.server.receive_keys,
        Step.SHARE_KEYS: world.server.receive_shares,
        Step.MASKED_INPUT: world.server.receive_masked,
        Step.CONSISTENCY_CHECK: world.server.receive_signature,
        Step.UNMASKING: world.server.receive_unmask,
    }
    close: list[Callable[[], object]] = [
        world.server.close_keys,
        world.server.close_shares,
        world.server.close_masked,
        world.server.close_signatures,
        world.server.close_unmask,
    ]
    before = world.server.save()
    for other in STEPS:
        if other is not step:
            with pytest.raises(StateError, match="is not the open one"):
                receive[other](messages[other])
            with pytest.raises(StateError, match="is not the open one"):
                close[other - 1]()
    assert world.server.save() == before


def test_who_left_stays_out() -> None:
    world = Driven(HONEST).keys(without=[40])
    late = world.clients[40].advertise()
    with pytest.raises(StateError):
        world.server.receive_keys(late)
    world.shares(without=[11])
    late_shares = world.clients[11].share_keys(world.server.roster(11))
    with pytest.raises(StateError):
        world.server.receive_shares(late_shares)
    with pytest.raises(StateError, match="client 11 has left"):
        world.server.delivery(11)
    with pytest.raises(StateError, match="client 40 has left"):
        world.server.roster(40)
    with pytest.raises(ParameterError, match="client 3"):
        world.server.delivery(3)
    masked = world.clients[2].mask(world.server.delivery(2), world.x[2])
    with pytest.raises(PeerError, match="client 11 left the round before"):
        world.server.receive_masked(type(masked).make(SESSION, 7, 11, bits=32, payload=bytes(16)))


def test_keys_are_taken_once_and_signed() -> None:
    world = Driven(HONEST)
    first = world.clients[2].advertise()
    world.server.receive_keys(first)
    fresh = KeyPair.generate().public
    for keys in (
        first.keys,
        first.keys[:32] + fresh,
        fresh + first.keys[32:],
        first.keys[32:] + fresh,
        fresh + fresh,
    ):
        with pytest.raises(PeerError, match="a second time"):
            world.server.receive_keys(AdvertiseKeys.make(SESSION, 7, 5, keys=keys))
    with pytest.raises(PeerError, match="bytes of signature"):
        world.server.receive_keys(changed(world.clients[5].advertise(), signature=bytes(64)))
    world = Driven(MALICIOUS)
    signed = world.clients[5].advertise()
    for signature in (b"", bytes(64), flip_bit(signed.signature, 3)):
        with pytest.raises(PeerError, match="did not sign its keys"):
            world.server.receive_keys(changed(signed, signature=signature))
    world.server.receive_keys(signed)


def test_payloads_that_do_not_fit_change_nothing() -> None:
    world = Driven(params(bits=31)).keys()
    server = world.server
    shares, _ = message_of(world, 5, Step.SHARE_KEYS)
    for sealed in (shares.sealed[SEALED_BYTES:], shares.sealed + bytes(SEALED_BYTES)):  # type: ignore[attr-defined]
        with pytest.raises(PeerError, match="bytes of sealed shares"):
            server.receive_shares(changed(shares, sealed=sealed))
    server.receive_shares(shares)  # type: ignore[arg-type]
    for client in (2, 9, 11, 40):
        server.receive_shares(world.clients[client].share_keys(server.roster(client)))
    server.close_shares()
    masked, _ = message_of(world, 5, Step.MASKED_INPUT)
    payload: bytes = masked.payload  # type: ignore[attr-defined]
    for wrong in (
        {"bits": 32},
        {"payload": payload[:-4]},
        {"payload": payload + payload[:4]},
        {"payload": b"\xff" * 16},
    ):
        with pytest.raises(PeerError):
            server.receive_masked(changed(masked, **wrong))
    server.receive_masked(masked)  # type: ignore[arg-type]
    for client in (2, 9, 11, 40):
        server.receive_masked(world.clients[client].mask(server.delivery(client), world.x[client]))
    server.close_masked()
    opened, _ = message_of(world, 5, Step.UNMASKING)
    answer: bytes = opened.shares  # type: ignore[attr-defined]
    for piece in (answer[SHARE_BYTES:], answer + bytes(SHARE_BYTES), b"\xff" * len(answer)):
        with pytest.raises(PeerError):
            server.receive_unmask(changed(opened, shares=piece))
    server.receive_unmask(opened)  # type: ignore[arg-type]
    world.opened(without=[5])
    assert np.array_equal(server.close_unmask(), total(world.params, world.x, CLIENTS))


def test_a_signature_on_other_survivors_is_refused() -> None:
    world = Driven(MALICIOUS).before(Step.CONSISTENCY_CHECK)
    message, receive = message_of(world, 5, Step.CONSISTENCY_CHECK)
    with pytest.raises(PeerError, match="client 9 did not sign"):
        receive(type(message).make(SESSION, 7, 9, signature=message.signature))  # type: ignore[attr-defined]
    receive(message)


# Too few.


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_too_few_end_the_round_with_step_and_names(step: Step) -> None:
    world = Driven(MALICIOUS).before(step)
    for client in (2, 40):
        message, receive = message_of(world, client, step)
        receive(message)
    close: dict[Step, Callable[[], object]] = {
        Step.ADVERTISE_KEYS: world.server.close_keys,
        Step.SHARE_KEYS: world.server.close_shares,
        Step.MASKED_INPUT: world.server.close_masked,
        Step.CONSISTENCY_CHECK: world.server.close_signatures,
        Step.UNMASKING: world.server.close_unmask,
    }
    with pytest.raises(AbortError) as caught:
        close[step]()
    assert f"step {step:d}, {step.title}: 2 of 3 needed" in caught.value.message
    assert "missing clients [5, 9, 11]" in caught.value.message
    assert world.server.step is Step.ABORTED
    assert world.server.missing() == ()
    notice = world.server.notice(2)
    assert isinstance(notice, RoundAborted)
    assert notice.step == step
    assert MALICIOUS.ids(MALICIOUS.unpack_set(notice.missing)) == (5, 9, 11)
    for call in (close[step], world.server.save):
        with pytest.raises(StateError):
            call()


def test_a_sum_of_fewer_than_the_caller_wants_is_refused() -> None:
    for agreed in (params(min_survivors=5), params(threshold=4, colluding=3)):
        world = Driven(agreed).keys().shares()
        with pytest.raises(AbortError, match="MaskedInputCollection: 4 of 5 needed"):
            world.masked(without=[2])


def test_who_is_left_alone_in_a_sparse_graph_is_named() -> None:
    clients = tuple(range(12))
    agreed = params(clients, threshold=4, graph=Circle(clients, 2))
    world = Driven(agreed, victim=0).keys().shares().masked()
    world.opened(without=[4, 5])
    with pytest.raises(AbortError, match=r"3 of 4 needed to open the secrets of clients \[3, 4,"):
        world.server.close_unmask()


def test_long_lists_are_cut() -> None:
    world = Driven(params(tuple(range(100)), threshold=90), victim=0)
    with pytest.raises(AbortError, match=r"0, 1, .* 15\] and 84 more"):
        world.server.close_keys()


# The end.


def test_the_end_leaves_nothing_behind() -> None:
    world = Driven(HONEST).before(Step.UNMASKING).opened()
    assert world.server.missing() == ()
    with pytest.raises(StateError, match="the round goes on"):
        world.server.notice(2)
    world.server.close_unmask()
    state = world.server._state
    assert not any((state.keys, state.shares, state.signatures, state.opened, state.total.any()))
    notice = world.server.notice(2)
    assert isinstance(notice, RoundDone)
    assert HONEST.ids(HONEST.unpack_set(notice.members)) == CLIENTS
    with pytest.raises(StateError):
        world.server.close_unmask()
    with pytest.raises(StateError, match="the round is over"):
        world.server.save()
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(world.server)
    assert repr(world.server) == "Server(round=7, step=DONE)"


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 1000])
def test_unmasking_in_parts_gives_the_same_sum(parts: int) -> None:
    world = Driven(HONEST).keys().shares().masked(without=[9]).opened()
    sizes = []

    def counting(run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterable[Any]:
        for task in tasks:
            sizes.append(len(task.seeds) + sum(len(gone.peers) for gone in task.dropped))
            yield run(task)

    found = world.server.close_unmask(map=counting, parts=parts)
    assert np.array_equal(found, total(HONEST, world.x, [2, 5, 11, 40]))
    assert len(sizes) == min(parts, 8)
    assert sum(sizes) == 8  # four self masks, and one dropped client's four
    assert max(sizes) - min(sizes) <= 1


def test_unmasking_in_worker_processes() -> None:
    world = Driven(HONEST).keys().shares().masked(without=[9]).opened()
    with ProcessPoolExecutor(2) as pool:
        found = world.server.close_unmask(map=pool.map, parts=2)
    assert np.array_equal(found, total(HONEST, world.x, [2, 5, 11, 40]))


@pytest.mark.parametrize("parts", [0, -1, True, 1.0, 2**20])
def test_parts_out_of_range_change_nothing(parts: Any) -> None:
    world = Driven(HONEST).before(Step.UNMASKING).opened()
    with pytest.raises(ParameterError):
        world.server.close_unmask(parts=parts)
    world.server.close_unmask()


def test_a_worker_that_fails_leaves_the_round_as_it_was() -> None:
    world = Driven(HONEST).before(Step.UNMASKING).opened()

    def failing(run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterable[Any]:
        for number, task in enumerate(tasks):
            if number:
                raise OSError("a worker died")
            yield run(task)

    with pytest.raises(OSError, match="died"):
        world.server.close_unmask(map=failing, parts=2)
    assert np.array_equal(world.server.close_unmask(), total(HONEST, world.x, CLIENTS))


def test_a_malicious_round_needs_identities() -> None:
    with pytest.raises(ParameterError):
        Server(MALICIOUS)
    with pytest.raises(ParameterError):
        Server(HONEST, identities=identities())


def test_every_error_of_a_round_is_typed() -> None:
    """A signature of nobody: no exception of the library below comes through."""
    world = Driven(MALICIOUS)
    stranger = Client(
        params((2, 5, 9, 11, 40), variant="malicious"), 5, **signing(MALICIOUS, 5)
    ).advertise()
    with pytest.raises(ProtocolError):
        world.server.receive_keys(changed(stranger, signature=Identity.generate().sign(b"")))


def test_the_local_round_hands_its_map_on() -> None:
    calls = []

    def counting(run: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterable[Any]:
        calls.append(1)
        return map(run, tasks)

    outcome = local(HONEST).run(map=counting, parts=2)
    assert outcome.survivors == CLIENTS
    assert calls == [1]
