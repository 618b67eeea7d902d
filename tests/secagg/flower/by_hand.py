"""Rounds whose server's part a test plays itself, request by request, with clients on a grid.

Each client is a node that runs ``SecAggMod``; here it looks like a ``secagg.full`` client, so that
whatever drives one of those drives this one: an honest server, or ``tests.secagg.full.hostile``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
    UserConfig,
)
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from mpc.core.errors import ToolkitError
from mpc.core.ring import Ring
from secagg.flower.keyring import IDENTITY_PATH, OPERATOR, ROSTER_PATH, write_identity
from secagg.flower.mod import SecAggMod
from secagg.flower.records import (
    HELLO,
    RECORD,
    Answer,
    Code,
    Hello,
    Request,
    add_request,
    read_answer,
)
from secagg.flower.store import STATE_PATH
from secagg.flower.terms import Terms, content_digest, context
from secagg.flower.training import model_of
from secagg.full.announcement import Announcement
from secagg.full.messages import (
    AdvertiseKeys,
    ConsistencySignature,
    Delivered,
    MaskedInput,
    Roster,
    SharedKeys,
    Step,
    SurvivorsRequest,
    UnmaskRequest,
    UnmaskShares,
)
from secagg.full.params import RoundParams, Variant
from secagg.full.server import Server
from secagg.signed_roster import Entry, SignedRoster
from tests.secagg.full.world import SESSION, identity
from tests.support.flower_grid import LocalGrid

MODEL: dict[str, NDArray[Any]] = {
    "dense": np.zeros((3, 2), np.float32),
    "bias": np.zeros(2, np.float64),
    "scale": np.zeros((), np.float16),
}
CLIP, FRAC_BITS, RING_BITS, MAX_WEIGHT = 8.0, 16, 44, 100
METRICS = {"loss": 10.0}
OPERATOR_KEY = identity(999)

Train = Callable[[Message, Context], Message]


class DeclinedError(ToolkitError):
    """A node sent an error instead of an answer."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def arrays(named: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in named.items()})


def train_content(**config: float) -> RecordDict:
    return RecordDict({"arrays": arrays(MODEL), "config": ConfigRecord({"lr": 0.5, **config})})


def trained(partition: int) -> dict[str, NDArray[Any]]:
    """What the node with this number makes of the model: other numbers in each array."""
    return {
        name: (array + 0.25 * partition + at).astype(array.dtype)
        for at, (name, array) in enumerate(MODEL.items())
    }


def weight(partition: int) -> int:
    return partition + 1


def train(message: Message, ctx: Context) -> Message:
    """The training function of these tests."""
    partition = int(ctx.node_config["partition-id"])
    metrics = MetricRecord({"num-examples": weight(partition), "loss": 0.5 * partition})
    metrics["secret"] = 0.123456789
    content = RecordDict({"arrays": arrays(trained(partition)), "metrics": metrics})
    return Message(content, reply_to=message)


def app(function: Train = train, *mods: Any) -> ClientApp:
    made = ClientApp(mods=list(mods) or [SecAggMod()])
    made.train()(function)

    def evaluate(message: Message, ctx: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"seen": 1})}), reply_to=message)

    made.evaluate()(evaluate)
    return made


def mean(partitions: Iterable[int]) -> dict[str, NDArray[Any]]:
    """The weighted mean that a sum over these nodes holds."""
    who = list(partitions)
    total = sum(weight(p) for p in who)
    weighted = {
        name: [weight(p) * trained(p)[name].astype(np.float64) for p in who] for name in MODEL
    }
    return {name: np.sum(parts, axis=0) / total for name, parts in weighted.items()}


