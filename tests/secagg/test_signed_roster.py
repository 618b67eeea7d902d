"""The signed roster: whoever holds the operator's key reads what the operator wrote, or nothing."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from secagg.full.client import Client
from secagg.full.identity import Identity, is_valid
from secagg.full.run import LocalRound
from secagg.signed_roster import Entry, SignedRoster, _RosterFile, _text
from tests.secagg.full.world import CLIENTS, Driven, identity, inputs, params, total
from tests.support.faults import append, flip_bit, flips, truncations


def key(text: str) -> Identity:
    return Identity(hashlib.sha256(text.encode()).digest())


OPERATOR, STRANGER = key("operator"), key("stranger")


def node(client: int) -> bytes:
    return hashlib.sha256(b"node %d" % client).digest()


ENTRIES = tuple(
    Entry(u, f"hospital {u}", identity(u).public, node(u) if u != 40 else b"") for u in CLIENTS
)
ROSTER = SignedRoster.sign(ENTRIES, OPERATOR)
DATA = ROSTER.to_bytes()


def signed(entries: tuple[Entry, ...], by: Identity = OPERATOR, **fields: Any) -> bytes:
    """A file as the operator or another one would write it, whatever the entries are."""
    rows = tuple((e.client, e.name, e.public, e.node) for e in entries)
    signature = by.sign(_text(OPERATOR.public, entries))
    return _RosterFile(**{"rows": rows, "signature": signature, **fields}).to_bytes()


def read(data: bytes) -> SignedRoster:
    return SignedRoster.from_bytes(data, OPERATOR.public)


# What it tells.


def test_it_tells_who_is_who() -> None:
    for roster in (ROSTER, read(DATA)):
        assert roster.entries == ENTRIES
        assert roster.operator == OPERATOR.public
        assert len(roster) == len(CLIENTS)
        assert roster.to_bytes() == DATA
        for u in CLIENTS:
            assert roster.public(u) == identity(u).public
            assert roster.client_of(identity(u).public) == u
        assert [roster.client_of_node(node(u)) for u in CLIENTS] == [2, 5, 9, 11, None]
        assert roster.public(3) is None
        assert roster.client_of(STRANGER.public) is None
        assert roster.client_of_node(b"") is None


def test_entries_come_in_the_order_of_ids() -> None:
    assert SignedRoster.sign(reversed(ENTRIES), OPERATOR).to_bytes() == DATA


def test_a_signature_is_valid_for_whom_the_roster_lists() -> None:
    text = b"text"
    assert is_valid(ROSTER, 5, text, identity(5).sign(text))
    assert not is_valid(ROSTER, 5, text, identity(9).sign(text))
    assert not is_valid(ROSTER, 3, text, identity(3).sign(text))


def test_the_digest_depends_on_all_entries_and_on_the_operator() -> None:
    first = ENTRIES[0]
    others = [
        SignedRoster.sign(ENTRIES, STRANGER),
        SignedRoster.sign(ENTRIES[1:], OPERATOR),
        *(
            SignedRoster.sign((replace(first, **change), *ENTRIES[1:]), OPERATOR)
            for change in (
                {"client": 1},
                {"name": "another"},
                {"public": STRANGER.public},
                {"node": bytes(32)},
                {"node": b""},
            )
        ),
    ]
    assert len({each.digest for each in (ROSTER, *others)}) == len(others) + 1
    assert read(DATA).digest == ROSTER.digest


def test_it_serves_a_round_of_the_malicious_variant() -> None:
    agreed = params(variant="malicious", context=ROSTER.digest)
    own = {u: identity(u) for u in CLIENTS}
    outcome = LocalRound(agreed, inputs(agreed), identity=own, identities=read(DATA)).run()
    assert np.array_equal(outcome.total, total(agreed, inputs(agreed), CLIENTS))


def test_clients_with_different_rosters_share_no_key_if_its_digest_is_in_the_context() -> None:
    """A server that shows one client a roster with another name on it gets nothing from them."""
    shown = SignedRoster.sign((replace(ENTRIES[0], name="another"), *ENTRIES[1:]), OPERATOR)
    agreed = params(variant="malicious")
    world = Driven(agreed.with_context(ROSTER.digest))
    deceived = agreed.with_context(shown.digest)
    world.clients[2] = Client(deceived, 2, identity=identity(2), identities=shown)
    world.keys().shares()
    for u in CLIENTS:
        with pytest.raises(PeerError, match="do not open"):
            world.clients[u].mask(world.server.delivery(u), world.x[u])


# Forgeries.


def test_another_operator_s_signature_is_refused() -> None:
    for forged in (signed(ENTRIES, STRANGER), SignedRoster.sign(ENTRIES, STRANGER).to_bytes()):
        with pytest.raises(WireError, match="did not sign this roster"):
            read(forged)
    with pytest.raises(WireError, match="did not sign this roster"):
        SignedRoster.from_bytes(DATA, STRANGER.public)


def test_a_client_of_the_roster_is_not_its_operator() -> None:
    with pytest.raises(WireError, match="did not sign this roster"):
        read(signed(ENTRIES, identity(2)))


@pytest.mark.parametrize(
    "altered",
    [
        (replace(ENTRIES[0], public=STRANGER.public), *ENTRIES[1:]),
        (replace(ENTRIES[0], name="hospital 5a"), *ENTRIES[1:]),
        (replace(ENTRIES[0], client=1), *ENTRIES[1:]),
        (replace(ENTRIES[0], node=bytes(32)), *ENTRIES[1:]),
        (replace(ENTRIES[0], node=b""), *ENTRIES[1:]),
        ENTRIES[1:],
        (*ENTRIES, Entry(41, "one more", STRANGER.public)),
        (
            replace(ENTRIES[0], public=ENTRIES[1].public),
            replace(ENTRIES[1], public=ENTRIES[0].public),
            *ENTRIES[2:],
        ),
    ],
    ids=["key", "name", "id", "node", "no node", "one less", "one more", "two keys exchanged"],
)
def test_altered_entries_under_the_old_signature_are_refused(altered: tuple[Entry, ...]) -> None:
    signature = _RosterFile.from_bytes(DATA).signature
    with pytest.raises(WireError, match="did not sign this roster"):
        read(signed(altered, signature=signature))
    assert read(signed(altered)).entries == altered


def test_the_signature_covers_where_one_field_ends_and_the_next_begins() -> None:
    """The same letters, parted elsewhere, in a list of another length."""
    one, other = Entry(1, "ab", identity(1).public), Entry(1, "a", identity(1).public)
    assert _text(OPERATOR.public, (one,)) != _text(OPERATOR.public, (other,))
    assert _text(OPERATOR.public, ()) != _text(OPERATOR.public, (one,))
    assert _text(STRANGER.public, (one,)) != _text(OPERATOR.public, (one,))


def test_every_altered_byte_is_refused() -> None:
    for place in range(len(DATA)):
        with pytest.raises(WireError):
            read(flip_bit(DATA, 8 * place + place % 8))
    for altered in (*truncations(DATA), append(DATA)):
        with pytest.raises(WireError):
            read(altered)


@pytest.mark.deep
def test_every_altered_bit_is_refused() -> None:
    for altered in flips(DATA):
        with pytest.raises(WireError):
            read(altered)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_wire_errors_only(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data)


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(WireError, match="did not sign"):
        read(signed(ENTRIES, signature=bytes(size)))


# Who may stand in it.

TWICE: dict[str, Callable[[], tuple[Entry, ...]]] = {
    "client": lambda: (*ENTRIES, Entry(5, "again", STRANGER.public)),
    "name": lambda: (*ENTRIES, Entry(41, "hospital 5", STRANGER.public)),
    "public": lambda: (*ENTRIES, Entry(41, "again", identity(5).public)),
    "node": lambda: (*ENTRIES, Entry(41, "again", STRANGER.public, node(5))),
}


@pytest.mark.parametrize("field", TWICE)
def test_nothing_that_names_a_client_stands_twice(field: str) -> None:
    """One key under two names would count as two signers; nor does the operator\'s word help."""
    entries = tuple(sorted(TWICE[field](), key=lambda entry: entry.client))
    with pytest.raises(ParameterError, match=f"have the same {field}"):
        SignedRoster.sign(entries, OPERATOR)
    with pytest.raises(WireError, match=f"have the same {field}"):
        read(signed(entries))


