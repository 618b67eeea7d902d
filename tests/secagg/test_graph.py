"""The neighbour graph: regular, symmetric, well connected, uniformly drawn, canonical as bytes."""

import struct
from collections import Counter
from collections.abc import Callable
from itertools import combinations, permutations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.full.params import RoundParams
from secagg.graph import Graph, check_neighbours, complete, sparse
from secagg.messages import SERVER
from tests.support.strategies import seeds

SEED = bytes(range(32))

cohorts = st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=40, unique=True).map(sorted)


class Words(Rng):
    """Gives 64-bit words as they were listed."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def fill(self, out: NDArray[Any]) -> None:
        for at in range(out.size):
            out[at] = self._words.pop(0)


def edges(graph: Graph) -> set[tuple[int, int]]:
    return {(a, b) for a in graph.clients for b in graph.neighbours(a)}


def parts(graph: Graph, left: set[int]) -> int:
    """Into how many parts the clients that are left fall."""
    found, unseen = 0, set(left)
    while unseen:
        found, queue = found + 1, [unseen.pop()]
        while queue:
            reached = unseen.intersection(graph.neighbours(queue.pop()))
            unseen -= reached
            queue += reached
    return found


@given(clients=cohorts, degree=st.integers(2, 50), seed=seeds())
def test_every_client_has_the_same_number_of_neighbours_who_have_it(
    clients: list[int], degree: int, seed: bytes
) -> None:
    graph = sparse(clients, degree, rng=Prg(seed))
    n = len(clients)
    assert graph.clients == tuple(clients)
    assert graph.degree == min(n - 1, degree + n * degree % 2)
    found = edges(graph)
    for client in clients:
        beside = graph.neighbours(client)
        assert list(beside) == sorted(set(beside) - {client})
        assert len(beside) == graph.degree
        assert all(type(other) is int and (other, client) in found for other in beside)
        assert check_neighbours(beside, client=client, clients=clients, degree=graph.degree)


@given(clients=cohorts)
def test_in_the_complete_graph_everybody_is_beside_everybody(clients: list[int]) -> None:
    graph = complete(clients)
    assert graph.is_complete
    assert graph.degree == len(clients) - 1
    assert len(edges(graph)) == len(clients) * (len(clients) - 1)


@pytest.mark.parametrize(("n", "degree", "taken"), [(7, 3, 4), (7, 4, 4), (8, 3, 3), (9, 7, 8)])
def test_an_odd_product_takes_one_neighbour_more(n: int, degree: int, taken: int) -> None:
    assert sparse(range(n), degree).degree == taken


def test_few_clients_have_the_complete_graph() -> None:
    for n in (3, 4, 5):
        for degree in range(n - 1, n + 3):
            assert sparse(range(n), degree) == complete(range(n))
    assert not sparse(range(5), 2).is_complete


@pytest.mark.parametrize(("n", "degree"), [(7, 2), (8, 3), (9, 4), (8, 5), (9, 6)])
def test_it_takes_as_many_clients_as_there_are_neighbours_to_part_the_rest(
    n: int, degree: int
) -> None:
    """Harary's theorem, over all sets of clients that go."""
    graph = sparse(range(n), degree, rng=Prg(SEED))
    for gone in range(degree):
        for lost in combinations(range(n), gone):
            assert parts(graph, set(range(n)).difference(lost)) == 1
    assert any(
        parts(graph, set(range(n)).difference(lost)) > 1 for lost in combinations(range(n), degree)
    )


# The law of the graph, over all orders of the random words.


def neighbour_sets(
    n: int, degree: int, draw: Callable[..., Graph] = sparse
) -> dict[int, Counter[tuple[int, ...]]]:
    counts: dict[int, Counter[tuple[int, ...]]] = {client: Counter() for client in range(n)}
    for order in permutations(range(n)):
        graph = draw(range(n), degree, rng=Words(*order))
        for client, count in counts.items():
            count[graph.neighbours(client)] += 1
    return counts


