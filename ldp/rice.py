"""A compact code for integers that are mostly small and may be of any size: Rice codes.

An integer v is folded to z = 2v or -2v - 1, and z split into its low ``bits`` bits and a quotient.
On the wire come the low bits of all integers, then all quotients in unary (that many ones and a
zero), then in full each quotient too long for unary. So a batch is read without a loop over it.

Source: Rice, "Some practical universal noiseless coding techniques" (1979), the choice for
    geometric laws by Golomb (1966); the cap on unary as in JPEG-LS (ITU-T T.87, annex A.5.3).
Error: none; the code is lossless for |v| <= 2^62, and canonical: one encoding for each batch.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp import packed
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import Shape

LIMIT = 1 << 62
"""The largest magnitude of an integer in this code, and of any report with integer noise."""

CAP = 31
"""Quotients from here on are written as this many ones, a zero, and their value at the end."""

_FOLDED_BITS = 64  # 2^62 folds to 2^63
_SIGN = np.int64(63)


@dataclass(frozen=True)
class RiceCode:
    """The Rice code with ``bits`` low bits, in [0, 60]."""

    bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", integer("bits", self.bits, 0, 60))

    @classmethod
    def around(cls, magnitude: Fraction) -> "RiceCode":
        """The code for integers whose mean distance from 0 is about ``magnitude``.

        Its quotients then have a mean between 1 and 2: within 0.1 bit of the best for a geometric
        law. Decided by integers alone, so that both sides of a wire agree.
        """
        return cls(min(max(int(2 * magnitude).bit_length() - 1, 0), 60))

    def mean_bits(self, second_moment: float) -> int:
        """A bound on the mean length, rounded up, from that of the integers' squares."""
        # E|v| <= sqrt(E v^2); by Chebyshev, P(quotient >= CAP) is at most as below.
        quotient = 2 * sqrt(second_moment) / 2**self.bits
        long = min(1.0, second_moment / (CAP * 2.0 ** (self.bits - 1)) ** 2)
        total: float = self.bits + 1 + quotient + (_FOLDED_BITS - self.bits) * long
        return ceil(total)

    def pack(self, values: NDArray[np.int64]) -> bytes:
        """The integers of an int64 array of any shape, each within 2^62 of 0."""
        given = np.asarray(values)
        if given.dtype != np.int64:
            raise ParameterError(f"reports must be int64, got dtype {given.dtype}")
        flat = given.reshape(-1)
        if flat.size and not (flat.min() >= -LIMIT and flat.max() <= LIMIT):
            raise ParameterError("a report lies outside [-2^62, 2^62]")
        folded = (flat << np.int64(1) ^ flat >> _SIGN).astype(np.uint64)
        quotients = folded >> np.uint64(self.bits)
        unary = np.minimum(quotients, np.uint64(CAP)).astype(np.int64)
        ones = np.ones(int(unary.sum()) + flat.size, dtype=np.bool_)
        ones[np.cumsum(unary + 1) - 1] = False  # each ends with a zero
        long = quotients[unary == CAP]
        low = folded & np.uint64((1 << self.bits) - 1)
        parts = [_bits(low, self.bits), ones, _bits(long, _FOLDED_BITS - self.bits)]
        return packed.pack(np.concatenate(parts))

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.int64]:
        """Inverse of ``pack`` for a known shape; WireError for any other bytes."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(size < 0 for size in sizes):
            raise ParameterError(f"shape must not be negative, got {sizes}")
        count = prod(sizes)
        stream = packed.unpack(data, 8 * len(data))
        start = count * self.bits
        if stream.size < start + count:
            raise WireError(f"{count} reports take {start + count} bits or more, got {stream.size}")
        zeros = np.flatnonzero(~stream[start:])[:count]
        if zeros.size < count:
            raise WireError(f"{zeros.size} of {count} reports are complete")
        quotients = np.diff(zeros, prepend=-1) - 1
        if count and int(quotients.max()) > CAP:
            raise WireError(f"a quotient has more than {CAP} ones")
        end = start + (int(zeros[-1]) + 1 if count else 0)
        quotients = quotients.astype(np.uint64)
        is_long = quotients == CAP
        width = _FOLDED_BITS - self.bits
        last = end + int(is_long.sum()) * width
        if not 0 <= stream.size - last < 8:
            raise WireError(f"the reports take {last} bits, got {stream.size}")
        if stream[last:].any():
            raise WireError("a padding bit is set")
        quotients[is_long] = _words(stream[end:last], width)
        if (quotients[is_long] < CAP).any():
            raise WireError("a quotient is written in full although it fits into unary")
        folded = quotients << np.uint64(self.bits) | _words(stream[:start], self.bits, count)
        if count and int(folded.max()) > 2 * LIMIT:
            raise WireError("a report lies outside [-2^62, 2^62]")
        sign = -(folded & np.uint64(1)).astype(np.int64)
        return ((folded >> np.uint64(1)).astype(np.int64) ^ sign).reshape(sizes)


def _bits(words: NDArray[np.uint64], width: int) -> NDArray[np.bool_]:
    """The ``width`` low bits of each word, most significant first, as one flat array."""
    spread = np.unpackbits(words.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return spread[:, 64 - width :].reshape(-1).view(np.bool_)


def _words(bits: NDArray[np.bool_], width: int, count: int | None = None) -> NDArray[np.uint64]:
    """Inverse of ``_bits``."""
    rows = len(bits) // width if count is None else count
    spread = np.zeros((rows, 64), dtype=np.bool_)
    spread[:, 64 - width :] = bits.reshape(rows, width)
    result: NDArray[Any] = np.packbits(spread, axis=1).view(">u8").reshape(rows)
    return result.astype(np.uint64)
