"""Messages in any order, twice, early, late, across rounds and sessions, and forged.

Two sessions and several rounds of each are under way at once, among the same four clients, each
with an honest server. The network keeps every message that was ever sent and gives it to whomever
it likes; it also forges rosters, deliveries and requests out of what it has. Clients are suspended
between any two messages, and go on from there or from any older copy of theirs. In every state:

- what refuses a message is left as it was, or is a client that has refused for good;
- a client that has refused says nothing more in any round of the session, nor enters one;
- a client masks once and answers once in a round, with one share for each peer, of one kind;
- in the malicious variant nobody's two secrets are both open, whatever all clients have answered;
- a sum, where the server forms one, is that of the survivors' inputs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase as Stage
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from numpy.typing import NDArray

from mpc.core.errors import AbortError, PeerError, StateError, ToolkitError, WireError
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.messages import (
    SEALED_BYTES,
    AdvertiseKeys,
    ConsistencySignature,
    Delivered,
    MaskedInput,
    Roster,
    RoundAborted,
    RoundDone,
    RoundMessage,
    SharedKeys,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.params import RoundParams, Variant
from secagg.full.server import Server
from secagg.full.sharing import WORDS, unpack_rows
from tests.secagg.full.hostile import KEY, SEED
from tests.secagg.full.replicas import (
    new_client,
    new_server,
    restored,
    state_of_client,
    state_of_server,
)
from tests.secagg.full.turns import turns
from tests.secagg.full.twins import AnswersTwice
from tests.secagg.full.world import (
    OTHER_SESSION,
    SESSION,
    VARIANTS,
    bits,
    inputs,
    params,
    signing,
    total,
)

FOUR = (2, 5, 9, 11)
T = 3
SETS = [chosen for size in (4, 3, 2, 1) for chosen in combinations(FOUR, size)]
ONE_OR_NONE = st.sampled_from([None, *FOUR])
QUESTION: dict[Step, type[RoundMessage]] = {
    Step.SHARE_KEYS: Roster,
    Step.MASKED_INPUT: Delivered,
    Step.CONSISTENCY_CHECK: SurvivorsRequest,
    Step.UNMASKING: UnmaskRequest,
}

TAKE: dict[type[RoundMessage], Callable[[Server, Any], None]] = {
    AdvertiseKeys: Server.receive_keys,
    SharedKeys: Server.receive_shares,
    MaskedInput: Server.receive_masked,
    ConsistencySignature: Server.receive_signature,
    UnmaskShares: Server.receive_unmask,
}
ANSWER: dict[type[RoundMessage], Callable[[Client, Any, NDArray[Any]], RoundMessage | None]] = {
    Roster: lambda client, message, _: client.share_keys(message),
    Delivered: lambda client, message, x: client.mask(message, x),
    SurvivorsRequest: lambda client, message, _: client.sign_survivors(message),
    UnmaskRequest: lambda client, message, _: client.unmask(message),
    RoundDone: lambda client, message, _: client.close(message),
    RoundAborted: lambda client, message, _: client.close(message),
}


@dataclass
class Live:
    """A round under way.

    forged: whether a client took a message that its server did not send.  sent: messages by client
    and kind.  sealed: by sender and receiver.  signed: signatures by client and set.
    kinds: by holder and owner, the kinds of shares that have left.  copies: by client, its bytes
    each time it was suspended.  put_back: who may go on from an older one.
    """

    params: RoundParams
    server: Server
    clients: dict[int, Client] = field(repr=False)
    x: dict[int, NDArray[Any]] = field(repr=False)
    forged: bool = False
    sent: Counter[tuple[int, str]] = field(default_factory=Counter)
    sealed: dict[tuple[int, int], bytes] = field(default_factory=dict, repr=False)
    signed: dict[tuple[int, bytes], bytes] = field(default_factory=dict, repr=False)
    kinds: defaultdict[tuple[int, int], set[int]] = field(
        default_factory=lambda: defaultdict(set), repr=False
    )
    copies: defaultdict[int, list[bytes]] = field(
        default_factory=lambda: defaultdict(list), repr=False
    )
    put_back: set[int] = field(default_factory=set)


class AnyNetwork(RuleBasedStateMachine):
    """See above. kind: what clients are made of."""

    kind: type[Client] = Client

    def __init__(self) -> None:
        super().__init__()
        self.history = {u: History() for u in FOUR}
        self.live: list[Live] = []
        self.last: dict[tuple[bytes, int], int] = {}  # (session, client) -> latest round
        self.burnt: set[tuple[bytes, int]] = set()
        self.mail: list[tuple[type[RoundMessage], bytes]] = []

    @initialize(
        variant=st.sampled_from(VARIANTS),
        steps=st.tuples(*[st.integers(0, 5)] * 3),
        missing=ONE_OR_NONE,
    )
    def start(self, variant: Variant, steps: tuple[int, ...], missing: int | None) -> None:
        """Three rounds, each some steps on its way."""
        self.variant = variant
        for session, round in ((SESSION, 1), (SESSION, 2), (OTHER_SESSION, 1)):
            self.open_round(session, round)
        for live, done in zip(self.live, steps, strict=True):
            for _ in range(done):
                self._go_on(live, missing)

    # The network's powers.

    @rule(session=st.sampled_from([SESSION, OTHER_SESSION]), round=st.integers(0, 5))
    def open_round(self, session: bytes, round: int) -> None:
        """Whoever's history admits it takes part; the others stay away."""
        agreed = params(
            FOUR, threshold=T, bits=16, dim=2, variant=self.variant, session=session, round=round
        )
        clients = {}
        for u in FOUR:
            fresh = round > self.last.get((session, u), -1) and (session, u) not in self.burnt
            try:
                clients[u] = new_client(agreed, u, self.kind, history=self.history[u])
            except StateError:
                assert not fresh
            else:
                assert fresh
                self.last[session, u] = round
        if clients:
            self.live.append(Live(agreed, new_server(agreed), clients, inputs(agreed, round)))

    @rule(data=st.data(), missing=ONE_OR_NONE)
    def go_on(self, data: st.DataObject, missing: int | None) -> None:
        """The honest course of the open step to its end, for all clients or all but one."""
        self._go_on(self._any_live(data), missing)

    def _go_on(self, live: Live, missing: int | None) -> None:
        step = live.server.step
        if step >= Step.DONE:
            return
        for u in FOUR:
            if u != missing:
                self._converse(live, u)
        self._close(live, step)

    @rule(data=st.data(), u=st.sampled_from(FOUR))
    def converse(self, data: st.DataObject, u: int) -> None:
        """The honest course of the open step for one client."""
        self._converse(self._any_live(data), u)

    def _converse(self, live: Live, u: int) -> None:
        for turn in turns(live.params):
            if turn.step is live.server.step:
                if turn.ask is None:
                    self._advertise(live, u)
                else:
                    self._ask(live, u, partial(turn.ask, live.server, u))
                return

    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Any message to any party that takes such ones."""
        if self.mail:
            kind, text = data.draw(st.sampled_from(self.mail))
            live = self._any_live(data)
            if kind in TAKE:
                self._to_server(live, kind, text)
            else:
                self._to_client(live, data.draw(st.sampled_from(FOUR)), kind, text)

    @rule(data=st.data(), step=st.sampled_from(list(Step)[:5]))
    def close_out_of_order(self, data: st.DataObject, step: Step) -> None:
        live = self._any_live(data)
        if step is not live.server.step:
            self._close(live, step)

    @rule(data=st.data())
    def restart_the_server(self, data: st.DataObject) -> None:
        live = self._any_live(data)
        if live.server.step < Step.DONE:
            before = state_of_server(live.server)
            live.server = restored(live.params, live.server.save())
            assert state_of_server(live.server) == before

    @rule(data=st.data(), u=st.sampled_from(FOUR))
    def restart_a_client(self, data: st.DataObject, u: int) -> None:
        live = self._any_live(data)
        if self._suspend(live, u):
            self._resume(live, u, live.copies[u][-1])

    @rule(data=st.data(), u=st.sampled_from(FOUR))
    def put_a_client_back(self, data: st.DataObject, u: int) -> None:
        """It goes on from any copy of it that ever was, and may be asked all that it was asked."""
        live = self._any_live(data)
        self._suspend(live, u)
        if not live.copies[u] or (live.params.session, u) in self.burnt:
            return
        live.put_back.add(u)
        self._resume(live, u, data.draw(st.sampled_from(live.copies[u])))
        if data.draw(st.booleans()):
            route = (live.params.session, live.params.round, u)
            for kind, text in list(self.mail):
                message = kind.from_bytes(text)
                address = (message.session, message.round, message.client)
                if kind in QUESTION.values() and route == address:
                    self._to_client(live, u, kind, text)

    def _suspend(self, live: Live, u: int) -> bool:
        client = live.clients.get(u)
        if client is None:
            return False
        before, silent = state_of_client(client), (live.params.session, u) in self.burnt
        try:
            live.copies[u].append(client.suspend())
        except StateError:
            assert state_of_client(client) == before
            assert silent or client.phase in (Phase.DONE, Phase.ABORTED)
            return False
        assert not silent
        assert client._secrets is None
        return True

    def _resume(self, live: Live, u: int, data: bytes) -> None:
        more = {"history": live.clients[u]._history, **signing(live.params, u)}
        try:
            assert self.kind.resume(live.params, data, **more).suspend() == data
            live.clients[u] = self.kind.resume(live.params, data, **more)
        except ToolkitError as error:
            raise AssertionError("a client does not go on from its own bytes") from error

    @rule(data=st.data(), u=st.sampled_from(FOUR))
    def notify(self, data: st.DataObject, u: int) -> None:
        live = self._any_live(data)
        self._ask(live, u, lambda: live.server.notice(u))

    @rule(
        data=st.data(),
        u=st.sampled_from(FOUR),
        chosen=st.sampled_from(SETS),
        early_or_late=st.sampled_from([None, None, None, *QUESTION.values()]),
        strict=st.booleans(),
    )
    def forge(
        self,
        data: st.DataObject,
        u: int,
        chosen: tuple[int, ...],
        early_or_late: type[RoundMessage] | None,
        strict: bool,
    ) -> None:
        """A question about other clients than the server asks about.

        strict: with the signatures on this very set only, as many as there are.
        """
        live = self._any_live(data)
        agreed, packed = live.params, bits(live.params, *chosen)
        kind = early_or_late or QUESTION.get(live.server.step, Roster)
        fields: dict[str, bytes] = {"members": packed}
        if kind is Roster:
            rows = [self._latest(AdvertiseKeys, v, agreed, data) for v in chosen]
            if None in rows:
                return
            fields["keys"] = b"".join(row.keys for row in rows if row)
            fields["signatures"] = b"".join(row.signature for row in rows if row)
        elif kind is Delivered:
            nothing = bytes(SEALED_BYTES)  # of who has sealed nothing for this client
            pieces = [live.sealed.get((v, u), nothing) for v in chosen if v != u]
            fields["sealed"] = b"".join(pieces)
        elif kind is UnmaskRequest and agreed.malicious:
            signed = {
                v: text for (v, of), text in live.signed.items() if of == packed or not strict
            }
            fields["signers"] = bits(agreed, *signed)
            fields["signatures"] = b"".join(signed[v] for v in sorted(signed))
        message = kind.make(agreed.session, agreed.round, u, **fields)
        self._to_client(live, u, kind, message.to_bytes(), forged=True)

    # Parties.

    def _any_live(self, data: st.DataObject) -> Live:
        return self.live[data.draw(st.integers(0, len(self.live) - 1))]

    def _advertise(self, live: Live, u: int) -> None:
        client = live.clients.get(u)
        if client is None:
            return
        before, silent = state_of_client(client), (live.params.session, u) in self.burnt
        try:
            message = client.advertise()
        except StateError:
            if client.phase is Phase.ABORTED and before != state_of_client(client):
                self._is_over(live, client)
                return
            assert state_of_client(client) == before
            assert silent or client.phase is not Phase.NEW
            return
        assert not silent
        self.mail.append((AdvertiseKeys, message.to_bytes()))
        self._to_server(live, AdvertiseKeys, message.to_bytes())

    def _ask(self, live: Live, u: int, ask: Callable[[], RoundMessage]) -> None:
        before = state_of_server(live.server)
        try:
            question = ask()
        except StateError:
            assert state_of_server(live.server) == before
            return
        self.mail.append((type(question), question.to_bytes()))
        reply = self._to_client(live, u, type(question), question.to_bytes())
        if reply is not None:
            self._to_server(live, type(reply), reply.to_bytes())

    def _to_client(
        self, live: Live, u: int, kind: type[RoundMessage], data: bytes, *, forged: bool = False
    ) -> RoundMessage | None:
        client = live.clients.get(u)
        if client is None:
            return None
        before, was, secrets = state_of_client(client), client.phase, client._secrets
        silent = (live.params.session, u) in self.burnt
        held = None if secrets is None else secrets._held
        try:
            message = live.params.decode(kind, data)
            reply = ANSWER[kind](client, message, live.x[u])
        except ToolkitError as error:
            self._typed(error)
            final = client.phase is Phase.ABORTED and was is not Phase.ABORTED
            if final and isinstance(error, StateError):
                self._is_over(live, client)
            elif final:
                assert not silent
                assert client._secrets is None
                self.burnt.add((live.params.session, u))
            else:
                assert state_of_client(client) == before
            # What a client aborts for, it has aborted for good.
            self._final_if_aborted(error, final)
            return None
        if reply is None:  # a notice, after which nothing is left
            assert client._secrets is None
            return None
        assert not silent
        live.forged |= forged and (kind, data) not in self.mail
        live.sent[u, type(reply).__name__] += 1
        self.mail.append((type(reply), reply.to_bytes()))
        if isinstance(reply, SharedKeys):
            peers = live.params.ids(live.params.peers(client.at, client._u1))
            for at, peer in enumerate(peers):
                live.sealed[u, peer] = reply.sealed[at * SEALED_BYTES : (at + 1) * SEALED_BYTES]
        elif isinstance(reply, ConsistencySignature):
            live.signed[u, client._signed] = reply.signature
        elif isinstance(reply, UnmaskShares):
            assert held is not None
            assert isinstance(message, UnmaskRequest)
            assert not live.params.malicious or (u, message.members) in live.signed
            self._note_shares(live, client, reply, held)
        return reply

    @staticmethod
    def _is_over(live: Live, client: Client) -> None:
        """A copy that came late: over, but not its session."""
        assert client.client in live.put_back
        assert client._secrets is None

    @staticmethod
    def _final_if_aborted(error: ToolkitError, final: bool) -> None:
        assert final or not isinstance(error, AbortError)

    @staticmethod
    def _typed(error: ToolkitError) -> None:
        """What is raised comes from the other side, or from the order of calls."""
        assert isinstance(error, WireError | PeerError | StateError | AbortError)

    def _note_shares(
        self, live: Live, client: Client, reply: UnmaskShares, held: NDArray[Any]
    ) -> None:
        owners = live.params.ids(live.params.within(client.at, client._u2))
        rows = unpack_rows(reply.shares, WORDS)
        for owner, row, both in zip(owners, rows, held, strict=True):
            matches = {kind for kind in (SEED, KEY) if np.array_equal(row, both[kind])}
            assert len(matches) == 1
            live.kinds[client.client, owner] |= matches

    def _to_server(self, live: Live, kind: type[RoundMessage], data: bytes) -> None:
        before = state_of_server(live.server)
        try:
            TAKE[kind](live.server, live.params.decode(kind, data))
        except ToolkitError as error:
            self._typed(error)
            assert state_of_server(live.server) == before

    def _close(self, live: Live, step: Step) -> None:
        server, before = live.server, state_of_server(live.server)
        close = {turn.step: turn.close for turn in turns(live.params)}.get(
            step, Server.close_signatures
        )
        was = server.step
        try:
            outcome = close(server)
        except StateError:
            assert was is not step
            assert state_of_server(server) == before
            return
        except AbortError:
            assert was is step
            assert server.step is Step.ABORTED
            assert not server._state.total.any()
            return
        assert was is step
        if step is Step.UNMASKING and not live.forged:
            survivors = server.members(Step.MASKED_INPUT)
            assert np.array_equal(outcome, total(live.params, live.x, survivors))

    # Parts of forged messages.

    def _latest(
        self, kind: type[AdvertiseKeys], u: int, agreed: RoundParams, data: st.DataObject
    ) -> AdvertiseKeys | None:
        """A client's keys of this round, or now and then of another one."""
        every = [kind.from_bytes(text) for found, text in self.mail if found is kind]
        own = [message for message in every if message.client == u]
        here = [m for m in own if (m.session, m.round) == (agreed.session, agreed.round)]
        if own and not data.draw(st.integers(0, 7)):
            return data.draw(st.sampled_from(own))
        return here[-1] if here else None

    # What holds in every state.

    @invariant()
    def one_answer_and_one_vector_for_each_client_and_round(self) -> None:
        for live in self.live:
            assert max(live.sent.values(), default=0) <= 1

    @invariant()
    def one_kind_of_share_for_each_peer(self) -> None:
        for live in self.live:
            assert all(len(kinds) == 1 for kinds in live.kinds.values())

    @precondition(lambda self: self.live and self.live[0].params.malicious)
    @invariant()
    def no_two_secrets_of_one_client_are_open(self) -> None:
        for live in self.live:
            for owner in FOUR:
                kinds = [k for (_, of), found in live.kinds.items() if of == owner for k in found]
                assert min(kinds.count(SEED), kinds.count(KEY)) < T


