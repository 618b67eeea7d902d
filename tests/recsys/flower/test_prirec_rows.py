"""The user network at the level of nodes: who is told what, and rows that a node refuses."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import WireError
from recsys.flower.prirec_rows import Rows, node_rows
from recsys.network import UserNetwork, weigh

USERS, NODES, SIZE = 40, 6, 5


def network(seed: int = 0, size: int = SIZE) -> UserNetwork:
    rng = np.random.default_rng(seed)
    rows = [rng.choice(np.delete(np.arange(USERS), u), size, replace=False) for u in range(USERS)]
    neighbours = np.array(rows, dtype=np.int32)
    return weigh(neighbours, np.zeros(neighbours.shape))


IDS = np.arange(USERS, dtype=np.uint32) * 3
PARTIES = (np.arange(USERS) % NODES).astype(np.uint32)


def whole(seed: int = 0) -> Rows:
    return node_rows(network(seed), IDS, PARTIES)[0]


def ids_of(party: int) -> Any:
    return IDS[party == PARTIES]


@given(st.integers(0, 10**6))
def test_every_user_mixes_if_three_other_nodes_or_none_have_her_neighbours(seed: int) -> None:
    graph = network(seed)
    rows, unmixed = node_rows(graph, IDS, PARTIES)
    for user in range(USERS):
        others = set(PARTIES[graph.neighbours[user]].tolist()) - {int(PARTIES[user])}
        place = np.flatnonzero(rows.receivers == IDS[user])
        assert (place.size == 1) == (not others or len(others) >= 3)
        if place.size:
            assert rows.senders(int(place[0])) == tuple(sorted(others))
            assert rows.neighbours[place[0]].tolist() == IDS[graph.neighbours[user]].tolist()
    assert unmixed == USERS - len(rows)


def test_a_node_is_told_the_rows_that_name_it_and_no_other() -> None:
    rows = whole()
    for party in range(NODES):
        mine = rows.of(party)
        mine.check(party, ids_of(party))
        named = (rows.homes == party) | (rows.parties == party).any(axis=1)
        assert mine.receivers.tolist() == rows.receivers[named].tolist()
        assert 0 < len(mine) < len(rows)
        assert party not in rows.peers(party)


def test_both_ends_of_a_sum_have_the_same_hash_and_everything_counts() -> None:
    rows = whole()
    first = rows.digest(0)
    for party in rows.senders(0):
        mine = rows.of(party)
        place = int(np.flatnonzero(mine.receivers == rows.receivers[0])[0])
        assert mine.digest(place) == first
    seen = {first}
    for field in fields(Rows):
        changed = getattr(rows, field.name).copy()
        changed[0] = changed[0] + 1
        seen.add(replace(rows, **{field.name: changed}).digest(0))
    assert len(seen) == 1 + len(fields(Rows))


@given(st.integers(0, 10**6))
def test_the_longest_letter_is_as_long_as_any(seed: int) -> None:
    rows = whole(seed)
    counts: dict[tuple[int, int], int] = {}
    for row in range(len(rows)):
        for sender in rows.senders(row):
            pair = (sender, int(rows.homes[row]))
            counts[pair] = counts.get(pair, 0) + 1
    assert rows.longest_letter() == max(counts.values(), default=0)


def test_without_neighbours_there_are_no_rows() -> None:
    rows, unmixed = node_rows(network(size=0), IDS, PARTIES)
    assert (len(rows), unmixed, rows.longest_letter()) == (0, 0, 0)
    Rows.from_arrays(rows.to_arrays()).check(0, ids_of(0))


def test_arrays_are_exact_inverses() -> None:
    rows = whole()
    again = Rows.from_arrays(rows.to_arrays())
    assert all(np.array_equal(getattr(again, f.name), getattr(rows, f.name)) for f in fields(rows))


PARTY = 2
Change = Callable[[Rows], dict[str, Any]]


def swapped(values: Any, a: int = 0, b: int = 1) -> Any:
    out = values.copy()
    out[[a, b]] = out[[b, a]]
    return out


def at(values: Any, place: Any, value: Any) -> Any:
    out = values.copy()
    out[place] = value
    return out


def foreign(rows: Rows) -> int:
    """A row whose receiver lives elsewhere."""
    return int(np.flatnonzero(rows.homes != PARTY)[0])


def few(rows: Rows) -> dict[str, Any]:
    """A receiver all of whose neighbours are on two nodes; one of them this one."""
    row = foreign(rows)
    other = next(p for p in rows.senders(row) if p != PARTY)
    own = rows.parties[row] == PARTY
    return {"parties": at(rows.parties, row, np.where(own, PARTY, other))}


BREAKS: dict[str, Change] = {
    "rows rise by their receivers": lambda r: {"receivers": swapped(r.receivers)},
    "members of a row are distinct": lambda r: {
        "neighbours": at(r.neighbours, (0, 0), r.neighbours[0, 1])
    },
    "ids are below 2": lambda r: {"receivers": at(r.receivers, len(r) - 1, 2**31)},
    "each row names this node": lambda r: {
        "parties": at(r.parties, 0, 5),
        "homes": at(r.homes, 0, 4),
    },
    "this node's users are on it": lambda r: {
        "parties": at(r.parties, (0, int(np.argmax(r.parties[0] != PARTY))), PARTY)
    },
    "a sum has three senders": few,
    "weights lie in": lambda r: {"weights": at(r.weights, (0, 0), -0.1)},
    "weights sum to one at most": lambda r: {"own": at(r.own, 0, 0.9)},
}


@pytest.mark.parametrize(("rule", "change"), BREAKS.items(), ids=BREAKS)
def test_each_rule_refuses_rows_that_break_it(rule: str, change: Change) -> None:
    rows = whole().of(PARTY)
    rows.check(PARTY, ids_of(PARTY))
    with pytest.raises(WireError, match=rule):
        replace(rows, **change(rows)).check(PARTY, ids_of(PARTY))


def test_arrays_that_do_not_fit_are_refused() -> None:
    arrays = whole().to_arrays()
    for name, array in arrays.items():
        for wrong in (array[1:], array.astype(np.int64), array[np.newaxis]):
            with pytest.raises(WireError):
                Rows.from_arrays({**arrays, name: wrong})
    nan = at(arrays["rows.weights"], (0, 0), np.nan)
    with pytest.raises(WireError, match="not finite"):
        Rows.from_arrays({**arrays, "rows.weights": nan})
