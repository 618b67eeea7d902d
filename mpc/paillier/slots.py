"""Signed integers side by side in the bits of large ones, and back, by whole arrays.

Source: bits spread out to bytes and packed again (numpy's ``unpackbits`` and ``packbits``).
Model: arithmetic only; nothing here is constant time.
Error: none.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import AbortError

_WORD = 1 << 64
# Bits that are spread out to a byte each at a time: they stay in the second cache level.
_PIECE_BITS = 1 << 19


def join(integers: NDArray[Any], slots: int, width: int, bound: int) -> Iterator[int]:
    """``integers`` plus ``bound``, ``slots`` of them to a number, each in ``width`` bits.

    integers: one dimension, int64 or objects, none below -bound; those missing in the last number
    count as zero.  width: the bits of 2 * bound or more.
    """
    padded = np.zeros(-(-integers.size // slots) * slots, dtype=integers.dtype)
    padded[: integers.size] = integers
    for rows in _pieces(padded.size // slots, slots * width):
        words = padded[rows.start * slots : rows.stop * slots]
        if words.dtype == object or 2 * bound >= _WORD:
            size = -(-width // 8)
            data = b"".join((int(word) + bound).to_bytes(size, "little") for word in words)
            octets = np.frombuffer(data, np.uint8).reshape(-1, size)
        else:
            # Words wrap, so the sum is right although it may pass 2^63 on its way.
            lifted = (words.astype(np.uint64) + np.uint64(bound)).astype("<u8")
            octets = lifted.view(np.uint8).reshape(-1, 8)
        given = min(width, 8 * octets.shape[1])
        bits = np.zeros((len(octets), width), dtype=np.uint8)
        bits[:, :given] = np.unpackbits(octets, axis=1, count=given, bitorder="little")
        packed = np.packbits(bits.reshape(-1, slots * width), axis=1, bitorder="little")
        for row in packed:
            yield int.from_bytes(row.tobytes(), "little")


def cut(numbers: Sequence[int], slots: int, width: int, bound: int) -> NDArray[Any]:
    """The inverse of ``join`` on ``numbers`` of [0, 2^(slots width)): ``slots`` integers for each.

    Returns int64, or objects where 2 * bound needs more than 64 bits.
    Raises AbortError if a slot holds more than 2 * bound.
    """
    size = -(-slots * width // 8)
    wide = 2 * bound >= _WORD
    out = np.empty(len(numbers) * slots, dtype=object if wide else np.int64)
    for rows in _pieces(len(numbers), slots * width):
        data = b"".join(number.to_bytes(size, "little") for number in numbers[rows])
        octets = np.frombuffer(data, np.uint8).reshape(-1, size)
        bits = np.unpackbits(octets, axis=1, count=slots * width, bitorder="little")
        bits = bits.reshape(-1, width)
        if wide:
            packed = np.packbits(bits, axis=1, bitorder="little")
            words: NDArray[Any] = np.array(
                [int.from_bytes(row.tobytes(), "little") for row in packed], dtype=object
            )
            signed = words - bound
            fits = not words.size or words.max() <= 2 * bound
        else:
            low = np.zeros((len(bits), 8), dtype=np.uint8)
            packed = np.packbits(bits[:, :64], axis=1, bitorder="little")
            low[:, : packed.shape[1]] = packed
            words = low.view("<u8")[:, 0].astype(np.uint64)
            signed = (words - np.uint64(bound)).view(np.int64)
            fits = not bits[:, 64:].any() and bool(np.all(words <= np.uint64(2 * bound)))
        if not fits:
            raise AbortError("a slot exceeds the bound that its account states")
        out[rows.start * slots : rows.stop * slots] = signed
    return out


def _pieces(rows: int, bits: int) -> Iterator[slice]:
    step = max(1, _PIECE_BITS // bits)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
