"""Algorithm 1 of PriRec between nodes: the parts of all sums of an epoch, in one letter a pair.

    letters = mail.write(epoch, w)             at the end of an epoch, for the next one
    mixed = mail.read(epoch, letters, w)       at the beginning of that one

A node adds up the weighted models of its own users before it masks them, so the parties of a sum
are nodes; the receiver's node adds those of its own, which need not travel.

Source: PriRec (Chen et al., 2020), Algorithm 1; ``mpc.secure_sum_agreed`` for its sums in one step,
    ``mpc.relay`` for letters.
Model: as these two. Node and users trust each other.
Leaks: to a receiver's node one sum for each of its users and epoch, of at least three other nodes.
Error: that of ``recsys.sums``: the same encoding, so the same sums to the last bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import PeerError, StateError, WireError
from mpc.core.ring import RingArray
from mpc.fixed import FixedPoint
from mpc.relay import Letter, Mailbox
from mpc.relay_messages import letter_bytes
from mpc.secure_sum import Receiver
from mpc.secure_sum_agreed import PURPOSE, partial_sum
from mpc.secure_sum_messages import PartialSum, SumTerms, wire_bytes
from recsys.flower.prirec_messages import MAX_USER
from recsys.flower.prirec_rows import Ids, Rows
from recsys.models.fm import Floats
from recsys.sums import encode_weighted

RECEIVERS = MAX_USER + 1
"""Added to a user's id it is a receiver's, so that none is taken for a node."""


@dataclass(frozen=True)
class Mixed:
    """The first term of Eq. 8 where it could be formed.

    w: (users, D + 1); rows of others are as they were.  without: users of this node whose sum did
    not come about.  refused: letters that were not what they had to be.
    """

    w: Floats
    without: int
    refused: int


class Mail:
    """The sums that one node has a part in.

    rows: checked.  ids: of the node's users, in the order of their models.  dim: D + 1.  size:
    payload of a letter, in bytes.
    """

    def __init__(
        self, mailbox: Mailbox, rows: Rows, ids: Ids, dim: int, fixed: FixedPoint, size: int
    ) -> None:
        self._box, self._rows, self._fixed = mailbox, rows, fixed
        self._dim, self._size = dim, size
        self._places = {int(user): place for place, user in enumerate(ids)}
        self._senders = [rows.senders(row) for row in range(len(rows))]

    def write(self, epoch: int, w: Floats) -> bytes:
        """Lines 2 to 8: this node's part in the sums of ``epoch``, which is spent by this.

        Returns letters, one after the other, all of one length.
        Raises StateError if it was before, DivergenceError where a model has left the ring.
        """
        outbox = self._box.begin(epoch)
        keys = {peer: outbox.key(peer, PURPOSE) for peer in self._box.peers}
        parts: dict[int, list[bytes]] = {}
        for row, senders in enumerate(self._senders):
            if self._box.party in senders:
                terms = self._terms(row, epoch)
                others = {peer: keys[peer] for peer in terms.others(self._box.party)}
                x, context = self._own_part(row, w), self._rows.digest(row)
                part = partial_sum(terms, self._box.party, x, others, context=context)
                parts.setdefault(int(self._rows.homes[row]), []).append(part.to_bytes())
        return b"".join(
            outbox.seal(home, b"".join(messages), self._size).to_bytes()
            for home, messages in sorted(parts.items())
        )

    def read(self, epoch: int, letters: bytes, w: Floats) -> Mixed:
        """Lines 10 and 11 without the gradient: what the letters of other nodes add up to.

        letters: one after the other.  A letter that is missing, or refused, leaves its receivers
        with the models that they have.
        """
        own = np.flatnonzero(self._rows.homes == self._box.party).tolist()
        receivers = {row: Receiver(self._terms(row, epoch)) for row in own if self._senders[row]}
        each = letter_bytes(self._size)
        cut = [letters[at : at + each] for at in range(0, len(letters), each)]
        refused = sum(not self._take(data, epoch, receivers) for data in cut)
        self._box.forget(epoch + 1)
        mixed, without = w.copy(), 0
        for row in own:
            total = self._own_part(row, w)
            if row in receivers:
                try:
                    total = self._fixed.ring.add(total, receivers[row].total())
                except StateError:
                    without += 1
                    continue
            place = self._places[int(self._rows.receivers[row])]
            mixed[place] = self._rows.own[row] * w[place] + self._fixed.decode(total)
        return Mixed(mixed, without, refused)

    def _take(self, data: bytes, epoch: int, receivers: dict[int, Receiver]) -> bool:
        """Hand the parts in a letter to their receivers; False for a letter that is none."""
        try:
            letter = Letter.from_bytes(data)
            payload = self._box.open(letter, epoch, self._size)
            rows = [row for row in receivers if letter.sender in self._senders[row]]
            parts = self._split(payload, len(rows))
            read = [
                receivers[row].terms.partial_from_bytes(part)
                for row, part in zip(rows, parts, strict=True)
            ]
            for row, message in zip(rows, read, strict=True):
                if message.sender != letter.sender:
                    raise PeerError("a letter speaks for somebody else", party=letter.sender)
                receivers[row].terms.read_partial(message)
        except (PeerError, WireError):
            return False
        for row, message in zip(rows, read, strict=True):
            receivers[row].receive(message)
        return True

    def _split(self, payload: bytes, count: int) -> Sequence[bytes]:
        size = part_bytes(self._dim, self._fixed)
        if len(payload) != count * size:
            raise WireError(f"a letter has {len(payload)} bytes for {count} sums")
        return [payload[size * at : size * (at + 1)] for at in range(count)]

    def _own_part(self, row: int, w: Floats) -> RingArray:
        """The sum of what this node's users put into the sum of a row, as ring elements."""
        here = np.flatnonzero(self._rows.parties[row] == self._box.party)
        places: NDArray[np.intp] = np.array(
            [self._places[int(user)] for user in self._rows.neighbours[row, here]], dtype=np.intp
        )
        weighted = w[places] * self._rows.weights[row, here, np.newaxis]
        encoded = encode_weighted(self._fixed, weighted, self._rows.size)
        return self._fixed.ring.sum(encoded, axis=0)

    def _terms(self, row: int, epoch: int) -> SumTerms:
        receiver = RECEIVERS + int(self._rows.receivers[row])
        ring = self._fixed.ring
        return SumTerms(self._box.session, epoch, receiver, self._senders[row], self._dim, ring)


def part_bytes(dim: int, fixed: FixedPoint) -> int:
    """Bytes of a node's part in one sum."""
    return wire_bytes(PartialSum, dim * fixed.ring.element_bytes())


def letter_size(rows: Rows, dim: int, fixed: FixedPoint) -> int:
    """The payload that every letter of a session takes, so that lengths tell nothing."""
    return rows.longest_letter() * part_bytes(dim, fixed)
