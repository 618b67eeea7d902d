"""Shared arrays of fixed-point numbers with numpy's operators, all parties in one process.

    engine = Engine(3, FixedPoint(Ring(64), 16))
    x, y = engine.share([1.5, -2.0], magnitude=8), engine.share([0.25, 4.0], magnitude=8)
    engine.open(x * y + 1)

Every array knows, publicly, how large its numbers can be. An operation that could leave the ring,
or the range of a truncation, is refused before anything is sent, with the bits that are missing.

Source: ``mpc.shared`` for what needs no messages, ``mpc.shared_products`` for the rest.
Model: semi-honest, n-1 parties collude, items from a ``Supply``. Magnitudes, shapes and operations
    are public.
Leaks: nothing but what is opened.
Error: encoding rounds by half of 2^-f at most; ``mpc.shared_products`` has that of operations.
Differs: an ``Engine`` has all parties in one process. A party of its own holds ``Shared`` arrays,
    and runs the same programs in a ``party_run.PartyRun``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc import additive
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.fixed import FixedPoint
from mpc.programs import Program, Seats, in_pieces, together
from mpc.shared import Axis, Shared, largest, spread
from mpc.shared_products import (
    matrix_product,
    matrix_scaled,
    mean,
    product,
    reveal,
    scaled,
    scaled_matrix,
    squared,
)
from mpc.supply import LocalDealer, Supply

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SharedArray(Shared):
    """A ``Shared`` array of an engine: products too are operators.

    ``*`` and ``@`` take arrays of one engine and public numbers or arrays; ``/`` takes public
    numbers alone. A public factor costs no triple.
    """

    engine: "Engine" = field(repr=False)

    def __mul__(self, other: "SharedArray | ArrayLike") -> "SharedArray":
        if isinstance(other, SharedArray):
            return self.engine.elementwise(product, self, other)
        if np.ndim(other):
            return self.engine.run(scaled(self, other, self.engine.supply))
        return self.engine.elementwise(lambda x, supply: scaled(x, other, supply), self)

    def __rmul__(self, other: ArrayLike) -> "SharedArray":
        return self * other

    def __truediv__(self, other: ArrayLike) -> "SharedArray":
        if isinstance(other, Shared):
            raise ParameterError("division by a shared array is not offered")
        divisor = np.asarray(other, dtype=np.float64)
        if not np.all(divisor):
            raise ParameterError("division by zero")
        return self * (1 / divisor)

    def __matmul__(self, other: "SharedArray | ArrayLike") -> "SharedArray":
        supply = self.engine.supply
        if isinstance(other, SharedArray):
            self.check_alike(other)
            return self.engine.run(matrix_product(self, other, supply))
        return self.engine.run(matrix_scaled(self, other, supply))

    def __rmatmul__(self, other: ArrayLike) -> "SharedArray":
        return self.engine.run(scaled_matrix(other, self, self.engine.supply))

    def square(self) -> "SharedArray":
        """Each number times itself: half of what a product sends."""
        return self.engine.elementwise(squared, self)

    def mean(self, axis: Axis = None) -> "SharedArray":
        """The mean along one axis of the secret or several, or of all numbers."""
        return self.engine.run(mean(self, axis, self.engine.supply))

    def check_alike(self, other: Shared) -> None:
        """ParameterError unless both are shared by one engine."""
        if not isinstance(other, SharedArray) or self.engine is not other.engine:
            raise ParameterError("both arrays must be shared by one engine")


A = TypeVar("A", bound=SharedArray)


class Engine:
    """All n parties in one process, for experiments and tests; it counts what they send.

    fixed: ring and fractional bits of all its arrays.  supply: by default a dealer in the process.
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
        self._n = integer("n", n, 2, additive.MAX_PARTIES)
        self.fixed = fixed
        self.network = LocalNetwork() if network is None else network
        self.supply: Supply = LocalDealer(n, fixed.ring, rng=rng) if supply is None else supply
        if self.supply.seats != Seats(self._n):
            raise ParameterError(f"the supply must hold the shares of all {self._n} parties")
        self._rng = rng

    def share(
        self,
        values: ArrayLike,
        *,
        magnitude: float | None = None,
        frac_bits: int | None = None,
    ) -> SharedArray:
        """Numbers shared by a dealer among all parties.

        magnitude: the largest absolute value that they may have, public; by default the largest
        that the values have, which then becomes public.
        frac_bits: 0 for integers; by default those of the engine, whatever type the values have.
        Raises ParameterError for values beyond the magnitude, and for what ``encode`` refuses.
        """
        bits = self.fixed.frac_bits if frac_bits is None else frac_bits
        encoded = FixedPoint(self.fixed.ring, bits).encode(values)
        bound = largest(encoded, self.fixed.ring)
        if magnitude is not None:
            if not (math.isfinite(magnitude) and magnitude > 0):
                raise ParameterError(f"magnitude must be positive, got {magnitude}")
            most = math.ceil(math.ldexp(magnitude, bits))
            if bound > most:
                raise ParameterError(f"a value is larger than the magnitude of {magnitude}")
            bound = most
        shares = additive.share(encoded, self._n, self.fixed.ring, rng=self._rng)
        return SharedArray(shares, Seats(self._n), self.fixed, bits, bound, self)

    def open(self, x: SharedArray) -> NDArray[Any]:
        """The numbers, to everybody: float64 (*s), or int64 where they have no fractional bits."""
        return self.run(reveal(x))

    def run(self, program: Program[T]) -> T:
        """The result of a program with all parties present."""
        return together(program, self._n, network=self.network)

    def elementwise(self, make: Callable[..., Program[A]], *operands: A) -> A:
        """Run ``make(*operands, supply)`` piece by piece where the operands are large.

        The program's result depends, number by number, on the same numbers of the operands alone.
        """
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        rows = [spread(x.shares, shape).reshape(self._n, -1) for x in operands]
        results: list[A] = []

        def part(*columns: RingArray) -> Program[RingArray]:
            cut = [replace(x, shares=c) for x, c in zip(operands, columns, strict=True)]
            result = yield from make(*cut, self.supply)
            results[:] = [result]
            return result.shares

        shares = in_pieces(part, rows, self.fixed.ring, network=self.network)
        return replace(results[0], shares=shares.reshape(self._n, *shape))
