"""The server's memory of a round, and its form as bytes between steps.

Source: ours. The paper's server is one process that lives through the round.
Model: the bytes are written and read by the server itself. They hold what it received: sealed
    shares, the running sum, and after step 5 shares of secrets that open masks, so they are worth
    as much as its memory. A server that is restored from an old state gets no second answer from
    a client. But where half of a neighbourhood is enough for a secret (2 t <= n), a semi-honest
    server that goes back past a ``close_...`` whose requests have left can ask the other half for
    another set, and then knows a single input: save after a close and before its requests leave.
Leaks: nothing to anybody else.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np

from mpc.core.errors import WireError
from mpc.core.ring import RingArray
from mpc.core.wire import Message
from secagg.full.messages import AdvertiseKeys, SharedKeys, Step
from secagg.full.neighbourhoods import Members
from secagg.full.params import RoundParams


@dataclass
class ServerState:
    """All that the server knows; clients by position.

    sets: the members of each closed step, U_1 to U_4.  arrived: who has answered in the open step.
    total: the sum of masked inputs so far, (dim,).
    """

    step: Step
    arrived: Members
    total: RingArray = field(repr=False)
    sets: dict[Step, Members] = field(default_factory=dict)
    keys: dict[int, AdvertiseKeys] = field(default_factory=dict, repr=False)
    shares: dict[int, SharedKeys] = field(default_factory=dict, repr=False)
    signatures: dict[int, bytes] = field(default_factory=dict, repr=False)
    opened: dict[int, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def fresh(cls, params: RoundParams) -> "ServerState":
        """Nothing received yet."""
        nobody = np.zeros(len(params.clients), np.bool_)
        return cls(Step.ADVERTISE_KEYS, nobody, np.zeros(params.dim, params.ring.dtype))

    def end(self, step: Step, params: RoundParams) -> None:
        """Keep the sets, drop everything else: the round is over."""
        ended = ServerState.fresh(params)
        self.step, self.arrived, self.total = step, ended.arrived, ended.total
        for kept in (self.keys, self.shares, self.signatures, self.opened):
            kept.clear()


class _Saved(Message, frozen=True, tag="full.server"):
    """sets: (step, members).  signatures, opened: (position, bytes), rising."""

    params: bytes
    context: bytes
    step: int
    arrived: bytes
    total: bytes
    sets: tuple[tuple[int, bytes], ...]
    keys: tuple[AdvertiseKeys, ...]
    shares: tuple[SharedKeys, ...]
    signatures: tuple[tuple[int, bytes], ...]
    opened: tuple[tuple[int, bytes], ...]
    check: bytes


def save(state: ServerState, params: RoundParams) -> bytes:
    """The state as bytes; ``load`` is the inverse."""
    saved = _Saved(
        params.digest,
        params.context,
        int(state.step),
        params.pack_set(state.arrived),
        params.ring.to_bytes(state.total),
        tuple((int(step), params.pack_set(s)) for step, s in sorted(state.sets.items())),
        tuple(message for _, message in sorted(state.keys.items())),
        tuple(message for _, message in sorted(state.shares.items())),
        tuple(sorted(state.signatures.items())),
        tuple(sorted(state.opened.items())),
        b"",
    )
    return _with(saved, _checksum(saved)).to_bytes()


def load(data: bytes, params: RoundParams) -> tuple[ServerState, RoundParams]:
    """The state of a round with these params, and them with the context that it was saved with.

    Raises WireError for bytes that are damaged, or belong to another round.
    """
    saved = _Saved.from_bytes(data)
    if saved.check != _checksum(_with(saved, b"")):
        raise WireError("the saved server is damaged")
    params = params.as_saved(saved.context, saved.params)
    try:
        state = ServerState(
            Step(saved.step),
            params.unpack_set(saved.arrived).copy(),
            params.ring.from_bytes(saved.total, (params.dim,)),
            {Step(step): params.unpack_set(members) for step, members in saved.sets},
            {params.position(message.client): message for message in saved.keys},
            {params.position(message.client): message for message in saved.shares},
            dict(saved.signatures),
            dict(saved.opened),
        )
    except ValueError as error:
        raise WireError("the saved server does not fit its round") from error
    _check_together(state, params)
    return state, params


def _check_together(state: ServerState, params: RoundParams) -> None:
    """WireError unless the steps before the open one are closed, and what was sent is here."""
    n = len(params.clients)
    steps = [s for s in Step if s <= Step.UNMASKING]
    if not params.malicious:
        steps.remove(Step.CONSISTENCY_CHECK)
    closed = [step for step in steps if step < state.step]
    fits = state.step in steps and sorted(state.sets) == closed
    members = np.ones(n, np.bool_)
    for due in (*(state.sets[step] for step in sorted(state.sets)), state.arrived):
        fits = fits and not (due & ~members).any()
        members = due
    for step, kept in (
        (Step.ADVERTISE_KEYS, state.keys),
        (Step.SHARE_KEYS, state.shares),
        (Step.CONSISTENCY_CHECK, state.signatures),
        (Step.UNMASKING, state.opened),
    ):
        there = np.zeros(n, np.bool_)
        there[[at for at in kept if 0 <= at < n]] = True
        due = state.sets.get(step, state.arrived if step is state.step else ~members & members)
        fits = fits and np.count_nonzero(there) == len(kept) and not (due & ~there).any()
        fits = fits and (step in state.sets or not (there & ~due).any())
    if not fits:
        raise WireError("the saved server does not hold together")


def _with(saved: _Saved, check: bytes) -> _Saved:
    fields = {name: getattr(saved, name) for name in saved.__struct_fields__}
    return _Saved(**{**fields, "check": check})


def _checksum(unchecked: _Saved) -> bytes:
    return hashlib.sha256(unchecked.to_bytes()).digest()
