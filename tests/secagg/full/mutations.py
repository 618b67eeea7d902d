"""Mutated messages, and what a party of the full protocol may do with one.

A message is changed as bytes (bits flipped, cut, longer, pieces moved), as an array of the wire
format (fields of other types, sizes and numbers), or by fields of the messages of other clients,
rounds, sessions and kinds.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from mpc.core.errors import AbortError, PeerError, StateError, ToolkitError, WireError
from mpc.core.wire import VERSION
from secagg.full.client import Client, Phase
from secagg.full.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    Delivered,
    Roster,
    RoundMessage,
    UnmaskRequest,
)
from secagg.full.params import RoundParams
from secagg.full.server import Server
from tests.secagg.full.replicas import (
    copy_of_client,
    new_client,
    new_server,
    restored,
    state_of_client,
    state_of_server,
)
from tests.secagg.full.turns import Turn, turns
from tests.secagg.full.world import inputs

Coin = np.random.Generator
Party = Client | Server


@dataclass(frozen=True)
class Target:
    """A party that waits for the message ``data``, and how it takes it."""

    params: RoundParams
    kind: type[RoundMessage]
    data: bytes
    party: Party
    deliver: Callable[[Any, Any], object]

    def copy(self) -> Party:
        if isinstance(self.party, Client):
            return copy_of_client(self.party)
        return restored(self.params, self.party.save())


def state(party: Party) -> object:
    return state_of_client(party) if isinstance(party, Client) else state_of_server(party)


def targets(agreed: RoundParams) -> list[Target]:
    """Every message of a round in which nothing goes wrong, each with its receiver before it."""
    server, x, found = new_server(agreed), inputs(agreed), list[Target]()
    clients = {u: new_client(agreed, u) for u in agreed.clients}

    def send(party: Party, message: RoundMessage, deliver: Callable[[Any, Any], Any]) -> Any:
        aim = Target(agreed, type(message), message.to_bytes(), party, deliver)
        found.append(replace(aim, party=aim.copy()))
        return deliver(party, agreed.decode(aim.kind, aim.data))

    for turn in turns(agreed):
        for u, client in clients.items():

            def answer(c: Client, m: Any, turn: Turn = turn, own: Any = x[u]) -> RoundMessage:
                return turn.answer(c, m, own)

            if turn.ask is None:
                reply = answer(client, None)
            else:
                reply = send(client, turn.ask(server, u), answer)
            send(server, reply, turn.receive)
        turn.close(server)
    for u in agreed.clients:
        send(copy_of_client(clients[u]), server.notice(u), Client.close)
    return found


class Judge:
    """Delivers mutated messages to one target, and refutes what a party must not do.

    honest: the messages of the round, which a party may take in another's place.
    counts: how often a message was unreadable, refused for now, refused for good, and taken.
    """

    def __init__(self, target: Target, honest: Collection[bytes]) -> None:
        self.target, self._honest = target, honest
        self.counts = dict.fromkeys(("unreadable", "refused", "final", "taken"), 0)
        self._renew()

    def _renew(self) -> None:
        self._party = self.target.copy()
        self._before = state(self._party)

    def deliver(self, data: bytes) -> None:
        target = self.target
        try:
            message = target.params.decode(target.kind, data)
        except WireError:
            self.counts["unreadable"] += 1
            return
        assert message.to_bytes() == data  # no misparse: there is one message in these bytes
        try:
            target.deliver(self._party, message)
        except (PeerError, StateError, AbortError) as error:
            self._refused(error)
        else:
            self.counts["taken"] += 1
            assert data in self._honest or not is_authenticated(target)
            self._renew()

    def _refused(self, error: ToolkitError) -> None:
        party = self._party
        if isinstance(party, Client) and party.phase is Phase.ABORTED:
            assert party._secrets is None
            assert not isinstance(error, StateError)  # which is for calls out of order
            self.counts["final"] += 1
            self._renew()
            return
        self.counts["refused"] += 1
        assert state(party) == self._before


def is_authenticated(target: Target) -> bool:
    """Whether a signature or a seal covers the message, so that no other one may be taken."""
    signed = {AdvertiseKeys, Roster, ConsistencySignature, UnmaskRequest}
    return target.kind is Delivered or (target.params.malicious and target.kind in signed)


class Mutator:
    """Endless mutations of a message. others: whole messages whose parts are put into it."""

    def __init__(self, coin: Coin, others: Sequence[RoundMessage]) -> None:
        self._coin, self._others = coin, others
        self._ways: list[Callable[[RoundMessage, bytes], bytes]]
        self._ways = [self._flip, self._overwrite, self._cut, self._extend, self._move]
        self._ways += [self._exchange, self._exchange, self._field, self._field, self._array]

    def of(self, message: RoundMessage) -> Iterator[bytes]:
        data = message.to_bytes()
        while True:
            changed = self._ways[self._below(len(self._ways))](message, data)
            if changed != data:
                yield changed

    def _below(self, bound: int) -> int:
        return int(self._coin.integers(bound))

    def _flip(self, _message: RoundMessage, data: bytes) -> bytes:
        changed = np.frombuffer(data, np.uint8).copy()
        for _ in range(1 + self._below(3)):
            changed[self._below(changed.size)] ^= np.uint8(1 << self._below(8))
        return changed.tobytes()

    def _overwrite(self, _message: RoundMessage, data: bytes) -> bytes:
        start = self._below(len(data))
        stop = min(len(data), start + 1 + self._below(40))
        return data[:start] + self._coin.bytes(stop - start) + data[stop:]

    def _cut(self, _message: RoundMessage, data: bytes) -> bytes:
        start = self._below(len(data))
        return (
            data[:start] if self._below(2) else data[:start] + data[start + 1 + self._below(64) :]
        )

    def _extend(self, _message: RoundMessage, data: bytes) -> bytes:
        at = self._below(len(data) + 1)
        more = data[:at] if self._below(2) else self._coin.bytes(1 + self._below(64))
        return data[:at] + more + data[at:]

    def _move(self, _message: RoundMessage, data: bytes) -> bytes:
        a, b, c = sorted(self._below(len(data) + 1) for _ in range(3))
        return data[:a] + data[b:c] + data[a:b] + data[c:]

    def _exchange(self, message: RoundMessage, data: bytes) -> bytes:
        """A field of another message, or the whole of it."""
        same = [other for other in self._others if type(other) is type(message)]
        pool = same if same and self._below(8) else self._others
        other = pool[self._below(len(pool))]
        if not self._below(8):
            return other.to_bytes()
        names, theirs = message.__struct_fields__, other.__struct_fields__
        name = names[self._below(len(names))]
        source = name if name in theirs else theirs[self._below(len(theirs))]
        return self._with(message, data, name, getattr(other, source))

    def _field(self, message: RoundMessage, data: bytes) -> bytes:
        """A field of the right type with another value, often of the right size."""
        name = message.__struct_fields__[self._below(len(message.__struct_fields__))]
        value = getattr(message, name)
        if isinstance(value, int):
            return self._with(message, data, name, self._below(70))
        size = len(value) if self._below(2) else self._below(2 * len(value) + 2)
        fills = (bytes(size), b"\xff" * size, self._coin.bytes(size), (value * 2)[:size])
        return self._with(message, data, name, fills[self._below(len(fills))])

    def _with(self, message: RoundMessage, data: bytes, name: str, value: object) -> bytes:
        fields = {field: getattr(message, field) for field in message.__struct_fields__}
        try:
            return type(message)(**{**fields, name: value}).to_bytes()
        except (ToolkitError, msgspec.ValidationError, TypeError):
            return self._raw(message, name, value)

    def _array(self, message: RoundMessage, data: bytes) -> bytes:
        """What no constructor would make: other types, more fields, nested ones."""
        nested: list[object] = [[[]]] * 9
        numbers: list[object] = [None, True, -1, 2**64 - 1, 1.5]
        odd = [*numbers, "text", [], [data] * 2, {"a": 1}, b"", nested]
        name = message.__struct_fields__[self._below(len(message.__struct_fields__))]
        return self._raw(message, name, odd[self._below(len(odd))])

    def _raw(self, message: RoundMessage, name: str, value: object) -> bytes:
        tag = type(message).__struct_config__.tag
        values = [tag, *(getattr(message, field) for field in message.__struct_fields__)]
        at = 1 + message.__struct_fields__.index(name)
        replaced = [*values[:at], value, *values[at + self._below(2) :]]
        return bytes([VERSION]) + msgspec.msgpack.encode(replaced)
