"""Shared arrays of fixed-point numbers: what a party does with her shares alone.

A ``Shared`` knows, publicly, how large its numbers can be. An operation that could leave the ring
is refused before anything happens, with the bits that are missing. What needs messages is in
``mpc.shared_products``; ``mpc.arrays`` has both behind numpy's operators.

Source: PriRec (Chen et al., 2020), section 2.4: sums of shares are shares of sums.
Model: as ``mpc.additive``. Shapes, fractional bits and bounds are public.
Leaks: nothing.
Error: none. A public summand is rounded to the fractional bits of the sum, by half a unit at most.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Self

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.fixed import FixedPoint
from mpc.programs import Seats

Axis = int | tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class Shared:
    """Numbers of absolute value at most ``bound`` 2^-frac_bits, shared among n parties.

    shares: (present, *s), ring dtype.  fixed: the ring, and the fractional bits that fractions get.
    frac_bits: those of these numbers; 0 for integers.  bound: public.
    ``+`` and ``-`` take alike arrays and public numbers or arrays, and broadcast as numpy does.
    Where fractional bits differ, the sum has the larger number. Indexing, ``reshape``, ``T``,
    ``sum`` and ``len`` work as with numpy.
    Raises ParameterError for what could leave the ring.
    """

    shares: RingArray = field(repr=False)
    seats: Seats
    fixed: FixedPoint
    frac_bits: int
    bound: int

    # An array on the left hands the operation to us instead of going through our entries.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        self.seats.check(self.shares)
        integer("frac_bits", self.frac_bits, 0, self.ring.bits - 1)
        check_room("a shared array", integer("bound", self.bound, 0, 1 << 4096), self.ring)

    @property
    def ring(self) -> Ring:
        """Where the shares live."""
        return self.fixed.ring

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the secret."""
        return tuple(self.shares.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes of the secret."""
        return self.shares.ndim - 1

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.shares[0, ...].size

    def __len__(self) -> int:
        return len(self.shares[0, ...])

    def __bool__(self) -> bool:
        raise ParameterError("a shared array is neither true nor false", remedy="open it first")

    @property
    def T(self) -> Self:  # noqa: N802 - numpy's name
        """The axes of the secret turned round."""
        return self._with(self.shares.transpose(0, *range(self.ndim, 0, -1)))

    def reshape(self, *shape: int) -> Self:
        """The secret in another shape; one length may be -1."""
        rows = [row.reshape(shape) for row in self.shares]
        return self._with(np.stack(rows))

    def __getitem__(self, key: Any) -> Self:
        keys = key if isinstance(key, tuple) else (key,)
        if all(isinstance(k, int | np.integer | slice | EllipsisType | None) for k in keys):
            return self._with(self.shares[(slice(None), *keys)])
        # numpy puts the axes of some keys first, where that of the parties is.
        return self._with(np.stack([row[key] for row in self.shares]))

    def __neg__(self) -> Self:
        return self._with(self.ring.neg(self.shares))

    def __pos__(self) -> Self:
        return self

    def __add__(self, other: "Self | ArrayLike") -> Self:
        return self._sum(other, self.ring.add)

    def __radd__(self, other: ArrayLike) -> Self:
        return self._sum(other, self.ring.add)

    def __sub__(self, other: "Self | ArrayLike") -> Self:
        return self._sum(other, self.ring.sub)

    def __rsub__(self, other: ArrayLike) -> Self:
        return (-self)._sum(other, self.ring.add)

    def sum(self, axis: Axis = None) -> Self:
        """The sum along one axis of the secret or several, or of all numbers."""
        axes = self._axes(axis)
        bound = self.bound * self.terms(axis)
        check_room("this sum", bound, self.ring)
        total = self.ring.sum(self.shares, axis=tuple(a + 1 for a in axes))
        return self._with(total, bound)

    def terms(self, axis: Axis) -> int:
        """How many numbers a sum along ``axis`` adds up."""
        return int(np.prod([self.shape[a] for a in self._axes(axis)], dtype=np.int64))

    def raised(self, frac_bits: int) -> Self:
        """The same numbers with at least so many fractional bits: no message, more of the ring."""
        more = frac_bits - self.frac_bits
        if more <= 0:
            return self
        bound = self.bound << more
        check_room(f"this array with {frac_bits} fractional bits", bound, self.ring)
        shares = self.ring.mul(self.shares, self.ring.dtype.type(1 << more))
        return replace(self, shares=shares, bound=bound, frac_bits=frac_bits)

    def check_alike(self, other: "Shared") -> None:
        """ParameterError unless both are shared among the same parties in one format."""
        if self.fixed != other.fixed or self.seats != other.seats:
            raise ParameterError(
                "both arrays must have one ring and precision, and one set of parties"
            )

    def _sum(self, other: Any, operation: Any) -> Self:
        if isinstance(other, Shared):
            self.check_alike(other)
            ours, theirs = self.raised(other.frac_bits), other.raised(self.frac_bits)
            bound = ours.bound + theirs.bound
            check_room("this sum", bound, self.ring)
            return ours._with(operation(*aligned(ours.shares, theirs.shares)), bound)
        ours = self.raised(precision(other, self.fixed))
        plain = FixedPoint(self.ring, ours.frac_bits).encode(other)
        bound = ours.bound + largest(plain, self.ring)
        check_room("this sum", bound, self.ring)
        shape = np.broadcast_shapes(self.shape, plain.shape)
        total = spread(ours.shares, shape).copy()
        if 0 in self.seats.present:
            operation(total[0, ...], plain, out=total[0, ...])
        return ours._with(total, bound)

    def _axes(self, axis: Axis) -> tuple[int, ...]:
        everything: Iterable[int] = range(self.ndim)
        return tuple(everything) if axis is None else normalize_axis_tuple(axis, self.ndim)

    def _with(self, shares: RingArray, bound: int | None = None) -> Self:
        return replace(self, shares=shares, bound=self.bound if bound is None else bound)


def check_room(what: str, bound: int, ring: Ring, *, cut: bool = False) -> None:
    """ParameterError, naming the bits that are missing, if numbers up to ``bound`` do not fit.

    cut: they are to be truncated, and must lie within [-2^(l-2), 2^(l-2)]; otherwise below 2^(l-1).
    """
    needed = (bound - 1).bit_length() + 2 if cut and bound else bound.bit_length() + 1
    missing = needed - ring.bits
    if missing > 0:
        wider = "use a larger ring, " if needed <= 64 else "use "
        raise ParameterError(
            f"{what} could need {needed} bits, {missing} more than Z_2^{ring.bits} has",
            remedy=f"{wider}fewer fractional bits, or state smaller magnitudes",
        )


def largest(elements: RingArray, ring: Ring) -> int:
    """The largest absolute value of signed ring elements; 0 for none."""
    if not elements.size:
        return 0
    signed = ring.signed(elements)
    return max(int(signed.max()), -int(signed.min()))


def is_integral(values: ArrayLike) -> bool:
    """Whether public numbers are integers or booleans by type."""
    return np.asarray(values).dtype.kind in "biuO"


def precision(values: ArrayLike, fixed: FixedPoint) -> int:
    """The fractional bits that public summands ask for: none for integers."""
    return 0 if is_integral(values) else fixed.frac_bits


def spread(shares: RingArray, shape: tuple[int, ...]) -> RingArray:
    """A view of shares (present, *s), broadcast to (present, *shape)."""
    rows, own = len(shares), shares.shape[1:]
    padded = shares.reshape(rows, *(1,) * (len(shape) - len(own)), *own)
    return np.broadcast_to(padded, (rows, *shape))


def aligned(ours: RingArray, theirs: RingArray) -> tuple[RingArray, RingArray]:
    """Views of two arrays of shares, broadcast against each other as the secrets are."""
    shape = np.broadcast_shapes(ours.shape[1:], theirs.shape[1:])
    return spread(ours, shape), spread(theirs, shape)
