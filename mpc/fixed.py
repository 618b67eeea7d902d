"""Fractions as ring elements: round(x 2^f) modulo 2^l, the sign in two's complement.

Source: PriRec (Chen et al., 2020), section 2.4, after SecureML (Mohassel and Zhang, 2017). Names:
    the paper's l is ``ring.bits``, its l_F is ``frac_bits`` (f here).
Model: a public encoding; it hides nothing.
Error: |decode(encode(x)) - x| <= 2^-(f+1) for every float in range. Ties go to the even neighbour
    (IEEE 754), so errors have no preferred sign. Where an integer or a sum needs more than 53 bits,
    ``decode`` returns the nearest float64, off by a factor of at most 2^-53.
Differs: the paper truncates; rounding to nearest halves the error and takes away its bias.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring, RingArray

_FLOAT_BITS = 53
# Numbers converted at once: their 64-bit intermediates stay in the second cache level, and no
# large temporary array costs page faults.
_PIECE = 1 << 13


@dataclass(frozen=True)
class FixedPoint:
    """Fixed-point numbers with ``frac_bits`` fractional bits in ``ring``, 0 <= frac_bits < l.

    They reach from -2^(l-1-f) up to, and without, 2^(l-1-f), in steps of 2^-f.
    """

    ring: Ring
    frac_bits: int

    def __post_init__(self) -> None:
        frac_bits = integer("frac_bits", self.frac_bits, 0, self.ring.bits - 1)
        object.__setattr__(self, "frac_bits", frac_bits)

    @property
    def resolution(self) -> float:
        """The step 2^-f between neighbouring numbers."""
        return math.ldexp(1.0, -self.frac_bits)

    @property
    def limit(self) -> int:
        """2^(l-1-f): numbers lie in [-limit, limit)."""
        return 1 << (self.ring.bits - 1 - self.frac_bits)

    def headroom(self, n: int) -> float:
        """The largest m such that any n encoded numbers of magnitude <= m sum without wrapping.

        It is rounded down where it does not fit a float64, and 0.0 where n leaves no room at all.
        """
        steps = ((1 << (self.ring.bits - 1)) - 1) // integer("n", n, 1, 2**63 - 1)
        surplus = max(0, steps.bit_length() - _FLOAT_BITS)
        return math.ldexp(steps >> surplus, surplus - self.frac_bits)

    def encode(self, values: ArrayLike) -> RingArray:
        """Ring elements nearest to ``values``; the same for every input type that holds them.

        values: bool, integers of any size or floats up to float64, as a scalar, list or array of
        any shape s.  Returns a new array (s), ring dtype.
        Raises ParameterError for NaN, infinities and anything that does not round into the range;
        the message names the index and the limit, never the value.
        """
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ParameterError("values must form an array, got rows of unequal size") from error
        if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
            return self._encode_floats(array)
        if array.dtype.kind in "biuO":
            return self._encode_integers(array)
        raise ParameterError(
            f"values must be real numbers of at most 64 bits, got dtype {array.dtype}"
        )

    def _encode_floats(self, array: NDArray[Any]) -> RingArray:
        out = np.empty(array.size, dtype=self.ring.dtype)
        # An overflow to infinity is refused like any other value out of range.
        with np.errstate(over="ignore", invalid="ignore"):
            self._round(array, out)
        return out.reshape(array.shape)

    def _round(self, array: NDArray[Any], out: RingArray) -> None:
        flat = np.ascontiguousarray(array).reshape(-1)
        edge = math.ldexp(1.0, self.ring.bits - 1)
        for piece in _pieces(flat.size):
            # A power of two only moves the exponent, so nothing is rounded before rint.
            steps = np.multiply(flat[piece], 2.0**self.frac_bits, dtype=np.float64)
            low = steps.min()
            np.rint(steps, out=steps)
            # NaN passes through min and max and fails the comparison.
            if not (low >= -edge and steps.max() < edge):
                exact = np.multiply(flat[piece], 2.0**self.frac_bits, dtype=np.float64)
                self._refuse(array, piece.start, ~((exact >= -edge) & (steps < edge)))
            # The cast wraps modulo the word, which is two's complement.
            out[piece] = self.ring.reduce(steps.astype(np.int64))

    def _encode_integers(self, array: NDArray[Any]) -> RingArray:
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)  # numpy compares no boolean with 2^63
        try:
            elements = self.ring.reduce(array)
        except ParameterError as error:
            raise ParameterError(
                "values must be numbers, got an array of objects that are not all integers"
            ) from error
        if array.size and not (array.min() >= -self.limit and array.max() < self.limit):
            self._refuse(array, 0, np.asarray((array < -self.limit) | (array >= self.limit)))
        return self.ring.mul(elements, self.ring.dtype.type(1 << self.frac_bits))

    def _refuse(self, array: NDArray[Any], start: int, wrong: NDArray[np.bool_]) -> None:
        flat = start + int(np.argmax(wrong))
        first = tuple(int(i) for i in np.unravel_index(flat, array.shape))
        where = f"values[{', '.join(map(str, first))}]" if first else "values"
        if array.dtype.kind == "f" and not np.isfinite(array[first]):
            raise ParameterError(f"{where} is not finite")
        raise ParameterError(
            f"{where} lies outside [-{self.limit}, {self.limit}) after rounding to steps of "
            f"2^-{self.frac_bits}",
            remedy="use a larger ring, fewer fractional bits or smaller values",
        )

    def decode(self, x: ArrayLike) -> NDArray[np.float64]:
        """The numbers that ring elements ``x`` (any shape s, ring dtype) stand for, float64 (s).

        Raises ParameterError if an entry lies outside the ring.
        """
        elements = self.ring.check(x)
        flat = np.ascontiguousarray(elements).reshape(-1)
        out = np.empty(flat.size, dtype=np.float64)
        for piece in _pieces(flat.size):
            np.multiply(self.ring.signed(flat[piece]), self.resolution, out=out[piece])
        return out.reshape(elements.shape)


def _pieces(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _PIECE, size)) for start in range(0, size, _PIECE))
