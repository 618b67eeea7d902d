"""A client that is suspended between its steps and goes on from bytes: the same client, or none."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, StateError, ToolkitError, WireError
from secagg.full import suspended
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.messages import RoundAborted, RoundDone, Step
from secagg.full.params import RoundParams
from secagg.full.server import Server
from secagg.full.suspended import Suspended
from tests.secagg.full.forgeries import HONEST, MALICIOUS, ME, PEER, own_key_altered
from tests.secagg.full.replicas import coins, known, new_client, new_server, state_of_client
from tests.secagg.full.turns import turns
from tests.secagg.full.world import (
    CLIENTS,
    OTHER_SESSION,
    SESSION,
    Circle,
    Driven,
    identity,
    inputs,
    params,
    phase,
    signing,
    total,
)
from tests.support.faults import append, flip_bit, flips, truncations

SIX = (*CLIENTS, 41)
ROUNDS = {
    "semi-honest": HONEST,
    "malicious": MALICIOUS,
    "with a context": params(context=b"model"),
    "sparse": params(SIX, graph=Circle(SIX, 2)),
}
ROUND = pytest.mark.parametrize("agreed", ROUNDS.values(), ids=ROUNDS)
PHASES = [Phase.NEW, Phase.ADVERTISED, Phase.SHARED, Phase.MASKED, Phase.SIGNED]


def resumed(agreed: RoundParams, data: bytes, history: History, **more: Any) -> Client:
    client = Suspended.from_bytes(data).client
    return Client.resume(agreed, data, history=history, **{**signing(agreed, client), **more})


def at(name: Phase, agreed: RoundParams | None = None) -> tuple[Driven, History]:
    """A round in which the victim is in this phase, in the variant that has it, and its history."""
    history = History()
    agreed = agreed or (MALICIOUS if name is Phase.SIGNED else HONEST)
    world = Driven(agreed, history=history)
    if name is Phase.ADVERTISED:
        world.client.advertise()
    elif name is not Phase.NEW:
        world.before(Step.MASKED_INPUT)
    if name is Phase.MASKED:
        world.masked()
    if name is Phase.SIGNED:
        world.masked().signed()
    assert phase(world.client) is name
    return world, history


@ROUND
def test_clients_that_are_suspended_before_every_step_give_the_sum(agreed: RoundParams) -> None:
    """Clients leave in every step; who stays lives in bytes between any two steps."""
    gone = {Step.SHARE_KEYS: 5, Step.UNMASKING: 40}
    x, server = inputs(agreed), new_server(agreed)
    history = {u: History() for u in agreed.clients}
    clients = {u: new_client(agreed, u, history=history[u]) for u in agreed.clients}
    out = set[int]()
    for turn in turns(agreed):
        out |= {gone[turn.step]} if turn.step in gone else set()
        for u in server.missing():
            if u in out:
                continue
            before = comparable(clients[u])
            data = clients[u].suspend()
            rng = coins(f"{agreed.digest.hex()} {u} {turn.step}")
            clients[u] = resumed(agreed, data, history[u], rng=rng)
            assert comparable(clients[u]) == before
            question = None if turn.ask is None else turn.ask(server, u)
            turn.receive(server, turn.answer(clients[u], question, x[u]))
        result = turn.close(server)
    survivors = server.members(Step.MASKED_INPUT)
    assert survivors == tuple(u for u in agreed.clients if u != 5)
    assert np.array_equal(result, total(agreed, x, survivors))
    for u in survivors:
        if u not in out:
            assert phase(clients[u]) is Phase.DONE


def comparable(client: Client) -> dict[str, Any]:
    """All that a client knows; its public keys are of no use once they are shared."""
    state = state_of_client(client)
    assert isinstance(state, dict)
    if client.phase not in (Phase.NEW, Phase.ADVERTISED):
        del state["_secrets"]["keys"]
    del state["_secrets"]["_rng"]
    for told in ("_identity", "_identities"):
        del state[told]
    return state


@pytest.mark.parametrize("name", PHASES)
def test_a_suspended_client_is_over(name: Phase) -> None:
    world, history = at(name)
    client = world.client
    data = client.suspend()
    assert phase(client) is Phase.SUSPENDED
    assert client._secrets is None
    done = Driven(client.params).before(Step.UNMASKING)
    calls: list[Callable[[], object]] = [
        client.suspend,
        client.advertise,
        lambda: client.share_keys(done.server.roster(ME)),
        lambda: client.mask(done.server.delivery(ME), done.x[ME]),
        lambda: client.unmask(done.question()),
    ]
    for call in calls:
        with pytest.raises(StateError, match="SUSPENDED"):
            call()
    assert phase(resumed(client.params, data, history)) is name


@pytest.mark.parametrize("name", PHASES)
def test_the_bytes_are_canonical_and_the_same_each_time(name: Phase) -> None:
    world, history = at(name)
    data = world.client.suspend()
    for _ in range(3):
        again = resumed(world.params, data, history).suspend()
        assert again == data
    state = Suspended.from_bytes(data)
    assert (state.client, state.phase) == (ME, name.value)


def test_a_client_with_nothing_left_cannot_be_suspended() -> None:
    done = Driven(HONEST).before(Step.UNMASKING).opened().client
    assert phase(done) is Phase.DONE
    told, refused = Driven(HONEST).keys(), Driven(HONEST).keys()
    told.client.close(RoundAborted.make(SESSION, 7, ME, step=3, missing=b"\x01"))
    with pytest.raises(PeerError):
        refused.client.share_keys(own_key_altered(refused))
    for client in (done, told.client, refused.client):
        with pytest.raises(StateError):
            client.suspend()


def test_a_notice_to_a_suspended_client_leaves_it_over() -> None:
    world, history = at(Phase.SHARED)
    data = world.client.suspend()
    world.client.close(RoundDone.make(SESSION, 7, ME, members=b"\x1f"))
    assert phase(world.client) is Phase.ABORTED
    assert phase(resumed(HONEST, data, history)) is Phase.SHARED


class SuspendedInside(Client):
    """Tries to be suspended in the middle of each of its steps, as another thread would."""

    tried = 0

    @contextmanager
    def _judged(self, before: Phase, after: Phase) -> Iterator[None]:
        with super()._judged(before, after):
            with pytest.raises(StateError, match="busy in another thread"):
                self.suspend()
            self.tried += 1
            yield


def test_a_client_cannot_be_suspended_in_the_middle_of_a_step() -> None:
    world = Driven(MALICIOUS, kind=SuspendedInside).before(Step.UNMASKING).opened()
    assert isinstance(world.client, SuspendedInside)
    assert world.client.tried == 5
    assert np.array_equal(world.server.close_unmask(), total(MALICIOUS, world.x, CLIENTS))


def test_a_forked_process_cannot_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = at(Phase.MASKED)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StateError, match="another process"):
        world.client.suspend()


def test_a_context_learned_before_the_suspension_need_not_be_known_after_it() -> None:
    agreed, history = params(), History()
    world = Driven(agreed, history=history).keys()
    world.client.share_keys(world.server.roster(ME), context=b"model")
    data = world.client.suspend()
    for told in (agreed, params(context=b"model")):
        client = resumed(told, data, history)
        assert client.params == params(context=b"model")
    with pytest.raises(WireError, match="other parameters"):
        resumed(params(context=b"another"), data, history)


# Who may go on.


def test_a_client_of_the_malicious_variant_goes_on_with_its_own_identity() -> None:
    world, history = at(Phase.SIGNED)
    data, mine = world.client.suspend(), signing(MALICIOUS, ME)
    for missing in ("identity", "identities"):
        some = {known: value for known, value in mine.items() if known != missing}
        with pytest.raises(ParameterError, match="both of them"):
            Client.resume(MALICIOUS, data, history=history, **some)
    with pytest.raises(ParameterError, match="another key for client 2"):
        Client.resume(MALICIOUS, data, history=history, **{**mine, "identity": identity(PEER)})
    honest, marks = at(Phase.SHARED)
    with pytest.raises(ParameterError, match="belong to the malicious variant"):
        Client.resume(HONEST, honest.client.suspend(), history=marks, **mine)
    assert phase(Client.resume(MALICIOUS, data, history=history, **mine)) is Phase.SIGNED


def test_a_history_that_does_not_know_the_round_is_refused_for_good() -> None:
    """Marks that are lost must not look like marks that never were."""
    world, history = at(Phase.SHARED)
    data, lost = world.client.suspend(), History()
    with pytest.raises(StateError, match="does not know of round 7"):
        resumed(HONEST, data, lost)
    with pytest.raises(StateError, match="refused to go on"):
        resumed(HONEST, data, lost)
    other = History()
    other.enter(SESSION, PEER, 7)
    other.enter(SESSION, ME, 6)
    with pytest.raises(StateError, match="does not know of round 7"):
        resumed(HONEST, data, other)
    assert phase(resumed(HONEST, data, history)) is Phase.SHARED


def test_nobody_goes_on_after_a_refusal_in_the_session() -> None:
    world, history = at(Phase.SHARED)
    data = world.client.suspend()
    history.refuse(SESSION, ME)
    with pytest.raises(StateError, match="refused to go on"):
        resumed(HONEST, data, history)


# Bytes that are not the client's own.


def saved(name: Phase) -> tuple[RoundParams, bytes, History]:
    world, history = at(name)
    return world.params, world.client.suspend(), history


@pytest.mark.parametrize("name", PHASES)
def test_every_altered_byte_is_refused(name: Phase) -> None:
    """One bit of each; the deep run flips them all."""
    agreed, data, history = saved(name)
    for place in range(len(data)):
        with pytest.raises(WireError):
            resumed(agreed, flip_bit(data, 8 * place + place % 8), history)
    for altered in (*truncations(data), append(data)):
        with pytest.raises(WireError):
            resumed(agreed, altered, history)


@pytest.mark.deep
@pytest.mark.parametrize("name", PHASES)
def test_every_altered_bit_is_refused(name: Phase) -> None:
    agreed, data, history = saved(name)
    for altered in flips(data):
        with pytest.raises(WireError):
            resumed(agreed, altered, history)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_raise_wire_errors_only(data: bytes) -> None:
    with pytest.raises(WireError):
        Client.resume(HONEST, data, history=History())


def forged(data: bytes, **fields: Any) -> bytes:
    """Other fields under a fitting checksum."""
    state = Suspended.from_bytes(data)
    own = {name: getattr(state, name) for name in state.__struct_fields__}
    return suspended.write(Suspended(**{**own, **fields, "check": b""}))


@pytest.mark.parametrize("name", PHASES)
def test_what_does_not_hold_together_is_refused_though_its_checksum_fits(name: Phase) -> None:
    agreed, data, history = saved(name)
    state = Suspended.from_bytes(data)
    with_others: list[dict[str, Any]] = [
        {"client": 3},
        {"client": 2**32},
        {"phase": "done"},
        {"phase": "suspended"},
        {"phase": "Masked"},
        {"phase": ""},
        {"params": bytes(32)},
        {"context": b"model"},
        {"context": bytes(33)},
    ]
    for field in ("roster", "members", "signed", "privates", "seed", "keys", "shares"):
        value = getattr(state, field)
        with_others += [{field: value + b"\0"}, {field: value + bytes(68)}, {field: value[1:]}]
    with_others += [{"phase": other.value} for other in PHASES]
    if state.members:
        with_others += [{"members": b"\x1e"}, {"members": b"\x3f"}, {"members": b"\x0f"}]
    if state.shares:
        with_others.append({"shares": b"\xff" * len(state.shares)})
    accepted = []
    for fields in with_others:
        if forged(data, **fields) == data:
            continue
        try:
            client = resumed(agreed, forged(data, **fields), history)
        except WireError:
            continue
        accepted.append((fields, client.phase))
    # The first two phases hold the same things: who knows which of them it is can answer once.
    early = {Phase.NEW, Phase.ADVERTISED}
    other = early - {name}
    expected = [({"phase": p.value}, p) for p in other] if name in early else []
    assert accepted == expected


def test_parts_of_two_phases_never_crash_a_client() -> None:
    """Any field of one phase in the bytes of another: refused, or a client that raises in order."""
    states = {name: saved(name) for name in PHASES[:4]}
    fields = ("phase", "roster", "members", "privates", "seed", "keys", "shares")
    done = Driven(HONEST).before(Step.UNMASKING)
    for name, (agreed, data, history) in states.items():
        for other, (_, donor, _) in states.items():
            for field in fields:
                value = getattr(Suspended.from_bytes(donor), field)
                if name is other:
                    continue
                try:
                    client = resumed(agreed, forged(data, **{field: value}), history)
                    client.mask(done.server.delivery(ME), done.x[ME])
                except ToolkitError:
                    continue
                raise AssertionError((name, other, field))


@pytest.mark.parametrize(
    "change",
    [
        {"round": 8},
        {"session": OTHER_SESSION},
        {"dim": 3},
        {"threshold": 4},
        {"clients": (2, 5, 9, 12, 40)},
        {"variant": "malicious"},
        {"graph": Circle(CLIENTS, 1)},
        {"context": b"model"},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("name", [Phase.ADVERTISED, Phase.MASKED])
def test_a_client_of_another_round_is_refused(name: Phase, change: dict[str, Any]) -> None:
    agreed, data, history = saved(name)
    other = replace(agreed, **change)
    with pytest.raises(WireError, match="other parameters"):
        resumed(other, data, history)


def test_a_server_is_no_client_and_a_client_no_server() -> None:
    agreed, data, history = saved(Phase.SHARED)
    with pytest.raises(WireError):
        Server.restore(agreed, data, identities=known(agreed))
    with pytest.raises(WireError):
        Client.resume(agreed, new_server(agreed).save(), history=history)
