"""Parties of a relay for its tests, and what a relay may do to a letter."""

from collections.abc import Iterable

from mpc.relay import Letter, Mailbox

SESSION = bytes(range(16))
SIZE = 40


def acquainted(
    parties: Iterable[int] = (1, 2, 3),
    *,
    make: type[Mailbox] = Mailbox,
    session: bytes = SESSION,
    contexts: dict[int, bytes] | None = None,
) -> dict[int, Mailbox]:
    """Mailboxes that have met each other."""
    boxes = {party: make(session, party) for party in parties}
    offers = [box.offer() for box in boxes.values()]
    for party, box in boxes.items():
        box.meet(offers, context=(contexts or {}).get(party, b""))
    return boxes


def rerouted(letter: Letter, *, epoch: int | None = None, sender: int, to: int) -> Letter:
    """The same ciphertext under another header, as a relay could write it."""
    number = letter.epoch if epoch is None else epoch
    return Letter.make(letter.session, number, sender, to, letter.sealed)


def xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
