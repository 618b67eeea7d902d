"""The client: what it refuses, and that no pad and no burnt input serves twice."""

import copy
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair
from secagg.client import PadClient, Phase
from secagg.inputs import InputMemory
from secagg.messages import SERVER, Roster, RoundBurnt, RoundConfirmed
from secagg.pads import PadSupply
from secagg.schedule import PairChains
from secagg.watermark import FileWatermark, MemoryWatermark
from tests.secagg.session import (
    AGREED,
    OTHER_SESSION,
    SESSION,
    inputs,
    key_pair,
    params,
    ready,
    roster,
    start,
)

X = inputs(AGREED)[0]
Y = inputs(AGREED, seed=1)[0]


def phase(client: PadClient) -> Phase:
    return client.phase  # through a call, since a type checker takes it for unchanging


def advertised() -> PadClient:
    client = PadClient(AGREED, 2, keys=key_pair(2), watermark=MemoryWatermark())
    client.advertise()
    return client


# Agreement.


def test_a_roster_of_another_session_is_refused_and_changes_nothing() -> None:
    client = advertised()
    foreign = roster(params(session=OTHER_SESSION))
    with pytest.raises(PeerError, match="another session") as caught:
        client.receive_roster(foreign)
    assert caught.value.party == SERVER
    assert phase(client) is Phase.ADVERTISED
    client.receive_roster(roster(AGREED))
    assert phase(client) is Phase.READY


HONEST = roster(AGREED)
STRANGER = key_pair(77).public
FORGED = {
    "our key altered": Roster(SESSION, (2, 5, 9), (STRANGER, *HONEST.publics[1:])),
    "a member left out": Roster(SESSION, (2, 5), HONEST.publics[:2]),
    "a member added": Roster(SESSION, (2, 5, 9, 11), (*HONEST.publics, STRANGER)),
    "a member replaced": Roster(SESSION, (2, 5, 10), HONEST.publics),
    "another order": Roster(SESSION, (5, 2, 9), HONEST.publics),
    "one key twice": Roster(SESSION, (2, 5, 9), (*HONEST.publics[:2], HONEST.publics[1])),
    "our key twice": Roster(SESSION, (2, 5, 9), (*HONEST.publics[:2], HONEST.publics[0])),
    "a key of low order": Roster(SESSION, (2, 5, 9), (*HONEST.publics[:2], bytes(32))),
    "nobody": Roster(SESSION, (), ()),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_roster_that_breaks_the_rules_aborts_the_session(forged: Roster) -> None:
    client = advertised()
    with pytest.raises(PeerError):
        client.receive_roster(forged)
    assert phase(client) is Phase.ABORTED
    for call in (
        lambda: client.receive_roster(HONEST),
        client.advertise,
        lambda: client.prefetch(0, 1),
        lambda: client.mask(0, X),
    ):
        with pytest.raises(StateError):
            call()
    assert phase(client) is Phase.ABORTED


def test_calls_out_of_order_are_refused_and_change_nothing() -> None:
    client = PadClient(AGREED, 2)
    for call in (
        lambda: client.receive_roster(HONEST),
        lambda: client.mask(0, X),
        lambda: client.prefetch(0, 1),
        lambda: client.confirm(RoundConfirmed(SESSION, 0)),
        lambda: client.burn(RoundBurnt(SESSION, 0, ())),
    ):
        with pytest.raises(StateError):
            call()
    assert phase(client) is Phase.NEW
    client.advertise()
    with pytest.raises(StateError, match="phase ADVERTISED, not NEW"):
        client.advertise()
    assert phase(client) is Phase.ADVERTISED


def test_bad_construction_is_refused() -> None:
    with pytest.raises(ParameterError, match="client 3 is not one"):
        PadClient(AGREED, 3)
    with pytest.raises(ParameterError, match="needs a watermark"):
        PadClient(AGREED, 2, keys=key_pair(2))


# Rounds.


def test_each_round_serves_once_and_rounds_only_rise() -> None:
    client = ready()
    client.mask(3, X)
    for round in (3, 2, 0):
        with pytest.raises(StateError, match="are spent; the next round is 4"):
            client.mask(round, Y)
    client.mask(4, Y)


@pytest.mark.parametrize("round", [-1, 2**32, 1.0, "0", True])
def test_a_round_that_is_no_id_is_refused(round: Any) -> None:
    client = ready()
    with pytest.raises(ParameterError, match="round must"):
        client.mask(round, X)
    client.mask(0, X)


@pytest.mark.parametrize(
    "vectors",
    [
        X[:1],
        X[:, :4],
        X.ravel(),
        X.astype(np.uint64),
        X.astype(np.int32),
        X.astype(np.float64),
        np.empty((0, 0), dtype=np.uint32),
    ],
    ids=lambda v: f"{v.dtype} {v.shape}",
)
def test_bad_vectors_are_refused_and_the_round_stays_free(vectors: Any) -> None:
    client = ready()
    with pytest.raises(ParameterError):
        client.mask(0, vectors)
    client.mask(0, X)


def test_elements_outside_the_ring_are_refused() -> None:
    agreed = params(bits=12)
    client = start(agreed).clients[2]
    with pytest.raises(ParameterError, match="outside"):
        client.mask(0, np.full(agreed.shape, 1 << 12, dtype=np.uint16))
    client.mask(0, np.full(agreed.shape, (1 << 12) - 1, dtype=np.uint16))


def test_prefetched_rounds_give_the_same_bytes_as_single_ones() -> None:
    bulk, single = ready(), ready()
    bulk.prefetch(1, 8)  # rounds_per_epoch is 3
    for round in (1, 2, 3, 5, 8):
        vectors = inputs(AGREED, seed=round)[0]
        assert bulk.mask(round, vectors) == single.mask(round, vectors)


def test_prefetching_passes_over_earlier_rounds() -> None:
    client = ready()
    client.prefetch(2, 2)
    with pytest.raises(StateError, match="next round is 2"):
        client.mask(1, X)
    for first, rounds in ((0, 1), (2, 1), (3, 4)):
        with pytest.raises(StateError, match="claimed or given up"):
            client.prefetch(first, rounds)
    client.prefetch(6, 1)
    with pytest.raises(StateError, match="next round is 2"):
        client.mask(5, X)
    client.mask(2, X)
    client.mask(6, Y)


def test_prefetching_too_much_or_nothing_is_refused() -> None:
    client = ready()
    for first, rounds in ((0, 0), (-1, 1), (0, 1.5), (2**32 - 1, 2)):
        with pytest.raises(ParameterError):
            client.prefetch(first, rounds)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="expand fewer rounds"):
        client.prefetch(0, 2**24)
    client.mask(0, X)


