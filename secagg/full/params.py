"""What all parties of one round agree on: members, thresholds, ring, neighbours.

Source: Bonawitz et al., CCS 2017, section 4 and Theorems 6.3 to 6.5; Bell et al., "Secure
    single-server aggregation with (poly)logarithmic overhead", CCS 2020, Algorithm 2. The papers'
    n is ``len(clients)``, t ``threshold``, R 2^bits, n_C ``colluding``.
Model: public values. Their digest enters every key that clients share and every signature on
    survivors, so parties that differ in one of them share no mask. ``context`` stands for whatever
    else they must agree on: what the vectors mean, what they were made from.
Differs: in a sparse graph, too, a client holds a share of its own secrets, and thresholds count in
    the closed neighbourhood: the neighbours and the client itself. Of its own mask key it never
    gives its share away. A sum has a least number of summands besides the threshold.
"""

import copy
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, Self, TypeVar

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.ring import Ring
from mpc.core.wire import Message
from secagg.full.messages import largest
from secagg.full.neighbourhoods import Members, NeighbourGraph, Neighbourhoods, Positions
from secagg.messages import MAX_ID, check_session
from secagg.params import MAX_DIM, MIN_COHORT

Variant = Literal["semi-honest", "malicious"]

MAX_CLIENTS = 2**16 - 1

