"""The server of one-time-pad aggregation: relays keys, sums the masked vectors of each round.

Source: Bonawitz et al., CCS 2017, section 4.0.1.
Model: semi-honest. ``client`` in a message is a claim; the transport authenticates senders.
Leaks: the server learns the sums of a complete round, and nothing from an incomplete one.
Differs: a round without one member's vectors is burnt: no partial sum, no recovery.
"""

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import AbortError, PeerError, StateError, WireError
from mpc.core.ring import RingArray
from secagg.masks import accumulate
from secagg.messages import (
    MAX_ID,
    AdvertiseKey,
    MaskedVector,
    Roster,
    RoundBurnt,
    RoundConfirmed,
)
from secagg.params import PadParams


class PadServer:
    """The server of one session. A refused message leaves its state as it was."""

    def __init__(self, params: PadParams) -> None:
        self._params = params
        self._publics: dict[int, bytes] = {}
        self._round: int | None = None
        self._next = 0
        self._received: set[tuple[int, int]] = set()
        self._total: RingArray = np.zeros(params.shape, dtype=params.ring.dtype)
        self._notice: RoundConfirmed | RoundBurnt | None = None

    def collect_key(self, message: AdvertiseKey) -> None:
        """Round 0: take one member's public key.

        Raises PeerError for another session, a stranger, or a second key of the same client.
        """
        self._check_sender(message.session, message.client)
        if message.client in self._publics:
            raise PeerError(
                f"client {message.client} has advertised a key already", party=message.client
            )
        if message.public in self._publics.values():
            raise PeerError(
                f"client {message.client} advertises another member's key", party=message.client
            )
        self._publics[message.client] = message.public

    def roster(self) -> Roster:
        """Round 1: what every client receives; StateError while keys are missing."""
        absent = [client for client in self._params.clients if client not in self._publics]
        if absent:
            raise StateError(f"the keys of clients {absent} are missing")
        publics = tuple(self._publics[client] for client in self._params.clients)
        return Roster(self._params.session, self._params.clients, publics)

    def open_round(self, round: int) -> None:
        """Begin to collect; ids only rise. StateError out of order, or while one is open."""
        self.roster()  # refuses while keys are missing
        opened = integer("round", round, 0, MAX_ID)
        if self._round is not None:
            raise StateError(f"round {self._round} is still open")
        if round < self._next:
            raise StateError(
                f"round {round} is settled or passed over",
                remedy=f"take an id from {self._next} on, with new inputs",
            )
        self._round = opened
        self._next = opened + 1
        self._received = set()
        self._total = np.zeros(self._params.shape, dtype=self._params.ring.dtype)

    def collect(self, message: MaskedVector) -> None:
        """Add one masked vector of the open round.

        Raises PeerError for another session, round or ring, a stranger, an unknown sum, a wrong
        size or a repeat; StateError while no round is open.
        """
        if self._round is None:
            raise StateError("no round is open")
        self._check_sender(message.session, message.client)
        ring, client = self._params.ring, message.client
        if message.round != self._round:
            raise PeerError(
                f"client {client} sent round {message.round}, open is {self._round}", party=client
            )
        if message.sum_id >= self._params.sums_per_round:
            raise PeerError(
                f"client {client} sent sum {message.sum_id} of {self._params.sums_per_round}",
                party=client,
            )
        if message.bits != ring.bits:
            raise PeerError(
                f"client {client} sent {message.bits}-bit elements, agreed are {ring.bits}",
                party=client,
            )
        if (client, message.sum_id) in self._received:
            raise PeerError(
                f"client {client} sent sum {message.sum_id} of round {message.round} twice",
                party=client,
            )
        try:
            masked = ring.from_bytes(message.payload, (1, self._params.dim))
        except WireError as error:
            raise PeerError(f"client {client}: {error.message}", party=client) from error
        accumulate(self._total[message.sum_id], masked, ring)
        self._received.add((client, message.sum_id))

    def missing(self) -> tuple[int, ...]:
        """The clients that still owe a vector of the open round; empty if none is open."""
        if self._round is None:
            return ()
        sums = range(self._params.sums_per_round)
        return tuple(
            client
            for client in self._params.clients
            if any((client, sum_id) not in self._received for sum_id in sums)
        )

    def finish_round(self) -> RingArray:
        """Close the open round: the sums of all inputs, shape (sums_per_round, dim).

        Raises AbortError, naming round and missing clients, if a vector is missing: the partial
        sum is dropped and the round id is spent. Either way ``notice`` tells the members.
        """
        if self._round is None:
            raise StateError("no round is open")
        closed, total, absent = self._round, self._total, self.missing()
        self._round = None
        self._total = np.zeros((0, 0), dtype=self._params.ring.dtype)
        if absent:
            self._notice = RoundBurnt(self._params.session, closed, absent)
            raise AbortError(
                f"round {closed} lacks vectors of clients {list(absent)}; its id is spent",
                remedy="send the notice to all members; retry under a new id, with new inputs",
            )
        self._notice = RoundConfirmed(self._params.session, closed)
        return total

    def notice(self) -> RoundConfirmed | RoundBurnt:
        """What to tell every member about the round closed last; StateError before the first."""
        if self._notice is None:
            raise StateError("no round has been closed")
        return self._notice

    def _check_sender(self, session: bytes, client: int) -> None:
        if session != self._params.session:
            raise PeerError(f"client {client} sent a message of another session", party=client)
        if client not in self._params.clients:
            raise PeerError(f"client {client} is not a member of this session", party=client)

    def __repr__(self) -> str:
        return f"PadServer(clients={len(self._params.clients)}, round={self._round})"
