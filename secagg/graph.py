"""Who shares masks and shares with whom: the complete graph, or few neighbours for each client.

Source: Bell, Bonawitz, Gascón, Lepoint, Raykova, "Secure Single-Server Aggregation with
    (Poly)Logarithmic Overhead", CCS 2020 (eprint 2020/704), Algorithm 2: a k-regular Harary graph
    over a uniformly random order of the clients. The graph: Harary, "The maximum connectivity of a
    graph" (PNAS 48, 1962); its even case joins each of a ring to the k/2 on either side.
Model: semi-honest server, which draws the order. One that chose it could surround a victim with
    corrupt clients, and nobody would notice: a client sees its own neighbours only.
Leaks: the graph is public. It depends on the clients' ids and the server's coins alone.
Error: none; the order is exactly uniform. ``secagg.plan`` bounds what can go wrong with it.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.messages import MAX_ID, SERVER
from secagg.params import MIN_COHORT

MIN_DEGREE = 2
"""With one neighbour each, clients would be alone in pairs."""

_HEAD = struct.Struct("<2I")

_Table = NDArray[np.uint32]


class Graph:
    """An undirected graph in which each client has ``degree`` neighbours. Immutable.

    clients: distinct ids in [0, 2^32), rising.  ``complete``, ``sparse`` and ``from_bytes`` make
    one.
    """

    def __init__(self, clients: tuple[int, ...], table: _Table | None) -> None:
        # Row i: the places, among ``clients``, of the neighbours of client i, rising. The complete
        # graph needs no table.
        self._clients = clients
        self._table = table
        self._places = {client: at for at, client in enumerate(clients)}
        self._ids = np.array(clients, dtype=np.uint32)

    @property
    def clients(self) -> tuple[int, ...]:
        """All ids, rising."""
        return self._clients

    @property
    def degree(self) -> int:
        """How many neighbours each client has."""
        return len(self._clients) - 1 if self._table is None else self._table.shape[1]

    @property
    def is_complete(self) -> bool:
        """Whether all clients are neighbours."""
        return self._table is None

    def neighbours(self, client: int) -> tuple[int, ...]:
        """The ids of the clients beside ``client``, rising. ParameterError for a stranger."""
        at = self._places.get(client)
        if at is None:
            raise ParameterError(f"client {client} is not one of the graph's clients")
        if self._table is None:
            return self._clients[:at] + self._clients[at + 1 :]
        return tuple(self._ids[self._table[at]].tolist())

    def to_bytes(self) -> bytes:
        """Canonical: n, degree, ids, and each client's neighbours as places among the ids.

        All numbers take four bytes, little-endian. A complete graph ends after the ids.
        """
        parts = [self._ids] if self._table is None else [self._ids, self._table]
        head = _HEAD.pack(len(self._clients), self.degree)
        return head + b"".join(part.astype("<u4").tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Inverse of ``to_bytes``; WireError for bytes that encode no such graph."""
        if len(data) < _HEAD.size:
            raise WireError(f"a graph takes at least {_HEAD.size} bytes, got {len(data)}")
        n, degree = _HEAD.unpack_from(data)
        whole = degree == n - 1
        if n < MIN_COHORT or not MIN_DEGREE <= degree < n:
            raise WireError(f"no graph has {n} clients with {degree} neighbours each")
        size = _HEAD.size + 4 * n * (1 if whole else 1 + degree)
        if len(data) != size:
            raise WireError(f"{n} clients with {degree} neighbours take {size} bytes")
        words = np.frombuffer(data, "<u4", offset=_HEAD.size).astype(np.uint32)
        ids, table = words[:n], words[n:].reshape(n, -1)
        if (ids[1:] <= ids[:-1]).any():
            raise WireError("the clients of a graph must be distinct and in rising order")
        if not whole and not _is_graph(table):
            raise WireError("the neighbours are not those of an undirected graph")
        return cls(tuple(ids.tolist()), None if whole else table)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes under a label of their own."""
        return hashlib.sha256(label("secagg.graph", self.to_bytes())).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Graph(clients={len(self._clients)}, degree={self.degree})"


def _is_graph(table: _Table) -> bool:
    """Rows strictly rise, name no stranger and not their own owner, and are symmetric."""
    n, degree = table.shape
    if table.max() >= n or (table[:, 1:] <= table[:, :-1]).any():
        return False
    owners = np.repeat(np.arange(n), degree)
    there, back = owners * n + table.reshape(-1), table.reshape(-1).astype(np.int64) * n + owners
    return not (owners == table.reshape(-1)).any() and np.array_equal(there, np.sort(back))


def complete(clients: Iterable[SupportsIndex]) -> Graph:
    """The graph in which all clients are neighbours.

    clients: at least 3 distinct ids in [0, 2^32), rising; ParameterError otherwise.
    """
    return Graph(_checked(clients), None)


def sparse(clients: Iterable[SupportsIndex], degree: int, *, rng: Rng = SYSTEM_RNG) -> Graph:
    """A Harary graph over a uniformly random order of ``clients``, at least ``degree``-regular.

    clients: at least 3 distinct ids in [0, 2^32), rising.  degree: at least 2; one more is taken
    where n * degree is odd, since no such graph exists, and the complete graph where degree is
    n - 1 or more.  Raises ParameterError otherwise.
    """
    ids = _checked(clients)
    n = len(ids)
    degree = integer("degree", degree, MIN_DEGREE, MAX_ID)
    degree += n * degree % 2
    if degree >= n - 1:
        return Graph(ids, None)
    half = degree // 2
    steps = [*range(-half, 0), *range(1, half + 1)]
    if degree % 2:
        steps.append(n // 2)  # n is even then: the client across the ring
    order = _shuffled(n, rng)
    ring = (np.arange(n)[:, np.newaxis] + np.array(steps)) % n
    table = np.empty((n, degree), dtype=np.uint32)
    table[order] = np.sort(order[ring], axis=1)
    return Graph(ids, table)


def check_neighbours(
    neighbours: Sequence[SupportsIndex], *, client: int, clients: Sequence[int], degree: int
) -> tuple[int, ...]:
    """``neighbours`` as integers, if they can be those of ``client`` in a graph of that degree.

    That is what a client can check of a graph that the server drew: as many distinct clients of the
    round as agreed, in rising order, itself not among them. That the order was random and that
    neighbours have each other, it takes from the semi-honest server; where they do not, sums are
    wrong. Raises PeerError.
    """
    ids = tuple(integer("a neighbour", neighbour, 0, MAX_ID) for neighbour in neighbours)
    if len(ids) != degree:
        raise PeerError(f"{len(ids)} neighbours, where {degree} were agreed", party=SERVER)
    if any(a >= b for a, b in pairwise(ids)):
        raise PeerError("the neighbours are not distinct and in rising order", party=SERVER)
    if client in ids:
        raise PeerError(f"client {client} is among its own neighbours", party=SERVER)
    strangers = set(ids).difference(clients)
    if strangers:
        raise PeerError(f"neighbour {min(strangers)} is no client of the round", party=SERVER)
    return ids


def _checked(clients: Iterable[SupportsIndex]) -> tuple[int, ...]:
    ids = tuple(integer("a client", client, 0, MAX_ID) for client in clients)
    if any(a >= b for a, b in pairwise(ids)):
        raise ParameterError("clients must be distinct and in rising order")
    if len(ids) < MIN_COHORT:
        raise ParameterError(f"a graph has at least {MIN_COHORT} clients, got {len(ids)}")
    return ids


def _shuffled(n: int, rng: Rng) -> NDArray[Any]:
    """A uniformly random order of n places: that of n random words, drawn again if two agree."""
    while True:
        words = rng.words(n, np.uint64)
        order = np.argsort(words, kind="stable")
        if (np.diff(words[order]) > 0).all():
            return order
