"""Parameters of a round, and closed neighbourhoods: thresholds, refusals, digests, sets."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from mpc.core.ring import Ring
from secagg.full.neighbourhoods import Neighbourhoods
from secagg.full.params import RoundParams, Variant
from tests.secagg.full.world import CLIENTS, OTHER_SESSION, SESSION, Circle, params

TEN = tuple(range(10))


def accepts(**fields: Any) -> bool:
    try:
        params(**fields)
    except ParameterError:
        return False
    return True


@pytest.mark.parametrize("n", range(3, 10))
@pytest.mark.parametrize("colluding", range(4))
def test_the_thresholds_are_those_of_the_paper(n: int, colluding: int) -> None:
    """Semi-honest: t > n_C. Malicious: 2 t > n + n_C, so t >= floor(n/2) + 1 for n_C = 0."""
    if colluding > n - 2:
        assert not accepts(clients=range(n), threshold=n, colluding=colluding)
        return
    for t in range(n + 2):
        fits = 2 <= t <= n
        common: dict[str, Any] = {"clients": range(n), "threshold": t, "colluding": colluding}
        assert accepts(**common) == (fits and t > colluding)
        assert accepts(variant="malicious", **common) == (fits and 2 * t > n + colluding)


def test_the_least_threshold_against_a_server_alone_is_half_and_one() -> None:
    for n in range(3, 12):
        least = next(
            t for t in range(n) if accepts(clients=range(n), threshold=t, variant="malicious")
        )
        assert least == n // 2 + 1


def test_a_sum_has_at_least_three_summands_and_two_honest_ones() -> None:
    assert params(threshold=2).least == 3
    assert params(threshold=4).least == 4
    assert params(threshold=4, colluding=3).least == 5
    assert params(threshold=2, min_survivors=5).least == 5
    sparse = params(TEN, threshold=4, graph=Circle(TEN, 2), colluding=6)
    assert sparse.least == 8
    assert params(TEN, threshold=4, graph=Circle(TEN, 2)).least == 3


def test_a_sparse_malicious_round_is_refused() -> None:
    with pytest.raises(ParameterError, match="sparse graph does not protect"):
        params(TEN, threshold=4, graph=Circle(TEN, 2), variant="malicious")


REFUSED: dict[str, dict[str, Any]] = {
    "two clients": {"clients": (1, 2), "threshold": 2},
    "no clients": {"clients": ()},
    "falling ids": {"clients": (1, 3, 2)},
    "one id twice": {"clients": (1, 2, 2, 3)},
    "negative id": {"clients": (-1, 2, 3)},
    "large id": {"clients": (1, 2, 2**32)},
    "an id that is a float": {"clients": (1, 2, 3.0)},
    "threshold 1": {"threshold": 1},
    "threshold 0": {"threshold": 0},
    "threshold above n": {"threshold": 6},
    "threshold above a neighbourhood": {
        "clients": TEN,
        "threshold": 6,
        "graph": Circle(TEN, 2),
    },
    "session of 15 bytes": {"session": bytes(15)},
    "round -1": {"round": -1},
    "round 2^32": {"round": 2**32},
    "dim 0": {"dim": 0},
    "dim 2^27": {"dim": 2**27},
    "another variant": {"variant": "covert"},
    "variant None": {"variant": None},
    "two survivors": {"min_survivors": 2},
    "more survivors than clients": {"min_survivors": 6},
    "all colluding": {"colluding": 4, "threshold": 5},
    "colluding -1": {"colluding": -1},
    "threshold True": {"threshold": True},
    "context of 33 bytes": {"context": bytes(33)},
    "context that is no bytes": {"context": "model"},
    "context that is an array": {"context": bytearray(32)},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_bad_parameters_are_refused(fields: dict[str, Any]) -> None:
    assert not accepts(**fields)


def test_a_ring_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="ring must be a Ring"):
        RoundParams(SESSION, 0, CLIENTS, 3, 32, 4)  # type: ignore[arg-type]


def test_the_digest_depends_on_everything() -> None:
    base = params(TEN, threshold=6)
    others = [
        replace(base, session=OTHER_SESSION),
        replace(base, round=8),
        replace(base, clients=tuple(range(1, 11))),
        replace(base, threshold=7),
        replace(base, ring=Ring(31)),
        replace(base, dim=5),
        replace(base, variant="malicious"),
        replace(base, colluding=1),
        replace(base, min_survivors=4),
        replace(base, threshold=4, graph=Circle(TEN, 2)),
        replace(base, threshold=4, graph=Circle(TEN, 3)),
        replace(base, threshold=4),
    ]
    assert len({p.offer_digest for p in [base, *others]}) == len(others) + 1
    others += [replace(base, context=context) for context in (b"\0", bytes(32), b"model")]
    assert len({p.digest for p in [base, *others]}) == len(others) + 1
    assert params(TEN, threshold=6).digest == base.digest
    assert {p.offer_digest for p in others[-3:]} == {base.offer_digest}
    assert base.digest != base.offer_digest


@pytest.mark.parametrize("touched", [False, True])
def test_a_context_is_known_late_and_fixed_once(touched: bool) -> None:
    """Whatever was computed before the context was known."""
    base = params(TEN, threshold=4, graph=Circle(TEN, 3))
    if touched:
        assert base.digest != base.offer_digest
        assert base.message_bytes
    bound = base.with_context(b"model")
    assert bound == replace(base, context=b"model")
    assert bound.digest == replace(base, context=b"model").digest
    assert bound.offer_digest == base.offer_digest
    assert bound.neighbourhoods is base.neighbourhoods
    assert base.context == b""
    assert base.digest == params(TEN, threshold=4, graph=Circle(TEN, 3)).digest
    assert bound.with_context(b"model") is bound
    assert base.with_context(b"") is base
    for other in (b"", b"other"):
        with pytest.raises(ParameterError, match="another context already"):
            bound.with_context(other)
    with pytest.raises(ParameterError, match="at most 32 bytes, got 33"):
        base.with_context(bytes(33))


@given(st.sets(st.sampled_from(TEN)))
def test_sets_travel_as_bits(chosen: set[int]) -> None:
    agreed = params(TEN, threshold=6)
    members = np.array([client in chosen for client in TEN], np.bool_)
    data = agreed.pack_set(members)
    assert len(data) == agreed.set_bytes == 2
    assert agreed.ids(agreed.unpack_set(data)) == tuple(sorted(chosen))


@given(st.binary(max_size=4))
def test_other_bytes_are_no_set(data: bytes) -> None:
    agreed = params(TEN, threshold=6)
    if len(data) == 2 and data[1] < 4:
        assert agreed.pack_set(agreed.unpack_set(data)) == data
    else:
        with pytest.raises(WireError):
            agreed.unpack_set(data)


def test_strangers_have_no_position() -> None:
    agreed = params()
    assert [agreed.position(client) for client in CLIENTS] == [0, 1, 2, 3, 4]
    assert 9 in agreed
    assert 3 not in agreed
    with pytest.raises(ParameterError, match="client 3"):
        agreed.position(3)


def test_the_repr_is_short() -> None:
    assert len(repr(params(range(1000)))) < 300


# Neighbourhoods.


class Given:
    def __init__(self, rows: dict[int, tuple[int, ...]]) -> None:
        self._rows = rows

    def neighbours(self, client: int) -> tuple[int, ...]:
        return self._rows[client]


BAD_GRAPHS = {
    "one-sided": {1: (2, 3), 2: (3,), 3: (1, 2)},
    "beside itself": {1: (1, 2), 2: (1, 3), 3: (2,)},
    "a stranger": {1: (2, 7), 2: (1, 3), 3: (2,)},
    "a greater stranger": {1: (2, 4), 2: (1,), 3: ()},
    "falling": {1: (3, 2), 2: (1, 3), 3: (1, 2)},
    "twice": {1: (2, 2), 2: (1, 1), 3: ()},
}


@pytest.mark.parametrize("rows", BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_bad_graphs_are_refused(rows: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(ParameterError):
        Neighbourhoods((1, 2, 3), Given(rows))


class Everybody:
    """The complete graph, spelt out."""

    def neighbours(self, client: int) -> tuple[int, ...]:
        return tuple(other for other in TEN if other != client)


def test_the_complete_graph_spelt_out_is_the_complete_graph() -> None:
    assert Neighbourhoods(TEN, Everybody()).complete
    assert Neighbourhoods(TEN, Everybody()).digest == Neighbourhoods(TEN, None).digest


@pytest.mark.parametrize("reach", [1, 2, 4, None])
def test_tables_agree_with_their_definition(reach: int | None) -> None:
    clients = tuple(range(5, 85, 8))
    graph = None if reach is None else Circle(clients, reach)
    beside = Neighbourhoods(clients, graph)
    members = np.array([at % 3 != 1 for at in range(10)])
    everybody = set(range(10))
    closed = {
        at: sorted(
            everybody
            if graph is None
            else {clients.index(c) for c in graph.neighbours(clients[at])} | {at}
        )
        for at in range(10)
    }
    assert (beside.smallest, beside.largest) == (len(closed[0]), len(closed[0]))
    before = beside.before(members)
    for owner, row in closed.items():
        assert beside.closed(owner).tolist() == row
        assert beside.counts(members)[owner] == sum(members[at] for at in row)
        for index, holder in enumerate(row, 1):
            one = np.array([owner])
            assert beside.share_indices(one, np.array([holder])).tolist() == [index]
            passed = sum(members[at] for at in row if at < holder)
            assert before[beside.entries(one, holder)].tolist() == [passed]


@pytest.mark.parametrize("variant", ["semi-honest", "malicious"])
def test_the_core_of_a_complete_graph_is_all_or_nothing(variant: Variant) -> None:
    agreed = params(variant=variant)
    three = np.array([True, False, True, False, True])
    assert np.array_equal(agreed.core(three), three)
    assert not agreed.core(three & (np.arange(5) > 0)).any()


def test_the_core_leaves_out_whoever_is_lonely_and_then_those_it_leaves_lonely() -> None:
    agreed = params(TEN, threshold=3, graph=Circle(TEN, 1))
    assert not agreed.core(np.arange(10) != 4).any()
    wide = params(TEN, threshold=3, graph=Circle(TEN, 2))
    without = ~np.isin(np.arange(10), [3, 4, 6])
    # Client 5 keeps 7 alone; everybody else keeps two at least.
    assert agreed.ids(wide.core(without)) == (0, 1, 2, 7, 8, 9)
