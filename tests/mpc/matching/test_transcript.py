"""A whole session equals the one that an independent script has written, byte for byte."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.keys import derive, label
from mpc.core.prg import Prg
from mpc.core.wire import Message
from mpc.matching import admission, items, messages, tokens
from mpc.matching.admission import TicketGate, TicketIssuer
from mpc.matching.client import MatchClient
from mpc.matching.key_holder import KeyHolder
from mpc.matching.matcher import Matcher
from mpc.matching.messages import (
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Neighbourhood,
    Ticket,
    Upload,
)
from mpc.oprf import ServerKey
from tests.support.faults import flips
from tests.support.source import Source
from tests.support.vectors import FOLDER, load
from tests.vectors import make_matching, ristretto

STORED = load("matching")
KINDS: dict[str, type[Message]] = {
    "matching.blinded": BlindedItems,
    "matching.evaluated": EvaluatedItems,
    "matching.ticket": Ticket,
    "matching.upload": Upload,
    "matching.neighbours": Neighbourhood,
}


def tape(party: str) -> Prg:
    return Prg(bytes.fromhex(STORED["seeds"][party]))


def session() -> Iterator[tuple[str, str, Message]]:
    """The session of the file by the party objects: the terms, then every message in its order."""
    holder = KeyHolder(**STORED["settings"], rng=tape("key holder"))
    terms = holder.terms
    yield "key holder", "all", terms
    matcher = Matcher(terms, rng=tape("matcher"))
    issuer = TicketIssuer(terms, rng=tape("issuer"))
    gate = TicketGate(terms, issuer.key)
    names = {}
    for name, history in STORED["histories"].items():
        payload = bytes.fromhex(STORED["payloads"][name])
        client = MatchClient(terms, history, payload, excess="sample", rng=tape(name))
        client.confirm(matcher.terms)
        request = client.blind()
        yield name, "key holder", request
        answer = holder.evaluate(name.encode(), request)
        yield "key holder", name, answer
        ticket = issuer.issue(name.encode())
        yield name, "matcher", ticket
        upload = client.upload(answer)
        yield name, "matcher", upload
        matcher.collect(gate.admit(ticket), upload)
        names[ticket.pseudonym] = name
    for pseudonym, found in matcher.match():
        yield "matcher", names[pseudonym], found


def agrees() -> bool:
    """Whether the party objects send what the file holds."""
    sent = list(session())
    rest = [(sender, to, message.to_bytes().hex()) for sender, to, message in sent[1:]]
    stored = [(one["from"], one["to"], one["bytes"]) for one in STORED["messages"]]
    return sent[0][2].to_bytes().hex() == STORED["terms"] and rest == stored


def test_every_message_is_that_of_the_independent_script() -> None:
    assert agrees()


def test_the_file_is_what_its_script_writes() -> None:
    assert make_matching.build() == STORED


@pytest.mark.parametrize("script", ["make_matching", "ristretto"])
def test_the_script_imports_nothing_of_ours(script: str) -> None:
    text = (FOLDER / f"{script}.py").read_text(encoding="utf-8")
    for found in Source.parse(f"tests.vectors.{script}", text).imports():
        ours = found.module.startswith("tests.vectors")
        assert ours or found.top in sys.stdlib_module_names


def test_the_script_has_the_group_of_rfc_9496() -> None:
    answers = load("rfc9496")
    multiples = enumerate(answers["multiples"])
    assert all(
        ristretto.encode(ristretto.multiply(k, ristretto.GENERATOR)).hex() == element
        for k, element in multiples
    )


def test_key_and_digest_are_those_of_the_script() -> None:
    key = ServerKey.from_bytes(bytes.fromhex(STORED["secret_key"]))
    terms = MatchTerms.from_bytes(bytes.fromhex(STORED["terms"]))
    assert terms.public == key.public
    assert terms.digest.hex() == STORED["digest"]


def test_the_transcript_holds_what_a_session_can_hold() -> None:
    """Clients without items and with too many, and more neighbours than are handed out."""
    read = [
        (one["to"], KINDS[one["kind"]].from_bytes(bytes.fromhex(one["bytes"])))
        for one in STORED["messages"]
    ]
    found = {to: message for to, message in read if isinstance(message, Neighbourhood)}
    terms = MatchTerms.from_bytes(bytes.fromhex(STORED["terms"]))
    received = {name: message.read(terms) for name, message in found.items()}
    assert received["erin"] == ()
    assert all(len(received[name]) == 2 for name in ("alice", "bob", "carol"))
    assert {one["kind"] for one in STORED["messages"]} == set(KINDS)
    lengths = {(one["kind"], len(one["bytes"])) for one in STORED["messages"]}
    assert len(lengths) == len(KINDS)  # one length of each kind, whatever a client holds


def test_every_changed_bit_is_refused_or_another_message() -> None:
    """So no bit of the wire is without meaning, and a comparison of bytes sees every change."""
    for one in STORED["messages"]:
        kind, stored = KINDS[one["kind"]], bytes.fromhex(one["bytes"])
        message = kind.from_bytes(stored)
        for altered in flips(stored):
            with suppress(WireError, ParameterError):
                assert kind.from_bytes(altered) != message


TWINS: dict[str, tuple[Any, str, Any]] = {
    "dummies under the label of items": (
        items,
        "label",
        lambda purpose, *rest: label(purpose.replace("dummy", "item"), *rest),
    ),
    "dummies of half the length": (items, "DUMMY_BYTES", 16),
    "ids without their kind": (items, "encode_id", lambda item: str(item).encode()),
    "tickets under another label": (
        admission,
        "derive",
        lambda key, purpose, *rest: derive(key, f"{purpose}s", *rest),
    ),
    "a digest of the bare terms": (messages, "label", lambda purpose, *rest: b"".join(rest)),
    "tokens in the order of items": (tokens, "sorted", list),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_change_of_what_is_sent_is_seen(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, other = TWINS[twin]
    monkeypatch.setattr(module, name, other, raising=False)
    try:
        same = agrees()
    except PeerError:  # as the matcher's, whom tokens out of order do not please
        same = False
    assert not same


def test_a_tag_on_the_wire_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Upload, frozen=True, tag="matching.uploaded"):
        """The same fields under another tag."""

    monkeypatch.setattr("mpc.matching.client.Upload", Other)
    assert not agrees()
