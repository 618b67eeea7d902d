"""A round told as bytes: the same round, byte for byte, or none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from secagg.full.announcement import Announcement
from secagg.full.client import Client
from secagg.full.messages import Step
from secagg.full.params import RoundParams
from secagg.full.server import Server
from secagg.graph import Graph, complete, sparse
from secagg.plan import plan
from tests.secagg.full.replicas import new_server
from tests.secagg.full.turns import turns
from tests.secagg.full.world import (
    CLIENTS,
    SESSION,
    VARIANTS,
    Circle,
    inputs,
    params,
    signing,
    total,
)
from tests.support.faults import append, flips, truncations
from tests.support.strategies import seeds

TEN = tuple(range(3, 33, 3))
SPARSE = params(TEN, threshold=3, graph=sparse(TEN, 4, rng=Prg(bytes(32))), context=b"model")
MALICIOUS = params(variant="malicious", colluding=0, min_survivors=4)


@st.composite
def rounds(draw: st.DrawFn) -> RoundParams:
    """Any round that there can be: sizes, thresholds, both variants, graphs of every degree."""
    ids = draw(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=20, unique=True))
    clients = tuple(sorted(ids))
    n, graph, variant = len(clients), None, draw(st.sampled_from(VARIANTS))
    colluding = draw(st.integers(0, n - 3))
    if variant == "malicious":
        low, high = (n + colluding) // 2 + 1, n
    elif draw(st.booleans()):
        graph = sparse(clients, draw(st.integers(2, n)), rng=Prg(draw(seeds())))
        low, high = 2, graph.degree + 1
        low = colluding + 1 if graph.is_complete and colluding else low
    else:
        low, high = max(2, colluding + 1), n
    return RoundParams(
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(0, 2**32 - 1)),
        clients,
        draw(st.integers(low, high)),
        Ring(draw(st.integers(1, 64))),
        draw(st.integers(1, 2**27 - 1)),
        variant,
        colluding,
        draw(st.integers(3, n)),
        graph,
        draw(st.binary(max_size=32)),
    )


@given(rounds())
def test_a_round_comes_back_from_its_bytes(agreed: RoundParams) -> None:
    data = Announcement.of(agreed).to_bytes()
    again = Announcement.read(data)
    assert again.digest == agreed.digest
    assert again.offer_digest == agreed.offer_digest
    whole = agreed.neighbourhoods.complete
    assert again == (replace(agreed, graph=None) if whole else agreed)
    assert Announcement.of(again).to_bytes() == data


@given(rounds(), rounds())
def test_two_rounds_have_one_announcement_only_if_they_are_one(
    one: RoundParams, other: RoundParams
) -> None:
    same = Announcement.of(one) == Announcement.of(other)
    assert same == (one.digest == other.digest)


def test_the_complete_graph_is_told_as_none() -> None:
    data = {
        Announcement.of(params(graph=graph)).to_bytes()
        for graph in (None, complete(CLIENTS), Circle(CLIENTS, 2))
    }
    assert len(data) == 1
    assert Announcement.read(data.pop()).graph is None


def test_only_a_graph_of_the_round_s_own_clients_can_be_told() -> None:
    with pytest.raises(ParameterError, match=r"only a secagg\.graph\.Graph"):
        Announcement.of(params(TEN, threshold=3, graph=Circle(TEN, 2)))
    others = tuple(range(40, 50))  # in a graph of two parts, of which one is the round
    table = sparse(TEN, 4, rng=Prg(bytes(32)))._table
    assert table is not None
    both = Graph(TEN + others, np.concatenate([table, table + np.uint32(10)]))
    agreed = params(TEN, threshold=3, graph=both)
    with pytest.raises(ParameterError, match="own clients"):
        Announcement.of(agreed)


# Bytes that are no announcement.


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_wire_errors_only(data: bytes) -> None:
    with pytest.raises(WireError):
        Announcement.read(data)


@pytest.mark.parametrize(
    "agreed", [params(), SPARSE, MALICIOUS], ids=["plain", "sparse", "malicious"]
)
def test_altered_bytes_are_another_round_or_none(agreed: RoundParams) -> None:
    """Every bit: what still parses is a round with another digest, and has these very bytes."""
    data, others = Announcement.of(agreed).to_bytes(), 0
    for altered in flips(data):
        try:
            other = Announcement.read(altered)
        except WireError:
            continue
        assert other.digest != agreed.digest
        assert Announcement.of(other).to_bytes() == altered
        others += 1
    assert others > 8 * 16  # every bit of the session, at least
    for cut in (*truncations(data), append(data)):
        with pytest.raises(WireError):
            Announcement.read(cut)


def changed(**fields: Any) -> bytes:
    told = Announcement.of(SPARSE)
    own = {name: getattr(told, name) for name in told.__struct_fields__}
    return Announcement(**{**own, **fields}).to_bytes()


ONE_SIDED = bytearray(Announcement.of(SPARSE).graph)
ONE_SIDED[-4:] = ONE_SIDED[-8:-4]
REFUSED: dict[str, Callable[[], bytes]] = {
    "session of 15 bytes": lambda: changed(session=bytes(15)),
    "round 2^32": lambda: changed(round=2**32),
    "threshold 1": lambda: changed(threshold=1),
    "threshold above a neighbourhood": lambda: changed(threshold=6),
    "ring of 0 bits": lambda: changed(bits=0),
    "ring of 65 bits": lambda: changed(bits=65),
    "dim 0": lambda: changed(dim=0),
    "dim 2^27": lambda: changed(dim=2**27),
    "sparse and malicious": lambda: changed(malicious=1),
    "all colluding": lambda: changed(colluding=9),
    "two survivors": lambda: changed(min_survivors=2),
    "more survivors than clients": lambda: changed(min_survivors=11),
    "context of 33 bytes": lambda: changed(context=bytes(33)),
    "no graph": lambda: changed(graph=b""),
    "a graph that ends early": lambda: changed(graph=Announcement.of(SPARSE).graph[:-4]),
    "a graph that is not symmetric": lambda: changed(graph=bytes(ONE_SIDED)),
    "two clients": lambda: changed(graph=b"\2\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0"),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_params_refuse_is_refused_on_the_wire(data: Callable[[], bytes]) -> None:
    assert Announcement.read(changed()) == SPARSE
    message = data()
    with pytest.raises(WireError):
        Announcement.read(message)


def test_a_third_variant_is_refused() -> None:
    with pytest.raises(ParameterError, match="malicious must lie in"):
        changed(malicious=2)


def test_a_large_announcement_is_refused_unread() -> None:
    data = changed()
    assert Announcement.read(data, limit=len(data)) == SPARSE
    with pytest.raises(WireError, match="at most"):
        Announcement.read(data, limit=len(data) - 1)


def test_a_threshold_too_low_for_the_variant_is_refused() -> None:
    told = Announcement.of(MALICIOUS)
    own = {name: getattr(told, name) for name in told.__struct_fields__}
    with pytest.raises(WireError, match="no such round: against a malicious server"):
        Announcement(**{**own, "threshold": 2}).params()


# Told is agreed.


@pytest.mark.parametrize("agreed", [SPARSE, MALICIOUS], ids=["sparse", "malicious"])
def test_clients_that_were_told_the_round_and_a_server_that_made_it_give_the_sum(
    agreed: RoundParams,
) -> None:
    data, x = Announcement.of(agreed).to_bytes(), inputs(agreed)
    server, told = new_server(agreed), Announcement.read
    clients = {u: Client(told(data), u, **signing(agreed, u)) for u in agreed.clients}
    for turn in turns(agreed):
        for u, client in clients.items():
            question = None if turn.ask is None else turn.ask(server, u)
            turn.receive(server, turn.answer(client, question, x[u]))
        result = turn.close(server)
    assert np.array_equal(result, total(agreed, x, agreed.clients))


def test_a_client_that_was_told_another_round_agrees_with_nobody() -> None:
    agreed = params()
    other = replace(agreed, min_survivors=4)
    server, x = Server(agreed), inputs(agreed)
    told = {u: other if u == CLIENTS[0] else agreed for u in CLIENTS}
    clients = {u: Client(Announcement.of(told[u]).params(), u) for u in CLIENTS}
    for turn in turns(agreed)[:2]:
        for u, client in clients.items():
            question = None if turn.ask is None else turn.ask(server, u)
            turn.receive(server, turn.answer(client, question, x[u]))
        turn.close(server)
    assert server.step is Step.MASKED_INPUT
    for u, client in clients.items():
        with pytest.raises(PeerError, match="do not open"):
            client.mask(server.delivery(u), x[u])


def test_its_size_is_that_of_the_graph_and_some_bytes() -> None:
    n = 100
    clients = tuple(range(n))
    chosen = plan(n, dropout=0.1, corrupt=0.1, largest=2**20, failure=2.0**-20)
    graph = chosen.graph(clients)
    agreed = RoundParams(SESSION, 1, clients, chosen.threshold, Ring(32), 10, graph=graph)
    told = Announcement.of(agreed)
    size = 8 + 4 * n * (1 + chosen.neighbours)
    assert len(told.graph) == size
    assert len(told.to_bytes()) <= size + 96
