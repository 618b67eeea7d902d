"""What a server does in every step: who may answer, who has, and whether enough are left.

Source: Bonawitz et al., CCS 2017, Figure 4: the server's "collect at least t messages".
Model: as ``secagg.full.server``.
Differs: the paper's server waits for a timeout and aborts; here the caller closes a step, and the
    error names it, the numbers and the missing clients.
"""

from typing import Any, TypeVar

import numpy as np

from mpc.core.errors import AbortError, PeerError, StateError
from secagg.full.messages import RoundAborted, RoundDone, RoundMessage, Step
from secagg.full.neighbourhoods import Members
from secagg.full.params import RoundParams
from secagg.full.recovery import owners, short
from secagg.full.state import ServerState, save

_SHOWN = 16  # ids in an error
_M = TypeVar("_M", bound=RoundMessage)


class Bookkeeping:
    """The part of ``Server`` that knows steps and sets, and no cryptography."""

    def __init__(self, params: RoundParams) -> None:
        self.params = params
        self._state = ServerState.fresh(params)
        self._ended_in = Step.ADVERTISE_KEYS
        self._left: Members = self._state.arrived  # at the end: U_3, or who was missing

    @property
    def step(self) -> Step:
        """The open step; DONE or ABORTED at the end."""
        return self._state.step

    def members(self, step: Step) -> tuple[int, ...]:
        """Who took part in a closed step: U_1 to U_4 of the paper. StateError while it is open."""
        return self.params.ids(self._set(step))

    def missing(self) -> tuple[int, ...]:
        """The clients that still owe the open step an answer; nobody once the round is over."""
        return self.params.ids(self._absent())

    def save(self) -> bytes:
        """All that the server knows. StateError once the round is over.

        Save after a ``close_...`` and before its messages leave, for what a client was asked once
        cannot be asked differently.
        """
        if self.step >= Step.DONE:
            raise StateError(f"the round is over: {self.step.name}")
        return save(self._state, self.params)

    def notice(self, client: int) -> RoundDone | RoundAborted:
        """What to tell a client about the end of the round; StateError while it goes on."""
        left = self.params.pack_set(self._left)
        if self.step is Step.DONE:
            return self._to(client, RoundDone, members=left)
        if self.step is Step.ABORTED:
            return self._to(client, RoundAborted, step=int(self._ended_in), missing=left)
        raise StateError(f"the round goes on with step {self.step:d}, {self.step.title}")

    def _set(self, step: Step) -> Members:
        if step not in self._state.sets:
            raise StateError(f"step {step:d}, {step.title}, is not closed")
        return self._state.sets[step]

    def _expected(self) -> Members:
        """Who may answer in the open step."""
        if self.step is Step.ADVERTISE_KEYS:
            return np.ones(len(self.params.clients), np.bool_)
        return self._state.sets[max(self._state.sets)]  # of the step closed last

    def _absent(self) -> Members:
        if self.step >= Step.DONE:
            return np.zeros(len(self.params.clients), np.bool_)
        return self._expected() & ~self._state.arrived

    def _open(self, step: Step) -> None:
        if self.step is not step:
            raise StateError(
                f"step {step:d}, {step.title}, is not the open one: {self.step:d}, "
                f"{self.step.title}"
            )

    def _sender(self, step: Step, message: RoundMessage) -> int:
        """The position of who sent ``message``, which may answer in ``step`` and has not yet."""
        client = message.client
        if (message.session, message.round) != (self.params.session, self.params.round):
            raise PeerError(f"client {client} sent a message of another round", party=client)
        if client not in self.params:
            raise PeerError(f"client {client} is not a client of this round", party=client)
        self._open(step)
        at = self.params.position(client)
        if not self._expected()[at]:
            raise PeerError(f"client {client} left the round before {step.title}", party=client)
        if self._state.arrived[at]:
            raise PeerError(f"client {client} answered in {step.title} already", party=client)
        return at

    def _member(self, client: int, members: Members) -> int:
        at = self.params.position(client)
        if not members[at]:
            raise StateError(f"client {client} has left the round")
        return at

    def _to(self, client: int, kind: type[_M], **fields: Any) -> _M:
        return kind.make(self.params.session, self.params.round, client, **fields)

    def _check_length(self, message: RoundMessage, name: str, data: bytes, size: int) -> None:
        if len(data) != size:
            raise PeerError(
                f"client {message.client} sent {len(data)} bytes of {name}, {size} expected",
                party=message.client,
            )

    def _close_core(self, after: Step) -> tuple[int, ...]:
        """End the open step with those who have answered and have t such clients beside them."""
        self._check_count(self._state.arrived)
        members = self.params.core(self._state.arrived)
        self._check_count(members)
        return self._next(members, after)

    def _check_count(self, members: Members) -> None:
        count, least = int(np.count_nonzero(members)), self.params.least
        if count < least:
            raise self._abort(f"{count} of {least} needed")

    def _next(self, members: Members, after: Step) -> tuple[int, ...]:
        self._state.sets[self.step] = members
        self._state.arrived = np.zeros(members.size, np.bool_)
        self._state.step = after
        return self.params.ids(members)

    def _check_holders(self, survivors: Members, holders: Members) -> None:
        """AbortError, which ends the round, if ``holders`` are too few for some secret."""
        needed = owners(self.params, self._set(Step.SHARE_KEYS), survivors)
        lacking = short(self.params, needed, holders)
        if lacking.any():
            least = int(self.params.neighbourhoods.counts(holders)[lacking].min())
            raise self._abort(
                f"{least} of {self.params.threshold} needed to open the secrets of clients "
                f"{_shown(self, lacking)}"
            )

    def _abort(self, why: str) -> AbortError:
        """End the round: memory dropped, the error to raise."""
        step, absent = self.step, self._absent()
        text = f"step {step:d}, {step.title}: {why}; missing clients {_shown(self, absent)}"
        self._ended_in, self._left = step, absent
        self._state.end(Step.ABORTED, self.params)
        return AbortError(text, remedy="no sum was formed: start a new round")


def _shown(books: Bookkeeping, members: Members) -> str:
    ids = books.params.ids(members)
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"{list(ids[:_SHOWN])}{more}"
