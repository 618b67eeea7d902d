"""Programs of shared arrays: products, public factors, means, and opening.

Each takes arrays of ``mpc.shared`` and a supply, and runs for all parties or for a single one.
The result of a product has as many fractional bits as the factor that has more; what a product has
on top is truncated, once for each result, however many terms a sum of products has.

Source: ``mpc.beaver`` and ``mpc.truncation``; the budget is that of the latter: a result that is
    truncated lies in [-2^(l-2), 2^(l-2)], so that l >= 2 f + integer bits of both factors +
    ceil(log2 terms) + 2.
Model: that of these two.
Leaks: nothing but what is opened.
Error: a truncated result is off by less than one unit of its last place, and right on average. A
    public factor that is no integer is rounded first, to as many fractional bits g as the budget
    has room for: by 2^-(g+1) at most, and g >= f. Errors of the inputs are passed on.
Rounds: one for a product of shared arrays; one more where there is something to truncate.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.beaver import matmul, multiply, square
from mpc.core.errors import ParameterError
from mpc.core.ring import RingArray
from mpc.fixed import FixedPoint
from mpc.programs import Open, Program
from mpc.shared import Axis, Shared, aligned, check_room, is_integral, largest, spread
from mpc.supply import Supply, matmul_shape
from mpc.truncation import truncate

S = TypeVar("S", bound=Shared)

_PRODUCT = "this product"


def product(x: S, y: S, supply: Supply) -> Program[S]:
    """x * y, element by element."""
    x.check_alike(y)
    bound = x.bound * y.bound
    drop = _checked(bound, x, y.frac_bits)
    shares = yield from multiply(*aligned(x.shares, y.shares), supply, x.ring)
    return (yield from _cut(x, shares, bound, x.frac_bits + y.frac_bits, drop, supply))


def squared(x: S, supply: Supply) -> Program[S]:
    """x * x: half of what a product sends."""
    bound = x.bound * x.bound
    drop = _checked(bound, x, x.frac_bits)
    shares = yield from square(x.shares, supply, x.ring)
    return (yield from _cut(x, shares, bound, 2 * x.frac_bits, drop, supply))


def matrix_product(x: S, y: S, supply: Supply) -> Program[S]:
    """x @ y, as numpy multiplies the two shapes."""
    x.check_alike(y)
    matmul_shape(x.shape, y.shape)
    bound = x.bound * y.bound * x.shape[-1]
    drop = _checked(bound, x, y.frac_bits)
    shares = yield from matmul(x.shares, y.shares, supply, x.ring)
    return (yield from _cut(x, shares, bound, x.frac_bits + y.frac_bits, drop, supply))


def scaled(x: S, factor: ArrayLike, supply: Supply) -> Program[S]:
    """x times public numbers, element by element: no triple, and no opening for integers."""
    plain, bits, size = _factor(factor, x, 1)
    shape = np.broadcast_shapes(x.shape, plain.shape)
    shares = x.ring.mul(spread(x.shares, shape), plain)
    return (yield from _rescaled(x, shares, x.bound * size, bits, supply))


def matrix_scaled(x: S, right: ArrayLike, supply: Supply) -> Program[S]:
    """x @ a public matrix: no triple, and no opening for integers."""
    shape = np.shape(right)
    matmul_shape(x.shape, shape)
    return (yield from _matrix(x, right, x.shape[-1], np.matmul, supply))


def scaled_matrix(left: ArrayLike, x: S, supply: Supply) -> Program[S]:
    """A public matrix @ x: no triple, and no opening for integers."""
    shape = np.shape(left)
    matmul_shape(shape, x.shape)
    return (
        yield from _matrix(x, left, shape[-1], lambda own, plain: np.matmul(plain, own), supply)
    )


def mean(x: S, axis: Axis, supply: Supply) -> Program[S]:
    """The mean along one axis of the secret or several, or of all numbers.

    Off by one unit, and by 2^-(g+1) of the sum's largest absolute value: with 2^k terms of at most
    2^m units, g = l - 2 - m + k, in all 2^(2m-l+1) units.
    """
    terms = x.terms(axis)
    if not terms:
        raise ParameterError("the mean of no numbers is not defined")
    total = x.sum(axis)
    # The sum of numbers up to ``bound`` times 1 / terms is no larger than ``bound``.
    result = yield from scaled(total, 1 / terms, supply)
    return replace(result, bound=min(result.bound, _units(x, result.frac_bits) + 1))


def reveal(x: Shared) -> Program[NDArray[Any]]:
    """The numbers, to all parties: float64, or int64 where they have no fractional bits."""
    (opened,) = yield Open(x.ring, (x.shares,))
    if not x.frac_bits:
        return x.ring.signed(opened)
    return FixedPoint(x.ring, x.frac_bits).decode(opened)


def _units(x: Shared, frac_bits: int) -> int:
    """The bound of ``x`` in units of 2^-frac_bits, rounded up."""
    shift = frac_bits - x.frac_bits
    return x.bound << shift if shift >= 0 else -(-x.bound >> -shift)


def _matrix(
    x: S,
    matrix: ArrayLike,
    terms: int,
    multiplied: Callable[[RingArray, RingArray], RingArray],
    supply: Supply,
) -> Program[S]:
    plain, bits, size = _factor(matrix, x, terms)
    shares = x.ring.reduce(np.stack([multiplied(row, plain) for row in x.shares]))
    return (yield from _rescaled(x, shares, x.bound * size * terms, bits, supply))


def _factor(values: ArrayLike, x: Shared, terms: int) -> tuple[RingArray, int, int]:
    """Public factors in the ring, their fractional bits, and the largest absolute value.

    Integers have no fractional bits. Others have as many as make them exact, or as many as the
    budget has room for, and at least those of the format.
    """
    ring = x.ring
    if is_integral(values):
        plain = FixedPoint(ring, 0).encode(values)
        size = largest(plain, ring)
        check_room(_PRODUCT, x.bound * size * terms, ring)
        return plain, 0, size
    numbers = np.asarray(values)
    if numbers.dtype.kind != "f":
        raise ParameterError(f"public factors must be real numbers, got dtype {numbers.dtype}")
    numbers = numbers.astype(np.float64)
    exact, exponent = _places(numbers)
    wanted = min(exact, x.fixed.frac_bits)
    # All factors are below 2^exponent in absolute value.
    total = max(1, x.bound * terms)
    room = ((1 << (ring.bits - 2)) // total).bit_length() - 1 - exponent
    bits = max(wanted, min(exact, room, ring.bits - 2))
    if bits + exponent >= ring.bits:
        check_room(_PRODUCT, total << bits + exponent, ring, cut=True)
    plain = FixedPoint(ring, bits).encode(numbers)
    return plain, bits, largest(plain, ring)


def _places(numbers: NDArray[np.float64]) -> tuple[int, int]:
    """Fractional bits that hold all numbers exactly, and e such that all lie in (-2^e, 2^e)."""
    given = numbers[numbers != 0]
    if not np.isfinite(given).all():
        raise ParameterError("public factors must be finite")
    if not given.size:
        return 0, 0
    fractions, exponents = np.frexp(given)
    whole = np.ldexp(fractions, 53).astype(np.int64)
    # The lowest set bit of the 53-bit integer, as a power of two.
    _, low = np.frexp((whole & -whole).astype(np.float64))
    return max(0, int((54 - low - exponents).max())), int(exponents.max())


def _rescaled(x: S, shares: RingArray, bound: int, bits: int, supply: Supply) -> Program[S]:
    """A product with a public factor of ``bits`` fractional bits."""
    has = x.frac_bits + bits
    drop = max(0, has - max(x.frac_bits, x.fixed.frac_bits)) if bits else 0
    check_room(_PRODUCT, bound, x.ring, cut=drop > 0)
    return (yield from _cut(x, shares, bound, has, drop, supply))


def _checked(bound: int, x: Shared, frac_bits: int) -> int:
    """How many fractional bits a product has too many; ParameterError if it does not fit."""
    drop = min(x.frac_bits, frac_bits)
    check_room(_PRODUCT, bound, x.ring, cut=drop > 0)
    return drop


def _cut(
    x: S, shares: RingArray, bound: int, frac_bits: int, drop: int, supply: Supply
) -> Program[S]:
    if drop:
        shares = yield from truncate(shares, drop, supply, x.ring)
        bound = (bound >> drop) + 1
    return replace(x, shares=shares, bound=bound, frac_bits=frac_bits - drop)
