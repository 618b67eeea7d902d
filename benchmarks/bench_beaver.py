"""Products of shared numbers by parties: alone, with their truncation, of matrices; triples."""

from typing import Any

import numpy as np
import pytest

from mpc.additive import reconstruct, share
from mpc.arrays import Engine
from mpc.beaver import matmul, multiply, square
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.fixed import FixedPoint
from mpc.programs import Program, together
from mpc.supply import LocalDealer, MatrixProduct, Product

RING = Ring(64)
SIZE = 100_000
SIDE = 64


def _describe(benchmark: Any, n: int, program: Program[RingArray], operations: int) -> None:
    network = LocalNetwork()
    together(program, n, network=network)
    benchmark.extra_info.update(
        operations=operations, rounds=network.round, bytes=network.bytes, ring_bits=RING.bits
    )


@pytest.mark.benchmark(group="beaver.product")
@pytest.mark.parametrize("kind", ["multiply", "square"])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_product(benchmark: Any, n: int, kind: str) -> None:
    """Triples and everybody's part, element by element."""
    x, y = RING.random((2, SIZE), SYSTEM_RNG)
    supply = LocalDealer(n, RING)
    left, right = share(x, n, RING), share(y, n, RING)

    def program() -> Program[RingArray]:
        if kind == "square":
            return square(left, supply, RING)
        return multiply(left, right, supply, RING)

    result = benchmark(lambda: together(program(), n))
    assert np.array_equal(reconstruct(result, RING), x * (x if kind == "square" else y))
    _describe(benchmark, n, program(), SIZE)


@pytest.mark.benchmark(group="beaver.matmul")
@pytest.mark.parametrize("n", [2, 3])
def test_matmul(benchmark: Any, n: int) -> None:
    """A product of two square matrices, with one triple for the whole."""
    x, y = RING.random((2, SIDE, SIDE), SYSTEM_RNG)
    supply = LocalDealer(n, RING)
    left, right = share(x, n, RING), share(y, n, RING)
    result = benchmark(lambda: together(matmul(left, right, supply, RING), n))
    assert np.array_equal(reconstruct(result, RING), x @ y)
    _describe(benchmark, n, matmul(left, right, supply, RING), SIDE**3)


@pytest.mark.benchmark(group="beaver.fixed")
@pytest.mark.parametrize("operation", ["*", "square", "@", "public"])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_fixed_point(benchmark: Any, n: int, operation: str) -> None:
    """Products of numbers with 16 fractional bits, truncated."""
    engine = Engine(n, FixedPoint(RING, 16))
    shape = (SIDE, SIDE) if operation == "@" else (SIZE,)
    numbers = np.sin(np.arange(np.prod(shape))).reshape(shape)
    x = engine.share(numbers, magnitude=1)
    if operation == "*":
        result, plain = benchmark(lambda: x * x), numbers * numbers
    elif operation == "square":
        result, plain = benchmark(x.square), numbers * numbers
    elif operation == "@":
        result, plain = benchmark(lambda: x @ x), numbers @ numbers
    else:
        result, plain = benchmark(lambda: x * 0.3), numbers * 0.3
    assert np.abs(engine.open(result) - plain).max() <= 2.0**-15 * max(1, len(shape) * SIDE)
    benchmark.extra_info.update(operations=numbers.size, ring_bits=RING.bits)


@pytest.mark.benchmark(group="beaver.triples")
@pytest.mark.parametrize("kind", ["elements", "matrices"])
@pytest.mark.parametrize("n", [3, 10])
def test_triples(benchmark: Any, n: int, kind: str) -> None:
    """What the dealer makes."""
    item = Product((SIZE,)) if kind == "elements" else MatrixProduct((SIDE, SIDE), (SIDE, SIDE))
    triple = benchmark(LocalDealer(n, RING).take, item)
    a, b, c = (reconstruct(rows, RING) for rows in (*triple.free, *triple.bound))
    assert np.array_equal(c, a * b if kind == "elements" else a @ b)
    benchmark.extra_info.update(operations=c.size, rounds=1, ring_bits=RING.bits)
