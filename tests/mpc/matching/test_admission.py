"""Tickets: one for each client, worth one upload, and nobody else can make them."""

import pickle

import pytest

from mpc.core.errors import ParameterError, PeerError
from mpc.matching.admission import TicketGate, TicketIssuer
from mpc.matching.messages import Ticket
from tests.mpc.matching.session import O20, Session, payload_of


def test_a_session_with_tickets() -> None:
    session = Session(O20, min_users=4)
    issuer = TicketIssuer(session.terms)
    gate = TicketGate(session.terms, issuer.key)
    names = {}
    for name in O20:
        data = issuer.issue(name.encode()).to_bytes()
        pseudonym = gate.admit(session.terms.decode(Ticket, data))
        names[pseudonym] = name
        session.matcher.collect(pseudonym, session.upload(name))
    found = {names[p]: answer.read(session.terms) for p, answer in session.matcher.match()}
    assert found == {"A": (payload_of("B"),), "B": (payload_of("A"),), "C": (), "D": ()}


def test_a_client_gets_one_ticket_and_a_ticket_one_upload() -> None:
    session = Session(O20)
    issuer = TicketIssuer(session.terms)
    gate = TicketGate(session.terms, issuer.key)
    ticket = issuer.issue(b"A")
    with pytest.raises(PeerError, match="has her ticket already"):
        issuer.issue(b"A")
    session.matcher.collect(gate.admit(ticket), session.upload("A"))
    with pytest.raises(PeerError, match="has uploaded already"):
        session.matcher.collect(gate.admit(ticket), session.upload("B"))
    assert issuer.issue(b"B").pseudonym != ticket.pseudonym


def test_one_person_under_many_names_would_be_a_group() -> None:
    """What tickets are for: without them a Sybil lifts a rare item over the threshold."""
    session = Session({"victim": [7], "sybil": [7]}, min_group=4, min_users=4)
    session.matcher.collect(b"victim", session.upload("victim"))
    upload = session.upload("sybil")
    for name in (b"s1", b"s2", b"s3"):
        session.matcher.collect(name, upload)  # the caller admitted all of them
    answers = dict(session.matcher.match())
    assert payload_of("victim") in answers[b"s1"].read(session.terms)


def test_forged_and_foreign_tickets_are_refused() -> None:
    session, other = Session(O20), Session(O20)
    issuer = TicketIssuer(session.terms)
    gate = TicketGate(session.terms, issuer.key)
    ticket = issuer.issue(b"A")
    foreign = TicketIssuer(other.terms, key=issuer.key).issue(b"A")
    forged = [
        Ticket(ticket.terms, bytes(16), ticket.tag),
        Ticket(ticket.terms, ticket.pseudonym, bytes(32)),
        Ticket(ticket.terms, foreign.pseudonym, foreign.tag),  # the tag covers the session
        TicketIssuer(session.terms).issue(b"A"),  # another key
        foreign,
    ]
    for bad in forged:
        with pytest.raises(PeerError):
            gate.admit(bad)
    assert gate.admit(ticket) == ticket.pseudonym


def test_a_pseudonym_tells_nothing_of_the_client() -> None:
    session = Session(O20)
    first, second = (TicketIssuer(session.terms, key=bytes(32)).issue(b"A") for _ in range(2))
    assert first.pseudonym != second.pseudonym


def test_keys_are_checked_and_stay_hidden() -> None:
    terms = Session(O20).terms
    for key in (b"", bytes(31), "k" * 32):
        with pytest.raises(ParameterError, match="key must be 32 bytes"):
            TicketIssuer(terms, key=key)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="key must be 32 bytes"):
            TicketGate(terms, key)  # type: ignore[arg-type]
    issuer = TicketIssuer(terms)
    for party in (issuer, TicketGate(terms, issuer.key)):
        assert issuer.key.hex() not in repr(party)
        with pytest.raises(TypeError, match="not picklable"):
            pickle.dumps(party)
