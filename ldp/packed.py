"""Bits packed eight to a byte, for reports on the wire and on disk.

Entry i of the flattened array is bit 7 - i % 8 of byte i // 8: numpy's order, most significant
first. The encoding is canonical: the length follows from the shape and the padding is zero.
"""

import numpy as np
from numpy.typing import NDArray

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
