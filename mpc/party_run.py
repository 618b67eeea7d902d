"""One party's run of a program of ``mpc.programs``, driven by messages.

Source: the sans-I/O form of a protocol: messages in, messages out, and no clock, socket or thread.
Model: that of the program. Links are authenticated: the sender that a message names has sent it.
    What does not fit is refused, and changes nothing.
Leaks: the header of a message names session, step and sender in the clear.
"""

from dataclasses import dataclass, field
from typing import Any, Generic

from mpc.core.errors import ParameterError, PeerError, StateError, WireError
from mpc.programs import (
    SESSION_BYTES,
    Opening,
    Program,
    Request,
    Seats,
    T,
    Tell,
    check_request,
    payload_of,
    read_arrays,
)


class PartyRun(Generic[T]):
    """One party's run of a program, without input and output of its own.

    ``outgoing`` is the message that everybody else is to get; ``receive`` takes theirs; whenever
    all have come, the program goes on and ``outgoing`` changes. A peer can be one step ahead of us,
    and no more: what it sends early is kept, and its size is checked when its step begins.
    A message that is refused changes nothing. An error that the program itself raises, as a failed
    check of MACs, ends the run.
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
        self._steps = 0
        self._early: dict[int, bytes] = {}
        self._now: _Step | None = None
        self._result: tuple[T] | None = None
        self._advance(None)

    @property
    def outgoing(self) -> Opening | None:
        """What this party sends to all others in the present step; None once it is done."""
        now = self._now
        if now is None:
            return None
        return Opening.make(self._session, now.number, self._party, payload_of(now.request, 0))

    @property
    def is_done(self) -> bool:
        """Whether the program has ended with a result."""
        return self._result is not None

    @property
    def result(self) -> T:
        """What the program returned. StateError before its end."""
        if self._result is not None:
            return self._result[0]
        if self._now is None:
            raise StateError("the program was aborted and has no result")
        raise StateError(f"the program waits for {sorted(self._missing(self._now))}")

    def receive(self, message: Opening) -> None:
        """Take another party's message.

        Raises PeerError for another session, sender or step, for a repeat and for what does not fit
        the step; StateError after the end. A PeerError about a message that came early is raised
        when its step begins: that message alone is dropped, and its sender may send another.
        """
        now, sender = self._now, message.sender
        if now is None:
            raise StateError("this program has ended")
        if message.session != self._session:
            raise PeerError("a message belongs to another session", party=sender)
        if sender == self._party or sender >= self._seats.n:
            raise PeerError(f"party {sender} has nothing to send here", party=sender)
        if message.step not in (now.number, now.number + 1):
            raise PeerError(
                f"a message of step {message.step} came in step {now.number}", party=sender
            )
        is_early = message.step > now.number
        if sender in (self._early if is_early else now.arrived):
            raise PeerError(f"party {sender} has sent step {message.step} before", party=sender)
        if is_early:
            self._early[sender] = message.payload
            return
        now.arrived[sender] = now.read(sender, message.payload)
        while self._now is not None and not self._missing(self._now):
            self._advance(self._now.answer(self._party))

    def abort(self) -> None:
        """End the run without a result and drop the program with all that it holds."""
        self._program.close()
        self._now, self._early = None, {}

    def _missing(self, now: "_Step") -> set[int]:
        return set(range(self._seats.n)) - {self._party} - set(now.arrived)

    def _advance(self, answer: tuple[Any, ...] | None) -> None:
        early, self._early, self._now = self._early, {}, None
        try:
            request = self._program.send(answer)
        except StopIteration as end:
            self._result = (end.value,)
            return
        check_request(request, self._seats.present)
        now = self._now = _Step(self._steps, request)
        self._steps += 1
        faults = []
        for sender, payload in early.items():
            try:
                now.arrived[sender] = now.read(sender, payload)
            except PeerError as fault:
                faults.append(fault)
        if faults:
            raise faults[0]


@dataclass(eq=False)
class _Step:
    """A step of one party's run: what it asks for, and what the others have sent so far."""

    number: int
    request: Request
    arrived: dict[int, Any] = field(default_factory=dict)

    def read(self, sender: int, payload: bytes) -> Any:
        """Another party's payload, parsed. PeerError unless it answers the request."""
        request = self.request
        if isinstance(request, Tell):
            expected = request.sizes[sender]
            if len(payload) != expected:
                raise PeerError(
                    f"{len(payload)} bytes came where {expected} are expected", party=sender
                )
            return payload
        try:
            return read_arrays(payload, (x.shape[1:] for x in request.shares), request.ring)
        except WireError as error:
            raise PeerError(error.message, party=sender) from None

    def answer(self, party: int) -> tuple[Any, ...]:
        """What the program gets, once all have sent."""
        request = self.request
        if isinstance(request, Tell):
            told = {**self.arrived, party: request.payloads[0]}
            return tuple(told[sender] for sender in sorted(told))
        sums = []
        for index, shares in enumerate(request.shares):
            total = request.ring.reduce(shares[0, ...])
            for parts in self.arrived.values():
                request.ring.add(total, parts[index], out=total)
            sums.append(total)
        return tuple(sums)
