"""Items dealt whole and in pieces, to all parties and to one; names; shapes of products."""

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.programs import Seats
from mpc.supply import (
    Item,
    LocalDealer,
    MatrixProduct,
    Product,
    Shares,
    Square,
    Truncation,
    deal,
    expand,
    matmul_shape,
)

ITEMS: list[Item] = [
    Product((5,)),
    Product(()),
    Product((0,)),
    Product((2, 3)),
    Product((300_000,)),
    Square((4, 1)),
    Truncation((7,), 3),
    Truncation((), 0),
    Truncation((70_000, 2), 5),
    MatrixProduct((2, 3), (3, 4)),
    MatrixProduct((3,), (3,)),
    MatrixProduct((2, 1, 3), (1, 3, 2)),
]


def follows(item: Item, shares: Shares, ring: Ring) -> bool:
    """Whether all shares together are an item: what is bound follows from what is free."""
    free = [ring.sum(rows, axis=0) for rows in shares.free]
    bound = [ring.sum(rows, axis=0) for rows in shares.bound]
    expected = item.follow(free, ring)
    shapes = [rows.shape[1:] for rows in (*shares.free, *shares.bound)]
    return shapes == [*item.free, *item.bound] and all(map(np.array_equal, bound, expected))


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize(("n", "bits"), [(2, 64), (3, 8), (5, 33)])
def test_what_is_bound_follows_from_what_is_free(item: Item, n: int, bits: int) -> None:
    ring = Ring(bits)
    shares = LocalDealer(n, ring).take(item)
    assert follows(item, shares, ring)
    assert all(ring.check(rows) is rows for rows in (*shares.free, *shares.bound))


def test_a_wrong_correction_is_caught() -> None:
    ring, item = Ring(16), Product((4,))
    shares = LocalDealer(3, ring).take(item)
    shares.bound[0][2, 1] ^= 1
    assert not follows(item, shares, ring)


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("n", [2, 4])
def test_a_party_alone_expands_byte_for_byte_what_the_dealer_gives_her(item: Item, n: int) -> None:
    ring = Ring(20)
    seeds = [bytes([party]) * 32 for party in range(n)]
    dealt = deal(item, n, ring, [Prg(seed) for seed in seeds])
    for party, seed in enumerate(seeds):
        own, mine = expand(item, party, n, ring, Prg(seed)), dealt.of(party)
        parts = zip(mine.free, own.free, strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in parts)
        if party < n - 1:
            parts = zip(mine.bound, own.bound, strict=True)
            assert all(a.tobytes() == b.tobytes() for a, b in parts)
        else:
            assert not any(rows.any() for rows in own.bound)


@given(
    n=st.integers(2, 6),
    bits=st.integers(3, 64),
    shape=st.lists(st.integers(0, 4), max_size=3),
)
def test_any_number_of_parties_ring_and_shape(n: int, bits: int, shape: list[int]) -> None:
    ring = Ring(bits)
    for item in (Product(tuple(shape)), Square(tuple(shape)), Truncation(tuple(shape), bits - 2)):
        assert follows(item, deal(item, n, ring, [SYSTEM_RNG] * n), ring)


def test_an_item_that_is_not_elementwise_is_dealt_whole() -> None:
    class Sum(Item):
        """The sum of all its numbers: no part of it follows by itself."""

        @property
        def free(self) -> tuple[tuple[int, ...], ...]:
            return ((300_000,),)

        @property
        def bound(self) -> tuple[tuple[int, ...], ...]:
            return ((),)

        def follow(self, free: Sequence[RingArray], ring: Ring) -> tuple[RingArray, ...]:
            return (ring.sum(free[0]),)

    ring = Ring(64)
    assert follows(Sum(), LocalDealer(3, ring).take(Sum()), ring)


def test_items_are_handed_out_once_and_may_be_overwritten() -> None:
    ring, item = Ring(64), Product((100,))
    dealer = LocalDealer(3, ring)
    first, second = dealer.take(item), dealer.take(item)
    for a, b in zip((*first.free, *first.bound), (*second.free, *second.bound), strict=True):
        assert not (a == b).any()
        assert not np.shares_memory(a, b)
        assert a.flags.writeable
        assert b.flags.writeable


def test_no_two_items_have_one_name() -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (1, 2), (2, 1), (1, 1, 2), (12,)]
    items: list[Item] = [kind(shape) for kind in (Product, Square) for shape in shapes]
    items += [Truncation(shape, f) for shape in shapes for f in (0, 1, 2, 12)]
    items += [
        MatrixProduct((*a, 2), (2, *b)) for a, b in product(((), (1,), (3,)), ((), (1,), (3,)))
    ]
    assert all(a.name != b.name for a, b in combinations(items, 2))


@given(
    left=st.lists(st.integers(0, 3), max_size=4),
    right=st.lists(st.integers(0, 3), max_size=4),
)
def test_the_shape_of_a_matrix_product_is_that_of_numpy(left: list[int], right: list[int]) -> None:
    a, b = np.zeros(left), np.zeros(right)
    try:
        expected = np.matmul(a, b).shape
    except ValueError:
        with pytest.raises(ParameterError, match=r"product|go together"):
            matmul_shape(tuple(left), tuple(right))
    else:
        assert matmul_shape(tuple(left), tuple(right)) == expected
        assert MatrixProduct(tuple(left), tuple(right)).bound == (expected,)


@pytest.mark.parametrize(("n", "rngs"), [(1, 1), (3, 2), (2, 3), (0, 0)])
def test_a_dealer_needs_a_generator_for_each_of_two_parties_or_more(n: int, rngs: int) -> None:
    with pytest.raises(ParameterError):
        deal(Product((1,)), n, Ring(8), [SYSTEM_RNG] * rngs)


def test_rows_of_shares_are_views() -> None:
    shares = LocalDealer(3, Ring(64)).take(Product((2,)))
    shares.of(1).free[0][0, 0] = 77
    assert shares.free[0][1, 0] == 77
    assert LocalDealer(3, Ring(64)).seats == Seats(3)


def test_no_repr_shows_shares() -> None:
    shares = LocalDealer(2, Ring(64)).take(Product((2,)))
    assert repr(shares) == "Shares()"
