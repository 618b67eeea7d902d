"""AES-256 as a keystream and as a pseudo-random function: the one file that opens cipher contexts.

Source: NIST FIPS 197 (AES) and SP 800-38A (counter mode).
Model: AES-256 is a pseudo-random permutation; streams stay far below 2^64 blocks, so that the
    difference from a random function is below 2^-60 for each key.
Leaks: nothing through the output; the cipher itself is the constant-time one of OpenSSL.
"""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from mpc.core.errors import ParameterError

KEY_BYTES = 32
BLOCK_BYTES = 16

# Pieces of this size stay in the first two cache levels; larger ones only cost memory traffic.
PIECE_BYTES = 1 << 16
_ZEROS = memoryview(bytes(PIECE_BYTES))


def _checked(key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        size = len(key) if isinstance(key, bytes) else type(key).__name__
        raise ParameterError(f"key must be {KEY_BYTES} bytes, got {size}")
    return key


def byte_view(out: NDArray[Any]) -> memoryview:
    """The bytes of a C-contiguous, writable array of an integer or byte dtype, as one flat view."""
    if out.dtype.kind not in "iu" or not out.flags.c_contiguous or not out.flags.writeable:
        raise ParameterError(
            f"out must be a writable C-contiguous integer array, got dtype {out.dtype}",
            remedy="allocate it with numpy.empty and an unsigned dtype",
        )
    return out.reshape(-1).view(np.uint8).data if out.size else memoryview(bytearray())


class Keystream:
    """AES-256-CTR under ``key`` from byte ``offset`` (a multiple of 16) on.

    The context is kept between calls: opening one costs as much as 40 KB of keystream.
    """

    __slots__ = ("_context",)
    _context: CipherContext

    def __init__(self, key: bytes, offset: int = 0) -> None:
        if offset < 0 or offset % BLOCK_BYTES:
            raise ParameterError(f"offset must be a multiple of {BLOCK_BYTES} >= 0, got {offset}")
        counter = (offset // BLOCK_BYTES).to_bytes(BLOCK_BYTES, "big")
        self._context = Cipher(algorithms.AES(_checked(key)), modes.CTR(counter)).encryptor()

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` (C-contiguous, integer dtype) with the next bytes of the stream."""
        view = byte_view(out)
        update = self._context.update_into
        for start in range(0, len(view), PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            update(_ZEROS[: len(piece)], piece)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Keystream holds a key and is not picklable")


class BlockPrf:
    """AES-256 on single blocks: one independent-looking 16-byte value for each distinct input.

    Made for coins that belong to an index (user, item, round) instead of to a stream position.
    """

    __slots__ = ("_context",)
    _context: CipherContext

    def __init__(self, key: bytes) -> None:
        # Electronic codebook is the bare permutation; as a PRF on distinct blocks that is the
        # whole point, and no message is ever encrypted here.
        self._context = Cipher(algorithms.AES(_checked(key)), modes.ECB()).encryptor()

    def blocks(self, inputs: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Map rows of four 32-bit words, shape (n, 4), to rows of two 64-bit words, shape (n, 2).

        Words are little-endian in both directions, on every machine.
        """
        if inputs.ndim != 2 or inputs.shape[1] != 4 or inputs.dtype != np.uint32:
            raise ParameterError(
                f"inputs must be uint32 of shape (n, 4), got {inputs.dtype} {inputs.shape}"
            )
        data = np.ascontiguousarray(inputs, dtype="<u4")
        out = np.empty(data.nbytes + BLOCK_BYTES - 1, dtype=np.uint8)
        if data.size:
            self._context.update_into(data.reshape(-1).view(np.uint8).data, out.data)
        words = out[: data.nbytes].view("<u8").reshape(-1, 2)
        return words.astype(np.uint64, copy=False)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a BlockPrf holds a key and is not picklable")
