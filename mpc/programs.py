"""Programs of n parties that meet only where they open values: one code for one party and for all.

A program is a generator. It computes on the shares of the parties that are *present*, who form the
leading axis of every array, and yields what they send to everybody; what everybody has sent comes
back. ``together`` runs all n parties of a program in one process; ``mpc.party_run`` runs it for a
single party, with messages. Both run the same lines.

Source: the online phase of Damgard, Pastro, Smart and Zakarias (CRYPTO 2012): all openings by
    broadcast.
Model: links are authenticated and hide their content where a program's own model says so. A party
    that sends different values to different peers is not noticed here; programs against malicious
    parties compare what they got.
Leaks: the number of openings and their sizes, which depend on public values alone.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.wire import Message

SESSION_BYTES = 16
MAX_PARTIES = 2**16
KIND = "program.opening"

# Bytes of one row of an array that a step works on at once. All rows of a few parties fit into the
# caches of a core together; smaller pieces leave more to the interpreter.
_PIECE_BYTES = 4 * PIECE_BYTES

T = TypeVar("T")


@dataclass(frozen=True)
class Seats:
    """Which of the n parties the rows of an array belong to: all of them, or a single one."""

    n: int
    only: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", integer("n", self.n, 2, MAX_PARTIES))
        if self.only is not None:
            object.__setattr__(self, "only", integer("only", self.only, 0, self.n - 1))

    @property
    def present(self) -> range:
        """The parties, in the order of the rows."""
        return range(self.n) if self.only is None else range(self.only, self.only + 1)

    def check(self, shares: RingArray) -> None:
        """ParameterError unless the leading axis has a row for every party present."""
        rows = len(self.present)
        if shares.ndim == 0 or shares.shape[0] != rows:
            raise ParameterError(
                f"shares must have {rows} rows, one for each party present, got {shares.shape}"
            )

    def add_public(self, shares: RingArray, value: Any, ring: Ring) -> RingArray:
        """Shares of the secret plus a public ``value``: party 0 adds it, the others do nothing."""
        total = shares.copy()
        if 0 in self.present:
            total[0] = ring.add(total[0], value)
        return total


@dataclass(frozen=True, eq=False)
class Open:
    """Ask for the sums of shares: one (*s) for each array (present, *s) of ``shares``."""

    ring: Ring
    shares: tuple[RingArray, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Tell:
    """Ask for what all n parties tell: n byte strings for one from each party present.

    sizes: of each party's byte string, public, (n,).
    """

    sizes: tuple[int, ...]
    payloads: tuple[bytes, ...] = field(repr=False)


Request = Open | Tell
Program = Generator[Request, Any, T]


def together(
    program: Program[T],
    n: int,
    *,
    network: LocalNetwork | None = None,
    session: bytes = bytes(SESSION_BYTES),
) -> T:
    """Run a program with all ``n`` parties present.

    network: counts what they send. If it records views, every message is sent, as each party's
    ``mpc.party_run.PartyRun`` of this ``session`` would; otherwise only sums change hands.
    """
    if network is not None and network.records:
        return _run(program, n, partial(_post, network, session, n))
    traffic = _Traffic(n)
    result = _run(program, n, traffic.add)
    traffic.count(network)
    return result


def in_pieces(
    make: Callable[..., Program[RingArray]],
    arrays: Sequence[RingArray],
    ring: Ring,
    *,
    network: LocalNetwork | None = None,
) -> RingArray:
    """Run ``make(*arrays)`` on all n parties' shares, piece by piece, so that all stays in cache.

    arrays: one or more, all (n, m). ``make`` gets any columns of them, and its program returns as
    many columns of shares, each of which depends on the same column of the arrays alone. What the
    pieces send in a step is counted as one message; the pieces take items of their own. Where the
    network records views, the program runs once, on the whole arrays.
    """
    n, width = arrays[0].shape
    if network is not None and network.records:
        return together(make(*arrays), n, network=network)
    out, traffic = np.empty((n, width), ring.dtype), _Traffic(n)
    for piece in pieces(width, ring):
        out[:, piece] = _run(make(*(each[:, piece] for each in arrays)), n, traffic.add)
    traffic.count(network)
    return out


def pieces(count: int, ring: Ring) -> Iterator[slice]:
    """``count`` elements in slices of ``_PIECE_BYTES``; no elements are one empty slice."""
    step = _PIECE_BYTES // ring.element_bytes()
    return (slice(start, min(start + step, count)) for start in range(0, max(count, 1), step))


def _run(program: Program[T], n: int, note: Callable[[int, Request], None]) -> T:
    """The program's result with all n parties present; ``note`` is told of every step."""
    try:
        step, request = 0, next(program)
        while True:
            check_request(request, range(n))
            note(step, request)
            step, request = step + 1, program.send(_answer(request))
    except StopIteration as end:
        result: T = end.value
    return result


