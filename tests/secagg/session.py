"""Sessions for tests: parameters, members with fixed keys, and a session that has agreed."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.keys import KeyPair
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import Ring, RingArray
from secagg.client import PadClient
from secagg.messages import Roster
from secagg.params import PadParams
from secagg.server import PadServer
from secagg.watermark import MemoryWatermark

SESSION = bytes(range(16))
OTHER_SESSION = bytes(16)


def params(
    clients: tuple[int, ...] = (2, 5, 9),
    *,
    bits: int = 32,
    dim: int = 5,
    sums: int = 2,
    epoch: int = 3,
    session: bytes = SESSION,
) -> PadParams:
    return PadParams(session, clients, Ring(bits), dim, sums, epoch)


def key_pair(client: int) -> KeyPair:
    return KeyPair(hashlib.sha256(b"test key %d" % client).digest())


def roster(agreed: PadParams) -> Roster:
    publics = tuple(key_pair(client).public for client in agreed.clients)
    return Roster(agreed.session, agreed.clients, publics)


def inputs(agreed: PadParams, seed: int = 0) -> NDArray[Any]:
    """Ring elements for one round: (clients, sums, dim)."""
    shape = (len(agreed.clients), *agreed.shape)
    words = np.random.default_rng(seed).integers(0, 2**63, shape, dtype=np.uint64)
    return agreed.ring.reduce(words)


@dataclass
class Session:
    params: PadParams
    clients: dict[int, PadClient]
    server: PadServer

    def run(self, round: int, x: RingArray) -> RingArray:
        """A whole round in which nothing goes wrong."""
        self.server.open_round(round)
        for client, vectors in zip(self.params.clients, x, strict=True):
            for message in self.clients[client].mask(round, vectors):
                self.server.collect(message)
        return self.server.finish_round()


def start(agreed: PadParams, *, prg: PrgFactory = Prg, fixed_keys: bool = False) -> Session:
    """Clients and server after the agreement, messages by way of their bytes."""
    server = PadServer(agreed)
    clients = {}
    for client in agreed.clients:
        if fixed_keys:
            member = PadClient(
                agreed, client, keys=key_pair(client), watermark=MemoryWatermark(), prg=prg
            )
        else:
            member = PadClient(agreed, client, prg=prg)
        advertised = member.advertise()
        server.collect_key(agreed.decode(type(advertised), advertised.to_bytes()))
        clients[client] = member
    for member in clients.values():
        member.receive_roster(agreed.decode(Roster, server.roster().to_bytes()))
    return Session(agreed, clients, server)


AGREED = params()


def ready(**options: Any) -> PadClient:
    """Client 2 of the session AGREED, with fixed keys on all sides."""
    client = PadClient(AGREED, 2, keys=key_pair(2), **{"watermark": MemoryWatermark(), **options})
    client.advertise()
    client.receive_roster(roster(AGREED))
    return client
