"""Mailboxes over a relay: letters arrive as they were written, and nothing else is opened."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.keys import KeyPair
from mpc.relay import Letter, Mailbox, Offer
from mpc.relay_messages import MAX_EPOCH, letter_bytes, padded, unpadded
from secagg.watermark import FileWatermark
from tests.mpc.relay_parties import SESSION, SIZE, acquainted, rerouted
from tests.support import faults


@given(st.binary(max_size=SIZE), st.integers(0, 50), st.integers(0, 50))
def test_a_letter_arrives_as_it_was_written(payload: bytes, epoch: int, later: int) -> None:
    boxes = acquainted()
    for at in (epoch, epoch + 1 + later):  # an epoch may be left out
        letter = boxes[1].begin(at).seal(2, payload, SIZE)
        arrived = Letter.from_bytes(letter.to_bytes())
        assert (arrived.epoch, arrived.sender, arrived.to) == (at, 1, 2)
        assert boxes[2].open(arrived, at, SIZE) == payload


def test_everybody_writes_to_everybody_in_one_epoch() -> None:
    boxes = acquainted(range(5))
    letters = []
    for party, box in boxes.items():
        outbox = box.begin(0)
        letters += [outbox.seal(to, bytes([party, to]), 2) for to in box.peers]
    assert len(letters) == 20
    for letter in letters:
        payload = boxes[letter.to].open(letter, 0, 2)
        assert payload == bytes([letter.sender, letter.to])


def test_all_letters_of_a_size_are_equally_long() -> None:
    outbox = acquainted(range(4))[0].begin(MAX_EPOCH)
    sent = [outbox.seal(to, bytes(to), SIZE).to_bytes() for to in (1, 2, 3)]
    assert {len(data) for data in sent} == {letter_bytes(SIZE)}


def test_what_comes_for_one_epoch_is_opened_before_the_next_is_sent() -> None:
    """The order of a training: read epoch e, write epoch e + 1, forget e."""
    boxes = acquainted((1, 2))
    last: dict[int, Letter] = {}
    for epoch in range(4):
        for party, other in ((1, 2), (2, 1)):
            if epoch:
                assert boxes[party].open(last[other], epoch - 1, SIZE) == bytes([other, epoch - 1])
                boxes[party].forget(epoch)
        last = {
            party: boxes[party].begin(epoch).seal(3 - party, bytes([party, epoch]), SIZE)
            for party in (1, 2)
        }


def test_both_ends_derive_the_same_key_for_a_purpose_and_nobody_else_does() -> None:
    boxes = acquainted()
    ours, theirs = boxes[1].begin(3), boxes[2].begin(3)
    assert ours.key(2, "sum", 7) == theirs.key(1, "sum", 7)
    keys = {
        ours.key(2, "sum", 7),
        ours.key(2, "sum", 8),
        ours.key(2, "other", 7),
        ours.key(3, "sum", 7),
        boxes[2].begin(4).key(1, "sum", 7),
        boxes[2]._letter_key(1, 3, 1, 2),
    }
    assert len(keys) == 6


# Refusals.


def test_a_letter_is_opened_once() -> None:
    boxes = acquainted()
    letter = boxes[1].begin(0).seal(2, b"x", SIZE)
    boxes[2].open(letter, 0, SIZE)
    with pytest.raises(PeerError, match="opened before"):
        boxes[2].open(letter, 0, SIZE)


def test_a_letter_of_an_earlier_epoch_is_refused() -> None:
    boxes = acquainted()
    first = boxes[1].begin(0).seal(2, b"x", SIZE)
    second = boxes[1].begin(1).seal(2, b"y", SIZE)
    with pytest.raises(PeerError, match="another session or epoch than 1"):
        boxes[2].open(first, 1, SIZE)
    with pytest.raises(WireError, match="does not authenticate"):
        boxes[2].open(rerouted(first, epoch=1, sender=1, to=2), 1, SIZE)
    assert boxes[2].open(second, 1, SIZE) == b"y"
    with pytest.raises(StateError, match="epoch 0 are forgotten"):
        boxes[2].open(first, 0, SIZE)


def test_every_flipped_bit_is_refused_and_changes_nothing() -> None:
    boxes = acquainted()
    letter = boxes[1].begin(0).seal(2, b"secret", 8)
    for flipped in faults.flips(letter.to_bytes()):
        with pytest.raises((WireError, PeerError)):
            boxes[2].open(Letter.from_bytes(flipped), 0, 8)
    assert boxes[2].open(letter, 0, 8) == b"secret"


def test_swapped_letters_are_refused() -> None:
    """The relay puts what 1 wrote to 2 into the place of what 3 wrote to 2, and to 3."""
    boxes = acquainted()
    letter = boxes[1].begin(0).seal(2, b"x", SIZE)
    for sender, to in ((3, 2), (1, 3), (2, 1)):
        with pytest.raises(WireError, match="does not authenticate"):
            boxes[to].open(rerouted(letter, sender=sender, to=to), 0, SIZE)
    with pytest.raises(PeerError, match="a letter for 2 came to 3"):
        boxes[3].open(letter, 0, SIZE)


def test_letters_of_another_size_session_or_stranger_are_refused() -> None:
    boxes = acquainted()
    letter = boxes[1].begin(0).seal(2, b"x", SIZE)
    with pytest.raises(WireError, match="another size"):
        boxes[2].open(letter, 0, SIZE + 1)
    other = acquainted(session=bytes(16))
    with pytest.raises(PeerError, match="another session"):
        boxes[2].open(other[1].begin(0).seal(2, b"x", SIZE), 0, SIZE)
    with pytest.raises(PeerError, match="nobody whom 2 has met"):
        boxes[2].open(rerouted(letter, sender=9, to=2), 0, SIZE)
    with pytest.raises(PeerError, match="nobody whom 1 has met"):
        boxes[1].begin(1).seal(9, b"x", SIZE)


def test_an_epoch_is_sent_in_once_and_never_behind_a_later_one() -> None:
    box = acquainted()[1]
    box.begin(2)
    for epoch in (2, 1, 0):
        with pytest.raises(StateError, match=f"epoch {epoch} was sent in before, or passed"):
            box.begin(epoch)
    box.begin(3)


def test_a_peer_gets_one_letter_in_an_epoch() -> None:
    outbox = acquainted()[1].begin(0)
    outbox.seal(2, b"x", SIZE)
    with pytest.raises(StateError, match="has got its letter"):
        outbox.seal(2, b"y", SIZE)


def test_before_the_peers_are_met_nothing_is_sent_or_opened() -> None:
    boxes = acquainted()
    letter = boxes[1].begin(0).seal(2, b"x", SIZE)
    fresh = Mailbox(SESSION, 2)
    for call in (lambda: fresh.begin(0), lambda: fresh.open(letter, 0, SIZE)):
        with pytest.raises(StateError, match="met nobody"):
            call()
    with pytest.raises(StateError, match="already"):
        boxes[1].meet([])


@pytest.mark.parametrize(
    ("offers", "error", "match"),
    [
        (lambda a, b: [Offer(bytes(16), 2, a)], PeerError, "another session"),
        (lambda a, b: [Offer(SESSION, 1, a)], PeerError, "has our id"),
        (lambda a, b: [Offer(SESSION, 2, a), Offer(SESSION, 2, b)], PeerError, "one party"),
        (lambda a, b: [Offer(SESSION, 2, a), Offer(SESSION, 3, a)], PeerError, "one key"),
        (lambda a, b: [Offer(SESSION, 2, bytes(32))], WireError, "low order"),
    ],
)
def test_offers_that_do_not_fit_are_refused_and_leave_the_party_unmet(
    offers: Any, error: type[Exception], match: str
) -> None:
    keys = [KeyPair.generate().public for _ in range(2)]
    box, other = Mailbox(SESSION, 1), Mailbox(SESSION, 2)
    with pytest.raises(error, match=match):
        box.meet(offers(*keys))
    with pytest.raises(PeerError, match="one party or one key"):
        box.meet([Offer(SESSION, 2, box.offer().public)])
    box.meet([other.offer()])
    assert box.peers == (2,)


@pytest.mark.parametrize("epoch", [-1, MAX_EPOCH + 1, 2**32, 1.5, None])
def test_epochs_out_of_range_are_refused(epoch: Any) -> None:
    box = acquainted()[1]
    with pytest.raises(ParameterError, match="epoch"):
        box.begin(epoch)


def test_a_payload_above_the_size_is_refused() -> None:
    with pytest.raises(ParameterError, match="does not fit into letters of 3"):
        acquainted()[1].begin(0).seal(2, b"four", 3)


# The form of messages.


@given(st.binary(max_size=30))
def test_fillings_are_exact_inverses_and_canonical(data: bytes) -> None:
    assert unpadded(padded(data, 30)) == data
    payload = unpadded(data)
    assert payload is None or padded(payload, len(data) - 4) == data


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_refused_or_canonical(data: bytes) -> None:
    for kind in (Letter, Offer):
        with suppress(WireError):
            assert kind.from_bytes(data).to_bytes() == data


# Between calls.


def test_a_suspended_party_goes_on_where_it_was() -> None:
    boxes = acquainted((1, 2))
    letter = boxes[1].begin(0).seal(2, b"x", SIZE)
    other = boxes[1].begin(1).seal(2, b"y", SIZE)
    restored = Mailbox.resume(boxes[2].suspend())
    assert restored.open(letter, 0, SIZE) == b"x"
    again = Mailbox.resume(restored.suspend())
    with pytest.raises(PeerError, match="opened before"):
        again.open(letter, 0, SIZE)
    assert again.open(other, 1, SIZE) == b"y"
    with pytest.raises(StateError, match="sent in before"):
        Mailbox.resume(boxes[1].suspend()).begin(1)


def test_a_party_can_be_suspended_before_it_meets_anybody() -> None:
    one, two = Mailbox(SESSION, 1), Mailbox(SESSION, 2)
    restored = Mailbox.resume(one.suspend())
    assert restored.offer() == one.offer()
    restored.meet([two.offer()])
    two.meet([restored.offer()])
    assert two.open(restored.begin(0).seal(2, b"x", SIZE), 0, SIZE) == b"x"
    assert one.suspend() != restored.suspend()


def test_damaged_bytes_are_no_party() -> None:
    data = acquainted()[1].suspend()
    for changed in (*faults.truncations(data), faults.append(data)):
        with pytest.raises(WireError):
            Mailbox.resume(changed)
    for bit in range(0, 8 * len(data), 7):
        with pytest.raises(WireError):
            Mailbox.resume(faults.flip_bit(data, bit))


def test_marks_on_disk_outlive_a_party_that_went_back(tmp_path: Path) -> None:
    """Its bytes are from before the letter; the file is not."""
    FileWatermark.create(tmp_path / "marks")
    one, two = Mailbox(SESSION, 1, marks=FileWatermark(tmp_path / "marks")), Mailbox(SESSION, 2)
    one.meet([two.offer()])
    older = one.suspend()
    one.begin(5)
    back = Mailbox.resume(older, marks=FileWatermark(tmp_path / "marks"))
    with pytest.raises(StateError, match="spent"):
        back.begin(5)
    back.begin(6)


def test_nothing_secret_is_shown_or_pickled() -> None:
    box = acquainted()[1]
    outbox = box.begin(0)
    for secret in (box, outbox):
        with pytest.raises(TypeError):
            pickle.dumps(secret)
    shown = repr(box) + repr(outbox.seal(2, b"payload", SIZE)) + repr(box.offer())
    assert "payload" not in shown
    assert "party=1" in shown
