"""The ring Z_{2^l}, 65 <= l <= 128: two 64-bit words to an element, arrays shaped as in ``Ring``.

Source: schoolbook arithmetic on words and, for products, on limbs of 32 bits (Knuth, "The Art of
    Computer Programming", volume 2, section 4.3.1).
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
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng, Shape

Words = NDArray[np.uint64]

_WORD = 64
_HALF = np.uint64(32)
_LIMB = np.uint64((1 << 32) - 1)
_DTYPE = np.dtype([("low", np.uint64), ("high", np.uint64)])
_WIRE = np.dtype([("low", "<u8"), ("high", "<u8")])


@dataclass(frozen=True)
class WideRing(Ring):
    """Z_{2^bits}, 65 <= bits <= 128. Elements are records (low, high) of two uint64 words.

    Arrays have the shapes that ``Ring`` gives them, and its operations have the same meaning; what
    has no place in a machine word, ``mask`` and ``signed``, is refused with ParameterError.
    """

    bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", integer("bits", self.bits, 65, 128))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """A record of two words: the residue is low + 2^64 high."""
        return _DTYPE

    @cached_property
    def mask(self) -> np.unsignedinteger[Any]:
        """Refused: no scalar of one word masks an element."""
        raise ParameterError(f"elements of Z_2^{self.bits} have no mask of one word")

    @cached_property
    def _top(self) -> np.uint64:
        return np.uint64((1 << (self.bits - _WORD)) - 1)

    def check(self, x: ArrayLike) -> RingArray:
        """See ``Ring.check``."""
        array: NDArray[Any] = np.asarray(x)
        if array.dtype != _DTYPE:
            raise ParameterError(
                f"elements of Z_2^{self.bits} have two words, got dtype {array.dtype}",
                remedy="map integers into the ring with WideRing.reduce",
            )
        if self._leaves(array):
            raise ParameterError(f"an entry lies outside [0, 2^{self.bits})")
        return array

    def _leaves(self, array: NDArray[Any]) -> bool:
        return self.bits < 2 * _WORD and bool(array.size) and array["high"].max() > self._top

    def reduce(self, x: ArrayLike) -> RingArray:
        """See ``Ring.reduce``; elements of this dtype are masked."""
        array: NDArray[Any] = np.asarray(x)
        if array.dtype == _DTYPE:
            return self._make(array["low"], array["high"].copy(), array.shape)
        if array.dtype.kind in "biu":
            # Casting wraps modulo the word; the high word repeats the sign.
            negative = array < 0 if array.dtype.kind == "i" else np.zeros(array.shape, np.bool_)
            high = np.negative(negative.astype(np.uint64))
            return self._make(array.astype(np.uint64), np.asarray(high), array.shape)
        # numpy turns the list [2^63, -1] into floats, which have lost the low bits already.
        exact = array if isinstance(x, np.ndarray | np.generic) else np.asarray(x, dtype=object)
        values = exact.reshape(-1).tolist()
        if exact.dtype != object or not all(
            isinstance(value, int | np.integer | np.bool) for value in values
        ):
            raise ParameterError(f"ring elements are integers, got dtype {array.dtype}")
        words = [divmod(int(value) % (1 << self.bits), 1 << _WORD) for value in values]
        high, low = np.array(words, dtype=np.uint64).reshape(-1, 2).T
        return self._make(low, high, exact.shape)

    def _coerce(self, x: ArrayLike) -> NDArray[Any]:
        array: NDArray[Any] = np.asarray(x)
        return array if array.dtype == _DTYPE else self.reduce(x)

    def _pair(
        self, a: ArrayLike, b: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any], tuple[int, ...]]:
        """Both operands with an axis at least, so that all words wrap; the shape of the result."""
        left, right = self._coerce(a), self._coerce(b)
        shape = np.broadcast_shapes(left.shape, right.shape)
        return np.atleast_1d(left), np.atleast_1d(right), shape

    def _make(
        self, low: Words, high: Words, shape: tuple[int, ...], out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Records of two words each, the surplus bits of ``high`` masked in place."""
        if out is None:
            out = np.empty(shape, dtype=_DTYPE)
        elif out.dtype != _DTYPE:
            raise ParameterError(f"out must have two words, got dtype {out.dtype}")
        high &= self._top
        out["low"], out["high"] = low.reshape(shape), high.reshape(shape)
        return out

    def add(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """See ``Ring.add``."""
        left, right, shape = self._pair(a, b)
        low, high = left["low"] + right["low"], left["high"] + right["high"]
        high += low < left["low"]  # the carry: the word has wrapped
        return self._make(low, high, shape, out)

    def sub(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """See ``Ring.sub``."""
        left, right, shape = self._pair(a, b)
        low, high = left["low"] - right["low"], left["high"] - right["high"]
        high -= left["low"] < right["low"]  # the borrow
        return self._make(low, high, shape, out)

    def mul(self, a: ArrayLike, b: ArrayLike, out: RingArray | None = None) -> RingArray:
        """See ``Ring.mul``."""
        left, right, shape = self._pair(a, b)
        # A copy of each word in one piece: they are read many times.
        a_low, b_low = left["low"].copy(), right["low"].copy()
        high = _high_word(a_low, b_low)
        # 2^128 and more falls out of the ring, so that the crossed products count modulo 2^64.
        high += a_low * right["high"]
        high += left["high"] * b_low
        return self._make(a_low * b_low, high, shape, out)

    def neg(self, a: ArrayLike) -> RingArray:
        """See ``Ring.neg``."""
        return self.sub(np.zeros((), dtype=_DTYPE), a)

    def sum(self, x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> RingArray:
        """See ``Ring.sum``; exact for fewer than 2^32 terms."""
        array = self._coerce(x)
        low = array["low"]
        high = np.sum(array["high"], axis=axis, dtype=np.uint64)
        # The halves of the low words add up without losing a carry.
        first = np.sum(low & _LIMB, axis=axis, dtype=np.uint64)
        second = np.sum(low >> _HALF, axis=axis, dtype=np.uint64)
        shape = np.shape(high)
        first, second, high = (np.atleast_1d(part) for part in (first, second, high))
        second += first >> _HALF
        high += second >> _HALF
        return self._make((second << _HALF) | (first & _LIMB), high, shape)

    def fill(self, out: RingArray, rng: Rng) -> RingArray:
        """See ``Ring.fill``: the low word of an element is drawn before its high word."""
        if out.dtype != _DTYPE:
            raise ParameterError(f"out must have two words, got dtype {out.dtype}")
        if not out.flags.c_contiguous:
            raise ParameterError("out must be C-contiguous", remedy="allocate it with numpy.empty")
        words = out.reshape(*out.shape, 1).view(np.uint64)
        rng.fill(words)
        np.bitwise_and(words[..., 1], self._top, out=words[..., 1])
        return out

    def random(self, shape: Shape, rng: Rng) -> RingArray:
        """See ``Ring.random``."""
        return self.fill(np.empty(shape, dtype=_DTYPE), rng)

    def signed(self, x: ArrayLike) -> NDArray[np.int64]:
        """Refused: an int64 does not hold an element."""
        raise ParameterError(f"elements of Z_2^{self.bits} do not fit into int64")

    def low_words(self, x: RingArray) -> Words:
        """The residues modulo 2^64, as uint64."""
        array: NDArray[Any] = self._coerce(x)
        return np.asarray(array["low"])

    def element_bytes(self) -> int:
        """Bytes of one element on the wire."""
        return _DTYPE.itemsize

    def to_bytes(self, x: ArrayLike) -> bytes:
        """Elements as little-endian numbers of 16 bytes, row by row."""
        return self.check(x).astype(_WIRE, copy=False).tobytes()

    def from_bytes(self, data: bytes, shape: Shape) -> RingArray:
        """See ``Ring.from_bytes``."""
        shape = tuple(integer("a length", n, 0, 2**63 - 1) for n in np.atleast_1d(shape))
        count = math.prod(shape)
        if len(data) != count * _WIRE.itemsize:
            raise WireError(
                f"{count} elements of Z_2^{self.bits} take {count * _WIRE.itemsize} bytes, "
                f"got {len(data)}"
            )
        array: NDArray[Any] = np.frombuffer(data, dtype=_WIRE).astype(_DTYPE)
        if self._leaves(array):
            raise WireError(f"an entry lies outside [0, 2^{self.bits})")
        return array.reshape(shape)


def _high_word(a: Words, b: Words) -> Words:
    """The upper 64 bits of the products of words."""
    a_low, a_high, b_low, b_high = a & _LIMB, a >> _HALF, b & _LIMB, b >> _HALF
    first, second = a_low * b_high, a_high * b_low
    # Three terms below 2^32 each: no carry is lost.
    middle = ((a_low * b_low) >> _HALF) + (first & _LIMB) + (second & _LIMB)
    high: Words = a_high * b_high + (first >> _HALF) + (second >> _HALF) + (middle >> _HALF)
    return high
