"""A whole round in one process, over an in-process network, with drop-outs at will.

Source: Bonawitz et al., CCS 2017, Figure 4.
Model: as ``secagg.full.client``; but all parties' secrets lie in this process, so it protects
    nobody from its owner: it is for tests, experiments and for measuring what the protocol costs.
    Every party does its own work, and every message travels as bytes.
Leaks: to the network's owner everything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.full.client import Client
from secagg.full.history import History
from secagg.full.identity import Identities, Identity, MemoryIdentities
from secagg.full.masking import Map
from secagg.full.messages import RoundMessage, Step
from secagg.full.params import RoundParams
from secagg.full.server import Server
from secagg.messages import SERVER

_M = TypeVar("_M", bound=RoundMessage)

Inputs = Mapping[int, RingArray] | Callable[[int], RingArray]
"""A client's vector (dim,), by its id; a function makes each when it is needed."""

DropOuts = Mapping[Step, Collection[int]]
"""Who leaves before answering in a step; whoever has left stays away."""


@dataclass(frozen=True)
class Outcome:
    """total: the sum (dim,) over ``survivors``.  altered: as ``Server.altered``."""

    total: RingArray = field(repr=False)
    survivors: tuple[int, ...]
    altered: tuple[int, ...] = ()


class LocalRound:
    """All parties of one round. ``run`` drives them; a test may drive them one by one.

    inputs: as ``Inputs``.  identity: in the malicious variant each client's signing key, and
    ``identities`` to find their public ones.  history: by client, for rounds of one session.
    network: counts messages and bytes by kind; its rounds are the steps.
    server, client: what makes the parties, so that a test can put in others.
    """

    def __init__(
        self,
        params: RoundParams,
        inputs: Inputs,
        *,
        drop_outs: DropOuts | None = None,
        identity: Mapping[int, Identity] | None = None,
        identities: Identities | None = None,
        history: Mapping[int, History] | None = None,
        rng: Rng = SYSTEM_RNG,
        prg: PrgFactory = Prg,
        network: LocalNetwork | None = None,
        make_client: Callable[..., Client] = Client,
        make_server: Callable[..., Server] = Server,
    ) -> None:
        self.params, self._inputs = params, inputs
        self._drop_outs = {} if drop_outs is None else drop_outs
        self.network = LocalNetwork() if network is None else network
        self.server = make_server(params, identities=identities, prg=prg)
        self.clients: dict[int, Client] = {}
        for client in params.clients:
            self.clients[client] = make_client(
                params,
                client,
                identity=None if identity is None else identity[client],
                identities=identities,
                history=None if history is None else history[client],
                rng=rng,
                prg=prg,
            )
        self._gone: set[int] = set()

    def run(self, *, map: Map = map, parts: int = 1) -> Outcome:
        """The round from the first step to the last. Raises AbortError as the server does."""
        present = self.params.clients
        server, clients = self.server, self.clients
        for u in self._staying(Step.ADVERTISE_KEYS, present):
            server.receive_keys(self._send(u, SERVER, clients[u].advertise()))
        present = server.close_keys()
        for u in self._staying(Step.SHARE_KEYS, present):
            roster = self._send(SERVER, u, server.roster(u))
            server.receive_shares(self._send(u, SERVER, clients[u].share_keys(roster)))
        present = server.close_shares()
        for u in self._staying(Step.MASKED_INPUT, present):
            delivery = self._send(SERVER, u, server.delivery(u))
            masked = clients[u].mask(delivery, self._input(u))
            server.receive_masked(self._send(u, SERVER, masked))
        present = server.close_masked()
        if self.params.malicious:
            for u in self._staying(Step.CONSISTENCY_CHECK, present):
                request = self._send(SERVER, u, server.survivors_request(u))
                signature = clients[u].sign_survivors(request)
                server.receive_signature(self._send(u, SERVER, signature))
            present = server.close_signatures()
        for u in self._staying(Step.UNMASKING, present):
            question = self._send(SERVER, u, server.unmask_request(u))
            server.receive_unmask(self._send(u, SERVER, clients[u].unmask(question)))
        total = server.close_unmask(map=map, parts=parts)
        self.network.next_round()
        for u in self._staying(Step.DONE, self.params.clients):
            clients[u].close(self._send(SERVER, u, server.notice(u)))
        return Outcome(total, server.members(Step.MASKED_INPUT), server.altered)

    def _staying(self, step: Step, present: Iterable[int]) -> list[int]:
        """Who answers in ``step``; a step is one round of the network."""
        if step not in (Step.ADVERTISE_KEYS, Step.DONE):
            self.network.next_round()
        self._gone.update(*(gone for at, gone in self._drop_outs.items() if at <= step))
        return [client for client in present if client not in self._gone]

    def _input(self, client: int) -> RingArray:
        return self._inputs(client) if callable(self._inputs) else self._inputs[client]

    def _send(self, sender: int, receiver: int, message: _M) -> _M:
        data = message.to_bytes()
        kind = type(message)
        if self.network.records:
            self.network.send(sender, receiver, kind.__name__, data)
            self.network.receive(receiver)  # this object acts for the receiver, too
        else:
            self.network.count(kind.__name__, 1, len(data))
        return self.params.decode(kind, data)


def run_round(
    params: RoundParams,
    inputs: Inputs,
    *,
    drop_outs: DropOuts | None = None,
    rng: Rng = SYSTEM_RNG,
    network: LocalNetwork | None = None,
    map: Map = map,
    parts: int = 1,
) -> Outcome:
    """One round among fresh parties; in the malicious variant with identities made for it.

    Raises AbortError as the server does.
    """
    identity = identities = None
    if params.malicious:
        identity = {client: Identity.generate(rng) for client in params.clients}
        identities = MemoryIdentities({client: own.public for client, own in identity.items()})
    parties = LocalRound(
        params,
        inputs,
        drop_outs=drop_outs,
        identity=identity,
        identities=identities,
        rng=rng,
        network=network,
    )
    return parties.run(map=map, parts=parts)
