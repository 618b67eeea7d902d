"""Shares that travel through the recommender, sealed from neighbour to neighbour.

Phones rarely reach each other; all reach the recommender. So she forwards every share and partial
sum, each under a key of its own that only its two ends can derive.

Source: PriRec (Chen et al., 2020), Algorithm 1, for what is sent; X25519, HKDF and AES-256-GCM
    (RFC 7748, RFC 5869, NIST SP 800-38D) by ``mpc.core.keys``; relaying sealed shares is what
    Bonawitz et al., CCS 2017, do in their ShareKeys round.
Model: the relay may read, keep, drop, alter and replay what passes. She learns no payload and
    changes none unnoticed, provided that the public keys are authentic: hand them out by a
    channel or a signature that she does not control, or she can sit between any two parties.
Leaks: to the relay, the neighbour graph: session, round, receiver, sender, addressee and length
    of every message.
Differs: the paper lets neighbours talk to each other.
"""

import numpy as np

from mpc.core.errors import ParameterError, PeerError, StateError
from mpc.core.keys import KeyPair, SealingKey, derive, label, open_sealed
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.secure_sum_channels import Groups, MessageChannel, post
from mpc.secure_sum_messages import PartialSum, ShareMessage, SumMessage

RELAY = -1
"""The relay's id in a ``LocalNetwork``; parties have ids of 0 and above."""

RELAY_UP = "secure_sum.relay_up"
RELAY_DOWN = "secure_sum.relay_down"

_PAIR = "secure_sum.pair"
_PURPOSES: dict[type[SumMessage], str] = {
    ShareMessage: "secure_sum.share",
    PartialSum: "secure_sum.partial",
}


class SealedMessage(SumMessage, frozen=True):
    """A share or partial sum under its own key: the header in the clear, the payload sealed.

    A partial sum is addressed to the receiver, a share never is.
    """


class PartyKeys:
    """One party's key pair, what it agreed with its peers, and what it has sealed already.

    Rounds of a session only go forward: for each receiver and addressee a round serves once, so
    no key ever seals twice. The record lives with the object; after a restart agree new keys.
    """

    def __init__(self, party: int, pair: KeyPair) -> None:
        self.party = party
        self.public = pair.public
        self._pair = pair
        self._agreed: dict[int, bytes] = {}
        self._rounds: dict[bytes, int] = {}
        self._sealed: dict[bytes, set[tuple[int, int]]] = {}

    def meet(self, peer: int, public: bytes) -> None:
        """Agree a key with ``peer``, once; WireError for a public key that X25519 refuses.

        Raises StateError if a key with this peer exists already.
        """
        if peer in self._agreed:
            raise StateError(f"party {self.party} has agreed a key with {peer} already")
        ids = sorted((self.party, peer))
        self._agreed[peer] = self._pair.agree(public, _PAIR, *ids)

    def knows(self, peer: int) -> bool:
        """Whether a key with ``peer`` has been agreed."""
        return peer in self._agreed

    def seal(self, message: SumMessage) -> SealedMessage:
        """Seal our ``message`` for its addressee.

        Raises StateError if this session, round, receiver and addressee were served before, and
        ParameterError if the message is not ours to send.
        """
        if message.sender != self.party or type(message) not in _PURPOSES:
            raise ParameterError(f"party {self.party} can seal only its own shares and sums")
        if isinstance(message, PartialSum) is not (message.to == message.receiver):
            raise ParameterError("a partial sum goes to the receiver, a share to a neighbour")
        key = self._key(message, message.to)
        self._claim(message)
        sealed = SealingKey(key).seal(message.payload, _header(message))
        return SealedMessage(message.session, message.route, message.bits, sealed)

    def open(self, sealed: SealedMessage) -> ShareMessage | PartialSum:
        """The message inside; WireError if a bit of header or content was altered.

        Raises PeerError if it is addressed to somebody else.
        """
        if sealed.to != self.party:
            raise PeerError(f"a message for {sealed.to} came to {self.party}", party=sealed.sender)
        payload = open_sealed(self._key(sealed, sealed.sender), sealed.payload, _header(sealed))
        return _kind(sealed)(sealed.session, sealed.route, sealed.bits, payload)

    def _key(self, message: SumMessage, peer: int) -> bytes:
        if peer not in self._agreed:
            raise StateError(
                f"party {self.party} has agreed no key with {peer}", remedy="call meet first"
            )
        purpose = _PURPOSES[_kind(message)]
        return derive(self._agreed[peer], purpose, message.session, *_numbers(message))

    def _claim(self, message: SumMessage) -> None:
        latest = self._rounds.get(message.session, -1)
        use = (message.receiver, message.to)
        if message.round > latest:
            self._rounds[message.session] = message.round
            self._sealed[message.session] = {use}
        elif message.round == latest and use not in self._sealed[message.session]:
            self._sealed[message.session].add(use)
        else:
            raise StateError(
                f"round {message.round} has been served or passed for receiver {message.receiver}",
                remedy="rounds of a session go forward, each once for a receiver",
            )


