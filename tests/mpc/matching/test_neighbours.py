"""The join against a plain one, and the exact law of the order of neighbours."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import permutations, product
from math import comb, factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.matching import neighbours as module
from mpc.matching.neighbours import Adjacency, join, limit, shuffle
from tests.support.walk import walk


def plain_join(sets: list[set[int]], low: int, high: int | None = None) -> list[set[int]]:
    """Neighbours from the sets themselves."""
    holders: dict[int, set[int]] = {}
    for user, items in enumerate(sets):
        for item in items:
            holders.setdefault(item, set()).add(user)
    groups = [g for g in holders.values() if low <= len(g) <= (len(sets) if high is None else high)]
    return [
        {v for group in groups if u in group for v in group if v != u} for u in range(len(sets))
    ]


def table(rows: Iterable[Iterable[int]], width: int) -> NDArray[np.uint8]:
    """Tokens (users, m, width): numbers in big-endian order, so that their last bytes differ."""
    made = [[list(number.to_bytes(width, "big")) for number in row] for row in rows]
    return np.array(made, dtype=np.uint8).reshape(len(made), -1, width)


def as_sets(adjacency: Adjacency) -> list[set[int]]:
    lists = [adjacency.of(user).tolist() for user in range(len(adjacency.offsets) - 1)]
    assert all(len(set(mine)) == len(mine) for mine in lists)  # each neighbour once
    return [set(mine) for mine in lists]


@given(
    st.integers(1, 4).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 12), min_size=m, max_size=m), min_size=1, max_size=12
        )
    ),
    st.integers(2, 4),
    st.none() | st.integers(4, 6),
    st.sampled_from([1, 2, 7, 8, 9, 16, 17]),
)
def test_neighbours_equal_a_plain_join(
    rows: list[list[int]], low: int, high: int | None, width: int
) -> None:
    found = join(table(rows, width), low, high)
    assert as_sets(found) == plain_join([set(row) for row in rows], low, high)
    assert found.degrees.tolist() == [len(mine) for mine in as_sets(found)]


@pytest.mark.parametrize(("flags", "pairs"), [(1, 1 << 22), (1 << 24, 1), (700, 90)])
def test_small_blocks_give_the_same(
    flags: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(1).integers(0, 60, (150, 4))
    whole = join(table(rows.tolist(), 16), 2)
    monkeypatch.setattr(module, "_BLOCK_FLAGS", flags)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", pairs)
    cut = join(table(rows.tolist(), 16), 2)
    assert np.array_equal(cut.members, whole.members)
    assert np.array_equal(cut.offsets, whole.offsets)
    assert as_sets(cut) == plain_join([set(row) for row in rows.tolist()], 2)


@pytest.mark.parametrize("byte", range(16))
def test_tokens_that_differ_in_one_byte_are_different(byte: int) -> None:
    tokens = np.zeros((2, 1, 16), dtype=np.uint8)
    assert as_sets(join(tokens, 2)) == [{1}, {0}]
    tokens[1, 0, byte] = 1
    assert as_sets(join(tokens, 2)) == [set(), set()]


def test_a_token_held_twice_by_one_user_is_one_holder() -> None:
    assert as_sets(join(table([[1, 1], [1, 1]], 2), 3)) == [set(), set()]
    assert as_sets(join(table([[1, 1], [1, 1]], 2), 2)) == [{1}, {0}]


@pytest.mark.parametrize("shape", [(0, 3, 16), (3, 0, 16), (1, 1, 16)])
def test_empty_and_lonely_populations_have_no_neighbours(shape: tuple[int, int, int]) -> None:
    found = join(np.zeros(shape, dtype=np.uint8), 2)
    assert found.members.size == 0
    assert found.offsets.tolist() == [0] * (shape[0] + 1)


@pytest.mark.parametrize(
    "tokens",
    [
        np.zeros((2, 3), np.uint8),
        np.zeros((2, 3, 16), np.int64),
        np.zeros((2, 3, 0), np.uint8),
        [[[1]]],
    ],
)
def test_other_shapes_and_dtypes_are_refused(tokens: Any) -> None:
    with pytest.raises(ParameterError, match="uint8 array of shape"):
        join(tokens, 2)


@pytest.mark.parametrize(("low", "high"), [(1, None), (0, None), (3, 2), (2.0, None), (True, 5)])
def test_bounds_out_of_order_are_refused(low: Any, high: Any) -> None:
    with pytest.raises(ParameterError, match="_group must"):
        join(table([[1]], 2), low, high)


def star(*degrees: int) -> Adjacency:
    """Users with so many neighbours each, named 0, 1, ... for every one."""
    offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    members = np.concatenate([np.arange(d) for d in degrees]).astype(np.int32)
    return Adjacency(offsets, members)


def test_every_order_of_every_list_is_equally_likely_and_independent() -> None:
    degrees = (3, 0, 1, 4, 2)
    before = star(*degrees)

    def orders(rng: Any) -> tuple[int, ...]:
        return tuple(shuffle(before, rng=rng).members.tolist())

    law, left = walk(orders)
    assert left == 0
    expected = {
        tuple(member for part in parts for member in part)
        for parts in product(*(list(permutations(range(d))) for d in degrees))
    }
    assert set(law) == expected
    count = 1
    for d in degrees:
        count *= factorial(d)
    assert set(law.values()) == {Fraction(1, count)}
    assert before.members.tolist() == star(*degrees).members.tolist()  # the given one is untouched


def test_a_bound_keeps_a_uniformly_random_subset() -> None:
    def kept(rng: Any) -> tuple[frozenset[int], ...]:
        bounded = limit(shuffle(star(4, 1, 3), rng=rng), 2)
        return tuple(frozenset(bounded.of(user).tolist()) for user in range(3))

    law, left = walk(kept)
    assert left == 0
    assert len(law) == comb(4, 2) * 1 * comb(3, 2)
    assert set(law.values()) == {Fraction(1, len(law))}


def test_a_shuffle_of_a_large_population_keeps_every_list() -> None:
    rows = np.random.default_rng(2).integers(0, 300, (400, 5))
    found = join(table(rows.tolist(), 16), 2)
    mixed = shuffle(found)
    assert as_sets(mixed) == as_sets(found)
    assert not np.array_equal(mixed.members, found.members)
