"""What a malicious relay cannot do, each with a twin of the mailbox that lets it.

Each attack is carried out twice: against a twin that lacks one rule, where it works, and against
the mailbox itself, where it does not.
"""

from collections.abc import Callable

import pytest

from mpc.core.errors import ToolkitError
from mpc.core.keys import derive
from mpc.relay import Letter, Mailbox, Offer, Outbox
from secagg.full.identity import Identity, MemoryIdentities, is_valid
from tests.mpc.relay_parties import SESSION, SIZE, acquainted, rerouted, xor

Attack = Callable[[type[Mailbox]], bool]
"""Whether the relay learns or achieves something."""

ONE, OTHER = b"\x00" * SIZE, b"\x55" * SIZE


def bodies(*letters: Letter) -> list[bytes]:
    """What a keystream lay on, without the length that they share."""
    return [letter.sealed[4 : 4 + SIZE] for letter in letters]


# Two letters under one key give the relay the difference of their contents.


def difference_of_directions(make: type[Mailbox]) -> bool:
    boxes = acquainted(make=make)
    there, back = boxes[1].begin(0).seal(2, ONE, SIZE), boxes[2].begin(0).seal(1, OTHER, SIZE)
    return xor(*bodies(there, back)) == OTHER


class NoDirection(Mailbox):
    def _letter_key(self, peer: int, epoch: int, sender: int, to: int) -> bytes:
        return super()._letter_key(peer, epoch, *sorted((sender, to)))


def difference_of_epochs(make: type[Mailbox]) -> bool:
    box = acquainted(make=make)[1]
    return xor(*bodies(*(box.begin(e).seal(2, p, SIZE) for e, p in enumerate((ONE, OTHER))))) == (
        OTHER
    )


class NoEpoch(Mailbox):
    def _epoch_key(self, peer: int, epoch: int) -> bytes:
        return self._chains[peer]


def difference_after_going_back(make: type[Mailbox]) -> bool:
    """The party answers, loses what it has done, and is asked again."""
    box = acquainted(make=make)[1]
    letters = []
    for payload in (ONE, OTHER):
        try:
            letters.append(box.begin(0).seal(2, payload, SIZE))
        except ToolkitError:
            return False
    return xor(*bodies(*letters)) == OTHER


class NoClaim(Mailbox):
    def begin(self, epoch: int) -> Outbox:
        return Outbox(self, epoch)


# What was sealed for one place is brought to another.


def accepted(make: type[Mailbox], change: Callable[[Letter], tuple[Letter, int, int]]) -> bool:
    """Whether a letter of 1 to 2 in epoch 0 is opened as another one; (it, reader, epoch)."""
    boxes = acquainted(make=make)
    letter, reader, epoch = change(boxes[1].begin(0).seal(2, ONE, SIZE))
    try:
        return boxes[reader].open(letter, epoch, SIZE) == ONE
    except ToolkitError:
        return False


def reflected(make: type[Mailbox]) -> bool:
    return accepted(make, lambda letter: (rerouted(letter, sender=2, to=1), 1, 0))


class Undirected(NoDirection):
    def _header(self, letter: Letter) -> bytes:
        return letter.session


def replayed_later(make: type[Mailbox]) -> bool:
    return accepted(make, lambda letter: (rerouted(letter, epoch=1, sender=1, to=2), 2, 1))


class Timeless(NoEpoch):
    def _header(self, letter: Letter) -> bytes:
        return letter.session


def opened_twice(make: type[Mailbox]) -> bool:
    boxes = acquainted(make=make)
    letter = boxes[1].begin(0).seal(2, ONE, SIZE)
    boxes[2].open(letter, 0, SIZE)
    try:
        return boxes[2].open(letter, 0, SIZE) == ONE
    except ToolkitError:
        return False


class Forgetful(Mailbox):
    def _check_route(self, letter: Letter, epoch: int) -> None:
        self._opened.clear()
        super()._check_route(letter, epoch)


# What can be seen from outside, or afterwards.


def sizes_tell(make: type[Mailbox]) -> bool:
    outbox = acquainted(make=make)[1].begin(0)
    return len(outbox.seal(2, b"", SIZE).sealed) != len(outbox.seal(3, ONE, SIZE).sealed)


class NotFilled(Mailbox):
    def _filled(self, payload: bytes, size: int) -> bytes:
        return len(payload).to_bytes(4, "little") + payload


