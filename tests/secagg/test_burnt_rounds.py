"""Burnt rounds: the id is spent, and the same inputs do not go out again."""

import numpy as np
import pytest

from mpc.core.errors import PeerError, StateError
from secagg.client import PadClient
from secagg.inputs import InputMemory
from secagg.messages import Roster, RoundBurnt, RoundConfirmed
from tests.secagg.session import AGREED, OTHER_SESSION, SESSION, inputs, key_pair, params, ready

X = inputs(AGREED)[0]
Y = inputs(AGREED, seed=1)[0]


def test_the_same_inputs_are_refused_after_a_burnt_round() -> None:
    client = ready()
    client.mask(0, X)
    client.burn(RoundBurnt(SESSION, 0, (9,)))
    with pytest.raises(StateError, match="sent in round 0, which was not confirmed"):
        client.mask(1, X)
    client.mask(1, Y)


def test_the_same_inputs_are_refused_while_no_result_is_known() -> None:
    client = ready()
    client.mask(0, X)
    with pytest.raises(StateError, match="not confirmed"):
        client.mask(1, X)


def test_the_same_inputs_are_accepted_after_a_confirmed_round() -> None:
    client = ready()
    client.mask(0, X)
    client.confirm(RoundConfirmed(SESSION, 0))
    client.mask(1, X)


@pytest.mark.parametrize("at", [(0, 0), (1, 1), (0, 1), (1, 0)])
def test_one_repeated_vector_of_several_is_enough(at: tuple[int, int]) -> None:
    client = ready()
    client.mask(0, X)
    client.burn(RoundBurnt(SESSION, 0, ()))
    mixed = Y.copy()
    mixed[at[1]] = X[at[0]]
    with pytest.raises(StateError, match="not confirmed"):
        client.mask(1, mixed)


def test_zeros_hide_nobody_and_may_be_sent_again() -> None:
    client = ready()
    zeros = np.zeros_like(X)
    client.mask(0, zeros)
    client.burn(RoundBurnt(SESSION, 0, ()))
    client.mask(1, zeros)


def test_a_refused_repeat_spends_no_pad() -> None:
    client, twin = ready(), ready()
    for member in (client, twin):
        member.mask(0, X)
    with pytest.raises(StateError, match="not confirmed"):
        client.mask(1, X)
    assert client.mask(1, Y) == twin.mask(1, Y)


def test_burnt_inputs_are_remembered_across_sessions() -> None:
    memory = InputMemory()
    client = ready(inputs=memory)
    client.mask(0, X)
    client.burn(RoundBurnt(SESSION, 0, (9,)))
    # The retry goes without client 9: a new session, the same device.
    smaller = params((2, 5, 11), session=OTHER_SESSION)
    again = PadClient(smaller, 2, inputs=memory)
    again.advertise()
    publics = (again._keys.public, *(key_pair(c).public for c in (5, 11)))  # type: ignore[union-attr]
    again.receive_roster(Roster(OTHER_SESSION, (2, 5, 11), publics))
    with pytest.raises(StateError, match="not confirmed"):
        again.mask(0, X)
    again.mask(0, Y)


def test_a_burnt_round_cannot_be_masked_confirmed_or_burnt_again() -> None:
    client = ready()
    client.prefetch(0, 4)
    client.burn(RoundBurnt(SESSION, 1, ()))  # never sent: ids up to 1 are passed over
    client.mask(2, X)
    client.burn(RoundBurnt(SESSION, 2, ()))
    for round in (0, 1, 2):
        with pytest.raises(StateError):
            client.mask(round, Y)
        with pytest.raises(StateError):
            client.confirm(RoundConfirmed(SESSION, round))
        with pytest.raises(StateError):
            client.burn(RoundBurnt(SESSION, round, ()))
    client.mask(3, Y)


def test_burning_ahead_gives_up_the_rounds_before() -> None:
    client = ready()
    client.burn(RoundBurnt(SESSION, 5, ()))
    with pytest.raises(StateError, match="claimed or given up"):
        client.prefetch(5, 1)
    for round in (3, 5):
        with pytest.raises(StateError, match="next round is 6"):
            client.mask(round, X)
        with pytest.raises(StateError, match="next round is 6"):
            client.burn(RoundBurnt(SESSION, round, ()))
    client.mask(6, X)


def test_notices_of_another_session_or_round_change_nothing() -> None:
    client = ready()
    client.mask(0, X)
    with pytest.raises(PeerError, match="another session"):
        client.confirm(RoundConfirmed(OTHER_SESSION, 0))
    with pytest.raises(PeerError, match="another session"):
        client.burn(RoundBurnt(OTHER_SESSION, 0, ()))
    with pytest.raises(StateError, match="awaits no result"):
        client.confirm(RoundConfirmed(SESSION, 1))
    with pytest.raises(StateError, match="not confirmed"):
        client.mask(1, X)
    client.confirm(RoundConfirmed(SESSION, 0))
    with pytest.raises(StateError, match="awaits no result"):
        client.confirm(RoundConfirmed(SESSION, 0))
    client.mask(1, X)
