"""The variant against a malicious server: clients believe the operator's roster and nobody else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secagg.flower.keyring import IDENTITY_PATH, OPERATOR, ROSTER_PATH
from secagg.flower.mod import SecAggMod
from secagg.flower.policy import Policy
from secagg.flower.records import HELLO, Code, Request
from secagg.full.announcement import Announcement
from secagg.full.messages import AdvertiseKeys, Roster, Step, SurvivorsRequest, UnmaskRequest
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.flower.by_hand import (
    OPERATOR_KEY,
    DeclinedError,
    Keys,
    Round,
    app,
    code_of,
    grid_of,
    stored,
    train,
)
from tests.secagg.full.world import SESSION, bits, identity
from tests.support.flower_grid import LocalGrid

N = 5
CLIENTS = tuple(range(1, N + 1))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path, CLIENTS)


def grid(keys: Keys, **changed: str) -> LocalGrid:
    """The nodes; client 1 with another configuration."""
    keys.node_config[1] = {**keys.node_config[1], **changed}
    return grid_of(N, lambda: app(train, SecAggMod(Policy(variant="malicious"))), keys=keys)


def round_of(keys: Keys, nodes: LocalGrid | None = None, **more: Any) -> Round:
    return Round(grid(keys) if nodes is None else nodes, variant="malicious", keys=keys, **more)


def declined(ask: Callable[[], object]) -> Code:
    with pytest.raises(DeclinedError) as caught:
        ask()
    return code_of(caught.value)


def test_a_node_greets_with_its_own_identity_in_this_session(keys: Keys) -> None:
    round = round_of(keys)
    for client in CLIENTS:
        hello = round.clients[client].hello()
        assert hello.is_from(keys.roster, client, SESSION)
        assert not hello.is_from(keys.roster, client, bytes(16))
        assert not hello.is_from(keys.roster, client % N + 1, SESSION)


def test_a_greeting_says_which_client_it_is_whoever_was_asked(keys: Keys) -> None:
    round = round_of(keys)
    request = Request(HELLO, SESSION, 0, client=0)
    assert round.ask(3, request).client == 3
    assert not stored(round.grid, 3)


@pytest.mark.parametrize("missing", [IDENTITY_PATH, ROSTER_PATH, OPERATOR])
@pytest.mark.parametrize("value", ["", "nowhere"])
def test_a_node_without_keys_takes_no_part(missing: str, value: str, keys: Keys) -> None:
    round = round_of(keys, grid(keys, **{missing: value}))
    assert declined(round.clients[1].hello) is Code.FAILED
    assert declined(round.clients[1].advertise) is Code.FAILED
    assert not stored(round.grid, 1)


def test_a_roster_that_the_operator_did_not_sign_is_none(keys: Keys, tmp_path: Path) -> None:
    forged = SignedRoster.sign([Entry(1, "one", identity(1).public)], identity(998))
    forged.write(tmp_path / "forged.bin")
    round = round_of(keys, grid(keys, **{ROSTER_PATH: str(tmp_path / "forged.bin")}))
    assert declined(round.clients[1].advertise) is Code.FAILED


def test_a_client_with_an_older_roster_of_the_operator_masks_nothing(
    keys: Keys, tmp_path: Path
) -> None:
    gone = Entry(99, "gone since", identity(99).public)
    older = SignedRoster.sign([*keys.roster.entries, gone], OPERATOR_KEY)
    older.write(tmp_path / "older.bin")
    round = round_of(keys, grid(keys, **{ROSTER_PATH: str(tmp_path / "older.bin")}))
    round.upto(Step.MASKED_INPUT)
    assert declined(lambda: round.clients[1].mask(round.server.delivery(1))) is Code.REFUSED
    round.clients[2].mask(round.server.delivery(2))


def test_a_client_that_is_called_somebody_else_ends_the_session(keys: Keys) -> None:
    round = round_of(keys)
    data = {"data": round.announcement, "terms": round.terms.to_bytes()}
    as_another = Request(Step.ADVERTISE_KEYS, SESSION, 0, 2, **data)
    assert declined(lambda: round.ask(1, as_another)) is Code.REFUSED
    assert declined(round.clients[1].advertise) is Code.REFUSED


def test_clients_that_the_operator_did_not_list_end_the_session(keys: Keys, tmp_path: Path) -> None:
    listed = [Entry(u, f"client {u}", identity(u).public) for u in CLIENTS[:-1]]
    SignedRoster.sign(listed, OPERATOR_KEY).write(tmp_path / "less.bin")
    round = round_of(keys, grid(keys, **{ROSTER_PATH: str(tmp_path / "less.bin")}))
    assert declined(round.clients[1].advertise) is Code.REFUSED


def test_a_round_of_the_weaker_variant_is_not_entered(keys: Keys) -> None:
    round = Round(grid(keys))
    assert declined(round.clients[1].advertise) is Code.UNWILLING


def test_a_client_that_another_key_signs_for_ends_the_session(keys: Keys) -> None:
    """A server that puts its own keys in a peer's place has no signature of that peer's on them."""
    round = round_of(keys).upto(Step.SHARE_KEYS)
    other = round_of(keys, round.grid, session=bytes(16))
    data = {"data": other.announcement, "terms": other.terms.to_bytes()}
    request = Request(Step.ADVERTISE_KEYS, bytes(16), 0, 2, **data)
    taken = other.ask(2, request)  # keys of client 2 for another session
    roster = round.server.roster(1)
    size = len(roster.keys) // N
    keys_of_2 = AdvertiseKeys.from_bytes(taken.data)
    signed = roster.signatures[:64] + keys_of_2.signature + roster.signatures[128:]
    mixed = roster.keys[:size] + keys_of_2.keys + roster.keys[2 * size :]
    forged = Roster.make(SESSION, 0, 1, members=roster.members, keys=mixed, signatures=signed)
    assert declined(lambda: round.clients[1].share_keys(forged)) is Code.REFUSED
    assert declined(lambda: round.clients[1].share_keys(roster)) is Code.REFUSED


def test_consistency_check_and_unmasking_are_two_requests(keys: Keys) -> None:
    """A client that has signed no survivors gives no shares, whoever else has signed."""
    round = round_of(keys).upto(Step.CONSISTENCY_CHECK)
    for u in CLIENTS[1:]:
        signature = round.clients[u].sign_survivors(round.server.survivors_request(u))
        round.server.receive_signature(signature)
    round.server.close_signatures()
    other = round.server.unmask_request(2)
    told = {name: getattr(other, name) for name in ("members", "signers", "signatures")}
    request = UnmaskRequest.make(SESSION, 0, 1, **told)
    assert declined(lambda: round.clients[1].unmask(request)) is Code.STALE
    round.clients[1].sign_survivors(round.server.survivors_request(1))
    round.clients[1].unmask(request)


def test_survivors_other_than_those_signed_end_the_session(keys: Keys) -> None:
    round = round_of(keys).upto(Step.UNMASKING)
    request = round.server.unmask_request(1)
    fewer = bits(round.params, *CLIENTS[:-1])
    lied = UnmaskRequest.make(
        SESSION,
        0,
        1,
        members=fewer,
        signers=fewer,
        signatures=request.signatures[: 64 * (N - 1)],
    )
    assert declined(lambda: round.clients[1].unmask(lied)) is Code.REFUSED
    assert declined(lambda: round.clients[1].unmask(request)) is Code.REFUSED


def test_a_client_signs_one_set_of_survivors(keys: Keys) -> None:
    round = round_of(keys).upto(Step.CONSISTENCY_CHECK)
    request = round.server.survivors_request(1)
    fewer = SurvivorsRequest.make(SESSION, 0, 1, members=bits(round.params, *CLIENTS[:-1]))
    round.clients[1].sign_survivors(request)
    assert declined(lambda: round.clients[1].sign_survivors(fewer)) is Code.STALE


def test_an_announcement_for_another_session_than_its_own_is_none(keys: Keys) -> None:
    round = round_of(keys)
    other = replace(round.unbound, session=bytes(16))
    round.announcement = Announcement.of(other).to_bytes()
    assert declined(round.clients[1].advertise) is Code.STALE
    assert not stored(round.grid, 1)
