"""The user network of PriRec as nodes see it: who mixes with whom, and on which nodes they are.

    rows, unmixed = node_rows(network, ids, homes)       the server
    mine = rows.of(party)                                what one node is told, no more
    mine.check(party, ids)                               that node

Of each receiver there is one row, the same for every node that it names, and its hash enters the
keys of her sum: nodes that were told different rows add up to noise (``mpc.secure_sum_agreed``).

Source: PriRec (Chen et al., 2020), section 3.4; nodes instead of users as the parties of a sum,
    because users who share a node trust it anyway.
Model: a network is drawn by the server, which is semi-honest here. One that is not could choose
    receivers whose sums, taken together, open a single user's model; no node can see that.
Leaks: to a node the rows of its own users, and of those for whom one of its users is a neighbour.
Differs: a user whose neighbours live on one or two other nodes has no sum: whoever holds the other
    node's part, or colludes with it, would open the rest. Where all are on her own node no protocol
    is needed.
"""

import hashlib
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import WireError
from mpc.core.keys import label
from mpc.secure_sum_messages import MIN_NEIGHBOURS
from recsys.flower.prirec_messages import MAX_USER, Table, array
from recsys.network import UserNetwork

Ids = NDArray[np.uint32]

_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Rows:
    """R receivers with N neighbours each, receivers rising.

    receivers: uint32 (R,), ids of users.  homes: uint32 (R,), the node of each.  neighbours,
    parties: uint32 (R, N), ids of users and the node of each.  weights: float64 (R, N).  own:
    float64 (R,), the weight of the receiver's own model.
    """

    receivers: Ids
    homes: Ids
    neighbours: Ids
    parties: Ids
    weights: NDArray[np.float64]
    own: NDArray[np.float64]

    def __len__(self) -> int:
        return self.receivers.size

    @property
    def size(self) -> int:
        """N."""
        return int(self.neighbours.shape[1])

    def part(self, chosen: NDArray[np.bool_]) -> Self:
        """The rows that ``chosen`` (R,) marks."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def of(self, party: int) -> Self:
        """The rows that the node ``party`` is named in."""
        return self.part((self.homes == party) | (self.parties == party).any(axis=1))

    def senders(self, row: int) -> tuple[int, ...]:
        """The nodes, rising, that have a part in the sum of a row: all but the receiver's own."""
        parties = np.unique(self.parties[row])
        return tuple(parties[parties != self.homes[row]].tolist())

    def peers(self, party: int) -> set[int]:
        """The other nodes that ``party`` shares a sum with, as sender or receiver."""
        mine = self.of(party)
        return (set(mine.parties.reshape(-1).tolist()) | set(mine.homes.tolist())) - {party}

    def longest_letter(self) -> int:
        """The most sums that one node has a part in for the receivers of one other."""
        order = np.sort(self.parties, axis=1)
        first = np.ones(order.shape, dtype=np.bool_)
        first[:, 1:] = order[:, 1:] != order[:, :-1]
        where = first & (order != self.homes[:, np.newaxis])
        homes = np.broadcast_to(self.homes[:, np.newaxis], order.shape)[where]
        pairs = np.stack([order[where], homes], axis=1)
        if not len(pairs):
            return 0
        return int(np.unique(pairs, axis=0, return_counts=True)[1].max())

    def digest(self, row: int) -> bytes:
        """SHA-256 over a row: what all that take part in its sum must have been told alike."""
        numbers = (int(self.receivers[row]), int(self.homes[row]))
        ids = [part[row].astype("<u4").tobytes() for part in (self.neighbours, self.parties)]
        weights = [part[row].astype("<f8").tobytes() for part in (self.weights, self.own)]
        return hashlib.sha256(label("prirec.row", *numbers, *ids, *weights)).digest()

    def to_arrays(self) -> Table:
        """By name, for a message."""
        return {f"rows.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Table) -> Self:
        """Inverse of ``to_arrays``. WireError for arrays that do not fit together."""
        receivers = array(arrays, "rows.receivers", "uint32", None)
        count = receivers.size
        neighbours = array(arrays, "rows.neighbours", "uint32", count, None)
        shape = neighbours.shape
        return cls(
            receivers,
            array(arrays, "rows.homes", "uint32", count),
            neighbours,
            array(arrays, "rows.parties", "uint32", *shape),
            array(arrays, "rows.weights", "float64", *shape),
            array(arrays, "rows.own", "float64", count),
        )

    def check(self, party: int, ids: Ids) -> None:
        """WireError unless these can be rows of the node ``party`` with users ``ids``.

        Each names the node; no receiver twice, none among her own neighbours, no neighbour twice;
        exactly the node's users are said to be on it; a sum has no sender or at least three; and
        weights lie in [0, 1] and sum to one at most, with the own one.
        """
        members = np.concatenate([self.receivers[:, np.newaxis], self.neighbours], axis=1)
        ordered = np.sort(members, axis=1)
        places = np.concatenate([self.homes[:, np.newaxis], self.parties], axis=1)
        weights = np.concatenate([self.own[:, np.newaxis], self.weights], axis=1)
        counts = [len(self.senders(row)) for row in range(len(self))]
        rules = {
            "rows rise by their receivers": (np.diff(self.receivers.astype(np.int64)) > 0).all(),
            "members of a row are distinct": (ordered[:, 1:] != ordered[:, :-1]).all(),
            "ids are below 2^31": members.max(initial=0) <= MAX_USER >= places.max(initial=0),
            "each row names this node": (places == party).any(axis=1).all(),
            "this node's users are on it": np.array_equal(np.isin(members, ids), places == party),
            "a sum has three senders": all(n == 0 or n >= MIN_NEIGHBOURS for n in counts),
            "weights lie in [0, 1]": (weights >= 0).all(),
            "weights sum to one at most": (weights.sum(axis=1) <= 1 + _SLACK).all(),
        }
        for rule, kept in rules.items():
            if not kept:
                raise WireError(f"the user network breaks a rule: {rule}")


def node_rows(network: UserNetwork, ids: Ids, parties: Ids) -> tuple[Rows, int]:
    """The rows of all users that have a sum, or need none, and how many users have neither.

    ids, parties: uint32 (users,), each user's id and node; ids rise.
    """
    everyone = Rows(
        receivers=ids,
        homes=parties,
        neighbours=ids[network.neighbours],
        parties=parties[network.neighbours],
        weights=network.weights,
        own=network.own,
    )
    if not network.size:
        return everyone.part(np.zeros(ids.size, dtype=np.bool_)), 0
    counts = np.array([len(everyone.senders(row)) for row in range(len(everyone))])
    good = (counts == 0) | (counts >= MIN_NEIGHBOURS)
    return everyone.part(good), int(np.count_nonzero(~good))