AnyNetwork.TestCase.settings = settings(stateful_step_count=40)
TestAnyNetwork = AnyNetwork.TestCase


@pytest.mark.deep
def test_a_thousand_networks_break_no_rule() -> None:
    run_state_machine_as_test(
        AnyNetwork, settings=settings(max_examples=1_000, stateful_step_count=60)
    )


# Broken twins, which the same machine refutes.


class Forgiving(Client):
    """A refusal leaves everything as it was, and is forgotten."""

    @contextmanager
    def _judged(self, before: Phase, after: Phase) -> Iterator[None]:
        yield
        self._turn = [after]


class Forgetful(Client):
    """A round is entered whatever the history holds."""

    def __init__(self, agreed: RoundParams, client: int, **more: Any) -> None:
        super().__init__(agreed, client, **{**more, "history": History()})


class Unmarked(Client):
    """Its steps are not written down."""

    def _claim(self, step: Step) -> None:
        return


@pytest.mark.parametrize("twin", [AnswersTwice, Forgiving, Forgetful, Unmarked])
def test_a_broken_twin_is_caught(twin: type[Client]) -> None:
    @seed(0)
    class Broken(AnyNetwork):
        kind = twin

    # A hundred examples find most of them, and rare ones take some hundreds.
    once = settings(
        max_examples=3_000,
        stateful_step_count=40,
        phases=[Stage.generate],
        database=None,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=once)
