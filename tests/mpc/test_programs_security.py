"""Exact laws of every coalition's view of products and truncation, and twins that must be caught.

All random tapes form the batch axis of the kernels that run.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from mpc.beaver import matmul, multiply, square
from mpc.core.ring import Ring, RingArray
from mpc.programs import Open, Program
from mpc.supply import Item, Shares, Supply
from mpc.truncation import truncate
from tests.mpc.program_views import Watched, copied, shared, spied, view
from tests.support.enumerate import TapeRng, law, tapes

Run = Callable[[tuple[RingArray, ...], Supply, Ring], Program[RingArray]]
Law = dict[bytes, Fraction]


def products(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
    return multiply(x[0], x[1], supply, ring)


def squares(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
    return square(x[0], supply, ring)


def matrices(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
    left, right = (part[..., np.newaxis, np.newaxis] for part in x)
    return matmul(left, right, supply, ring)


def coalitions(n: int) -> Iterable[tuple[int, ...]]:
    return (c for size in range(1, n) for c in combinations(range(n), size))


def telling(
    run: Run, n: int, bits: int, arity: int, draws: int, dealer: type[Watched] = Watched
) -> set[tuple[int, ...]]:
    """Coalitions whose views have different laws for different inputs."""
    ring = Ring(bits)
    values = tapes([2**bits] * (arity * (n - 1) + draws))
    masks, drawn = values[:, : arity * (n - 1)], values[:, arity * (n - 1) :]
    laws: dict[tuple[int, ...], list[Law]] = defaultdict(list)
    for secrets in product(range(2**bits), repeat=arity):
        inputs = tuple(
            shared(secret, masks[:, i * (n - 1) : (i + 1) * (n - 1)], ring)
            for i, secret in enumerate(secrets)
        )
        supply = dealer(n, ring, rng=TapeRng(drawn))
        _, sent = spied(run(inputs, supply, ring))
        for coalition in coalitions(n):
            laws[coalition].append(law(view(coalition, inputs, supply, sent)))
    return {coalition for coalition, found in laws.items() if any(one != found[0] for one in found)}


# Draws of the dealer: two free components of n shares, one bound one of n - 1.
@pytest.mark.parametrize("run", [products, matrices])
@pytest.mark.parametrize(("n", "bits"), [(2, 1), (2, 2), (3, 1)])
def test_no_coalition_learns_a_factor(run: Run, n: int, bits: int) -> None:
    assert telling(run, n, bits, 2, 3 * n - 1) == set()


@pytest.mark.parametrize(("n", "bits"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_no_coalition_learns_what_is_squared(n: int, bits: int) -> None:
    assert telling(squares, n, bits, 1, 2 * n - 1) == set()


def test_a_triple_that_serves_twice_is_caught() -> None:
    class Twice(Watched):
        def make(self, item: Item) -> Shares:
            return copied(self.dealt[0]) if hasattr(self, "dealt") else super().make(item)

    def both(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
        yield from multiply(x[0], x[1], supply, ring)
        return (yield from multiply(x[1], x[0], supply, ring))

    assert telling(both, 2, 1, 2, 5, Twice) == {(0,), (1,)}
    assert telling(both, 2, 1, 2, 10) == set()


def test_a_biased_ring_sample_is_caught() -> None:
    class Biased(Watched):
        """The top residue is never reached in a free component, zero comes twice."""

        def make(self, item: Item) -> Shares:
            shares = super().make(item)
            for rows in shares.free:
                rows[rows == rows.max()] = 0
            return shares

    assert telling(products, 2, 2, 2, 5, Biased) == {(0,), (1,)}


def test_a_mask_left_out_is_caught() -> None:
    def bare(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
        yield from multiply(x[0], x[1], supply, ring)
        yield Open(ring, (x[0],))
        return x[0]

    assert telling(bare, 2, 1, 2, 5) == {(0,), (1,)}


# Truncation. The functionality hands out the result's shares and the rounding coin; a coalition's
# view may depend on x through nothing, as long as the result stays shared.
def truncated(frac_bits: int) -> Run:
    def run(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
        return truncate(x[0], frac_bits, supply, ring)

    return run


@pytest.mark.parametrize("frac_bits", [0, 1])
def test_no_coalition_learns_what_is_truncated(frac_bits: int) -> None:
    assert telling(truncated(frac_bits), 2, 3, 1, 4) == set()


@pytest.mark.parametrize("frac_bits", [0, 1])
def test_with_the_result_open_only_result_and_coin_are_told(frac_bits: int) -> None:
    """All that a coalition sees has one law for all x with the same result under the same coin.

    The coin is c mod 2^f, by which x is rounded up or down; the functionality hands it out.
    """
    ring, laws = Ring(3), defaultdict(list)
    values = tapes([8] * 5)
    for number in range(-2, 3):
        x = shared(number, values[:, :1], ring)
        supply = Watched(2, ring, rng=TapeRng(values[:, 1:]))
        result, sent = spied(truncate(x, frac_bits, supply, ring))
        opened = ring.sum(result, axis=0)
        coin = ring.sum(sent[0], axis=0) % 2**frac_bits
        for coalition in coalitions(2):
            seen = view(coalition, (x,), supply, [*sent, result])
            for key in set(zip(opened.tolist(), coin.tolist(), strict=True)):
                chosen = (opened == key[0]) & (coin == key[1])
                laws[coalition, key].append(law(seen[chosen]))
    assert max(map(len, laws.values())) > (1 if frac_bits else 0)
    for found in laws.values():
        assert all(one == found[0] for one in found)


def test_a_short_mask_is_caught() -> None:
    class Short(Watched):
        """r has only half of the ring."""

        def make(self, item: Item) -> Shares:
            shares = super().make(item)
            for rows in shares.free:
                total = rows.sum(axis=0, dtype=rows.dtype) & np.uint8(7)
                rows[0] -= total & np.uint8(4)
                rows[0] &= np.uint8(7)
            return shares

    assert telling(truncated(1), 2, 3, 1, 4, Short) == {(0,), (1,)}


def test_a_pair_that_serves_two_truncations_is_caught() -> None:
    class Twice(Watched):
        def make(self, item: Item) -> Shares:
            return copied(self.dealt[0]) if hasattr(self, "dealt") else super().make(item)

    def both(x: tuple[RingArray, ...], supply: Supply, ring: Ring) -> Program[RingArray]:
        yield from truncate(x[0], 1, supply, ring)
        return (yield from truncate(ring.add(x[0], x[0]), 1, supply, ring))

    assert telling(both, 2, 3, 1, 4, Twice) == {(0,), (1,)}
