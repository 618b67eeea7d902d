"""What a bad network, or a bad sender, does to messages: typed errors only, and no wrong sum.

A message that a signature or a seal covers is never taken in another form. Where nothing does so,
as for a masked vector, another valid message may be taken for it: then the round ends as that
message has it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, PeerError, StateError, WireError
from secagg.full.client import Client
from secagg.full.messages import MaskedInput, Roster, RoundMessage, Step
from secagg.full.params import RoundParams, Variant
from secagg.full.server import Server
from tests.secagg.full.mutations import Judge, Mutator, Party, state, targets
from tests.secagg.full.replicas import new_client, new_server
from tests.secagg.full.turns import Turn, turns
from tests.secagg.full.world import OTHER_SESSION, VARIANTS, inputs, params
from tests.support.faults import append, flip_bit, truncate, truncations

FOUR = (2, 5, 9, 11)


def agreed(variant: Variant, **more: Any) -> RoundParams:
    # 13 bits leave room for words that are no ring elements.
    return params(FOUR, threshold=3, bits=13, dim=3, variant=variant, **more)


def fuzz(variant: Variant, mutations: int, seed: int) -> Counter[str]:
    """So many mutated messages, shared out among all messages of a round."""
    aims = targets(agreed(variant))
    foreign = targets(agreed(variant, round=8)) + targets(agreed(variant, session=OTHER_SESSION))
    others = [aim.params.decode(aim.kind, aim.data) for aim in (*aims, *foreign)]
    mutator, counts = Mutator(np.random.default_rng(seed), others), Counter[str]()
    for at, aim in enumerate(aims):
        judge, endless = Judge(aim, {other.data for other in aims}), mutator.of(others[at])
        for _ in range(at, mutations, len(aims)):
            judge.deliver(next(endless))
        counts.update(judge.counts)
    assert sum(counts.values()) == mutations
    return counts


@pytest.mark.parametrize("variant", VARIANTS)
def test_ten_thousand_mutated_messages_give_typed_errors_only(variant: Variant) -> None:
    counts = fuzz(variant, 5_000, seed=1)
    assert min(counts.values()) > 100  # every way of going wrong was met


@pytest.mark.deep
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("tenth", range(10))
def test_a_million_mutated_messages_give_typed_errors_only(variant: Variant, tenth: int) -> None:
    counts = fuzz(variant, 50_000, seed=1_000 + tenth)
    assert min(counts.values()) > 1_000


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_truncation_is_unreadable(variant: Variant) -> None:
    for aim in targets(agreed(variant)):
        for data in truncations(aim.data):
            with pytest.raises(WireError):
                aim.params.decode(aim.kind, data)


class Bad:
    """A round over a network that does something to message number ``at``, and to no other.

    Whoever refuses a message, or misses one, stays away from there on, as in a real deployment.
    """

    def __init__(self, variant: Variant, at: int, fault: str, coin: np.random.Generator) -> None:
        self.params, self._at, self._fault, self._coin = agreed(variant), at, fault, coin
        self.sent, self._late = 0, list[Callable[[], Any]]()
        self.kind: type[RoundMessage] = RoundMessage
        self.x = inputs(self.params)
        self.server = new_server(self.params)
        self.clients = {u: new_client(self.params, u) for u in self.params.clients}

    def run(self) -> NDArray[Any] | None:
        server, present = self.server, self.params.clients
        for turn in turns(self.params):
            for u in present:
                self._converse(turn, u)
            try:
                outcome = turn.close(server)
            except AbortError:
                return None
            if turn.step < Step.UNMASKING:
                present = tuple(u for u in present if u in server.members(turn.step))
            for late in self._late:
                late()
            self._late.clear()
        assert isinstance(outcome, np.ndarray)
        return outcome

    def _converse(self, turn: Turn, u: int) -> None:
        client = self.clients[u]
        if turn.ask is None:
            reply = turn.answer(client, None, self.x[u])
        else:
            asked = turn.ask(self.server, u)
            reply = self._carry(client, asked, lambda c, m: turn.answer(c, m, self.x[u]))
        if reply is not None:
            self._carry(self.server, reply, turn.receive)

    def _carry(self, party: Party, message: RoundMessage, deliver: Callable[..., Any]) -> Any:
        number, self.sent = self.sent, self.sent + 1
        data = message.to_bytes()
        if number != self._at:
            return self._deliver(party, type(message), data, deliver)
        self.kind, self.hit = type(message), message.client
        return getattr(self, self._fault)(party, type(message), data, deliver)

    def _deliver(self, party: Party, kind: Any, data: bytes, deliver: Callable[..., Any]) -> Any:
        try:
            return deliver(party, self.params.decode(kind, data))
        except (WireError, PeerError, StateError, AbortError):
            return None

    def _refused(self, party: Party, kind: Any, data: bytes, deliver: Callable[..., Any]) -> None:
        before = state(party)
        with pytest.raises((PeerError, StateError)):
            deliver(party, self.params.decode(kind, data))
        assert state(party) == before

    # Faults.

    def dropped(self, *_: Any) -> None:
        return None

    def duplicated(self, party: Party, *message: Any) -> Any:
        reply = self._deliver(party, *message)
        self._refused(party, *message)
        return reply

    def misdelivered(self, party: Party, *message: Any) -> Any:
        """First to another client, or to the server of another round."""
        if isinstance(party, Client):
            self._refused(self.clients[next(u for u in FOUR if u != party.client)], *message)
        else:
            variant = self.params.variant
            self._refused(new_server(agreed(variant, round=8)), *message)
        return self._deliver(party, *message)

    def late(self, party: Party, *message: Any) -> None:
        """After the step is closed: the server refuses it, a client may take it for nothing."""
        if isinstance(party, Server):
            self._late.append(lambda: self._refused(party, *message))
        else:
            self._late.append(lambda: self._deliver(party, *message))

    def cut(self, party: Party, kind: Any, data: bytes, deliver: Callable[..., Any]) -> Any:
        size = int(self._coin.integers(len(data)))
        return self._deliver(party, kind, truncate(data, size), deliver)

    def longer(self, party: Party, kind: Any, data: bytes, deliver: Callable[..., Any]) -> Any:
        return self._deliver(party, kind, append(data), deliver)

    def flipped(self, party: Party, kind: Any, data: bytes, deliver: Callable[..., Any]) -> Any:
        changed = flip_bit(data, int(self._coin.integers(8 * len(data))))
        if kind is MaskedInput:
            self._note(data, changed)
        return self._deliver(party, kind, changed, deliver)

    def _note(self, data: bytes, changed: bytes) -> None:
        """A vector that is changed on the way counts as it arrives."""
        try:
            before, after = (self.params.decode(MaskedInput, each) for each in (data, changed))
            ring, shape = self.params.ring, (self.params.dim,)
            difference = ring.sub(
                ring.from_bytes(after.payload, shape), ring.from_bytes(before.payload, shape)
            )
        except WireError:
            return
        if after.route == before.route and after.session == before.session:
            self.x[self.hit] = ring.add(self.x[self.hit], difference)


FAULTS = ("dropped", "duplicated", "misdelivered", "late", "cut", "longer", "flipped")
HARMLESS = ("duplicated", "misdelivered")


def count_of(variant: Variant) -> int:
    honest = Bad(variant, -1, "", np.random.default_rng(0))
    assert honest.run() is not None
    return honest.sent


def check_one_fault(variant: Variant, fault: str, seed: int) -> Counter[str]:
    coin, outcomes = np.random.default_rng(seed), Counter[str]()
    for at in range(count_of(variant)):
        bad = Bad(variant, at, fault, coin)
        total = bad.run()
        if total is None:
            outcomes["refused"] += 1
            assert fault not in HARMLESS
            continue
        survivors = bad.server.members(Step.MASKED_INPUT)
        expected = bad.params.ring.sum(np.stack([bad.x[u] for u in survivors]), axis=0)
        right = np.array_equal(total, expected)
        # Nobody signs a roster in the semi-honest variant: a wrong key gives a wrong mask.
        assert right or (fault, bad.kind, variant) == ("flipped", Roster, "semi-honest")
        outcomes["all" if survivors == FOUR else "fewer"] += 1
    return outcomes


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_message_gives_the_right_sum_or_none(
    variant: Variant, fault: str
) -> None:
    outcomes = check_one_fault(variant, fault, seed=5)
    assert outcomes["all"] > 0
    assert (outcomes["fewer"] > 0) == (fault not in HARMLESS)


@pytest.mark.deep
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_thousand_flipped_bits_give_the_right_sum_or_none(variant: Variant) -> None:
    for seed in range(1_000 // count_of(variant) + 1):
        check_one_fault(variant, "flipped", seed)
