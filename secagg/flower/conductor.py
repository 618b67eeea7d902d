"""The server's half: round after round over a grid, with as few trips as there can be.

    conductor = Conductor(grid, config)
    mean, outcome = conductor.train(Order.of(messages), timeout=3600)

Semi-honest, a round takes four trips: keys, shares, inputs, unmasking. Malicious, five, since the
survivors are signed in a trip of their own, before anybody unmasks. With the last step's request
the server announces the next round for those same clients, and who answers sends its keys along: if
the next round is then for exactly them, it begins with the second step.

Source: ours; the protocol is ``secagg.full.server``.
Model: this code is an honest server. Its clients' policies and checks are against one that is not.
Leaks: as ``secagg.full.server``; the mean, and the sum of weights, of the survivors.
Error: that of ``secagg.vectors``, and the rounding of a mean to its array's own dtype.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError, PeerError, WireError
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.flower.addresses import Addresses
from secagg.flower.config import SecAggConfig
from secagg.flower.exchange import Clock, Exchanged, exchange
from secagg.flower.order import Order
from secagg.flower.outcome import Missing, RoundOutcome
from secagg.flower.records import HELLO, Answer, Code, Hello, Request, read_answer
from secagg.flower.terms import METRIC, Terms, context
from secagg.flower.training import model_of
from secagg.full.announcement import Announcement
from secagg.full.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    MaskedInput,
    RoundMessage,
    SharedKeys,
    Step,
    UnmaskShares,
)
from secagg.full.params import RoundParams
from secagg.full.server import Server
from secagg.messages import MAX_ID, SESSION_BYTES
from secagg.quantize import MAX_BITS
from secagg.signed_roster import SignedRoster
from secagg.vectors import VectorCodec

_M = TypeVar("_M", bound=RoundMessage)


@dataclass(frozen=True)
class Mean:
    """What a round gives: means of arrays, in their dtypes (float64 for integers), and metrics."""

    arrays: dict[str, NDArray[Any]] = field(repr=False)
    metrics: dict[str, float] = field(repr=False)


@dataclass
class _Progress:
    """What has happened in a round so far."""

    round: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    def lose(self, step: str, reasons: Mapping[int, str]) -> None:
        self.missing += [Missing(step, node, why) for node, why in reasons.items()]

    def outcome(self, **more: Any) -> RoundOutcome:
        return RoundOutcome(
            self.round, missing=tuple(self.missing), seconds=dict(self.seconds), **more
        )


@dataclass(frozen=True)
class _Planned:
    """A round before it begins. quorum: how many are counted on, of those who begin."""

    params: RoundParams
    terms: Terms
    codec: VectorCodec
    quorum: int


@dataclass(frozen=True)
class _Offer:
    """A round that was announced with the last step of the one before, and has keys already.

    nodes: by client.  server: its step 1 is open.
    """

    plan: _Planned
    nodes: dict[int, int]
    server: Server

    def serves(self, plan: _Planned, nodes: dict[int, int]) -> bool:
        """Whether it is the round that is wanted now, and everybody has sent keys for it."""
        same = self.nodes == nodes and self.plan.terms == plan.terms
        return same and self.plan.params.dim == plan.params.dim and not self.server.missing()


class Conductor:
    """A session: its name, its clients, its next round. A new one after a round that was refused.

    grid: Flower's own.  clock: a test has its own.
    Raises what ``SignedRoster.from_file`` does for the roster of the config.
    """

    def __init__(
        self,
        grid: Grid,
        config: SecAggConfig,
        *,
        clock: Clock | None = None,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        self.grid, self.config = grid, config
        self.clock = Clock() if clock is None else clock
        self._rng = rng
        self.roster = None
        if config.roster is not None and config.operator is not None:
            self.roster = SignedRoster.from_file(config.roster, config.operator)
        self._begin()

    def _begin(self) -> None:
        """A new session: nobody has refused it, and nobody is known in it."""
        self.session = self._rng.bytes(SESSION_BYTES)
        self._addresses = Addresses(self.roster)
        self._greeted: set[int] = set()  # or declined; some are unknown all the same
        self._next = 0
        self._offer: _Offer | None = None

    def train(self, order: Order, timeout: float | None) -> tuple[Mean | None, RoundOutcome]:
        """One round. No mean, and the reason in the outcome, if too few are left in some step.

        timeout: seconds for all of it; each step has a deadline of its own besides.
        Raises ParameterError for a model that the config has no place for.
        """
        offer, self._offer = self._offer, None
        progress = _Progress(self._next)
        end = None if timeout is None else self.clock.now() + timeout
        steps = _Steps(self, order, progress, end)
        try:
            nodes = self._nodes(order, steps)
            if len(nodes) < self.config.min_clients:
                raise AbortError(f"{len(nodes)} clients of {self.config.min_clients} needed")
            plan = self._planned(order, nodes)
            if offer is not None and offer.serves(plan, nodes):
                plan = replace(plan, params=offer.plan.params)
                server = offer.server
            else:
                server = Server(plan.params, identities=self.roster)
                self._next += 1
            progress.round = plan.params.round
            done = _Round(self, plan, nodes, steps, server)
            mean = _mean(plan.codec, done.run())
        except AbortError as error:
            if steps.refused:
                # Who has refused is gone for the session, and one that seals nonsense for its peers
                # makes all of them refuse.
                self._begin()
            return None, progress.outcome(aborted=str(error))
        self._offer = done.offered
        survivors, altered = done.survivors()
        return mean, progress.outcome(survivors=survivors, altered=altered)

    def announce(self, plan: _Planned, nodes: dict[int, int]) -> _Offer | None:
        """The round after this one for ``nodes``, if the plan allows one; takes up a number."""
        if len(nodes) < self.config.min_clients or self._next > MAX_ID:
            return None
        try:
            following = self._for(plan.codec, tuple(nodes))
        except AbortError:
            return None
        self._next += 1
        return _Offer(following, nodes, Server(following.params, identities=self.roster))

    def _nodes(self, order: Order, steps: "_Steps") -> dict[int, int]:
        """The nodes of the order that are clients, by client."""
        if self.roster is None:
            self._addresses.number(order.nodes)
        elif self._addresses.unknown(order.nodes):
            self._addresses.learn(self.grid.get_nodes())
            unknown = set(self._addresses.unknown(order.nodes)) - self._greeted
            if unknown:
                self._greet([node for node in order.nodes if node in unknown], steps)
        nodes, without = self._addresses.clients(order.nodes)
        told = {gone.node for gone in steps.progress.missing}
        steps.progress.lose("Hello", {n: why for n, why in without.items() if n not in told})
        return nodes

    def _greet(self, unknown: Sequence[int], steps: "_Steps") -> None:
        """Ask nodes who they are: once a session, unless they gave no answer."""

        def take(node: int, answer: Answer) -> None:
            self._greeted.add(node)
            self._addresses.greet(node, Hello.from_bytes(answer.data), self.session)

        requests = {node: Request(HELLO, self.session, self._next, client=0) for node in unknown}
        self._greeted |= set(steps.run("Hello", requests, take, quorum=len(unknown)).declined)

    def _planned(self, order: Order, nodes: dict[int, int]) -> _Planned:
        _, model = model_of(order.content)
        n = len(nodes)
        # In the widest ring first: the largest entry says which one is enough.
        widest = self.config.terms(n, MAX_BITS).codec(model)
        return self._for(widest, tuple(nodes))

    def _for(self, codec: VectorCodec, clients: tuple[int, ...]) -> _Planned:
        """The next round, of ``clients``. AbortError if so few cannot have one."""
        config, n = self.config, len(clients)
        try:
            chosen = config.plan(n, codec.largest)
            ring = chosen.ring
            graph = None if chosen.is_complete else chosen.graph(clients, rng=self._rng)
            params = RoundParams(
                self.session,
                self._next,
                clients,
                chosen.threshold if config.threshold is None else config.threshold,
                ring,
                codec.size,
                config.variant,
                chosen.corrupt_clients,
                config.min_clients,
                graph,
            )
        except ParameterError as error:
            raise AbortError(f"no round of {n} clients: {error}") from error
        terms = config.terms(n, ring.bits)
        fitting = replace(codec, ring=ring, parties=n)
        quorum = max(params.least, n - chosen.dropped_clients)
        return _Planned(params, terms, fitting, quorum)


class _Steps:
    """Trips of one round: requests out, answers read and checked, losses noted."""

    def __init__(
        self, conductor: Conductor, order: Order, progress: _Progress, end: float | None
    ) -> None:
        self._grid, self._config = conductor.grid, conductor.config
        self._clock, self.order = conductor.clock, order
        self.progress, self._end = progress, end
        self.refused = False

    def run(
        self,
        title: str,
        requests: Mapping[int, Request],
        take: Callable[[int, Answer], None],
        *,
        quorum: int,
    ) -> Exchanged:
        """One trip. requests, and what ``take`` is told: by node."""
        trains = any(request.step == Step.MASKED_INPUT for request in requests.values())
        deadline = self._config.train_deadline if trains else self._config.deadline
        if self._end is not None:
            deadline = min(deadline, self._end - self._clock.now())
        if deadline <= 0:
            raise AbortError(f"the time for this round is over before {title}")

        def judged(node: int, reply: Message) -> None:
            take(node, _answer(requests[node], reply))

        done = exchange(
            self._grid,
            [self.order.message(node, request, deadline) for node, request in requests.items()],
            judged,
            deadline=deadline,
            quorum=quorum,
            grace=self._config.grace,
            clock=self._clock,
        )
        self.progress.seconds[title] = done.seconds
        self.progress.lose(title, done.missing)
        self.refused |= Code.REFUSED in done.declined.values()
        return done


class _Round:
    """One round of clients on nodes, from its first trip to the sum.

    server: in step 1; where nobody is missing in it, that trip is saved.
    """

    def __init__(
        self,
        conductor: Conductor,
        plan: _Planned,
        nodes: dict[int, int],
        steps: _Steps,
        server: Server,
    ) -> None:
        self._conductor, self._plan, self._nodes, self._steps = conductor, plan, nodes, steps
        self._clients = {node: client for client, node in nodes.items()}
        self._server = server
        self._answered: list[int] = []
        self.offered: _Offer | None = None

    def run(self) -> RingArray:
        """The sum over the survivors. AbortError if too few are left in some step."""
        server, plan, order = self._server, self._plan, self._steps.order
        ask, step = self._request, Step.ADVERTISE_KEYS
        if server.missing():
            announced = {
                "data": Announcement.of(plan.params).to_bytes(),
                "terms": plan.terms.to_bytes(),
            }
            asked = [ask(step, client, **announced) for client in plan.params.clients]
            self._trip(step, asked, AdvertiseKeys, server.receive_keys)
        clients = self._closed(step, server.close_keys)
        known = self._conductor.roster
        roster = b"" if known is None else known.digest
        bound = context(plan.terms, order.digest, order.message_type, roster)
        step = Step.SHARE_KEYS
        server.bind(bound)
        asked = [ask(step, c, server.roster(c).to_bytes(), context=bound) for c in clients]
        self._trip(step, asked, SharedKeys, server.receive_shares)
        clients, step = self._closed(step, server.close_shares), Step.MASKED_INPUT
        asked = [ask(step, c, server.delivery(c).to_bytes()) for c in clients]
        self._trip(step, asked, MaskedInput, server.receive_masked)
        clients = self._closed(step, server.close_masked)
        if plan.params.malicious:
            step = Step.CONSISTENCY_CHECK
            asked = [ask(step, c, server.survivors_request(c).to_bytes()) for c in clients]
            self._trip(step, asked, ConsistencySignature, server.receive_signature)
            clients = self._closed(step, server.close_signatures)
        self._unmask(clients)
        return server.close_unmask()

    def survivors(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The nodes in the sum, and those that sent other shares than they were dealt."""
        summed = self._server.members(Step.MASKED_INPUT)
        nodes = tuple(self._nodes[client] for client in summed)
        return nodes, tuple(self._nodes[client] for client in self._server.altered)

    def _unmask(self, clients: Sequence[int]) -> None:
        params, step = self._plan.params, Step.UNMASKING
        more: dict[str, bytes] = {}
        nodes = {client: self._nodes[client] for client in clients}
        offer = self._conductor.announce(self._plan, nodes)
        if offer is not None:
            more["offer"] = Announcement.of(offer.plan.params).to_bytes()
            more["terms"] = offer.plan.terms.to_bytes()
        asked = [
            self._request(step, c, self._server.unmask_request(c).to_bytes(), **more)
            for c in clients
        ]
        # In the complete graph any t answers will do; in a sparse one, t in each neighbourhood.
        complete = params.neighbourhoods.complete
        quorum = params.threshold if complete else self._plan.quorum
        receive = self._server.receive_unmask
        self._trip(step, asked, UnmaskShares, receive, offer=offer, quorum=quorum)
        self.offered = offer

    def _request(self, step: Step, client: int, data: bytes, **more: bytes) -> Request:
        params = self._plan.params
        return Request(step, params.session, params.round, client, data, **more)

    def _trip(
        self,
        step: Step,
        asked: Sequence[Request],
        kind: type[_M],
        receive: Callable[[_M], None],
        *,
        offer: _Offer | None = None,
        quorum: int | None = None,
    ) -> None:
        """Send the requests; what comes back is decoded, judged and received."""
        self._answered = []

        def take(node: int, answer: Answer) -> None:
            client = self._clients[node]
            message = self._read(kind, client, answer.data)
            receive(message)
            self._answered.append(client)
            if offer is not None and answer.offer:
                _keep(offer, client, answer.offer)

        requests = {self._nodes[request.client]: request for request in asked}
        enough = self._plan.quorum if quorum is None else quorum
        self._steps.run(step.title, requests, take, quorum=enough)

    def _read(self, kind: type[_M], client: int, data: bytes) -> _M:
        """The message that ``client`` sent for itself. WireError or PeerError if there is none."""
        params = self._plan.params
        if kind is MaskedInput:  # the payload alone travels
            route = (params.session, params.round, client)
            return kind.make(*route, bits=params.ring.bits, payload=data)
        message = params.decode(kind, data)
        if message.client != client:
            raise PeerError(f"client {client} answers for client {message.client}", party=client)
        return message

    def _closed(self, step: Step, close: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """Who goes on after ``step``."""
        clients = close()
        alone = set(self._answered).difference(clients)
        why = "too few of those that it shares secrets with are left"
        self._steps.progress.lose(
            step.title, {self._nodes[client]: why for client in sorted(alone)}
        )
        return clients


def _keep(offer: _Offer, client: int, data: bytes) -> None:
    """Keys for the next round. Where they are none, its clients will all be asked again."""
    with suppress(WireError, PeerError):
        keys = offer.plan.params.decode(AdvertiseKeys, data)
        if keys.client == client:
            offer.server.receive_keys(keys)


def _answer(request: Request, reply: Message) -> Answer:
    """The answer in a reply. WireError unless it is one to this very request."""
    if not reply.has_content():
        raise WireError("the reply is empty")
    answer = read_answer(reply.content)
    told = (answer.step, answer.session, answer.round)
    if told != (request.step, request.session, request.round):
        raise WireError(f"the reply is to another step: {answer.step} of round {answer.round}")
    if request.step != HELLO and answer.client != request.client:
        raise WireError(f"the reply is by client {answer.client}, asked was {request.client}")
    return answer


def _mean(codec: VectorCodec, total: RingArray) -> Mean:
    """What a sum says. AbortError if it has no meaning."""
    means = codec.means(total)
    arrays, metrics = {}, {}
    for entry in codec.fields:
        value = means[entry.name]
        if entry.name.startswith(METRIC):
            metrics[entry.name.removeprefix(METRIC)] = float(value)
        else:
            arrays[entry.name] = value if entry.is_integer else value.astype(entry.dtype)
    return Mean(arrays, metrics)
