"""Products of shared numbers are exact in the ring, for any shape, ring and number of parties."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.additive import reconstruct, share
from mpc.beaver import matmul, multiply, square
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.programs import Program, together, wire_bytes
from mpc.supply import LocalDealer, Supply

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def shared(shape: tuple[int, ...], n: int, ring: Ring) -> tuple[RingArray, RingArray]:
    secret = ring.random(shape, SYSTEM_RNG)
    return secret, share(secret, n, ring)


@given(n=st.integers(2, 6), bits=st.integers(1, 64), shape=shapes)
def test_products_and_squares(n: int, bits: int, shape: tuple[int, ...]) -> None:
    ring = Ring(bits)
    dealer = LocalDealer(n, ring)
    (x, own_x), (y, own_y) = shared(shape, n, ring), shared(shape, n, ring)
    before = own_x.tobytes() + own_y.tobytes()
    result = together(multiply(own_x, own_y, dealer, ring), n)
    assert np.array_equal(reconstruct(result, ring), ring.mul(x, y))
    result = together(square(own_x, dealer, ring), n)
    assert np.array_equal(reconstruct(result, ring), ring.mul(x, x))
    assert own_x.tobytes() + own_y.tobytes() == before  # the factors' shares stay as they are


@given(
    n=st.integers(2, 4),
    bits=st.integers(1, 64),
    stack=st.lists(st.integers(1, 2), max_size=2),
    sizes=st.tuples(*[st.integers(0, 3)] * 3),
    vectors=st.tuples(st.booleans(), st.booleans()),
)
def test_matrix_products(
    n: int,
    bits: int,
    stack: list[int],
    sizes: tuple[int, int, int],
    vectors: tuple[bool, bool],
) -> None:
    ring = Ring(bits)
    rows, terms, columns = sizes
    left = (terms,) if vectors[0] else (*stack, rows, terms)
    right = (terms,) if vectors[1] else (terms, columns)
    (x, own_x), (y, own_y) = shared(left, n, ring), shared(right, n, ring)
    result = together(matmul(own_x, own_y, LocalDealer(n, ring), ring), n)
    assert np.array_equal(reconstruct(result, ring), ring.reduce(np.matmul(x, y)))


def test_arrays_larger_than_a_piece_are_multiplied_to_their_end() -> None:
    ring, n = Ring(64), 3
    (x, own_x), (y, own_y) = shared((100_003,), n, ring), shared((100_003,), n, ring)
    result = together(multiply(own_x, own_y, LocalDealer(n, ring), ring), n)
    assert np.array_equal(reconstruct(result, ring), x * y)


def test_factors_may_be_views_that_nobody_may_write() -> None:
    ring, n = Ring(64), 3
    (x, own_x), (y, own_y) = shared((4, 3), n, ring), shared((3,), n, ring)
    wide = np.broadcast_to(own_y[:, np.newaxis], (n, 4, 3))
    turned = own_x.transpose(0, 2, 1)[:, ::-1].transpose(0, 2, 1)
    result = together(multiply(turned, wide, LocalDealer(n, ring), ring), n)
    assert np.array_equal(reconstruct(result, ring), x[:, ::-1] * y)


def run_multiply(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    return multiply(x, y, supply, ring)


def run_square(x: RingArray, y: RingArray, supply: Supply, ring: Ring) -> Program[RingArray]:
    return square(x, supply, ring)


@pytest.mark.parametrize(("run", "opened"), [(run_multiply, 2), (run_square, 1), (matmul, 2)])
def test_one_round_and_the_bytes_that_are_stated(
    run: Callable[..., Program[RingArray]], opened: int
) -> None:
    ring, n, network = Ring(64), 4, LocalNetwork()
    x = share(ring.random((5, 5), SYSTEM_RNG), n, ring)
    together(run(x, x, LocalDealer(n, ring), ring), n, network=network)
    assert network.round == 1
    assert network.messages == n * (n - 1)
    assert network.bytes == n * (n - 1) * wire_bytes(opened * 25 * 8)


@pytest.mark.parametrize("run", [run_multiply, run_square, matmul])
def test_shares_of_another_number_of_parties_are_refused(
    run: Callable[..., Program[RingArray]],
) -> None:
    ring = Ring(64)
    for rows in (2, 4):
        wrong = np.zeros((rows, 2, 2), np.uint64)
        with pytest.raises(ParameterError, match="rows"):
            next(run(wrong, wrong, LocalDealer(3, ring), ring))


def test_factors_of_different_shapes_are_refused() -> None:
    ring = Ring(64)
    x, y = np.zeros((3, 2), np.uint64), np.zeros((3, 1), np.uint64)
    with pytest.raises(ParameterError, match="one shape"):
        next(multiply(x, y, LocalDealer(3, ring), ring))
    with pytest.raises(ParameterError, match="no product"):
        next(matmul(x, y, LocalDealer(3, ring), ring))