def is_uniform(counts: dict[int, Counter[tuple[int, ...]]], degree: int) -> bool:
    sets = comb(len(counts) - 1, degree)
    return all(len(c) == sets and len(set(c.values())) == 1 for c in counts.values())


@pytest.mark.parametrize(("n", "degree"), [(5, 2), (6, 2), (6, 3), (6, 4)])
def test_every_set_of_neighbours_has_the_same_probability(n: int, degree: int) -> None:
    assert is_uniform(neighbour_sets(n, degree), degree)


def test_a_graph_without_a_random_order_is_caught() -> None:
    def in_order(clients: range, degree: int, rng: Rng) -> Graph:
        return sparse(clients, degree, rng=Words(*clients))

    def ends_only(clients: range, degree: int, rng: Rng) -> Graph:
        words = rng.words(len(clients), np.uint64)
        swapped = [*range(1, len(clients)), 0] if words[0] > words[-1] else list(clients)
        return sparse(clients, degree, rng=Words(*swapped))

    assert not is_uniform(neighbour_sets(5, 2, in_order), 2)
    assert not is_uniform(neighbour_sets(5, 2, ends_only), 2)


def test_all_rings_have_the_same_probability() -> None:
    rings = Counter(sparse(range(5), 2, rng=Words(*o)).digest for o in permutations(range(5)))
    assert sorted(rings.values()) == [10] * 12


def test_words_that_agree_are_drawn_again() -> None:
    rng = Words(4, 1, 1, 0, 2, 9, 8, 7, 6, 5)
    assert sparse(range(5), 2, rng=rng) == sparse(range(5), 2, rng=Words(4, 3, 2, 1, 0))


def test_the_default_coins_differ_from_graph_to_graph() -> None:
    assert sparse(range(100), 10) != sparse(range(100), 10)


# Bytes.


@given(clients=cohorts, degree=st.integers(2, 50), seed=seeds())
def test_bytes_give_the_graph_back(clients: list[int], degree: int, seed: bytes) -> None:
    graph = sparse(clients, degree, rng=Prg(seed))
    again = Graph.from_bytes(graph.to_bytes())
    assert again == graph
    assert hash(again) == hash(graph)
    assert again.to_bytes() == graph.to_bytes()
    assert edges(again) == edges(graph)
    assert again.is_complete == graph.is_complete


def test_one_graph_has_one_encoding_whatever_the_order_it_came_from() -> None:
    turned = [Words(*np.roll([3, 1, 4, 0, 5, 2], by)[::way].tolist()) for by in range(6)
              for way in (1, -1)]  # fmt: skip
    # The order is that of the words: turning a ring, or reading it backwards, changes no edge.
    inverse = [Words(*np.argsort(rng.words(6, np.uint64)).tolist()) for rng in turned]
    assert len({sparse(range(6), 2, rng=rng).to_bytes() for rng in inverse}) == 1


def test_the_digest_tells_graphs_apart() -> None:
    graphs = [complete(range(8)), complete(range(1, 9)), complete(range(9))]
    graphs += [sparse(range(8), k, rng=Prg(SEED)) for k in (2, 3, 4)]
    graphs += [sparse(range(8), 2, rng=Prg(bytes(32))), sparse(range(1, 9), 2, rng=Prg(SEED))]
    assert len({graph.digest for graph in graphs}) == len(graphs)
    assert graphs[0] != "a graph"
    assert repr(graphs[3]) == "Graph(clients=8, degree=2)"


def encoded(ids: list[int], degree: int, table: list[list[int]]) -> bytes:
    numbers = [len(ids), degree, *ids, *(place for row in table for place in row)]
    return struct.pack(f"<{len(numbers)}I", *numbers)


RING = [[1, 3], [0, 2], [1, 3], [0, 2]]


