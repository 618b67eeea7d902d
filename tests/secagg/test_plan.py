"""Plans: the bounds against all sets and against simulation, the least degree, and refusals."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secagg.plan
from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.full.params import RoundParams
from secagg.graph import Graph, sparse
from secagg.plan import Bounds, Plan, disconnected, exposed, plan, shown, unrecoverable
from secagg.quantize import Quantizer
from tests.secagg.test_graph import parts
from tests.support.stats import binomial_interval

SEED = bytes(range(32))

# The three events, on a graph and sets of clients.


def is_exposed(graph: Graph, t: int, corrupt: set[int]) -> bool:
    honest = set(graph.clients) - corrupt
    return any(len(corrupt.intersection(graph.neighbours(client))) >= t for client in honest)


def is_unrecoverable(graph: Graph, t: int, dropped: set[int]) -> bool:
    left = set(graph.clients) - dropped
    return any(len(left.intersection(graph.neighbours(client))) < t for client in graph.clients)


def is_disconnected(graph: Graph, gone: set[int]) -> bool:
    return parts(graph, set(graph.clients) - gone) > 1


def share(n: int, size: int, event: Callable[[set[int]], bool]) -> Fraction:
    """The probability of an event over all sets of ``size`` clients.

    A uniform set on a fixed ring has the law of a fixed set on a uniform ring.
    """
    sets = [set(chosen) for chosen in combinations(range(n), size)]
    return Fraction(sum(map(event, sets)), len(sets))


GRAPHS = [
    (n, k) for n in range(5, 9) for k in range(2, n - 1) if n * k % 2 == 0
]  # fmt: skip


@pytest.mark.parametrize(("n", "k"), GRAPHS)
def test_no_bound_understates_the_share_of_all_sets(n: int, k: int) -> None:
    graph = sparse(range(n), k, rng=Prg(SEED))
    for size in range(n - 1):
        assert share(n, size, lambda gone: is_disconnected(graph, gone)) <= disconnected(n, k, size)
        for t in range(1, k + 1):
            found = share(n, size, lambda bad, t=t: is_exposed(graph, t, bad))  # type: ignore[misc]
            assert found <= exposed(n, k, t, size)
            found = share(n, size, lambda out, t=t: is_unrecoverable(graph, t, out))  # type: ignore[misc]
            assert found <= unrecoverable(n, k, t, size)


def test_bounds_without_their_unions_are_caught() -> None:
    n, k, t, size = 8, 4, 3, 4
    graph = sparse(range(n), k, rng=Prg(SEED))
    found = share(n, size, lambda bad: is_exposed(graph, t, bad))
    assert exposed(n, k, t, size) / n < found
    found = share(n, size, lambda out: is_unrecoverable(graph, t, out))
    assert unrecoverable(n, k, t, size) / n < found
    found = share(n, size, lambda gone: is_disconnected(graph, gone))
    pairs = n * (n - 2 * (k // 2) + 1) // 2
    assert disconnected(n, k, size) / pairs < found
    # One client more on either side than the ring has.
    assert disconnected(n, k + 2, size) < found


def test_the_bound_of_one_client_is_its_probability() -> None:
    """What is overstated is the union alone."""
    n, k, t = 8, 3, 2
    graph = sparse(range(n), k, rng=Prg(SEED))
    beside = set(graph.neighbours(0))
    for size in range(n):
        sets = [set(chosen) for chosen in combinations(range(1, n), size)]
        hits = sum(len(beside & chosen) >= t for chosen in sets)
        assert min(1, n * Fraction(hits, len(sets))) == exposed(n, k, t, size)


# Simulation.

N, K, T = 60, 8, 4
CORRUPT, DROPPED = set(range(8)), set(range(20, 32))
SAMPLES = 2000


def counts(draw: Callable[[Rng], Graph]) -> tuple[int, int, int]:
    """How often each event occurs over SAMPLES graphs."""
    rng, found = Prg(SEED), [0, 0, 0]
    for _ in range(SAMPLES):
        graph = draw(rng)
        found[0] += is_exposed(graph, T, CORRUPT)
        found[1] += is_disconnected(graph, CORRUPT | DROPPED)
        found[2] += is_unrecoverable(graph, T, DROPPED)
    return found[0], found[1], found[2]


def fit(found: tuple[int, int, int]) -> list[bool]:
    """Whether each count fits its bound: at most the upper end of an interval of 1e-9."""
    bounds = (
        exposed(N, K, T, len(CORRUPT)),
        disconnected(N, K, len(CORRUPT | DROPPED)),
        unrecoverable(N, K, T, len(DROPPED)),
    )
    assert all(0 < bound < 1 for bound in bounds)
    return [
        count <= binomial_interval(SAMPLES, float(bound))[1]
        for count, bound in zip(found, bounds, strict=True)
    ]


def test_simulated_graphs_keep_to_every_bound() -> None:
    """2,000 graphs of 60 clients; false alarm 1e-9 for each of three binomial bounds."""
    found = counts(lambda rng: sparse(range(N), K, rng=rng))
    assert fit(found) == [True, True, True]
    assert found[0] > 0  # the sample is large enough to see it
    assert found[2] > 0


def test_graphs_that_are_not_drawn_at_random_break_every_bound() -> None:
    """A server that puts clients side by side by their ids."""

    class InOrder(Rng):
        def fill(self, out: Any) -> None:
            out[...] = range(out.size)

    assert fit(counts(lambda rng: sparse(range(N), K, rng=InOrder()))) == [False, False, False]


# What plan chooses.


def meets(
    n: int, k: int, t: int, bad: int, out: int, security: Fraction, failure: Fraction
) -> bool:
    insecure = exposed(n, k, t, bad) + disconnected(n, k, bad + out)
    return insecure <= security and unrecoverable(n, k, t, out) <= failure


sizes = st.integers(4, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, n // 3), st.integers(0, n // 3))
)


@given(sizes=sizes, security_bits=st.integers(1, 20), failure_bits=st.integers(1, 20))
def test_a_plan_meets_its_bounds_with_the_fewest_neighbours(
    sizes: tuple[int, int, int], security_bits: int, failure_bits: int
) -> None:
    n, bad, out = sizes
    security, failure = Fraction(1, 2**security_bits), Fraction(1, 2**failure_bits)
    chosen = plan(
        n,
        dropout=Fraction(out, n),
        corrupt=Fraction(bad, n),
        security_bits=security_bits,
        failure=failure,
    )
    assert (chosen.corrupt_clients, chosen.dropped_clients) == (bad, out)
    k, t, bounds = chosen.neighbours, chosen.threshold, chosen.bounds
    assert bounds.insecure <= security
    assert bounds.unrecoverable <= failure
    if chosen.is_complete:
        assert max(2, bad + 1) <= t <= n - out
        assert bounds == Bounds(Fraction(0), Fraction(0), Fraction(0))
    else:
        assert bounds.exposed == exposed(n, k, t, bad)
        assert bounds.disconnected == disconnected(n, k, bad + out)
        assert bounds.unrecoverable == unrecoverable(n, k, t, out)
    for fewer in range(2, k):
        if n * fewer % 2 == 0:
            assert not any(
                meets(n, fewer, threshold, bad, out, security, failure)
                for threshold in range(2, fewer + 1)
            )


@settings(max_examples=30)
@given(
    sizes=sizes,
    bits=st.integers(1, 40),
    change=st.sampled_from(["corrupt", "dropout", "security", "failure"]),
)
def test_less_to_withstand_takes_no_more_neighbours(
    sizes: tuple[int, int, int], bits: int, change: str
) -> None:
    n, bad, out = sizes

    def neighbours(bad: int, out: int, security: int, failure: int) -> int:
        return plan(
            n,
            dropout=Fraction(out, n),
            corrupt=Fraction(bad, n),
            security_bits=security,
            failure=Fraction(1, 2**failure),
        ).neighbours

    easier = {
        "corrupt": (max(bad - 1, 0), out, bits, bits),
        "dropout": (bad, max(out - 1, 0), bits, bits),
        "security": (bad, out, max(bits - 1, 1), bits),
        "failure": (bad, out, bits, max(bits - 1, 1)),
    }
    assert neighbours(*easier[change]) <= neighbours(bad, out, bits, bits)


def test_neighbours_grow_with_the_logarithm_of_the_clients() -> None:
    """The abstract of the paper: a billion clients at the cost per client of a thousand."""
    plans = [plan(10**e, dropout=0.1, corrupt=0.1) for e in range(3, 10)]
    degrees = [chosen.neighbours for chosen in plans]
    assert degrees == sorted(degrees)
    assert degrees[-1] < 2 * degrees[0]
    assert plan(10**9, dropout=1 / 3, corrupt=1 / 3).neighbours < 999
    for chosen in plans:
        assert chosen.bounds.insecure <= Fraction(1, 2**40)
        assert chosen.bounds.unrecoverable <= Fraction(1, 2**40)


def test_a_thousand_clients_with_a_tenth_corrupt_and_a_tenth_dropping_out() -> None:
    chosen = plan(1000, dropout=0.1, corrupt=0.1, largest=2**20)
    assert (chosen.neighbours, chosen.threshold, chosen.ring) == (57, 29, Ring(31))
    assert (chosen.corrupt_clients, chosen.dropped_clients) == (100, 100)
    for k in range(2, 57):
        if k % 2 == 0 or k == 55:
            for t in range(2, k + 1):
                assert not meets(1000, k, t, 100, 100, Fraction(1, 2**40), Fraction(1, 2**40))


def test_shares_are_the_decimals_that_were_written() -> None:
    for n, written, expected in [(10, 0.3, 3), (1000, 0.29, 290), (100, 0.07, 7), (15, 0.1, 1)]:
        chosen = plan(n, dropout=written, corrupt=written, security_bits=2, failure=0.25)
        assert chosen.dropped_clients == chosen.corrupt_clients == expected


# Rounds as planned.


@given(sizes=sizes, variant=st.sampled_from(["semi-honest", "malicious"]))
def test_a_round_accepts_its_plan_or_the_plan_was_refused(
    sizes: tuple[int, int, int], variant: Any
) -> None:
    n, bad, out = sizes
    try:
        chosen = plan(
            n, dropout=Fraction(out, n), corrupt=Fraction(bad, n), security_bits=4, failure=0.1,
            largest=100, variant=variant,
        )  # fmt: skip
    except ParameterError:
        majority = (n + bad) // 2 + 1 if variant == "malicious" else 0
        assert n - out < max(3, bad + 2, majority)
        return
    graph = chosen.graph(range(n), rng=Prg(SEED))
    assert graph.degree == chosen.neighbours
    colluding = bad if chosen.is_complete else 0
    params = RoundParams(
        bytes(16), 0, graph.clients, chosen.threshold, chosen.ring, 3, variant, colluding,
        graph=graph,
    )  # fmt: skip
    assert params.least <= n - out
    assert chosen.variant == variant
    if variant == "malicious":
        assert chosen.is_complete
        assert 2 * chosen.threshold > n + bad


def test_the_ring_holds_the_sum_of_all() -> None:
    for n in (3, 100, 1023, 1024, 1025):
        for largest in (1, 2**22, 2**22 - 1, 2**22 + 1):
            chosen = plan(n, dropout=0, corrupt=0, largest=largest)
            bits = chosen.ring.bits
            assert n * largest < 2 ** (bits - 1) <= 2 * n * largest
            quantizer = Quantizer(float(largest), 0, chosen.ring, n)
            assert quantizer.bound == largest
            with pytest.raises(ParameterError):
                Quantizer(float(largest), 0, Ring(bits - 1), n)


def test_a_plan_without_a_range_knows_no_ring() -> None:
    with pytest.raises(ParameterError, match="knows no ring"):
        _ = plan(10, dropout=0, corrupt=0).ring


def test_a_plan_is_for_its_own_number_of_clients() -> None:
    chosen = plan(100, dropout=0.1, corrupt=0.1)
    assert chosen.graph(range(100)) != chosen.graph(range(100))
    with pytest.raises(ParameterError, match="for 100 clients, got 99"):
        chosen.graph(range(99))


# Refusals.


@pytest.mark.parametrize("value", [-0.1, 1.0, 1, 2, float("nan"), float("inf"), "0.1", None, True])
@pytest.mark.parametrize("name", ["dropout", "corrupt", "failure"])
def test_shares_outside_their_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        plan(100, **({"dropout": 0.1, "corrupt": 0.1} | {name: value}))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"failure": 0.0}, "failure"),
        ({"security_bits": 0}, "security_bits"),
        ({"security_bits": 257}, "security_bits"),
        ({"security_bits": 40.0}, "security_bits"),
        ({"largest": 0}, "largest"),
        ({"largest": 1.5}, "largest"),
        ({"variant": "honest"}, "variant"),
    ],
)
def test_other_parameters_outside_their_range_are_refused(
    change: dict[str, Any], name: str
) -> None:
    with pytest.raises(ParameterError, match=name):
        plan(100, **({"dropout": 0.1, "corrupt": 0.1} | change))


@pytest.mark.parametrize("n", [2, 0, -5, 2**32 + 1, 10.0, True])
def test_cohorts_outside_their_range_are_refused(n: Any) -> None:
    with pytest.raises(ParameterError, match="n must"):
        plan(n, dropout=0.1, corrupt=0.1)


def test_o14_a_sum_beyond_64_bits_is_refused_with_the_missing_bits() -> None:
    with pytest.raises(ParameterError, match=r"takes 68 bits with the sign: 4 more than 64"):
        plan(8, dropout=0, corrupt=0, largest=2**63)
    assert plan(8, dropout=0, corrupt=0, largest=2**60 - 1).ring == Ring(64)


def tenth(count: int) -> Fraction:
    return Fraction(count, 10)


@pytest.mark.parametrize(
    ("bad", "out", "variant", "remedies"),
    [
        (5, 4, "semi-honest", (3, 4)),
        (3, 6, "semi-honest", (5, 2)),
        (0, 8, "semi-honest", (7, None)),
        (9, 0, "semi-honest", (None, 8)),
        (9, 9, "semi-honest", (None, None)),
        (3, 4, "malicious", (3, 1)),
        (0, 5, "malicious", (4, None)),
        (7, 2, "malicious", (1, 5)),
        (9, 0, "malicious", (None, 8)),
    ],
)
def test_what_cannot_be_met_is_refused_with_what_can(
    bad: int, out: int, variant: Any, remedies: tuple[int | None, int | None]
) -> None:
    with pytest.raises(ParameterError) as refused:
        plan(10, dropout=tenth(out), corrupt=tenth(bad), variant=variant)
    expected = []
    if remedies[0] is not None:
        expected.append(f"with {bad} corrupt, at most {remedies[0]} may drop out")
        plan(10, dropout=tenth(remedies[0]), corrupt=tenth(bad), variant=variant)
        with pytest.raises(ParameterError):
            plan(10, dropout=tenth(remedies[0] + 1), corrupt=tenth(bad), variant=variant)
    if remedies[1] is not None:
        expected.append(f"with {out} dropped, at most {remedies[1]} may be corrupt")
        plan(10, dropout=tenth(out), corrupt=tenth(remedies[1]), variant=variant)
        with pytest.raises(ParameterError):
            plan(10, dropout=tenth(out), corrupt=tenth(remedies[1] + 1), variant=variant)
    assert refused.value.remedy == ("; ".join(expected) or "lower both dropout and corrupt")


def test_more_neighbours_than_the_field_has_indices_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secagg.plan, "MAX_NEIGHBOURS", 56)
    with pytest.raises(ParameterError, match="1000 clients would need more than 56 neighbours"):
        plan(1000, dropout=0.1, corrupt=0.1)
    monkeypatch.setattr(secagg.plan, "MAX_NEIGHBOURS", 57)
    assert plan(1000, dropout=0.1, corrupt=0.1).neighbours == 57


# For people.


def test_bounds_are_shown_rounded_up() -> None:
    assert shown(Fraction(0)) == "0"
    assert shown(Fraction(1)) == shown(Fraction(999, 1000)) == "1"
    assert shown(Fraction(1, 2)) == "2^-0.9"
    assert shown(Fraction(1, 2**40)) == "2^-39.9"
    assert shown(Fraction(1, 3 * 2**5000)) == "2^-5001.5"


@given(st.fractions(0, 1).filter(bool))
def test_a_bound_is_never_shown_smaller_than_it_is(probability: Fraction) -> None:
    text = shown(probability)
    assert text == "1" or Fraction(2) ** round(10 * float(text[2:])) >= probability**10


def test_a_plan_prints_what_it_achieves() -> None:
    chosen = plan(1000, dropout=0.1, corrupt=0.1, largest=2**21)
    assert "Bounds(exposed=2^-41.5, disconnected=2^-121.2, unrecoverable=2^-41.5)" in repr(chosen)
    assert chosen.table().splitlines() == [
        "|  | planned |",
        "| --- | --- |",
        "| clients n | 1000 |",
        "| variant | semi-honest |",
        "| corrupt, at most | 100 |",
        "| dropped, at most | 100 |",
        "| neighbours k | 57 |",
        "| threshold t | 29 |",
        "| ring | Z_2^32 |",
        "| an honest client has t corrupt neighbours | 2^-41.5 |",
        "| honest survivors are disconnected | 2^-121.2 |",
        "| a client has fewer than t neighbours left | 2^-41.5 |",
    ]
    small = plan(5, dropout=0.2, corrupt=0.2)
    assert isinstance(small, Plan)
    assert "| neighbours k | 4 (complete) |" in small.table()
    assert "| ring | not planned |" in small.table()
