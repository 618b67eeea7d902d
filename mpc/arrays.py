"""Shared arrays of fixed-point numbers with numpy's operators, and a bit budget that is checked.

    engine = Engine(3, FixedPoint(Ring(64), 16))
    x, y = engine.share([1.5, -2.0], magnitude=8), engine.share([0.25, 4.0], magnitude=8)
    engine.open(x * y + 1)

Every array knows, publicly, how large its numbers can be. An operation that could leave the ring,
or the range of a truncation, is refused before anything is sent, with the bits that are missing.

Source: the budget l >= 2 f + integer bits of both factors + ceil(log2 terms) + 2 of
    ``mpc.truncation``; products by ``mpc.beaver``.
Model: that of ``mpc.beaver`` and ``mpc.truncation``. Magnitudes, shapes and operations are public.
Leaks: nothing but what is opened.
Error: encoding rounds by half of 2^-f at most; each product of fractions adds less than 2^-f, one
    unit for a whole dot product or sum of products, and passes on its factors' errors.
Differs: an ``Engine`` has all parties in one process. A party of its own runs ``product`` and its
    siblings, the same programs, in a ``programs.PartyRun``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc import additive
from mpc.beaver import matmul, multiply, square
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.fixed import FixedPoint
from mpc.programs import Open, Program, Seats, together
from mpc.supply import LocalDealer, Supply
from mpc.truncation import truncate

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SharedArray:
    """Numbers of absolute value at most ``bound`` 2^-frac_bits, shared among n parties.

    shares: (present, *s), ring dtype.  frac_bits: f; 0 for integers.  bound: public.
    ``+ - * @`` take shared arrays of one engine and public numbers or arrays, and broadcast as
    numpy does; a public factor costs no triple. Indexing, ``reshape``, ``T``, ``sum``, ``mean`` and
    ``square`` work as with numpy.
    Raises ParameterError, before anything is sent, for what could leave the ring.
    """

    shares: RingArray = field(repr=False)
    seats: Seats
    ring: Ring
    frac_bits: int
    bound: int
    engine: "Engine | None" = field(default=None, repr=False)

    # An array on the left hands the operation to us instead of going through our entries.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        self.seats.check(self.shares)
        check_room("a shared array", self.bound, self.ring.bits - 1, self.ring)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the secret."""
        return tuple(self.shares.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes of the secret."""
        return self.shares.ndim - 1

    @property
    def T(self) -> "SharedArray":  # noqa: N802 - numpy's name
        """The axes of the secret turned round."""
        return self._with(self.shares.transpose(0, *range(self.shares.ndim - 1, 0, -1)))

    def reshape(self, *shape: int) -> "SharedArray":
        """The secret in another shape."""
        return self._with(self.shares.reshape(len(self.shares), *shape))

    def __getitem__(self, key: Any) -> "SharedArray":
        keys = key if isinstance(key, tuple) else (key,)
        return self._with(self.shares[(slice(None), *keys)])

    def __add__(self, other: Any) -> "SharedArray":
        if not isinstance(other, SharedArray):
            plain, size = self._encoded(other, self.frac_bits)
            shape = np.broadcast_shapes(self.shape, plain.shape)
            wide = _spread(self.shares, shape)
            bound = self.bound + size
            check_room("this sum", bound, self.ring.bits - 1, self.ring)
            return self._with(self.seats.add_public(wide, plain, self.ring), bound)
        self._check_alike(other)
        if self.frac_bits != other.frac_bits:
            raise ParameterError(
                f"summands have {self.frac_bits} and {other.frac_bits} fractional bits",
                remedy="multiply the integers by 1.0 first",
            )
        bound = self.bound + other.bound
        check_room("this sum", bound, self.ring.bits - 1, self.ring)
        ours, theirs = _aligned(self.shares, other.shares)
        return self._with(self.ring.add(ours, theirs), bound)

    def __radd__(self, other: Any) -> "SharedArray":
        return self.__add__(other)

    def __neg__(self) -> "SharedArray":
        return self._with(self.ring.neg(self.shares))

    def __sub__(self, other: Any) -> "SharedArray":
        negative: Any = -other if isinstance(other, SharedArray) else np.negative(other)
        return self.__add__(negative)

    def __rsub__(self, other: Any) -> "SharedArray":
        return (-self).__add__(other)

    def __mul__(self, other: "SharedArray | ArrayLike") -> "SharedArray":
        if isinstance(other, SharedArray):
            return self._run(lambda supply: product(self, other, supply))
        return self._run(lambda supply: scaled(self, other, supply))

    def __rmul__(self, other: Any) -> "SharedArray":
        return self.__mul__(other)

    def __matmul__(self, other: Any) -> "SharedArray":
        if isinstance(other, SharedArray):
            return self._run(lambda supply: matrix_product(self, other, supply))
        return self._run(lambda supply: matrix_scaled(self, other, supply))

    def square(self) -> "SharedArray":
        """Each number times itself: half of what a product sends."""
        return self._run(lambda supply: squared(self, supply))

    def sum(self, axis: int | None = None) -> "SharedArray":
        """The sum along an axis of the secret, or of all numbers."""
        count = math.prod(self.shape) if axis is None else self.shape[axis]
        bound = self.bound * max(1, count)
        check_room("this sum", bound, self.ring.bits - 1, self.ring)
        flat = self.shares.reshape(len(self.shares), -1) if axis is None else self.shares
        where = 1 if axis is None else axis % self.ndim + 1
        return self._with(self.ring.sum(flat, axis=where), bound)

    def mean(self, axis: int | None = None) -> "SharedArray":
        """The mean along an axis of the secret, or of all numbers: a sum and one public factor."""
        count = math.prod(self.shape) if axis is None else self.shape[axis]
        if not count:
            raise ParameterError("the mean of no numbers is not defined")
        return self.sum(axis) * (1 / count)

    def _run(self, make: "Callable[[Supply], Program[SharedArray]]") -> "SharedArray":
        if self.engine is None:
            raise StateError(
                "a party alone cannot multiply",
                remedy="yield from mpc.arrays.product and its siblings in a program",
            )
        return self.engine.run(make(self.engine.supply))

    def _with(self, shares: RingArray, bound: int | None = None) -> "SharedArray":
        return replace(self, shares=shares, bound=self.bound if bound is None else bound)

    def _check_alike(self, other: "SharedArray") -> None:
        if self.ring != other.ring or self.seats != other.seats or self.engine is not other.engine:
            raise ParameterError("both arrays must be shared by one engine")

    def _encoded(self, values: ArrayLike, frac_bits: int) -> tuple[RingArray, int]:
        """Public numbers in the ring, and the largest absolute value among them."""
        plain = FixedPoint(self.ring, frac_bits).encode(values)
        return plain, _largest(plain, self.ring)


def product(x: SharedArray, y: SharedArray, supply: Supply) -> Program[SharedArray]:
    """x * y, element by element: two openings, or one for integers."""
    x._check_alike(y)
    bound = x.bound * y.bound
    check_product(bound, x, y.frac_bits)
    ours, theirs = _aligned(x.shares, y.shares)
    shares = yield from multiply(ours, theirs, supply, x.ring)
    return (yield from _cut(x, shares, bound, y.frac_bits, supply))


def squared(x: SharedArray, supply: Supply) -> Program[SharedArray]:
    """x * x: two openings, or one for integers."""
    bound = x.bound * x.bound
    check_product(bound, x, x.frac_bits)
    shares = yield from square(x.shares, supply, x.ring)
    return (yield from _cut(x, shares, bound, x.frac_bits, supply))


def matrix_product(x: SharedArray, y: SharedArray, supply: Supply) -> Program[SharedArray]:
    """x @ y with one truncation for each sum of products: two openings, or one for integers."""
    x._check_alike(y)
    bound = x.bound * y.bound * max(1, _terms(x.shape, y.shape))
    check_product(bound, x, y.frac_bits)
    shares = yield from matmul(x.shares, y.shares, supply, x.ring)
    return (yield from _cut(x, shares, bound, y.frac_bits, supply))


def scaled(x: SharedArray, factor: ArrayLike, supply: Supply) -> Program[SharedArray]:
    """x times public numbers: no triple; one opening for fractions, none for integers."""
    frac_bits = _precision(factor, x)
    plain, size = x._encoded(factor, frac_bits)
    bound = x.bound * size
    check_product(bound, x, frac_bits)
    shape = np.broadcast_shapes(x.shape, plain.shape)
    shares = x.ring.mul(_spread(x.shares, shape), plain)
    return (yield from _cut(x, shares, bound, frac_bits, supply))


def matrix_scaled(x: SharedArray, right: ArrayLike, supply: Supply) -> Program[SharedArray]:
    """x @ a public matrix: no triple; one opening for fractions, none for integers."""
    frac_bits = _precision(right, x)
    plain, size = x._encoded(right, frac_bits)
    bound = x.bound * size * max(1, _terms(x.shape, plain.shape))
    check_product(bound, x, frac_bits)
    shares = x.ring.reduce(np.stack([row @ plain for row in x.shares]))
    return (yield from _cut(x, shares, bound, frac_bits, supply))


def reveal(x: SharedArray) -> Program[NDArray[np.float64]]:
    """The numbers, to all parties."""
    (opened,) = yield Open(x.ring, (x.shares,))
    return FixedPoint(x.ring, x.frac_bits).decode(opened)


def _cut(
    x: SharedArray, shares: RingArray, bound: int, frac_bits: int, supply: Supply
) -> Program[SharedArray]:
    """A product with a factor of ``frac_bits`` fractional bits brought back to those of one."""
    drop = min(x.frac_bits, frac_bits)
    if drop:
        shares = yield from truncate(shares, drop, supply, x.ring)
        bound = (bound >> drop) + 1
    kept = x.frac_bits + frac_bits - drop
    return replace(x, shares=shares, bound=max(1, bound), frac_bits=kept)


class Engine:
    """All n parties in one process, for experiments and tests; it counts what they send.

    fixed: ring and fractional bits of all its arrays.
    """

    def __init__(
        self,
        n: int,
        fixed: FixedPoint,
        *,
        supply: Supply | None = None,
        network: LocalNetwork | None = None,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        self.fixed = fixed
        self.network = LocalNetwork() if network is None else network
        self.supply: Supply = LocalDealer(n, fixed.ring, rng=rng) if supply is None else supply
        self._n = integer("n", n, 2, additive.MAX_PARTIES)
        self._rng = rng

    def share(self, values: ArrayLike, *, magnitude: float | None = None) -> SharedArray:
        """Numbers shared by a dealer among all parties.

        magnitude: the largest absolute value that they may have, public; by default the largest
        that the values have, which then becomes public.
        Raises ParameterError for values beyond it.
        """
        encoded = self.fixed.encode(values)
        largest = _largest(encoded, self.fixed.ring)
        bound = max(1, largest)
        if magnitude is not None:
            if not (math.isfinite(magnitude) and magnitude > 0):
                raise ParameterError(f"magnitude must be positive, got {magnitude}")
            bound = math.ceil(math.ldexp(magnitude, self.fixed.frac_bits))
            if largest > bound:
                raise ParameterError(f"a value is larger than the magnitude of {magnitude}")
        shares = additive.share(encoded, self._n, self.fixed.ring, rng=self._rng)
        return SharedArray(
            shares, Seats(self._n), self.fixed.ring, self.fixed.frac_bits, bound, self
        )

    def open(self, x: SharedArray) -> NDArray[np.float64]:
        """The numbers, to everybody: float64 (*s)."""
        return self.run(reveal(x))

    def run(self, program: Program[T]) -> T:
        """The result of a program with all parties present."""
        return together(program, self._n, network=self.network)


def check_room(what: str, bound: int, bits: int, ring: Ring) -> None:
    """ParameterError if numbers up to ``bound`` need more than ``bits`` bits."""
    missing = bound.bit_length() - bits
    if missing > 0:
        raise ParameterError(
            f"{what} could be {missing} bits too large for Z_2^{ring.bits}",
            remedy="use a larger ring, fewer fractional bits, or state smaller magnitudes",
        )


def check_product(bound: int, x: SharedArray, frac_bits: int) -> None:
    """The bit budget: a product that is to be truncated lies in [-2^(l-2), 2^(l-2)]."""
    cuts = min(x.frac_bits, frac_bits) > 0
    most = 1 << (x.ring.bits - 2) if cuts else (1 << (x.ring.bits - 1)) - 1
    if bound > most:
        missing = max(1, (bound - 1).bit_length() - (most.bit_length() - 1))
        raise ParameterError(
            f"this product could be {missing} bits too large for Z_2^{x.ring.bits}",
            remedy="use a larger ring, fewer fractional bits, or state smaller magnitudes",
        )


def _largest(elements: RingArray, ring: Ring) -> int:
    if not elements.size:
        return 0
    signed = ring.signed(elements)
    return max(int(signed.max()), -int(signed.min()))


def _precision(factor: ArrayLike, x: SharedArray) -> int:
    """Fractional bits of a public factor: none for integers, else those of x, or 1 at least."""
    kind = np.asarray(factor).dtype.kind
    return 0 if kind in "biu" else x.frac_bits


def _terms(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    if not left or not right:
        raise ParameterError("a matrix product needs at least one axis on both sides")
    return left[-1]


def _spread(shares: RingArray, shape: tuple[int, ...]) -> RingArray:
    """Shares (present, *s) broadcast to (present, *shape)."""
    rows, own = len(shares), shares.shape[1:]
    padded = shares.reshape(rows, *(1,) * (len(shape) - len(own)), *own)
    return np.broadcast_to(padded, (rows, *shape))


def _aligned(ours: RingArray, theirs: RingArray) -> tuple[RingArray, RingArray]:
    shape = np.broadcast_shapes(ours.shape[1:], theirs.shape[1:])
    return _spread(ours, shape), _spread(theirs, shape)
