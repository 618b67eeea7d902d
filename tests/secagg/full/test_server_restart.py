"""A server that is saved and restored: nothing is lost, and nothing gets weaker."""

import hashlib

import numpy as np
import pytest

from mpc.core.errors import (
    ParameterError,
    PeerError,
    StateError,
    WireError,
)
from secagg.full.messages import (
    Step,
)
from secagg.full.params import Variant
from secagg.full.server import Server
from tests.secagg.full.test_server import STEPS, message_of
from tests.secagg.full.world import (
    CLIENTS,
    VARIANTS,
    Driven,
    identities,
    params,
    total,
)
from tests.support.faults import flip_bit

HONEST, MALICIOUS = params(), params(variant="malicious")


def restarted(world: Driven) -> None:
    """The server dies and comes back from its bytes."""
    known = identities() if world.params.malicious else None
    world.server = Server.restore(world.params, world.server.save(), identities=known)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_that_restarts_between_all_calls(variant: Variant) -> None:
    agreed = params(variant=variant)
    world = Driven(agreed)
    steps = [s for s in STEPS if s is not Step.CONSISTENCY_CHECK or agreed.malicious]
    gone: set[int] = set()
    for step in steps:
        gone |= {Step.SHARE_KEYS: {5}, Step.UNMASKING: {40}}.get(step, set())
        for client in CLIENTS:
            if client not in gone:
                restarted(world)
                message, _ = message_of(world, client, step)
                restarted(world)
                name = {1: "keys", 2: "shares", 3: "masked", 4: "signature", 5: "unmask"}[step]
                getattr(world.server, f"receive_{name}")(message)
                restarted(world)
                with pytest.raises(PeerError, match="already"):
                    getattr(world.server, f"receive_{name}")(message)
        if step is not Step.UNMASKING:
            name = {1: "keys", 2: "shares", 3: "masked", 4: "signatures"}[step]
            getattr(world.server, f"close_{name}")()
            restarted(world)
    left = [2, 9, 11, 40]
    assert np.array_equal(world.server.close_unmask(), total(agreed, world.x, left))


def test_a_restored_server_asks_what_it_asked_before() -> None:
    world = Driven(MALICIOUS).keys().shares().masked(without=[9]).signed()
    again = Server.restore(MALICIOUS, world.server.save(), identities=identities())
    assert again.unmask_request(2) == world.server.unmask_request(2)
    assert again.save() == world.server.save()
    assert again.members(Step.MASKED_INPUT) == (2, 5, 11, 40)


def test_a_server_from_an_old_state_gets_no_second_answer() -> None:
    """It goes back to before it closed step 3, leaves one more client out, and asks again."""
    world = Driven(HONEST).keys().shares()
    for client in CLIENTS:
        masked = world.clients[client].mask(world.server.delivery(client), world.x[client])
        if client == 40:
            old = world.server.save()
        world.server.receive_masked(masked)
    world.server.close_masked()
    world.opened()
    back = Server.restore(HONEST, old)
    back.close_masked()
    for client in CLIENTS[:4]:
        with pytest.raises(StateError, match="phase DONE"):
            world.clients[client].unmask(back.unmask_request(client))


def test_saved_bytes_that_are_damaged_or_foreign_are_refused() -> None:
    world = Driven(HONEST).keys()
    data = world.server.save()
    for bit in range(0, 8 * len(data), 101):
        with pytest.raises(WireError):
            Server.restore(HONEST, flip_bit(data, bit))
    for size in range(0, len(data), 17):
        with pytest.raises(WireError):
            Server.restore(HONEST, data[:size])
    for other in (params(round=8), params(threshold=4), params(dim=5), params(bits=31)):
        with pytest.raises(WireError, match="other parameters"):
            Server.restore(other, data)


# A context that the server learned late is part of what it saves.


CONTEXT = hashlib.sha256(b"model and codec").digest()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_restored_server_has_the_context_it_was_bound_to(variant: Variant) -> None:
    agreed = params(variant=variant)
    bound = agreed.with_context(CONTEXT)
    known = identities() if agreed.malicious else None
    world = Driven(agreed).keys()
    unbound = world.server.save()
    world.server.bind(CONTEXT)
    saved = world.server.save()
    for params_of_owner in (agreed, bound):
        restored = Server.restore(params_of_owner, saved, identities=known)
        assert restored.params == bound
        assert restored.save() == saved
        restored.bind(CONTEXT)
        with pytest.raises(ParameterError, match="another context already"):
            restored.bind(b"another")
    with pytest.raises(WireError, match="other parameters"):
        Server.restore(agreed.with_context(b"another"), saved, identities=known)
    with pytest.raises(WireError, match="other parameters"):
        Server.restore(bound, unbound, identities=known)
    assert Server.restore(agreed, unbound, identities=known).params == agreed


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_server_bound_and_restarted_gives_the_sum(variant: Variant) -> None:
    agreed = params(variant=variant)
    world = Driven(agreed).keys()
    world.server.bind(CONTEXT)
    for client in CLIENTS:
        restarted(world)
        shared = world.clients[client].share_keys(world.server.roster(client), context=CONTEXT)
        world.server.receive_shares(shared)
    world.server.close_shares()
    for call in (world.masked, world.signed, world.opened):
        restarted(world)
        call()
    restarted(world)
    assert np.array_equal(world.server.close_unmask(), total(agreed, world.x, CLIENTS))


@pytest.mark.parametrize("step", [Step.SHARE_KEYS, Step.MASKED_INPUT, Step.UNMASKING])
def test_a_context_comes_before_the_shares(step: Step) -> None:
    world = Driven(HONEST).before(step)
    if step is Step.SHARE_KEYS:
        world.server.receive_shares(world.client.share_keys(world.server.roster(CLIENTS[0])))
    with pytest.raises(StateError, match="without this context"):
        world.server.bind(CONTEXT)
    world.server.bind(b"")  # which it is under already
    assert world.server.params == HONEST
