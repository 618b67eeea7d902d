"""Parity of n bits: everybody learns the sum in Z_2 of all messages, and nobody whose bit it was.

The parties sit in a circle. Each draws a pad and hands it to the next; each announces its message
plus the pad that it drew plus the pad that it was handed; in the sum every pad meets itself.

Replace: the sentence above, and each entry below; this is the blank protocol to fill.

Source: Chaum, "The Dining Cryptographers Problem: Unconditional Sender and Recipient
    Untraceability", Journal of Cryptology 1 (1988). Names: the paper's participants are the
    *parties*, its key bits are *pads*, its keys graph is a circle here.
Model: semi-honest, any number of parties collude. Pads travel on links that hide and authenticate
    their content. Perfect secrecy, given uniform bytes.
Leaks: the parity; to a coalition also the parity of each run of honest parties between two of its
    own members, so a party with colluding neighbours on both sides hides nothing.
Error: none.
Differs: a batch of messages at once, and fewer than three parties are refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from numpy.typing import ArrayLike

from mpc.core.errors import ParameterError, PeerError, StateError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message

RING = Ring(1)
SESSION_BYTES = 16
_NO_PAD = RING.reduce(())


# Replace: the kernel. Functions on arrays with a batch axis; they know of no party and no message.
def announcement(message: ArrayLike, drawn: ArrayLike, handed: ArrayLike) -> RingArray:
    """What a party says: its message under both of its pads.

    message, drawn, handed: arrays over Z_2 (uint8, entries 0 and 1) of one shape. Returns the same.
    """
    return RING.add(RING.add(RING.check(message), RING.check(drawn)), RING.check(handed))


def parity(announcements: ArrayLike) -> RingArray:
    """The sum of all messages, from all announcements (n, ...): each pad occurs twice and cancels.

    Nothing can tell that an announcement is missing or altered: the parity is wrong then.
    """
    return RING.sum(RING.check(announcements), axis=0)


# Replace: the messages, one frozen class for each round and direction. What is secret belongs
# into bytes, which no repr shows.
class BlankPad(Message):
    """Round 1, from a party to the next: the pad that both will use. Secret."""

    session: bytes
    sender: int
    pad: bytes


class BlankAnnouncement(Message):
    """Round 2, from a party to everybody."""

    session: bytes
    sender: int
    bits: bytes


# Replace: what all parties must agree on before the first message.
@dataclass(frozen=True)
class BlankTerms:
    """One run: a session id never used before, the number of parties, bits for each party."""

    session: bytes
    n: int
    length: int

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise ParameterError(f"session must be {SESSION_BYTES} bytes, got {len(self.session)}")
        if self.n < 3:
            raise ParameterError(
                f"n must be at least 3, got {self.n}",
                remedy="with two parties the parity tells each the other's message",
            )
        if self.length < 1:
            raise ParameterError(f"length must be at least 1, got {self.length}")

    def check(self, message: BlankPad | BlankAnnouncement) -> None:
        """Raise PeerError if ``message`` is of another session or of no party of this one."""
        if message.session != self.session:
            raise PeerError("the message belongs to another session", party=message.sender)
        if message.sender >= self.n:
            raise PeerError(f"no party {message.sender} among {self.n}", party=message.sender)


class _Round(Enum):
    DRAW = auto()
    ANNOUNCE = auto()
    DONE = auto()


# Replace: the party. The kernel at batch 1 plus the round; it opens no socket and reads no clock.
class BlankParty:
    """One party of one run: ``draw``, then ``announce``. A refused message changes nothing."""

    def __init__(self, terms: BlankTerms, party: int, *, rng: Rng = SYSTEM_RNG) -> None:
        if not 0 <= party < terms.n:
            raise ParameterError(f"party must lie in [0, {terms.n}), got {party}")
        self.terms = terms
        self.party = party
        self._rng = rng
        self._drawn = _NO_PAD
        self._round = _Round.DRAW

    def draw(self) -> BlankPad:
        """Round 1: the pad for the next party in the circle."""
        self._expect(_Round.DRAW)
        self._drawn = RING.random(self.terms.length, self._rng)
        self._round = _Round.ANNOUNCE
        return BlankPad(self.terms.session, self.party, RING.to_bytes(self._drawn))

    def announce(self, message: ArrayLike, pad: BlankPad) -> BlankAnnouncement:
        """Round 2: the message, shape (length,) over Z_2, hidden under both pads.

        pad: from the previous party.  Raises WireError, PeerError, ParameterError or StateError,
        and then nothing has changed; a pad serves once.
        """
        self._expect(_Round.ANNOUNCE)
        terms = self.terms
        terms.check(pad)
        if pad.sender != (self.party - 1) % terms.n:
            raise PeerError(f"party {self.party} takes no pad from there", party=pad.sender)
        handed = RING.from_bytes(pad.pad, terms.length)
        bits = RING.check(message)
        if bits.shape != (terms.length,):
            raise ParameterError(f"message must have shape ({terms.length},), got {bits.shape}")
        said = announcement(bits, self._drawn, handed)
        self._drawn, self._round = _NO_PAD, _Round.DONE
        return BlankAnnouncement(terms.session, self.party, RING.to_bytes(said))

    def _expect(self, expected: _Round) -> None:
        if self._round is not expected:
            raise StateError(f"{expected.name} called in round {self._round.name}")


def result(terms: BlankTerms, announcements: Iterable[BlankAnnouncement]) -> RingArray:
    """The parity, shape (length,), once every party has announced exactly once.

    Raises PeerError for a foreign or second announcement, ParameterError if one is missing.
    """
    said: dict[int, RingArray] = {}
    for message in announcements:
        terms.check(message)
        if message.sender in said:
            raise PeerError("a second announcement of one party", party=message.sender)
        said[message.sender] = RING.from_bytes(message.bits, terms.length)
    if len(said) < terms.n:
        missing = sorted(set(range(terms.n)) - said.keys())
        raise ParameterError(f"announcements of parties {missing} are missing")
    return parity([said[party] for party in range(terms.n)])