def test_a_mistyped_round_does_not_spend_the_key() -> None:
    client = ready()
    with pytest.raises(StateError, match="epochs ahead"):
        client.mask(2**32 - 1, X)
    client.mask(0, X)


def test_a_restarted_client_cannot_repeat_a_pad(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    before = ready(watermark=FileWatermark.create(path))
    before.prefetch(0, 4)
    before.mask(0, X)
    # The process dies here. Rounds 1 to 3 were claimed and are lost.
    after = ready(watermark=FileWatermark(path))
    for round in range(4):
        with pytest.raises(StateError, match="are spent"):
            after.mask(round, Y)
    after.mask(4, Y)


def test_another_session_with_the_same_keys_has_pads_of_its_own(tmp_path: Path) -> None:
    watermark = FileWatermark.create(tmp_path / "marks")
    first = ready(watermark=watermark).mask(0, X)
    agreed = params(session=OTHER_SESSION)
    other = PadClient(agreed, 2, keys=key_pair(2), watermark=watermark)
    other.advertise()
    other.receive_roster(roster(agreed))
    second = other.mask(0, X)
    assert first[0].payload != second[0].payload


def test_the_same_keys_and_session_under_other_parameters_share_the_mark() -> None:
    watermark = MemoryWatermark()
    ready(watermark=watermark).mask(1, X)
    agreed = replace(AGREED, dim=1)
    other = PadClient(agreed, 2, keys=key_pair(2), watermark=watermark)
    other.advertise()
    other.receive_roster(roster(agreed))
    with pytest.raises(StateError, match="are spent"):
        other.mask(0, np.zeros(agreed.shape, dtype=np.uint32))


# Secrets stay where they are.


def supply() -> PadSupply:
    ends = [PairChains(AGREED, 2, key_pair(2), HONEST)]
    return PadSupply(AGREED, ends, MemoryWatermark(), bytes(32))


@pytest.mark.parametrize("make", [ready, supply, InputMemory])
def test_nothing_secret_is_copied_pickled_or_shown(make: Any) -> None:
    holder = make()
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not picklable"):
            clone(holder)
    assert key_pair(2).private_bytes().hex() not in repr(holder)
    assert "b'" not in repr(holder)


def test_a_fresh_key_pair_is_dropped_after_the_agreement() -> None:
    session = start(AGREED)
    assert all(member._keys is None for member in session.clients.values())
    publics = session.server.roster().publics
    assert len(set(publics) | set(start(AGREED).server.roster().publics)) == 6


def test_a_pad_is_gone_from_memory_once_it_has_served() -> None:
    pads = supply()
    pads.expand(0, 2)
    row = pads._pads[0]
    assert row.any()
    masked = pads.mask(0, X[None])
    assert not row.any()
    assert not np.array_equal(masked[0], X)
    passed = pads._pads[1]
    pads.skip_to(2)
    assert not passed.any()


def test_a_forked_process_cannot_use_the_parent_s_pads() -> None:
    client = ready()
    client.prefetch(0, 2)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.mask(0, X)
            os.write(writer, b"masked")
        except StateError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"belong to another process" in os.read(reader, 1000)
    os.close(reader)
    client.mask(0, X)


def test_errors_show_no_input_and_no_key() -> None:
    client = ready()
    secret = np.full(AGREED.shape, 123_454_321, dtype=np.uint32)
    client.mask(0, secret)
    with pytest.raises(StateError) as caught:
        client.mask(1, secret)
    assert "123454321" not in str(caught.value)
    with pytest.raises(PeerError) as forged:
        advertised().receive_roster(FORGED["our key altered"])
    assert STRANGER.hex() not in str(forged.value)
    assert KeyPair(bytes(range(32))).private_bytes().hex() not in repr(client)