MAX_CONTEXT_BYTES = 32
"""A SHA-256: whatever is longer is hashed."""

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True)
class RoundParams:
    """The public parameters of one round of one session.

    session: 16 bytes, fresh for each session.  round: an id in [0, 2^32); rises within a session.
    clients: distinct ids in [0, 2^32), rising, at most 65535.  threshold: shares that give a
    secret back.  ring, dim: inputs are vectors of dim ring elements.
    variant: "semi-honest" trusts the server to follow the protocol; "malicious" adds signatures
    and the consistency check.  colluding: clients that may pool what they see with the server.
    min_survivors: the least number of summands, at least 3; ``least`` is what is enforced.
    graph: the neighbours; all others by default.
    context: at most 32 bytes, a SHA-256 over all else that the parties must agree on; ``b""`` where
    there is nothing, or where it is not known yet: see ``with_context``.

    Raises ParameterError for anything else, and unless
    2 <= t <= the smallest closed neighbourhood;
    semi-honest, complete graph: t > colluding; malicious: 2 t > n + colluding, which is
    t >= floor(n/2) + 1 for a server alone. In a sparse graph it is the corrupt *neighbours* that
    count, and ``secagg.plan`` bounds them; the malicious variant refuses a sparse graph.
    """

    session: bytes
    round: int
    clients: tuple[int, ...] = field(repr=False)
    threshold: int
    ring: Ring
    dim: int
    variant: Variant = "semi-honest"
    colluding: int = 0
    min_survivors: int = MIN_COHORT
    graph: NeighbourGraph | None = field(default=None, repr=False)
    context: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_session(self.session)
        if not isinstance(self.ring, Ring):
            raise ParameterError(f"ring must be a Ring, got {type(self.ring).__name__}")
        if self.variant not in ("semi-honest", "malicious"):
            raise ParameterError(
                f'variant must be "semi-honest" or "malicious", got {self.variant!r}'
            )
        _check_context(self.context)
        clients = tuple(integer("a client", client, 0, MAX_ID) for client in self.clients)
        if any(a >= b for a, b in pairwise(clients)):
            raise ParameterError("clients must be distinct and in rising order")
        n = integer("the number of clients", len(clients), MIN_COHORT, MAX_CLIENTS)
        exact: dict[str, object] = {
            "clients": clients,
            "round": integer("round", self.round, 0, MAX_ID),
            "dim": integer("dim", self.dim, 1, MAX_DIM),
            "threshold": integer("threshold", self.threshold, 2, n),
            "colluding": integer("colluding", self.colluding, 0, n - 2),
            "min_survivors": integer("min_survivors", self.min_survivors, MIN_COHORT, n),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        self._check_thresholds(n)

    def _check_thresholds(self, n: int) -> None:
        t, colluding, beside = self.threshold, self.colluding, self.neighbourhoods
        if t > beside.smallest:
            raise ParameterError(
                f"threshold {t} exceeds a neighbourhood of {beside.smallest} clients",
                remedy="lower the threshold or take more neighbours",
            )
        if self.malicious and not beside.complete:
            raise ParameterError(
                "a sparse graph does not protect against a malicious server, which could choose "
                "who is beside whom",
                remedy='take the complete graph, or variant="semi-honest"',
            )
        if self.malicious and 2 * t <= n + colluding:
            raise ParameterError(
                f"against a malicious server and {colluding} of {n} clients the threshold must "
                f"be at least {(n + colluding) // 2 + 1}, got {t}"
            )
        if beside.complete and t <= colluding:
            raise ParameterError(
                f"the threshold must exceed the {colluding} colluding clients, got {t}"
            )

    @property
    def malicious(self) -> bool:
        """Whether keys are signed and survivors checked."""
        return self.variant == "malicious"

    @cached_property
    def least(self) -> int:
        """The least number of summands: in no sum do n_C clients and one more stand alone.

        The threshold counts here in the complete graph only; in a sparse one it counts within
        each neighbourhood.
        """
        floor = max(self.min_survivors, self.colluding + 2)
        return max(floor, self.threshold) if self.neighbourhoods.complete else floor

    @cached_property
    def neighbourhoods(self) -> Neighbourhoods:
        """Who holds whose shares."""
        return Neighbourhoods(self.clients, self.graph)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {client: at for at, client in enumerate(self.clients)}

    def __contains__(self, client: object) -> bool:
        return client in self._places

    def position(self, client: int) -> int:
        """The place of ``client`` in ``clients``. ParameterError for a stranger."""
        if client not in self._places:
            raise ParameterError(f"client {client} is not one of the round's clients")
        return self._places[client]

    def ids(self, members: Members | Positions) -> tuple[int, ...]:
        """The ids of a set."""
        places = np.flatnonzero(members) if members.dtype == np.bool_ else members
        return tuple(self.clients[at] for at in places.tolist())

    def within(self, at: int, members: Members) -> Positions:
        """Positions of those ``members`` that are in the closed neighbourhood of ``at``."""
        row = self.neighbourhoods.closed(at)
        return row[members[row]]

    def peers(self, at: int, members: Members) -> Positions:
        """Positions of those ``members`` that are neighbours of ``at``, itself left out."""
        row = self.within(at, members)
        others: Positions = row[row != at]
        return others

    def core(self, members: Members) -> Members:
        """The largest subset of ``members`` with t of it in each one's closed neighbourhood."""
        kept = members.copy()
        while (short := kept & (self.neighbourhoods.counts(kept) < self.threshold)).any():
            kept &= ~short
        return kept

    @property
    def set_bytes(self) -> int:
        """Bytes of a set of clients: a bit for each."""
        return (len(self.clients) + 7) // 8

    def pack_set(self, members: Members) -> bytes:
        """A set as bits, the first client's lowest in the first byte."""
        return np.packbits(members, bitorder="little").tobytes()

    def unpack_set(self, data: bytes) -> Members:
        """Inverse of ``pack_set``. WireError for another length or bits beyond the last client."""
        if len(data) != self.set_bytes:
            raise WireError(f"a set of clients takes {self.set_bytes} bytes, got {len(data)}")
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.bool_)
        n = len(self.clients)
        if bits[n:].any():
            raise WireError("a set of clients has bits beyond the last client")
        return bits[:n]

    def with_context(self, context: bytes) -> Self:
        """These params with a context that was not known before.

        Raises ParameterError for more than 32 bytes, and if there is another context already.
        """
        if context == self.context:
            return self
        _check_context(context)
        if self.context:
            raise ParameterError(
                "the round has another context already", remedy="a context is fixed once"
            )
        _ = self.offer_digest  # made once for all copies, as everything that is computed already
        bound = copy.copy(self)
        object.__setattr__(bound, "context", context)
        vars(bound).pop("digest", None)
        return bound

    def as_saved(self, context: bytes, digest: bytes) -> Self:
        """These params with the context of a party that was saved under them.

        digest: that of the saved party's params. Raises WireError if they were other ones.
        """
        try:
            bound = self.with_context(context)
        except ParameterError:
            bound = None
        if bound is None or bound.digest != digest:
            raise WireError("the saved party belongs to a round with other parameters")
        return bound

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over all of the above: in every key that clients share, and in signatures."""
        return hashlib.sha256(
            label("secagg.full.context", self.offer_digest, self.context)
        ).digest()

    @cached_property
    def offer_digest(self) -> bytes:
        """SHA-256 over all but the context: what clients sign with the keys that they advertise."""
        sizes = (self.round, self.threshold, self.ring.bits, self.dim, int(self.malicious))
        floors = (self.colluding, self.min_survivors, len(self.clients))
        ids = np.array(self.clients, dtype="<u4").tobytes()
        beside = self.neighbourhoods.digest
        text = label("secagg.full.params", self.session, *sizes, *floors, ids, beside)
        return hashlib.sha256(text).digest()

    @cached_property
    def message_bytes(self) -> dict[type[Message], int]:
        """The most bytes that a message of each class takes in this round, by its class."""
        return largest(
            sets=self.set_bytes,
            beside=self.neighbourhoods.largest,
            signers=len(self.clients) if self.malicious else 0,
            payload=self.dim * self.ring.element_bytes(),
        )

    def decode(self, kind: type[_M], data: bytes) -> _M:
        """The message of class ``kind`` in ``data``, refused unread if too large for the round.

        Raises WireError for whatever is not such a message.
        """
        return kind.from_bytes(data, limit=self.message_bytes[kind])


def _check_context(context: bytes) -> None:
    if not isinstance(context, bytes) or len(context) > MAX_CONTEXT_BYTES:
        got = f"{len(context)} bytes" if isinstance(context, bytes) else type(context).__name__
        raise ParameterError(
            f"context must be at most {MAX_CONTEXT_BYTES} bytes, got {got}",
            remedy="take the SHA-256 of what is longer",
        )
