"""Bits and small integers packed without gaps, for reports on the wire and on disk.

Bit i of the flattened array is bit 7 - i % 8 of byte i // 8: numpy's order, most significant
first; an integer of w bits is its w bits, most significant first. The encoding is canonical: the
length follows from the shape and the padding is zero.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import Shape

# Words go a piece at a time, since a piece takes a byte for each of its bits. A multiple of 8, so
# that every piece but the last fills whole bytes.
_STEP = 1 << 16


def pack(bits: NDArray[np.bool_]) -> bytes:
    """The entries of a bool array of any shape, in C order, in ceil(size / 8) bytes."""
    if bits.dtype != np.bool_:
        raise ParameterError(f"bits must be a bool array, got dtype {bits.dtype}")
    return np.packbits(bits, axis=None).tobytes()


def unpack(data: bytes, shape: Shape) -> NDArray[np.bool_]:
    """Inverse of ``pack`` for a known shape.

    Raises WireError if the length does not fit or a padding bit is set, ParameterError for a
    negative shape.
    """
    sizes = _sizes(shape)
    count = math.prod(sizes)
    _check_length(data, count)
    padding = -count % 8
    if padding and data[-1] & ((1 << padding) - 1):
        raise WireError(f"a padding bit is set in the last byte of {count} packed bits")
    flat = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count)
    return flat.view(np.bool_).reshape(sizes)


def pack_words(words: NDArray[np.unsignedinteger[Any]], bits: int) -> bytes:
    """The entries of an array of any shape, each below 2^bits, in ceil(size * bits / 8) bytes.

    words: unsigned.  bits: in [1, 64].  Raises ParameterError if an entry needs more bits.
    """
    bits = integer("bits", bits, 1, 64)
    flat = np.asarray(words).reshape(-1)
    if flat.dtype.kind != "u":
        raise ParameterError(f"words must be unsigned integers, got dtype {flat.dtype}")
    if flat.size and int(flat.max()) >> bits:
        raise ParameterError(f"an entry needs more than {bits} bits")
    width = _width(bits)
    pieces = []
    for start in range(0, flat.size, _STEP):
        # The last bits of big-endian words are the integers' own, most significant first.
        piece = flat[start : start + _STEP].astype(f">u{width}")
        spread = np.unpackbits(piece.view(np.uint8).reshape(-1, width), axis=1)
        pieces.append(pack(spread[:, 8 * width - bits :].view(np.bool_)))
    return b"".join(pieces)


def unpack_words(data: bytes, shape: Shape, bits: int) -> NDArray[np.uint64]:
    """Inverse of ``pack_words`` for a known shape: uint64.

    Raises WireError if the length does not fit or a padding bit is set.
    """
    bits = integer("bits", bits, 1, 64)
    sizes = _sizes(shape)
    words = np.empty(math.prod(sizes), dtype=np.uint64)
    _check_length(data, words.size * bits)
    width = _width(bits)
    for start in range(0, words.size, _STEP):
        piece = words[start : start + _STEP]
        first, end = start * bits // 8, -(-(start + piece.size) * bits // 8)
        spread = np.zeros((piece.size, 8 * width), dtype=np.bool_)
        spread[:, 8 * width - bits :] = unpack(data[first:end], (piece.size, bits))
        piece[...] = np.packbits(spread, axis=1).view(f">u{width}")[:, 0]
    return words.reshape(sizes)


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in sizes):
        raise ParameterError(f"shape must not be negative, got {sizes}")
    return sizes


def _check_length(data: bytes, bits: int) -> None:
    if len(data) != -(-bits // 8):
        raise WireError(f"{bits} bits take {-(-bits // 8)} bytes, got {len(data)}")


def _width(bits: int) -> int:
    """The bytes of the smallest machine word of at least ``bits`` bits."""
    return next(width for width in (1, 2, 4, 8) if bits <= 8 * width)


def unpack_below(data: bytes, shape: Shape, bound: int) -> NDArray[np.uint64]:
    """``unpack_words`` for reports below ``bound``, in as many bits as bound - 1 has.

    Raises WireError too where a report is not below ``bound``, which is at least 2.
    """
    reports = unpack_words(data, shape, (integer("bound", bound, 2, 1 << 64) - 1).bit_length())
    if reports.size and int(reports.max()) >= bound:
        raise WireError(f"a report lies outside [0, {bound})")
    return reports
