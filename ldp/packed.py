"""Bits and small integers packed without gaps, for reports on the wire and on disk.

Bit i of the flattened array is bit 7 - i % 8 of byte i // 8: numpy's order, most significant
first; an integer of w bits is its w bits, most significant first. The encoding is canonical: the
length follows from the shape and the padding is zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import Shape


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
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in sizes):
        raise ParameterError(f"shape must not be negative, got {sizes}")
    count = 1
    for size in sizes:
        count *= size
    if len(data) != -(-count // 8):
        raise WireError(f"{count} bits take {-(-count // 8)} bytes, got {len(data)}")
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
    # The last bits of big-endian words are the integers' own, most significant first.
    spread = np.unpackbits(flat.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return pack(spread[:, 64 - bits :].view(np.bool_))


def unpack_words(data: bytes, shape: Shape, bits: int) -> NDArray[np.uint64]:
    """Inverse of ``pack_words`` for a known shape: uint64.

    Raises WireError if the length does not fit or a padding bit is set.
    """
    bits = integer("bits", bits, 1, 64)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    taken = unpack(data, (*sizes, bits)).reshape(-1, bits)
    spread = np.zeros((taken.shape[0], 64), dtype=np.bool_)
    spread[:, 64 - bits :] = taken
    words = np.packbits(spread, axis=1).view(">u8").reshape(sizes)
    return words.astype(np.uint64)