def _kind(message: SumMessage) -> type[ShareMessage] | type[PartialSum]:
    return PartialSum if message.to == message.receiver else ShareMessage


def _numbers(message: SumMessage) -> tuple[int, int, int, int]:
    return (message.round, message.receiver, message.sender, message.to)


def _header(message: SumMessage) -> bytes:
    return label("secure_sum.header", message.session, message.route, message.bits)


class PairKeys:
    """Everybody's ``PartyKeys`` in an in-process run, made when first asked for.

    Each end of a pair agrees the key by its own private half, once; that takes two X25519
    exchanges for each pair. ``prepare`` does it ahead of time.
    """

    def __init__(self, *, rng: Rng = SYSTEM_RNG) -> None:
        self._rng = rng
        self._parties: dict[int, PartyKeys] = {}

    def of(self, party: int) -> PartyKeys:
        """The keys that ``party`` holds."""
        if party not in self._parties:
            self._parties[party] = PartyKeys(party, KeyPair.generate(self._rng))
        return self._parties[party]

    def introduce(self, a: int, b: int) -> None:
        """Let ``a`` and ``b`` agree their key unless they have done so."""
        first, second = self.of(a), self.of(b)
        if not first.knows(b):
            first.meet(b, second.public)
            second.meet(a, first.public)

    def prepare(self, groups: Groups) -> int:
        """Agree all keys that a batch with ``groups`` needs; returns how many pairs are new."""
        members = np.vstack([groups.neighbours, groups.receivers]).astype(np.int64)
        first, second = np.triu_indices(len(members), k=1)
        pairs = np.stack([members[first].reshape(-1), members[second].reshape(-1)], axis=1)
        distinct = np.unique(np.sort(pairs, axis=1), axis=0).tolist()
        new = [(a, b) for a, b in distinct if not self.of(a).knows(b)]
        for a, b in new:
            self.introduce(a, b)
        return len(new)


class SealedRelay(MessageChannel):
    """Every share and partial sum goes to the relay and from there to its addressee, sealed.

    Each is counted once on its way up and once on its way down. ``batch_sum`` needs ``groups``
    with this channel; keys that are not agreed yet are agreed on the way.
    """

    def __init__(self, network: LocalNetwork, keys: PairKeys) -> None:
        super().__init__(network)
        self._keys = keys

    def open(self, groups: Groups | None, shape: tuple[int, int, int], ring: Ring) -> None:
        """See ``Channel.open``. ParameterError without ``groups``: keys belong to real parties."""
        if groups is None:
            raise ParameterError("a sealed relay needs groups: the ids whose keys seal the shares")
        super().open(groups, shape, ring)

    def carry(self, message: SumMessage) -> SumMessage:
        """See ``MessageChannel.carry``."""
        sender, to = message.sender, message.to
        self._keys.introduce(sender, to)
        sealed = self._keys.of(sender).seal(message)
        received = post(self.network, sender, RELAY, RELAY_UP, sealed)
        forwarded = post(self.network, RELAY, to, RELAY_DOWN, received)
        return self._keys.of(to).open(forwarded)
