"""The ring Z_{2^l}, 1 <= l <= 64, in the smallest unsigned machine word that holds it.

Source: PriRec (Chen et al., 2020), section 2.4; the paper's letter l is ``bits``.
Model: arithmetic only; numpy gives no promise of constant time.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import Rng, Shape

RingArray = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class Ring:
    """Z_{2^bits}, 1 <= bits <= 64. Elements are arrays of ``dtype`` with entries below 2^bits.

    Operations take arrays of ``dtype`` as they are and reduce other integers first, broadcast as
    numpy does (with its ValueError for shapes that do not fit), return arrays of ``dtype`` (0-d
    ones for numbers), and refuse fractions with ParameterError: nothing is promoted to float.
    """

    bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", integer("bits", self.bits, 1, 64))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The smallest of uint8, uint16, uint32, uint64 with at least ``bits`` bits."""
        size = next(width for width in (8, 16, 32, 64) if self.bits <= width)
        return np.dtype(f"uint{size}")

    @cached_property
    def mask(self) -> np.unsignedinteger[Any]:
        """2^bits - 1 as a scalar of ``dtype``."""
        mask: np.unsignedinteger[Any] = self.dtype.type((1 << self.bits) - 1)
        return mask

    @cached_property
    def _fills_word(self) -> bool:
        return self.bits == 8 * self.dtype.itemsize

    def check(self, x: ArrayLike) -> RingArray:
        """``x`` itself if it holds ring elements in the ring's dtype; ParameterError otherwise."""
        array = np.asarray(x)
        if array.dtype != self.dtype:
            raise ParameterError(
                f"elements of Z_2^{self.bits} have dtype {self.dtype}, got {array.dtype}",
                remedy="map integers into the ring with Ring.reduce, fractions with mpc.fixed",
            )
        if not self._fills_word and array.size and array.max() > self.mask:
            raise ParameterError(f"an entry lies outside [0, 2^{self.bits})")
        return array

    def reduce(self, x: ArrayLike) -> RingArray:
        """Map integers of any sign into the ring: the residue modulo 2^bits, as ``dtype``.

        Takes Python integers of any size, lists of them, and integer, bool or object arrays;
        refuses floats, because a float has no room for the low bits of a 64-bit residue.
        """
        array = np.asarray(x)
        if array.dtype.kind in "biu":
            # Casting wraps modulo the word, and 2^bits divides the word's modulus.
            return self._wrap(array.astype(self.dtype))
        # numpy turns the list [2^63, -1] into floats, which have lost the low bits already.
        exact = array if isinstance(x, np.ndarray | np.generic) else np.asarray(x, dtype=object)
        if exact.dtype != object or not _all_integers(exact):
            raise ParameterError(
                f"ring elements are integers, got dtype {array.dtype}",
                remedy="encode fractions with mpc.fixed",
            )
        modulus = 1 << self.bits
        residues = [int(value) % modulus for value in exact.reshape(-1)]
        return np.array(residues, dtype=self.dtype).reshape(exact.shape)

    def _coerce(self, x: ArrayLike) -> RingArray:
        array = np.asarray(x)
        return array if array.dtype == self.dtype else self.reduce(x)

    def _wrap(self, array: NDArray[Any]) -> RingArray:
        """Mask the surplus bits of words that the caller made, in place where they are an array."""
        array = np.asarray(array)
        return array if self._fills_word else np.bitwise_and(array, self.mask, out=array)

    def _out(self, out: RingArray | None) -> RingArray | None:
        # numpy would cast into a wider dtype, where the sum of two words is not wrapped.
        if out is not None and out.dtype != self.dtype:
            raise ParameterError(f"out must have dtype {self.dtype}, got {out.dtype}")
        return out

    def add(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """a + b modulo 2^bits, into ``out`` if given."""
        return self._wrap(np.add(self._coerce(a), self._coerce(b), out=self._out(out)))

    def sub(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """a - b modulo 2^bits, into ``out`` if given."""
        return self._wrap(np.subtract(self._coerce(a), self._coerce(b), out=self._out(out)))

    def mul(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """a * b modulo 2^bits, element by element, into ``out`` if given."""
        return self._wrap(np.multiply(self._coerce(a), self._coerce(b), out=self._out(out)))

    def neg(self, a: ArrayLike) -> RingArray:
        """-a modulo 2^bits."""
        return self.sub(np.zeros((), dtype=self.dtype), a)

    def sum(self, x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> RingArray:
        """Sum modulo 2^bits along ``axis``: the word wraps, and 2^bits divides its modulus."""
        return self._wrap(np.sum(self._coerce(x), axis=axis, dtype=self.dtype))

    def fill(self, out: RingArray, rng: Rng) -> RingArray:
        """Overwrite ``out`` (C-contiguous, ring dtype) with uniform elements, and return it."""
        self._out(out)
        rng.fill(out)
        return self._wrap(out)

    def random(self, shape: Shape, rng: Rng) -> RingArray:
        """Uniform elements: uniform words with the surplus high bits masked away."""
        return self._wrap(rng.words(shape, self.dtype))

    def signed(self, x: ArrayLike) -> NDArray[np.int64]:
        """The representative in [-2^(bits-1), 2^(bits-1)) of each element, as int64."""
        shift = 64 - self.bits
        # Moving the top ring bit to the word's sign bit and back extends the sign.
        lifted = np.left_shift(self.check(x).astype(np.uint64), np.uint64(shift))
        return np.asarray(np.right_shift(lifted.view(np.int64), np.int64(shift)))

    def element_bytes(self) -> int:
        """Bytes of one element on the wire."""
        return self.dtype.itemsize

    def to_bytes(self, x: ArrayLike) -> bytes:
        """Elements as little-endian words, row by row."""
        return self.check(x).astype(self.dtype.newbyteorder("<"), copy=False).tobytes()

    def from_bytes(self, data: bytes, shape: Shape) -> RingArray:
        """Inverse of ``to_bytes`` for a known shape; WireError if size or an entry does not fit."""
        shape = tuple(integer("a length", n, 0, 2**63 - 1) for n in np.atleast_1d(shape))
        count = math.prod(shape)
        if len(data) != count * self.dtype.itemsize:
            raise WireError(
                f"{count} elements of Z_2^{self.bits} take {count * self.dtype.itemsize} bytes, "
                f"got {len(data)}"
            )
        array = np.frombuffer(data, dtype=self.dtype.newbyteorder("<")).astype(self.dtype)
        if not self._fills_word and array.size and array.max() > self.mask:
            raise WireError(f"an entry lies outside [0, 2^{self.bits})")
        return array.reshape(shape)


def _all_integers(array: NDArray[Any]) -> bool:
    return all(isinstance(value, int | np.integer | np.bool) for value in array.reshape(-1))
