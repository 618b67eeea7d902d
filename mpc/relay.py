"""Parties who reach each other through a relay alone: agreed keys, and letters that it cannot read.

    mine = Mailbox(session, 3)             # each party; its offer goes to all others
    mine.meet(offers)                      # one X25519 agreement with each of them
    outbox = mine.begin(epoch)             # from here on the epoch is spent
    letters = [outbox.seal(peer, payload, size) for peer, payload in mail.items()]
    payload = mine.open(letter, epoch, size)
    mine.forget(epoch + 1)                 # earlier letters can no longer be opened, by nobody

Parties run many small protocols with each other at once, such as the secure sums of
``mpc.secure_sum_agreed``: all that one has for another in an epoch is one letter.

Source: X25519, HKDF and AES-256-GCM (RFC 7748, RFC 5869, NIST SP 800-38D) by ``mpc.core.keys``;
    one key for each message and direction as in the ShareKeys round of Bonawitz et al., CCS 2017;
    keys that go forward by a one-way step, as in the symmetric ratchet of Signal's Double Ratchet.
Model: the relay may read, keep, drop, delay, alter, swap, repeat and invent. It reads no letter,
    and what it brings that its sender did not seal for this epoch and addressee is refused. This
    needs public keys that it cannot replace: with signed offers and ``verify`` it may be malicious,
    without them it has to hand keys on as they are.
Leaks: to the relay: who writes to whom in which epoch, and the agreed size of letters. To whoever
    takes a party's state: its letters from the epochs that it has not forgotten.
Differs: ``mpc.secure_sum_relay`` seals each message of a sum by itself, for parties in one process.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.keys import KEY_BYTES, KeyPair, SealingKey, derive, label, open_sealed
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.wire import Message
from mpc.relay_messages import (
    MAX_EPOCH,
    MAX_PARTY,
    Letter,
    Offer,
    check_session,
    padded,
    sealed_bytes,
    unpadded,
)

__all__ = ["Letter", "Mailbox", "Marks", "Offer", "Outbox", "Signer", "Verify"]

_MARK_BYTES = 16

Verify = Callable[[int, bytes, bytes], bool]
"""(party, text, signature) -> whether the party signed the text."""


class Signer(Protocol):
    """A party's long-lived identity."""

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes on ``text``."""


class Marks(Protocol):
    """Where a party writes down, durably, how far it has gone: ``secagg.watermark`` has two."""

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        """Record ``epoch`` of ``key_id`` and all before it as spent; StateError if it is."""


class _Suspended(Message, frozen=True, tag="relay.mailbox"):
    """A mailbox between two calls. next_sent: the first epoch that may still be sent in.

    chains: (peer, key), rising, each at the epoch ``at``.  opened: senders whose letters of epoch
    ``at`` are read.  private: empty once the peers are met.
    """

    session: bytes
    party: int
    public: bytes
    private: bytes
    next_sent: int
    at: int
    chains: tuple[tuple[int, bytes], ...]
    opened: tuple[int, ...]
    check: bytes


class Mailbox:
    """One party of a session: its key, what it agreed with its peers, and what it has used up.

    session: 16 bytes, fresh for each session.  party: an id in [0, 2^32).
    marks: a record beside the object that survives it; None where the object's own is enough,
    because whoever keeps its bytes never goes back to older ones.
    A refusal changes nothing.
    """

    def __init__(
        self, session: bytes, party: int, *, marks: Marks | None = None, rng: Rng = SYSTEM_RNG
    ) -> None:
        check_session(session)
        self.session, self.party = session, integer("party", party, 0, MAX_PARTY)
        self._marks = marks
        self._pair: KeyPair | None = KeyPair.generate(rng)
        self._public = self._pair.public
        self._chains: dict[int, bytes] = {}
        self._next_sent = self._at = 0
        self._opened: set[int] = set()

    # Keys.

    def offer(self, signer: Signer | None = None) -> Offer:
        """What all peers need of us. Signed by ``signer`` if there is one."""
        offer = Offer(self.session, self.party, self._public)
        if signer is None:
            return offer
        return Offer(self.session, self.party, self._public, signer.sign(offer.text))

    def meet(
        self, offers: Iterable[Offer], *, context: bytes = b"", verify: Verify | None = None
    ) -> None:
        """Agree a key with the party of each offer, once for all; our own offer is passed over.

        context: up to 255 bytes that all parties must agree on: those that differ share no key.
        verify: where parties have identities; then every offer needs its party's signature.
        Raises StateError the second time, PeerError for an offer of another session, a wrong
        signature, our own id with another key, and two offers with one party or one key; WireError
        for a key that X25519 refuses.
        """
        if self._pair is None:
            raise StateError("this party has met its peers already")
        if len(context) > 255:
            raise ParameterError(f"context takes up to 255 bytes, got {len(context)}")
        chains, publics = {}, {self._public}
        for offer in offers:
            if offer.session != self.session:
                raise PeerError("an offer belongs to another session", party=offer.party)
            if verify is not None and not verify(offer.party, offer.text, offer.signature):
                raise PeerError("an offer is not signed by its party", party=offer.party)
            if offer.party == self.party:
                if offer.public != self._public:
                    raise PeerError("an offer has our id and not our key", party=offer.party)
                continue
            if offer.party in chains or offer.public in publics:
                raise PeerError("two offers have one party or one key", party=offer.party)
            publics.add(offer.public)
            pair = sorted((self.party, offer.party))
            chains[offer.party] = self._pair.agree(
                offer.public, "relay.pair", self.session, context, *pair
            )
        self._chains, self._pair = chains, None

    @property
    def peers(self) -> tuple[int, ...]:
        """The parties that we share keys with, rising."""
        return tuple(sorted(self._chains))

    # Letters.

    def begin(self, epoch: int) -> "Outbox":
        """Start to send in ``epoch``, which from now on is spent, and all before it.

        Raises StateError unless it lies after all epochs sent in before, and was not forgotten.
        """
        epoch = integer("epoch", epoch, 0, MAX_EPOCH)
        self._check_met()
        self._check_kept(epoch)
        if epoch < self._next_sent:
            raise StateError(
                f"epoch {epoch} was sent in before, or passed", remedy="take a later epoch"
            )
        if self._marks is not None:
            self._marks.claim(self._name(), epoch, 0, _MARK_BYTES)
        self._next_sent = epoch + 1
        return Outbox(self, epoch)

    def open(self, letter: Letter, epoch: int, size: int) -> bytes:
        """The payload that a peer sealed for us in ``epoch``; each letter once.

        Raises PeerError for a letter of another session, epoch or addressee, from somebody whom we
        have not met, or opened before; WireError for one of another size, and if it does not
        authenticate; StateError for an epoch that is forgotten.
        """
        epoch = integer("epoch", epoch, 0, MAX_EPOCH)
        self._check_met()
        self._check_kept(epoch)
        self._check_route(letter, epoch)
        if len(letter.sealed) != sealed_bytes(size):
            raise WireError(f"a letter of another size came from party {letter.sender}")
        key = self._letter_key(letter.sender, epoch, letter.sender, self.party)
        payload = unpadded(open_sealed(key, letter.sealed, self._header(letter)))
        if payload is None:
            raise WireError(f"a letter from party {letter.sender} has no proper filling")
        if epoch > self._at:
            self.forget(epoch)
        self._opened.add(letter.sender)
        return payload

    def forget(self, epoch: int) -> None:
        """Drop the keys of all epochs before ``epoch``: nothing of them can be opened any more."""
        epoch = integer("epoch", epoch, 0, MAX_EPOCH + 1)
        self._check_met()
        if epoch <= self._at:
            return
        self._chains = {peer: _ahead(key, epoch - self._at) for peer, key in self._chains.items()}
        self._at, self._opened = epoch, set()

    def shared_key(self, peer: int, epoch: int, purpose: str, *context: bytes | int) -> bytes:
        """A key of 32 bytes that both ends derive for a purpose of their own in ``epoch``.

        Parties take it from an ``Outbox``, so that its epoch is spent first.
        """
        return derive(self._epoch_key(peer, epoch), f"relay.shared.{purpose}", *context)

    # Rules, one method each, so that a test can leave one out.

    def _check_met(self) -> None:
        if self._pair is not None:
            raise StateError("this party has met nobody yet", remedy="call meet first")

    def _check_kept(self, epoch: int) -> None:
        if epoch < self._at:
            raise StateError(f"the keys of epoch {epoch} are forgotten")

    def _check_route(self, letter: Letter, epoch: int) -> None:
        sender = letter.sender
        if letter.session != self.session or letter.epoch != epoch:
            raise PeerError(f"a letter of another session or epoch than {epoch}", party=sender)
        if letter.to != self.party:
            raise PeerError(f"a letter for {letter.to} came to {self.party}", party=sender)
        if sender not in self._chains:
            raise PeerError(f"party {sender} is nobody whom {self.party} has met", party=sender)
        if epoch == self._at and sender in self._opened:
            raise PeerError(f"a letter of party {sender} was opened before", party=sender)

    def _letter_key(self, peer: int, epoch: int, sender: int, to: int) -> bytes:
        return derive(self._epoch_key(peer, epoch), "relay.letter", sender, to)

    def _epoch_key(self, peer: int, epoch: int) -> bytes:
        self._check_kept(epoch)
        if peer not in self._chains:
            raise PeerError(f"party {peer} is nobody whom {self.party} has met", party=peer)
        return _ahead(self._chains[peer], epoch - self._at)

    def _header(self, letter: Letter) -> bytes:
        return label("relay.header", letter.session, letter.route)

    def _filled(self, payload: bytes, size: int) -> bytes:
        return padded(payload, size)

    def _name(self) -> bytes:
        """What marks know us by: another key makes another name."""
        text = label("relay.marks", self.session, self.party, self._public)
        return hashlib.sha256(text).digest()

    # Between calls.

    def suspend(self) -> bytes:
        """All that the party knows, secrets included, as bytes for its own storage."""
        unchecked = _Suspended(
            session=self.session,
            party=self.party,
            public=self._public,
            private=b"" if self._pair is None else self._pair.private_bytes(),
            next_sent=self._next_sent,
            at=self._at,
            chains=tuple(sorted(self._chains.items())),
            opened=tuple(sorted(self._opened)),
            check=b"",
        )
        return _with(unchecked, _checksum(unchecked)).to_bytes()

    @classmethod
    def resume(cls, data: bytes, *, marks: Marks | None = None) -> "Mailbox":
        """The party that ``suspend`` wrote down. WireError for bytes that it did not write."""
        kept = _Suspended.from_bytes(data)
        sizes = {len(key) for _, key in kept.chains} | {len(kept.public)}
        if kept.check != _checksum(_with(kept, b"")) or sizes != {KEY_BYTES}:
            raise WireError("the suspended mailbox is damaged")
        mailbox = cls.__new__(cls)
        mailbox.session, mailbox.party, mailbox._marks = kept.session, kept.party, marks
        mailbox._pair = KeyPair(kept.private) if kept.private else None
        mailbox._public, mailbox._chains = kept.public, dict(kept.chains)
        mailbox._next_sent, mailbox._at = kept.next_sent, kept.at
        mailbox._opened = set(kept.opened)
        return mailbox

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Mailbox holds keys and is kept with suspend and resume, not pickled")

    def __repr__(self) -> str:
        return f"Mailbox(party={self.party}, peers={len(self._chains)})"


class Outbox:
    """What a party may do in one epoch, which ``Mailbox.begin`` has marked as spent."""

    def __init__(self, mailbox: Mailbox, epoch: int) -> None:
        self.epoch = epoch
        self._mailbox = mailbox
        self._sealed: set[int] = set()

    def seal(self, to: int, payload: bytes, size: int) -> Letter:
        """The letter for ``to``, one in an epoch, as long as any payload of up to ``size`` bytes.

        Raises StateError the second time, PeerError for a stranger, ParameterError for a payload
        above ``size``.
        """
        box = self._mailbox
        if to in self._sealed:
            raise StateError(f"party {to} has got its letter of epoch {self.epoch} already")
        key = box._letter_key(to, self.epoch, box.party, to)
        blank = Letter.make(box.session, self.epoch, box.party, to, b"")
        sealed = SealingKey(key).seal(box._filled(payload, size), box._header(blank))
        self._sealed.add(to)
        return Letter(blank.session, blank.route, sealed)

    def key(self, peer: int, purpose: str, *context: bytes | int) -> bytes:
        """See ``Mailbox.shared_key``."""
        return self._mailbox.shared_key(peer, self.epoch, purpose, *context)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an Outbox serves once and cannot be pickled")


def _ahead(key: bytes, steps: int) -> bytes:
    """The key ``steps`` epochs later. There is no way back."""
    for _ in range(steps):
        key = derive(key, "relay.next")
    return key


def _with(kept: _Suspended, check: bytes) -> _Suspended:
    fields = {name: getattr(kept, name) for name in kept.__struct_fields__}
    return _Suspended(**{**fields, "check": check})


def _checksum(unchecked: _Suspended) -> bytes:
    return hashlib.sha256(unchecked.to_bytes()).digest()
