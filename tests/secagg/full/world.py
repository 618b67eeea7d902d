"""Rounds for tests: parameters, identities, inputs, and parties brought to a chosen step."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.ring import Ring
from secagg.full.client import Client, Phase
from secagg.full.identity import Identity, MemoryIdentities
from secagg.full.messages import RoundMessage, Step, UnmaskRequest
from secagg.full.neighbourhoods import NeighbourGraph
from secagg.full.params import RoundParams, Variant
from secagg.full.run import DropOuts, LocalRound, Outcome
from secagg.full.server import Server

SESSION = bytes(range(16))
OTHER_SESSION = bytes(16)
CLIENTS = (2, 5, 9, 11, 40)
VARIANTS: tuple[Variant, ...] = ("semi-honest", "malicious")


def params(
    clients: Sequence[int] = CLIENTS,
    *,
    threshold: int = 3,
    bits: int = 32,
    dim: int = 4,
    variant: Variant = "semi-honest",
    round: int = 7,
    session: bytes = SESSION,
    graph: NeighbourGraph | None = None,
    **more: Any,
) -> RoundParams:
    return RoundParams(
        session,
        round,
        tuple(clients),
        threshold,
        Ring(bits),
        dim,
        variant,
        graph=graph,
        **more,
    )


class Circle:
    """Each client beside the ``reach`` on either side of it, round a circle in rising order."""

    def __init__(self, clients: Sequence[int], reach: int) -> None:
        self._clients, self._reach = tuple(clients), reach

    def neighbours(self, client: int) -> tuple[int, ...]:
        at, n = self._clients.index(client), len(self._clients)
        steps = (s for step in range(1, self._reach + 1) for s in (step, -step))
        return tuple(sorted({self._clients[(at + s) % n] for s in steps} - {client}))


def identity(client: int) -> Identity:
    return Identity(hashlib.sha256(b"test identity %d" % client).digest())


def identities(clients: Sequence[int] = CLIENTS) -> MemoryIdentities:
    return MemoryIdentities({client: identity(client).public for client in clients})


def signing(agreed: RoundParams, client: int) -> dict[str, Any]:
    """What a client of the variant takes besides the params."""
    if not agreed.malicious:
        return {}
    return {"identity": identity(client), "identities": identities(agreed.clients)}


def inputs(agreed: RoundParams, seed: int = 0) -> dict[int, NDArray[Any]]:
    shape = (len(agreed.clients), agreed.dim)
    words = np.random.default_rng(seed).integers(0, 2**63, shape, dtype=np.uint64)
    return dict(zip(agreed.clients, agreed.ring.reduce(words), strict=True))


def total(agreed: RoundParams, x: dict[int, NDArray[Any]], of: Sequence[int]) -> NDArray[Any]:
    return agreed.ring.sum(np.stack([x[client] for client in of]), axis=0)


def local(agreed: RoundParams, x: dict[int, NDArray[Any]] | None = None, **more: Any) -> LocalRound:
    """All parties of a round, with the identities of tests."""
    known: dict[str, Any] = {}
    if agreed.malicious:
        known = {
            "identity": {client: identity(client) for client in agreed.clients},
            "identities": identities(agreed.clients),
        }
    return LocalRound(agreed, inputs(agreed) if x is None else x, **known, **more)


def run(agreed: RoundParams, drop_outs: DropOuts | None = None, **more: Any) -> Outcome:
    return local(agreed, drop_outs=drop_outs, **more).run()


class Driven:
    """A round that a test drives step by step, every message by way of its bytes.

    kind: what client ``victim`` is made of, so that a test can put in one that lacks a check.
    """

    def __init__(
        self,
        agreed: RoundParams,
        *,
        victim: int = CLIENTS[0],
        kind: Callable[..., Client] = Client,
        **more: Any,
    ) -> None:
        self.params, self.victim = agreed, victim
        self.x = inputs(agreed)
        known = identities(agreed.clients) if agreed.malicious else None
        self.server = Server(agreed, identities=known)
        self.clients = {
            client: (kind if client == victim else Client)(
                agreed, client, **signing(agreed, client), **(more if client == victim else {})
            )
            for client in agreed.clients
        }

    def keys(self, without: Sequence[int] = ()) -> "Driven":
        """Step 1 is closed."""
        for client in self.params.clients:
            if client not in without:
                self.server.receive_keys(self.clients[client].advertise())
        self.server.close_keys()
        return self

    def shares(self, without: Sequence[int] = ()) -> "Driven":
        """Step 2 is closed."""
        for client in self.server.members(Step.ADVERTISE_KEYS):
            if client not in without:
                shared = self.clients[client].share_keys(self.server.roster(client))
                self.server.receive_shares(shared)
        self.server.close_shares()
        return self

    def masked(self, without: Sequence[int] = ()) -> "Driven":
        """Step 3 is closed."""
        for client in self.server.members(Step.SHARE_KEYS):
            if client not in without:
                delivery = self.server.delivery(client)
                masked = self.clients[client].mask(delivery, self.x[client])
                self.server.receive_masked(masked)
        self.server.close_masked()
        return self

    def signed(self, without: Sequence[int] = ()) -> "Driven":
        """Step 4 is closed; it is skipped in the semi-honest variant."""
        if self.params.malicious:
            for client in self.server.members(Step.MASKED_INPUT):
                if client not in without:
                    request = self.server.survivors_request(client)
                    self.server.receive_signature(self.clients[client].sign_survivors(request))
            self.server.close_signatures()
        return self

    def opened(self, without: Sequence[int] = ()) -> "Driven":
        """Everybody asked has answered in step 5, which stays open."""
        last = Step.CONSISTENCY_CHECK if self.params.malicious else Step.MASKED_INPUT
        for client in self.server.members(last):
            if client not in without:
                request = self.server.unmask_request(client)
                self.server.receive_unmask(self.clients[client].unmask(request))
        return self

    def before(self, step: Step) -> "Driven":
        """All steps before ``step`` are closed, nobody missing."""
        calls = [self.keys, self.shares, self.masked, self.signed, self.opened]
        for call in calls[: step - 1]:
            call()
        return self

    @property
    def client(self) -> Client:
        """The victim."""
        return self.clients[self.victim]

    def question(self) -> UnmaskRequest:
        """What the victim is asked honestly in step 5."""
        return self.server.unmask_request(self.victim)


def bits(agreed: RoundParams, *clients: int) -> bytes:
    """A set of clients as it travels."""
    members = np.array([client in clients for client in agreed.clients], np.bool_)
    return agreed.pack_set(members)


def changed(message: RoundMessage, **fields: Any) -> Any:
    """The message with some fields replaced."""
    own = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message)(**{**own, **fields})


def phase(client: Client) -> Phase:
    return client.phase  # through a call, since a type checker takes it for unchanging
