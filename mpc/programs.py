"""Programs of n parties that meet only where they open values: one code for one party and for all.

A program is a generator. It computes on the shares of the parties that are *present*, who form the
leading axis of every array, and yields what they send to everybody; what everybody has sent comes
back. ``together`` runs all n parties of a program in one process. ``PartyRun`` runs it for a single
party, with messages; both run the same lines.

Source: the online phase of Damgard, Pastro, Smart and Zakarias (CRYPTO 2012): all openings by
    broadcast.
Model: links are authenticated and hide their content where a program's own model says so. A party
    that sends different values to different peers is not noticed here; programs against malicious
    parties compare what they got.
Leaks: the number of openings and their sizes, which depend on public values alone.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.wire import Message

SESSION_BYTES = 16
MAX_PARTIES = 2**16
MAX_STEPS = 2**32 - 1

T = TypeVar("T")


@dataclass(frozen=True)
class Seats:
    """Which of the n parties the rows of an array belong to: all of them, or a single one."""

    n: int
    only: int | None = None

    def __post_init__(self) -> None:
        integer("n", self.n, 2, MAX_PARTIES)
        if self.only is not None:
            integer("only", self.only, 0, self.n - 1)

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


def together(program: Program[T], n: int, *, network: LocalNetwork | None = None) -> T:
    """Run a program with all ``n`` parties present; what they send is counted in ``network``."""
    try:
        request = next(program)
        while True:
            if network is not None:
                size = (n - 1) * sum(wire_bytes(request, party) for party in range(n))
                network.count("program.opening", n * (n - 1), size)
                network.next_round()
            request = program.send(_answer(request))
    except StopIteration as end:
        result: T = end.value
        return result


def _answer(request: Request) -> tuple[Any, ...]:
    if isinstance(request, Tell):
        return request.payloads
    return tuple(request.ring.sum(shares, axis=0) for shares in request.shares)


class Opening(Message, frozen=True, tag="program.opening"):
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


def wire_bytes(request: Request, party: int) -> int:
    """Bytes of one party's message for ``request``."""
    return len(Opening.make(bytes(SESSION_BYTES), 0, 0, bytes(_size(request, party))).to_bytes())


def _size(request: Request, party: int) -> int:
    if isinstance(request, Tell):
        return request.sizes[party]
    return sum(int(shares[0].size) for shares in request.shares) * request.ring.element_bytes()


class PartyRun(Generic[T]):
    """One party's run of a program, without input and output of its own.

    ``outgoing`` is the message that everybody else is to get; ``receive`` takes theirs; whenever
    all have come, the program goes on and ``outgoing`` changes. A peer can be one step ahead of us,
    and no more: what it sends early is kept. A message that is refused changes nothing, but for an
    early one whose size turns out wrong when its step begins: that one is dropped.
    An error that the program itself raises, as a failed check of MACs, ends the run.
    session: 16 bytes, fresh for each run and the same for all.
    """

    def __init__(self, program: Program[T], seats: Seats, session: bytes) -> None:
        if seats.only is None:
            raise ParameterError("a PartyRun is for a single party", remedy="use together")
        if not isinstance(session, bytes) or len(session) != SESSION_BYTES:
            raise ParameterError(f"session must be {SESSION_BYTES} bytes")
        self._program = program
        self._seats = seats
        self._party = seats.only
        self._session = session
        self._step = -1
        self._arrived: list[dict[int, bytes]] = [{}, {}]  # of this step and of the next
        self._request: Request | None = None
        self._result: tuple[T] | None = None
        self._advance(None)

    @property
    def outgoing(self) -> Opening | None:
        """What this party sends to all others in the present step; None once it is done."""
        if self._request is None:
            return None
        return Opening.make(self._session, self._step, self._party, self._own())

    @property
    def is_done(self) -> bool:
        """Whether the program has ended."""
        return self._result is not None

    @property
    def result(self) -> T:
        """What the program returned. StateError before its end."""
        if self._result is not None:
            return self._result[0]
        if self._request is None:
            raise StateError("the program was aborted and has no result")
        raise StateError(f"the program waits for {sorted(self._missing())}")

    def receive(self, message: Opening) -> None:
        """Take another party's message.

        Raises PeerError for another session, sender or step, for a repeat and for a size that does
        not fit; StateError after the end.
        """
        if self._request is None:
            raise StateError("this program has ended")
        sender = message.sender
        if message.session != self._session:
            raise PeerError("a message belongs to another session", party=sender)
        if sender == self._party or sender >= self._seats.n:
            raise PeerError(f"party {sender} has nothing to send here", party=sender)
        ahead = message.step - self._step
        if ahead not in (0, 1):
            raise PeerError(
                f"a message of step {message.step} came in step {self._step}", party=sender
            )
        if sender in self._arrived[ahead]:
            raise PeerError(f"party {sender} has sent step {message.step} before", party=sender)
        if not ahead:
            self._check(sender, message.payload)
        self._arrived[ahead][sender] = message.payload
        while self._request is not None and not self._missing():
            self._finish_step()

    def _check(self, sender: int, payload: bytes) -> None:
        """PeerError unless ``payload`` answers the present request."""
        request = self._request
        assert request is not None
        expected = _size(request, sender)
        if len(payload) != expected:
            raise PeerError(
                f"{len(payload)} bytes came where {expected} are expected", party=sender
            )
        if isinstance(request, Open):
            try:
                _read(request, payload)
            except WireError as error:
                raise PeerError(error.message, party=sender) from None

    def _missing(self) -> set[int]:
        return set(range(self._seats.n)) - {self._party} - set(self._arrived[0])

    def _own(self) -> bytes:
        request = self._request
        if isinstance(request, Tell):
            return request.payloads[0]
        assert request is not None
        return b"".join(request.ring.to_bytes(shares[0]) for shares in request.shares)

    def _finish_step(self) -> None:
        request, arrived = self._request, self._arrived[0]
        assert request is not None
        if isinstance(request, Tell):
            parties = range(self._seats.n)
            answer: tuple[Any, ...] = tuple(
                request.payloads[0] if p == self._party else arrived[p] for p in parties
            )
        else:
            sums = [shares[0].copy() for shares in request.shares]
            for payload in arrived.values():
                for total, part in zip(sums, _read(request, payload), strict=True):
                    request.ring.add(total, part, out=total)
            answer = tuple(sums)
        self._advance(answer)

    def _advance(self, answer: tuple[Any, ...] | None) -> None:
        self._arrived = [self._arrived[1], {}]
        try:
            self._request = next(self._program) if answer is None else self._program.send(answer)
        except StopIteration as end:
            self._request, self._result = None, (end.value,)
            return
        except BaseException:
            self._request = None
            raise
        self._step += 1
        for sender, payload in tuple(self._arrived[0].items()):
            try:
                self._check(sender, payload)
            except PeerError:
                del self._arrived[0][sender]
                raise


def _read(request: Open, payload: bytes) -> list[RingArray]:
    parts, start = [], 0
    for shares in request.shares:
        size = shares[0].size * request.ring.element_bytes()
        parts.append(request.ring.from_bytes(payload[start : start + size], shares.shape[1:]))
        start += size
    return parts
