"""Closed neighbourhoods as arrays: who holds shares of whose secrets, and at which index.

Source: Bell et al., CCS 2020, Algorithm 2 (N_G(i)); the complete graph is Bonawitz et al., 2017.
Model: public values, the same for all parties.
Differs: *closed* neighbourhoods, the neighbours and the client itself, as in the complete graph of
    the 2017 paper, where a client holds a share of its own secrets too.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keys import label

Members = NDArray[np.bool_]
"""A set of clients: one entry for each client of the round, in rising order of ids."""

Positions = NDArray[np.intp]
"""Places of clients in the rising order of ids."""


class NeighbourGraph(Protocol):
    """Who shares masks and shares with whom: symmetric, rising ids, nobody its own neighbour."""

    def neighbours(self, client: int) -> Sequence[SupportsIndex]:
        """The ids of the clients beside ``client``, rising."""


class Neighbourhoods:
    """The closed neighbourhoods of ``clients`` in ``graph``, or in the complete graph if None.

    Raises ParameterError if neighbours are not rising, distinct clients of the round, or if the
    graph is not symmetric or has a client beside itself.
    """

    def __init__(self, clients: tuple[int, ...], graph: NeighbourGraph | None) -> None:
        self._n = len(clients)
        self._everyone: Positions = np.arange(self._n)
        # Row i of the table is flat[ends[i] : ends[i + 1]]; the complete graph needs none.
        self._ends, self._flat = self._everyone[:0], self._everyone[:0]
        if graph is not None:
            self._read(clients, graph)
        sizes = np.diff(self._ends)
        self.smallest = int(sizes.min()) if sizes.size else self._n
        self.largest = int(sizes.max()) if sizes.size else self._n
        self.complete = self.smallest == self._n

    def _read(self, clients: tuple[int, ...], graph: NeighbourGraph) -> None:
        n, ids = self._n, np.array(clients, dtype=np.int64)
        rows = [graph.neighbours(client) for client in clients]
        sizes = np.array([len(row) for row in rows])
        # All rows at once: a client reads the whole graph in every step of a round.
        beside = np.fromiter(map(int, chain.from_iterable(rows)), np.int64, int(sizes.sum()))
        owners, places = np.repeat(self._everyone, sizes), np.searchsorted(ids, beside)
        wrong = ids[np.minimum(places, n - 1)] != beside
        wrong[1:] |= (np.diff(beside) <= 0) & (np.diff(owners) == 0)
        if wrong.any():
            client = clients[owners[wrong.argmax()]]
            raise ParameterError(
                f"the neighbours of client {client} must be clients of the round, rising"
            )
        own = places == owners
        if own.any():
            raise ParameterError(f"client {clients[owners[own.argmax()]]} is its own neighbour")
        codes = np.sort(np.concatenate([owners * n + places, self._everyone * (n + 1)]))
        self._ends, self._flat = np.cumsum([0, *(sizes + 1)]), codes % n
        if not np.array_equal(np.sort(self._flat * n + codes // n), codes):
            raise ParameterError("the graph must be symmetric: neighbours of each other")

    def closed(self, at: int) -> Positions:
        """Positions of the client at position ``at`` and of its neighbours, rising."""
        return self._everyone if self.complete else self._flat[self._ends[at] : self._ends[at + 1]]

    def counts(self, members: Members) -> NDArray[Any]:
        """How many of ``members`` each closed neighbourhood holds: shape (n,)."""
        if self.complete:
            return np.full(self._n, np.count_nonzero(members))
        return np.add.reduceat(members[self._flat].astype(np.intp), self._ends[:-1])

    def entries(self, owners: Positions, holders: Positions | int) -> NDArray[Any]:
        """Where each holder stands in the table; in the complete graph all rows are one."""
        if self.complete:
            return np.broadcast_to(np.asarray(holders), owners.shape)
        return np.searchsorted(self._codes, owners * self._n + holders)

    def share_indices(self, owners: Positions, holders: Positions) -> NDArray[Any]:
        """The index, from 1, of each holder's share of each owner's secrets."""
        first = 0 if self.complete else self._ends[owners]
        indices: NDArray[Any] = self.entries(owners, holders) - first + 1
        return indices

    def before(self, members: Members) -> NDArray[Any]:
        """For each entry of the table: how many ``members`` come before it in its row."""
        if self.complete:
            return np.cumsum(members) - members
        chosen = members[self._flat]
        passed: NDArray[Any] = np.cumsum(chosen) - chosen
        before: NDArray[Any] = passed - np.repeat(passed[self._ends[:-1]], np.diff(self._ends))
        return before

    @cached_property
    def _codes(self) -> NDArray[Any]:
        """Owner and holder of each table entry as one rising number."""
        return np.repeat(self._everyone, np.diff(self._ends)) * self._n + self._flat

    @property
    def digest(self) -> bytes:
        """SHA-256 of the table."""
        if self.complete:
            return hashlib.sha256(label("secagg.full.complete", self._n)).digest()
        parts = (part.astype("<u4").tobytes() for part in (self._ends, self._flat))
        return hashlib.sha256(label("secagg.full.graph", *parts)).digest()