def test_clients_without_a_node_do_not_share_one() -> None:
    entries = (*ENTRIES, Entry(41, "no node either", STRANGER.public))
    roster = SignedRoster.sign(entries, OPERATOR)
    assert roster.client_of_node(b"") is None
    assert roster.public(41) == STRANGER.public


def test_an_empty_roster_is_refused() -> None:
    with pytest.raises(ParameterError, match="number of entries"):
        SignedRoster.sign((), OPERATOR)
    with pytest.raises(WireError, match="number of entries"):
        read(signed(()))


def test_entries_out_of_order_are_not_canonical() -> None:
    with pytest.raises(WireError, match="do not rise"):
        read(signed(ENTRIES[::-1]))


@pytest.mark.parametrize(
    "fields",
    [
        {"client": -1},
        {"client": 2**32},
        {"client": True},
        {"client": "2"},
        {"name": ""},
        {"name": "a" * 129},
        {"name": "two\nlines"},
        {"name": " padded"},
        {"name": b"bytes"},
        {"name": "\ud800"},
        {"public": bytes(31)},
        {"public": "00" * 32},
        {"node": bytes(20)},
        {"node": "sha"},
    ],
    ids=str,
)
def test_bad_entries_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        replace(ENTRIES[0], **fields)


@pytest.mark.parametrize("operator", [b"", bytes(31), OPERATOR.public.hex(), None], ids=str)
def test_an_operator_s_key_that_is_none_is_refused(operator: Any) -> None:
    with pytest.raises(ParameterError, match="operator's public key must be 32 bytes"):
        SignedRoster.from_bytes(DATA, operator)