def seized_later(make: type[Mailbox]) -> bool:
    """Whoever takes a party's state after an epoch is forgotten opens what was recorded in it."""
    boxes = acquainted(make=make)
    letter = boxes[1].begin(0).seal(2, ONE, SIZE)
    boxes[2].forget(1)
    seized = make.resume(boxes[2].suspend())
    found = seized._chains[1]
    for key in (found, derive(found, "relay.next")):  # what it holds, and what follows from that
        seized._chains[1], seized._at = key, 0
        try:
            return seized.open(letter, 0, SIZE) == ONE
        except ToolkitError:
            continue
    return False


class Hoarding(Mailbox):
    def forget(self, epoch: int) -> None:
        """Keep everything."""


def parties_that_disagree_understand_each_other(make: type[Mailbox]) -> bool:
    boxes = acquainted(make=make, contexts={1: b"scale 1", 2: b"scale 2"})
    try:
        boxes[2].open(boxes[1].begin(0).seal(2, ONE, SIZE), 0, SIZE)
    except ToolkitError:
        return False
    return True


class ContextFree(Mailbox):
    def meet(self, offers, *, context=b"", verify=None) -> None:  # type: ignore[no-untyped-def]
        super().meet(offers, verify=verify)


ATTACKS: list[tuple[Attack, type[Mailbox]]] = [
    (difference_of_directions, NoDirection),
    (difference_of_epochs, NoEpoch),
    (difference_after_going_back, NoClaim),
    (reflected, Undirected),
    (replayed_later, Timeless),
    (opened_twice, Forgetful),
    (sizes_tell, NotFilled),
    (seized_later, Hoarding),
    (parties_that_disagree_understand_each_other, ContextFree),
]


@pytest.mark.parametrize(("attack", "twin"), ATTACKS)
def test_each_attack_works_on_the_twin_that_lacks_the_rule(
    attack: Attack, twin: type[Mailbox]
) -> None:
    assert attack(twin)


@pytest.mark.parametrize("attack", [attack for attack, _ in ATTACKS])
def test_no_attack_works_on_the_mailbox(attack: Attack) -> None:
    assert not attack(Mailbox)


# A relay that puts keys of its own in the place of the parties'.


def in_the_middle(*, signed: bool) -> bytes | None:
    """What a relay reads of a letter of 1 to 2 that stands between them, if it gets that far."""
    identities = {party: Identity.generate() for party in (1, 2)}
    known = MemoryIdentities({party: who.public for party, who in identities.items()})

    def verify(party: int, text: bytes, signature: bytes) -> bool:
        return is_valid(known, party, text, signature)

    one, two = Mailbox(SESSION, 1), Mailbox(SESSION, 2)
    as_one, as_two = Mailbox(SESSION, 1), Mailbox(SESSION, 2)  # the relay's
    sign = identities if signed else dict.fromkeys((1, 2))
    for party, other in ((one, as_two), (two, as_one)):
        forged = other.offer()
        real = (two if party is one else one).offer(sign[other.party])
        # The best that it can do without the identity: a real signature on another key.
        offer = Offer(SESSION, forged.party, forged.public, real.signature)
        try:
            party.meet([offer], verify=verify if signed else None)
        except ToolkitError:
            return None
        other.meet([party.offer()])
    letter = one.begin(0).seal(2, b"my model", SIZE)
    read = as_two.open(letter, 0, SIZE)
    passed_on = as_one.begin(0).seal(2, read, SIZE)
    return read if two.open(passed_on, 0, SIZE) == read else None


def test_a_relay_that_replaces_unsigned_keys_reads_everything() -> None:
    """The twin of signed offers: why a malicious relay needs identities that it cannot alter."""
    assert in_the_middle(signed=False) == b"my model"


def test_signed_offers_stop_it() -> None:
    assert in_the_middle(signed=True) is None


def test_a_signature_is_for_one_session_party_and_key() -> None:
    identity = Identity.generate()
    known = MemoryIdentities({1: identity.public, 2: identity.public[::-1]})
    offer = Mailbox(SESSION, 1).offer(identity)
    assert is_valid(known, 1, offer.text, offer.signature)
    for changed in (
        Offer(bytes(16), 1, offer.public, offer.signature),
        Offer(SESSION, 2, offer.public, offer.signature),
        Offer(SESSION, 1, offer.public[::-1], offer.signature),
    ):
        assert not is_valid(known, 1, changed.text, changed.signature)


def test_the_relay_reads_no_payload() -> None:
    """Two letters of the same content have nothing in common, and are not the content."""
    boxes = acquainted()
    outbox = boxes[1].begin(0)
    letters = [outbox.seal(to, ONE, SIZE) for to in (2, 3)]
    one, other = bodies(*letters)
    assert len({one, other, ONE}) == 3  # 2^-320 by chance