@dataclass
class Keys:
    """Files of a malicious round: identities, the operator's roster, and marks."""

    folder: Path
    clients: tuple[int, ...]
    on_disk: bool = True
    node_config: dict[int, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        entries = [Entry(u, f"client {u}", identity(u).public) for u in self.clients]
        self.roster = SignedRoster.sign(entries, OPERATOR_KEY)
        self.roster.write(self.folder / "roster.bin")
        for client in self.clients:
            path = self.folder / f"{client}.key"
            write_identity(path, identity(client))
            self.node_config[client] = {
                IDENTITY_PATH: str(path),
                ROSTER_PATH: str(self.folder / "roster.bin"),
                OPERATOR: OPERATOR_KEY.public.hex(),
            }
            if self.on_disk:
                self.node_config[client][STATE_PATH] = str(self.folder / f"{client}.marks")


class RemoteClient:
    """A node's client, as a server sees it. What the node declines raises DeclinedError."""

    def __init__(self, round: "Round", client: int) -> None:
        self._round, self.client = round, client

    def ask(self, step: int, data: bytes = b"", **more: Any) -> Answer:
        """Any request; its answer."""
        request = Request(step, self._round.params.session, self._round.params.round, self.client)
        return self._round.ask(self.client, replace(request, data=data, **more))

    def hello(self) -> Hello:
        return Hello.from_bytes(self.ask(HELLO).data)

    def advertise(self) -> AdvertiseKeys:
        announced, terms = self._round.announcement, self._round.terms.to_bytes()
        answer = self.ask(Step.ADVERTISE_KEYS, announced, terms=terms)
        return AdvertiseKeys.from_bytes(answer.data)

    def share_keys(self, roster: Roster) -> SharedKeys:
        bound = self._round.params.context
        answer = self.ask(Step.SHARE_KEYS, roster.to_bytes(), context=bound)
        return SharedKeys.from_bytes(answer.data)

    def mask(self, delivered: Delivered, x: object = None) -> MaskedInput:
        payload = self.ask(Step.MASKED_INPUT, delivered.to_bytes()).data
        params = self._round.params
        route = (params.session, params.round, self.client)
        return MaskedInput.make(*route, bits=params.ring.bits, payload=payload)

    def sign_survivors(self, request: SurvivorsRequest) -> ConsistencySignature:
        answer = self.ask(Step.CONSISTENCY_CHECK, request.to_bytes())
        return ConsistencySignature.from_bytes(answer.data)

    def unmask(self, request: UnmaskRequest, **more: Any) -> UnmaskShares:
        answer = self.ask(Step.UNMASKING, request.to_bytes(), **more)
        self.offered = answer.offer
        return UnmaskShares.from_bytes(answer.data)


class Round:
    """One round over a grid: its params, its clients by id, and an honest server.

    The client with id u runs on the grid's node number u - 1.
    """

    def __init__(
        self,
        grid: LocalGrid,
        *,
        variant: Variant = "semi-honest",
        round: int = 0,
        threshold: int | None = None,
        content: RecordDict | None = None,
        session: bytes = SESSION,
        keys: Keys | None = None,
        metrics: Mapping[str, float] = METRICS,
        parties: int | None = None,
    ) -> None:
        self.grid, self.nodes = grid, list(grid.configs)
        n = len(self.nodes)
        self.content = train_content() if content is None else content
        self.terms = Terms.make(
            clip=CLIP,
            frac_bits=FRAC_BITS,
            ring_bits=RING_BITS,
            parties=n if parties is None else parties,
            max_weight=MAX_WEIGHT,
            weight_key="num-examples",
            metrics=metrics,
        )
        self.codec = self.terms.codec(model_of(self.content)[1])
        self.unbound = RoundParams(
            session,
            round,
            tuple(range(1, n + 1)),
            n // 2 + 1 if threshold is None else threshold,
            Ring(RING_BITS),
            self.codec.size,
            variant,
        )
        listed = b"" if keys is None else keys.roster.digest
        bound = context(self.terms, content_digest(self.content), "train", listed)
        self.params = self.unbound.with_context(bound)
        self.announcement = Announcement.of(self.unbound).to_bytes()
        self.clients = {u: RemoteClient(self, u) for u in self.params.clients}
        identities = None if keys is None else keys.roster
        self.server = Server(self.params, identities=identities)

    def node(self, client: int) -> int:
        return self.nodes[client - 1]

    def message(self, client: int, request: Request) -> Message:
        """The request as it arrives at the client's node."""
        return self.grid.forged(add_request(self.content, request), self.node(client))

    def ask(self, client: int, request: Request) -> Answer:
        reply = self.grid.deliver(self.message(client, request))
        return answer_in(reply)

    # An honest server, up to the end of a step.

    def advertise(self, *who: int) -> None:
        for u in who or self.params.clients:
            self.server.receive_keys(self.clients[u].advertise())
        self.server.close_keys()

    def share(self, *who: int) -> None:
        for u in who or self.server.members(Step.ADVERTISE_KEYS):
            self.server.receive_shares(self.clients[u].share_keys(self.server.roster(u)))
        self.server.close_shares()

    def mask(self, *who: int) -> None:
        for u in who or self.server.members(Step.SHARE_KEYS):
            self.server.receive_masked(self.clients[u].mask(self.server.delivery(u)))
        self.server.close_masked()

    def sign(self, *who: int) -> None:
        if self.params.malicious:
            for u in who or self.server.members(Step.MASKED_INPUT):
                request = self.server.survivors_request(u)
                self.server.receive_signature(self.clients[u].sign_survivors(request))
            self.server.close_signatures()

    def unmask(self, *who: int, **more: Any) -> dict[str, NDArray[Any]]:
        """The means of arrays and metrics."""
        last = Step.CONSISTENCY_CHECK if self.params.malicious else Step.MASKED_INPUT
        for u in who or self.server.members(last):
            request = self.server.unmask_request(u)
            self.server.receive_unmask(self.clients[u].unmask(request, **more))
        return self.codec.means(self.server.close_unmask())

    def upto(self, step: Step) -> "Round":
        """All steps before ``step``, with everybody."""
        steps = {
            Step.ADVERTISE_KEYS: self.advertise,
            Step.SHARE_KEYS: self.share,
            Step.MASKED_INPUT: self.mask,
            Step.CONSISTENCY_CHECK: self.sign,
        }
        for due, run in steps.items():
            if due < step:
                run()
        return self


def answer_in(reply: Message | None) -> Answer:
    """The answer in a reply; DeclinedError for an error."""
    assert reply is not None
    if reply.has_error():
        raise DeclinedError(reply.error.code, str(reply.error.reason))
    return read_answer(reply.content)


def grid_of(
    n: int,
    make_app: Callable[[], ClientApp] = app,
    *,
    keys: Keys | None = None,
    more: Mapping[int, Mapping[str, Any]] | None = None,
    **options: Any,
) -> LocalGrid:
    """n nodes; client u on number u - 1, with its files, and whatever ``more`` says for it."""
    plain = LocalGrid(make_app, n)
    configs: dict[int, UserConfig] = {}
    for u, (node, config) in enumerate(plain.configs.items(), 1):
        own: dict[str, Any] = {} if keys is None else dict(keys.node_config.get(u, {}))
        configs[node] = {**config, **own, **(more or {}).get(u, {})}
    return LocalGrid(make_app, configs, **options)


def code_of(error: BaseException) -> Code:
    assert isinstance(error, DeclinedError)
    return Code(error.code)


def stored(grid: LocalGrid, client: int) -> bytes:
    """What a client's node has of ours, as bytes; empty where there is nothing."""
    state = grid.state(list(grid.configs)[client - 1])
    return bytes(state.config_records[RECORD]["data"]) if RECORD in state else b""  # type: ignore[arg-type]
