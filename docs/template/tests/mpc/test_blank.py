"""mpc.blank: results, refusals, the batch against the parties, arbitrary bytes.

Replace: keep each of these tests and make it speak of your protocol.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.blank import (
    RING,
    BlankAnnouncement,
    BlankPad,
    BlankParty,
    BlankTerms,
    announcement,
    parity,
    result,
)
from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.local import LocalNetwork
from tests.support.enumerate import TapeRng, tapes

SESSION = bytes(range(16))
TERMS = BlankTerms(SESSION, 3, 2)


def run(messages: NDArray[np.uint8], network: LocalNetwork) -> NDArray[np.uint8]:
    """All parties over the in-process network, every message as bytes; messages: (n, length)."""
    n, length = messages.shape
    terms = BlankTerms(SESSION, n, length)
    parties = [BlankParty(terms, party) for party in range(n)]
    for party in parties:
        network.send(party.party, (party.party + 1) % n, "pad", party.draw().to_bytes())
    network.next_round()
    own = []
    for party in parties:
        (delivery,) = network.receive(party.party)
        own.append(party.announce(messages[party.party], BlankPad.from_bytes(delivery.data)))
    for message, receiver in product(own, range(n)):
        if receiver != message.sender:
            network.send(message.sender, receiver, "announcement", message.to_bytes())
    network.next_round()
    heard = [BlankAnnouncement.from_bytes(d.data) for d in network.receive(0)]
    return result(terms, [own[0], *heard]).astype(np.uint8)


@given(st.integers(3, 8), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_everybody_learns_the_parity(n: int, length: int, seed: int) -> None:
    messages = np.random.default_rng(seed).integers(0, 2, (n, length), dtype=np.uint8)
    assert run(messages, LocalNetwork()).tolist() == (messages.sum(axis=0) % 2).tolist()


def test_rounds_messages_and_bytes_are_as_the_page_says() -> None:
    n, length = 5, 7
    network = LocalNetwork()
    run(np.zeros((n, length), np.uint8), network)
    pad = len(BlankPad(SESSION, 0, bytes(length)).to_bytes())
    said = len(BlankAnnouncement(SESSION, 0, bytes(length)).to_bytes())
    assert network.round == 2
    assert network.messages == n + n * (n - 1)
    assert network.bytes == n * pad + n * (n - 1) * said


def test_the_batch_equals_the_parties_byte_for_byte_on_the_same_tape() -> None:
    n, length = TERMS.n, TERMS.length
    tape = tapes([2] * (n * length))
    messages = np.array([[1, 0], [1, 1], [0, 1]], np.uint8)
    pads = RING.random((n, len(tape), length), TapeRng(tape, axis=1))
    batch = np.broadcast_to(messages[:, np.newaxis], pads.shape)
    said = announcement(batch, pads, np.roll(pads, 1, axis=0))
    for row in range(len(tape)):
        # A party's draw has no batch axis, so the tape runs along its length, one draw each.
        own = tape[row].reshape(n, length, 1)
        parties = [BlankParty(TERMS, i, rng=TapeRng(own[i])) for i in range(n)]
        handed = [party.draw() for party in parties]
        for i, party in enumerate(parties):
            assert handed[i].pad == pads[i, row].tobytes()
            message = party.announce(messages[i], handed[i - 1])
            assert message.bits == said[i, row].tobytes()
    assert np.all(parity(said) == [0, 0])


def drawn(party: int, terms: BlankTerms = TERMS) -> tuple[BlankParty, BlankPad]:
    """A party in round 2, and the pad that it waits for."""
    waiting = BlankParty(terms, party)
    waiting.draw()
    return waiting, BlankParty(terms, (party - 1) % terms.n).draw()


BITS = np.zeros(2, np.uint8)


@pytest.mark.parametrize(
    "pad",
    [
        BlankPad(bytes(16), 2, bytes(2)),  # another session
        BlankPad(SESSION, 1, bytes(2)),  # the wrong neighbour
        BlankPad(SESSION, 9, bytes(2)),  # no party at all
        BlankPad(SESSION, 2, bytes(3)),  # the wrong length
        BlankPad(SESSION, 2, b"\x00\x02"),  # no bit
    ],
)
def test_a_refused_pad_changes_nothing(pad: BlankPad) -> None:
    party, right = drawn(0)
    with pytest.raises((PeerError, WireError)):
        party.announce(BITS, pad)
    party.announce(BITS, right)


@pytest.mark.parametrize(
    "message",
    [np.zeros(3, np.uint8), np.zeros((1, 2), np.uint8), np.array([0, 2], np.uint8), np.zeros(2)],
)
def test_a_wrong_message_is_refused(message: NDArray[np.uint8]) -> None:
    party, pad = drawn(0)
    with pytest.raises(ParameterError):
        party.announce(message, pad)


def test_calls_out_of_order_and_a_second_use_of_a_pad_are_refused() -> None:
    party, pad = drawn(1)
    with pytest.raises(StateError):
        party.draw()
    with pytest.raises(StateError):
        BlankParty(TERMS, 1).announce(BITS, pad)
    party.announce(BITS, pad)
    with pytest.raises(StateError):
        party.announce(BITS, pad)


@pytest.mark.parametrize("change", ["missing", "second", "foreign", "unknown"])
def test_the_result_needs_each_party_exactly_once(change: str) -> None:
    said = [BlankAnnouncement(SESSION, party, bytes(2)) for party in range(3)]
    wrong = {
        "missing": said[:2],
        "second": [*said, said[0]],
        "foreign": [*said[:2], BlankAnnouncement(bytes(16), 2, bytes(2))],
        "unknown": [*said[:2], BlankAnnouncement(SESSION, 3, bytes(2))],
    }
    with pytest.raises((ParameterError, PeerError)):
        result(TERMS, wrong[change])


@pytest.mark.parametrize(
    ("session", "n", "length"), [(b"", 3, 1), (SESSION, 2, 1), (SESSION, 3, 0)]
)
def test_wrong_terms_are_refused(session: bytes, n: int, length: int) -> None:
    with pytest.raises(ParameterError):
        BlankTerms(session, n, length)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_wire_errors(data: bytes) -> None:
    for kind in (BlankPad, BlankAnnouncement):
        with pytest.raises(WireError):
            kind.from_bytes(data)


def test_no_secret_shows_in_a_repr() -> None:
    assert "pad=<2 bytes>" in repr(BlankPad(SESSION, 0, b"\x01\x01"))