def test_the_encoding_is_as_documented() -> None:
    words = Words(0, 1, 2, 3)
    assert sparse([5, 6, 7, 9], 2, rng=words).to_bytes() == encoded([5, 6, 7, 9], 2, RING)
    assert complete([5, 6, 9]).to_bytes() == encoded([5, 6, 9], 2, [])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        encoded([5, 6], 1, []),
        encoded([5, 6, 7, 9], 1, [[1], [0], [3], [2]]),
        encoded([5, 6, 7, 9], 4, [[0, 1, 2, 3]] * 4),
        encoded([5, 6, 7, 9], 2, RING)[:-4],
        encoded([5, 6, 7, 9], 2, RING) + bytes(4),
        encoded([5, 7, 6, 9], 2, RING),
        encoded([5, 6, 6, 9], 2, RING),
        encoded([5, 6, 7, 9], 2, [[3, 1], [0, 2], [1, 3], [0, 2]]),
        encoded([5, 6, 7, 9], 2, [[1, 1], [0, 2], [1, 3], [0, 2]]),
        encoded([5, 6, 7, 9], 2, [[1, 4], [0, 2], [1, 3], [0, 2]]),
        encoded([5, 6, 7, 9], 2, [[0, 1], [0, 2], [1, 3], [2, 3]]),
        encoded([5, 6, 7, 9], 2, [[1, 2], [0, 2], [1, 3], [0, 2]]),
        encoded([5, 6, 7, 9], 3, [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]),
    ],
)
def test_what_encodes_no_graph_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Graph.from_bytes(data)


@given(at=st.integers(0, 200), bit=st.integers(0, 7), data=st.binary(max_size=100))
def test_other_bytes_are_refused_or_another_graph(at: int, bit: int, data: bytes) -> None:
    graph = sparse(range(12), 3, rng=Prg(SEED))
    flipped = bytearray(graph.to_bytes())
    flipped[at % len(flipped)] ^= 1 << bit
    for other in (bytes(flipped), data):
        try:
            read = Graph.from_bytes(other)
        except WireError:
            continue
        assert read.to_bytes() == other
        assert read != graph


# Refusals.


@pytest.mark.parametrize("clients", [[0, 1], [], [0, 2, 1], [0, 1, 1], [-1, 0, 1], [0, 1, 2**32]])
def test_a_cohort_that_is_none_is_refused(clients: list[int]) -> None:
    for make in (complete, lambda ids: sparse(ids, 2)):
        with pytest.raises(ParameterError):
            make(clients)


@pytest.mark.parametrize("degree", [1, 0, -1, 2.0, True, None])
def test_a_degree_that_is_none_is_refused(degree: Any) -> None:
    with pytest.raises(ParameterError, match="degree"):
        sparse(range(9), degree)


def test_a_stranger_has_no_neighbours() -> None:
    for graph in (complete(range(3)), sparse(range(9), 2)):
        with pytest.raises(ParameterError, match="client 10 is not one"):
            graph.neighbours(10)


@pytest.mark.parametrize(
    ("neighbours", "reason"),
    [
        ((2, 4), "2 neighbours, where 3 were agreed"),
        ((2, 4, 6, 8), "4 neighbours, where 3"),
        ((2, 6, 4), "rising order"),
        ((2, 4, 4), "rising order"),
        ((0, 2, 4), "its own neighbours"),
        ((2, 4, 5), "neighbour 5 is no client"),
    ],
)
def test_a_client_refuses_neighbours_that_cannot_be_its_own(
    neighbours: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(PeerError, match=reason) as refused:
        check_neighbours(neighbours, client=0, clients=range(0, 20, 2), degree=3)
    assert refused.value.party == SERVER


def test_a_round_takes_the_graph_as_its_neighbourhoods() -> None:
    graph = sparse(range(20), 6, rng=Prg(SEED))
    params = RoundParams(bytes(16), 0, graph.clients, 4, Ring(32), 3, graph=graph)
    for at, client in enumerate(graph.clients):
        beside = set(params.neighbourhoods.closed(at).tolist())
        assert beside == {*graph.neighbours(client), client}
