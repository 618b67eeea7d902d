"""Secure aggregation with drop-outs: a client's steps, the server's last one, rounds, plans."""

from typing import Any

import numpy as np
import pytest

from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from secagg.full.client import Client
from secagg.full.identity import Identity, MemoryIdentities
from secagg.full.messages import Step
from secagg.full.params import RoundParams, Variant
from secagg.full.run import LocalRound
from secagg.full.server import Server
from secagg.plan import plan
from secagg.vectors import VectorCodec

RING = Ring(32)
SEMI_HONEST, MALICIOUS = "semi-honest", "malicious"


def _params(
    clients: int, dim: int, variant: Variant = "semi-honest", sparse: bool = False
) -> RoundParams:
    """Threshold 2/3 in the complete graph; the plan's for 10 % corrupt and gone in a sparse one."""
    threshold, graph = 2 * clients // 3 + 1, None
    if sparse:
        chosen = plan(clients, dropout=0.1, corrupt=0.1)
        threshold, graph = chosen.threshold, chosen.graph(range(clients))
    ids = tuple(range(clients))
    session = SYSTEM_RNG.bytes(16)
    return RoundParams(session, 0, ids, threshold, RING, dim, variant, graph=graph)


def _parties(
    params: RoundParams, x: RingArray, dropped: int, network: LocalNetwork | None = None
) -> LocalRound:
    """All parties of a round whose first clients leave after sharing their keys."""
    identity = identities = None
    if params.malicious:
        identity = {client: Identity.generate() for client in params.clients}
        identities = MemoryIdentities({client: own.public for client, own in identity.items()})
    return LocalRound(
        params,
        dict(enumerate(x)),
        drop_outs={Step.MASKED_INPUT: range(dropped)},
        identity=identity,
        identities=identities,
        network=network,
    )


def _advertised(params: RoundParams) -> tuple[Server, list[Client]]:
    server, clients = Server(params), [Client(params, client) for client in params.clients]
    for client in clients:
        server.receive_keys(client.advertise())
    server.close_keys()
    return server, clients


@pytest.mark.benchmark(group="secagg.share_keys")
@pytest.mark.parametrize("clients", [20, 100, 500])
def test_share_keys(benchmark: Any, clients: int) -> None:
    """One client: agree with every other on two keys, share two secrets, seal the shares."""
    params = _params(clients, 100)

    def setup() -> tuple[tuple[Client, Any], dict[str, Any]]:
        server, parties = _advertised(params)
        return (parties[0], server.roster(0)), {}

    shared = benchmark.pedantic(Client.share_keys, setup=setup, rounds=5)
    sent = len(shared.to_bytes())
    benchmark.extra_info.update(parties=clients, bytes=sent, rounds=1, key_bits=256)


def _delivered(params: RoundParams) -> tuple[Server, list[Client]]:
    server, clients = _advertised(params)
    for client in clients:
        server.receive_shares(client.share_keys(server.roster(client.client)))
    server.close_shares()
    return server, clients


@pytest.mark.benchmark(group="secagg.mask")
@pytest.mark.parametrize("dim", [10_000, 100_000])
@pytest.mark.parametrize("clients", [20, 100])
def test_mask(benchmark: Any, clients: int, dim: int) -> None:
    """One client: open what its neighbours sealed, put n masks on its vector."""
    params = _params(clients, dim)
    x = RING.random((dim,), SYSTEM_RNG)
    server, parties = _delivered(params)
    waiting = iter(parties)

    def setup() -> tuple[tuple[Client, Any, RingArray], dict[str, Any]]:
        client = next(waiting)  # each of them masks once
        return (client, server.delivery(client.client), x), {}

    sent = benchmark.pedantic(Client.mask, setup=setup, rounds=10)
    assert np.mean(RING.from_bytes(sent.payload, (dim,)) == x) < 0.01
    benchmark.extra_info.update(
        parties=clients, dim=dim, bits=RING.bits, bytes=len(sent.to_bytes()), rounds=1
    )


