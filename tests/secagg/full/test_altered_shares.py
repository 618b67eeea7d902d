"""Altered shares: noticed always, attributed while enough right ones are left."""

from typing import Any

import numpy as np
import pytest

from mpc.core.errors import (
    AbortError,
)
from secagg.full.client import Client
from secagg.full.messages import (
    SHARE_BYTES,
    Step,
)
from tests.secagg.full.world import (
    CLIENTS,
    Driven,
    changed,
    params,
    total,
)
from tests.support.faults import flip_bit

HONEST = params()


def altering(world: Driven, *liars: int, owner: int = 0) -> None:
    """Step 5, in which each liar changes its share of the secret of the client at ``owner``.

    Each another bit, since equal changes may cancel.
    """
    for client in CLIENTS:
        answer = world.clients[client].unmask(world.server.unmask_request(client))
        if client in liars:
            bit = 8 * SHARE_BYTES * owner + 16 * liars.index(client)
            answer = changed(answer, shares=flip_bit(answer.shares, bit))
        world.server.receive_unmask(answer)


@pytest.mark.parametrize("liar", CLIENTS)
def test_an_altered_share_of_a_seed_is_noticed_and_attributed(liar: int) -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    altering(world, liar)
    assert np.array_equal(world.server.close_unmask(), total(HONEST, world.x, CLIENTS))
    # The shares of the last two are not needed where the first three are right.
    assert world.server.altered == ((liar,) if liar in CLIENTS[:3] else ())


def test_an_altered_share_of_a_key_is_noticed_and_attributed() -> None:
    world = Driven(HONEST).keys().shares().masked(without=[9])
    for client in (2, 5, 11, 40):
        answer = world.clients[client].unmask(world.server.unmask_request(client))
        if client == 5:
            # Not of the first word: X25519 ignores the lowest bits of a private key.
            answer = changed(answer, shares=flip_bit(answer.shares, 8 * SHARE_BYTES * 2 + 16))
        world.server.receive_unmask(answer)
    assert np.array_equal(world.server.close_unmask(), total(HONEST, world.x, [2, 5, 11, 40]))
    assert world.server.altered == (5,)


def test_two_liars_of_five() -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    altering(world, 2, 5)
    assert np.array_equal(world.server.close_unmask(), total(HONEST, world.x, CLIENTS))
    assert world.server.altered == (2, 5)


def test_too_many_liars_end_the_round() -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    altering(world, 2, 9, 40)
    with pytest.raises(AbortError, match="shares of client 2's secret do not give it"):
        world.server.close_unmask()
    assert world.server.step is Step.ABORTED


def test_an_altered_share_without_spare_ones_ends_the_round() -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    for client in CLIENTS[:3]:
        answer = world.clients[client].unmask(world.server.unmask_request(client))
        if client == 5:
            answer = changed(answer, shares=flip_bit(answer.shares, 0))
        world.server.receive_unmask(answer)
    with pytest.raises(AbortError, match="do not give it"):
        world.server.close_unmask()


def test_liars_left_out_leave_too_few() -> None:
    """Two different liars for two different secrets, with one holder to spare."""
    world = Driven(HONEST).before(Step.UNMASKING)
    for client, owner in ((2, 0), (5, 1), (9, None), (11, None)):
        answer = world.clients[client].unmask(world.server.unmask_request(client))
        if owner is not None:
            answer = changed(answer, shares=flip_bit(answer.shares, 8 * SHARE_BYTES * owner))
        world.server.receive_unmask(answer)
    with pytest.raises(AbortError, match=r"altered ones came from \[2, 5\]|do not give it"):
        world.server.close_unmask()


def test_a_twin_that_checks_no_secret_gives_a_wrong_sum() -> None:
    world = Driven(HONEST).before(Step.UNMASKING)
    altering(world, 5)
    world.server._is_right = lambda at, survived, secret: True  # type: ignore[method-assign]
    assert not np.array_equal(world.server.close_unmask(), total(HONEST, world.x, CLIENTS))


class WrongSeed(Client):
    """Commits to a seed that it does not share."""

    def share_keys(self, roster: Any, *, context: bytes | None = None) -> Any:
        return changed(super().share_keys(roster, context=context), check=bytes(32))


def test_a_dealer_who_shares_another_secret_ends_the_round() -> None:
    world = Driven(HONEST, kind=WrongSeed).before(Step.UNMASKING).opened()
    with pytest.raises(AbortError, match="or it shared another secret"):
        world.server.close_unmask()