class _Traffic:
    """Bytes of each party's payload in each step, all pieces of a run together."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._steps: list[list[int]] = []

    def add(self, step: int, request: Request) -> None:
        """Note what is sent in a step, by one piece or by all."""
        if step == len(self._steps):
            self._steps.append([0] * self._n)
        sizes = self._steps[step]
        for party in range(self._n):
            sizes[party] += payload_bytes(request, party)

    def count(self, network: LocalNetwork | None) -> None:
        """Tell the network, one message from everybody to everybody in each step."""
        others = self._n - 1
        for sizes in self._steps:
            if network is None:
                return
            network.count(KIND, self._n * others, others * sum(map(wire_bytes, sizes)))
            network.next_round()


def _post(network: LocalNetwork, session: bytes, n: int, step: int, request: Request) -> None:
    for party in range(n):
        data = Opening.make(session, step, party, payload_of(request, party)).to_bytes()
        for other in range(n):
            if other != party:
                network.send(party, other, KIND, data)
    for party in range(n):
        network.receive(party)
    network.next_round()


def _answer(request: Request) -> tuple[Any, ...]:
    if isinstance(request, Tell):
        return request.payloads
    return tuple(request.ring.sum(shares, axis=0) for shares in request.shares)


class Opening(Message, frozen=True, tag=KIND):
    """What one party sends to everybody in one step of a program.

    route: step, sender, four bytes each, little-endian.
    """

    session: bytes
    route: bytes
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse a session or a route of the wrong size."""
        if len(self.session) != SESSION_BYTES or len(self.route) != 8:
            raise ParameterError(f"session has {SESSION_BYTES} bytes, route 8")

    @classmethod
    def make(cls, session: bytes, step: int, sender: int, payload: bytes) -> "Opening":
        """The message of ``sender`` in ``step``, both in [0, 2^32)."""
        route = step.to_bytes(4, "little") + sender.to_bytes(4, "little")
        return cls(session, route, payload)

    @property
    def step(self) -> int:
        """The step of the program, from 0."""
        return int.from_bytes(self.route[:4], "little")

    @property
    def sender(self) -> int:
        """Whose message this is."""
        return int.from_bytes(self.route[4:], "little")


def check_request(request: Request, present: range) -> None:
    """ParameterError for a request that does not say what each party present sends."""
    if isinstance(request, Tell):
        told = [len(payload) for payload in request.payloads]
        fits = told == [request.sizes[party] for party in present]
    else:
        fits = all(shares.shape[:1] == (len(present),) for shares in request.shares)
    if not fits:
        raise ParameterError("a step of the program does not fit the parties present")


def wire_bytes(payload: int) -> int:
    """Bytes on the wire of an ``Opening`` with so many bytes of payload."""
    # The length of the payload takes one byte, two, or four.
    return _EMPTY_BYTES + payload + (0 if payload < 1 << 8 else 1 if payload < 1 << 16 else 3)


_EMPTY_BYTES = len(Opening.make(bytes(SESSION_BYTES), 0, 0, b"").to_bytes())


def payload_of(request: Request, row: int) -> bytes:
    """What the party of a row sends to everybody."""
    if isinstance(request, Tell):
        return request.payloads[row]
    return b"".join(request.ring.to_bytes(shares[row, ...]) for shares in request.shares)


def payload_bytes(request: Request, party: int) -> int:
    """How many bytes a party sends to each other one for ``request``."""
    if isinstance(request, Tell):
        return request.sizes[party]
    count = sum(math.prod(shares.shape[1:]) for shares in request.shares)
    return count * request.ring.element_bytes()


def read_arrays(payload: bytes, shapes: Iterable[tuple[int, ...]], ring: Ring) -> list[RingArray]:
    """Ring elements of several shapes, one behind the other; WireError unless they fit exactly."""
    shapes = tuple(shapes)
    sizes = [math.prod(shape) * ring.element_bytes() for shape in shapes]
    if len(payload) != sum(sizes):
        raise WireError(f"{len(payload)} bytes came where {sum(sizes)} are expected")
    parts, start = [], 0
    for shape, size in zip(shapes, sizes, strict=True):
        parts.append(ring.from_bytes(payload[start : start + size], shape))
        start += size
    return parts