@pytest.mark.benchmark(group="secagg.unmask")
@pytest.mark.parametrize(("clients", "dim", "dropped"), [(20, 100_000, 2), (100, 100_000, 10)])
def test_unmask(benchmark: Any, clients: int, dim: int, dropped: int) -> None:
    """The server: put all secrets together, take all masks off."""
    x = RING.random((clients, dim), SYSTEM_RNG)

    def setup() -> tuple[tuple[Server], dict[str, Any]]:
        server, parties = _delivered(_params(clients, dim))
        for client in parties[dropped:]:
            delivery = server.delivery(client.client)
            server.receive_masked(client.mask(delivery, x[client.client]))
        server.close_masked()
        for client in parties[dropped:]:
            server.receive_unmask(client.unmask(server.unmask_request(client.client)))
        return (server,), {}

    total = benchmark.pedantic(Server.close_unmask, setup=setup, rounds=3)
    assert np.array_equal(total, RING.sum(x[dropped:], axis=0))
    benchmark.extra_info.update(parties=clients, dim=dim, dropped=dropped, bits=RING.bits)


@pytest.mark.benchmark(group="secagg.round")
@pytest.mark.parametrize(
    ("clients", "dim", "dropped", "variant", "sparse"),
    [
        (20, 100_000, 0, SEMI_HONEST, False),
        (20, 100_000, 2, SEMI_HONEST, False),
        (20, 100_000, 2, MALICIOUS, False),
        (100, 10_000, 10, SEMI_HONEST, False),
        (100, 10_000, 10, MALICIOUS, False),
        (100, 10_000, 10, SEMI_HONEST, True),
        (300, 10_000, 30, SEMI_HONEST, True),
    ],
)
def test_round(
    benchmark: Any, clients: int, dim: int, dropped: int, variant: Variant, sparse: bool
) -> None:
    """Everybody's work, messages as bytes."""
    x = RING.random((clients, dim), SYSTEM_RNG)
    network = LocalNetwork()

    def setup() -> tuple[tuple[LocalRound], dict[str, Any]]:
        network.traffic.clear()
        network.round = 0
        return (_parties(_params(clients, dim, variant, sparse), x, dropped, network),), {}

    outcome = benchmark.pedantic(LocalRound.run, setup=setup, rounds=3)
    assert np.array_equal(outcome.total, RING.sum(x[dropped:], axis=0))
    benchmark.extra_info.update(
        parties=clients,
        dim=dim,
        dropped=dropped,
        variant=variant,
        graph="sparse" if sparse else "complete",
        bits=RING.bits,
        rounds=network.round + 1,
        bytes=sum(traffic.bytes for traffic in network.traffic.values()),
    )


@pytest.mark.benchmark(group="secagg.plan")
@pytest.mark.parametrize("clients", [100, 1_000, 10_000])
def test_plan(benchmark: Any, clients: int) -> None:
    """The least neighbours and a threshold for 10 % corrupt, 10 % gone, and 40 bits."""
    chosen = benchmark(plan, clients, dropout=0.1, corrupt=0.1)
    assert chosen.bounds.insecure <= 2.0**-40
    benchmark.extra_info.update(
        parties=clients, neighbours=chosen.neighbours, threshold=chosen.threshold
    )


@pytest.mark.benchmark(group="secagg.graph")
@pytest.mark.parametrize("clients", [1_000, 10_000])
def test_graph(benchmark: Any, clients: int) -> None:
    """Draw the plan's graph."""
    chosen = plan(clients, dropout=0.1, corrupt=0.1)
    graph = benchmark(chosen.graph, range(clients))
    assert graph.degree == chosen.neighbours
    benchmark.extra_info.update(parties=clients, neighbours=graph.degree)


@pytest.mark.benchmark(group="secagg.vectors")
@pytest.mark.parametrize("operation", ["encode", "means"])
def test_vectors(benchmark: Any, operation: str) -> None:
    """A model of two arrays to a vector with a weight, and a sum of vectors to means."""
    model = {
        "factors": np.linspace(-1, 1, 90_000).reshape(-1, 30),
        "biases": np.linspace(-1, 1, 10_000),
    }
    codec = VectorCodec.like(model, clip=1.0, frac_bits=16, ring=RING, parties=100, max_weight=100)
    encoded = codec.encode(model, weight=60).vector
    if operation == "encode":
        encoded = benchmark(codec.encode, model, weight=60).vector
        means = codec.means(encoded)
    else:
        means = benchmark(codec.means, encoded)
    assert np.all(np.abs(means["factors"] - model["factors"]) <= 2.0**-16)
    benchmark.extra_info.update(dim=codec.size, bits=RING.bits)