# Files.


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "roster"
    with pytest.raises(FileNotFoundError):
        SignedRoster.from_file(path, OPERATOR.public)
    ROSTER.write(path)
    assert SignedRoster.from_file(path, OPERATOR.public).entries == ENTRIES
    later = SignedRoster.sign(ENTRIES[:3], OPERATOR)

    def power_fails(descriptor: int) -> None:
        raise OSError("power failure")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", power_fails)
        with pytest.raises(OSError, match="power failure"):
            later.write(path)
    assert SignedRoster.from_file(path, OPERATOR.public).entries == ENTRIES
    assert [each.name for each in tmp_path.iterdir()] == ["roster"]
    later.write(path)
    assert SignedRoster.from_file(path, OPERATOR.public).entries == ENTRIES[:3]
    assert path.read_bytes() == later.to_bytes()


def test_what_is_shown_of_a_roster() -> None:
    assert repr(ROSTER) == f"SignedRoster(5 clients, operator={OPERATOR.public.hex()})"
    assert repr(ENTRIES[0]) == f"Entry(2, 'hospital 2', public={identity(2).public.hex()})"


def test_a_roster_has_at_most_65535_entries() -> None:
    """And a thousand are read back in no time."""
    entries = [Entry(u, f"client {u}", hashlib.sha256(b"%d" % u).digest()) for u in range(1000)]
    roster = SignedRoster.sign(entries, OPERATOR)
    assert read(roster.to_bytes()).entries == tuple(entries)
    with pytest.raises(ParameterError, match="number of entries"):
        SignedRoster.sign(entries * 66, OPERATOR)
