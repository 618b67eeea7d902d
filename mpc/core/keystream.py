"""AES-256 as a keystream and as a pseudo-random function.

Source: NIST FIPS 197 (AES), SP 800-38A (counter mode); the switching lemma of Bellare and Rogaway,
    "The security of triple encryption and a framework for code-based game-playing proofs" (2006).
Model: AES-256 is a pseudo-random permutation. Over q blocks of one key its outputs differ from
    random ones, by never repeating, with advantage at most q^2 / 2^129: below 2^-60 for the first
    2^34 blocks, which are 256 GiB.
Leaks: nothing beyond that. OpenSSL chooses the cipher's code; with the processor's AES
    instructions it runs in constant time.
"""

import sys
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError

KEY_BYTES = 32
BLOCK_BYTES = 16

# Pieces of this size stay in the first two cache levels; larger ones only cost memory traffic.
PIECE_BYTES = 1 << 16

# What one call of the cipher takes: all of a caller's piece that fits into the second cache level,
# for each call costs as much as 4 KB of keystream. The zeros are read in order, so that they need
# not stay in a cache.
_CALL_BYTES = 1 << 19
_ZEROS = memoryview(bytes(_CALL_BYTES))

# How numpy marks the dtypes whose words are big-endian; it calls a machine's own order "=".
_BIG_ENDIAN = ">" if sys.byteorder == "little" else "="


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
    if not out.size:
        return memoryview(bytearray())
    if out.dtype.isnative:
        return out.data.cast("B")  # a tenth of the cost of the numpy views below
    return out.reshape(-1).view(np.uint8).data


def read_as_little_endian(out: NDArray[Any]) -> None:
    """Make the bytes just written to ``out`` count as little-endian words, whatever its dtype.

    So two parties expand one seed into the same numbers on machines of either byte order.
    """
    if out.dtype.byteorder == _BIG_ENDIAN:
        out.byteswap(inplace=True)


class Keystream:
    """AES-256-CTR under ``key`` from byte ``offset`` on, a multiple of 16 in [0, 2^132).

    The block at ``offset`` is the encryption of offset / 16 as a big-endian number of 128 bits.
    The context is kept between calls: opening one costs as much as 40 KB of keystream. It serves
    one thread at a time.
    """

    __slots__ = ("_context",)
    _context: CipherContext

    def __init__(self, key: bytes, offset: int = 0) -> None:
        offset = integer("offset", offset, 0, 2**132 - 1)
        if offset % BLOCK_BYTES:
            raise ParameterError(f"offset must be a multiple of {BLOCK_BYTES}, got {offset}")
        counter = (offset // BLOCK_BYTES).to_bytes(BLOCK_BYTES, "big")
        self._context = Cipher(algorithms.AES(_checked(key)), modes.CTR(counter)).encryptor()

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` with the next bytes of the stream, read as little-endian words.

        out: C-contiguous and writable, of an integer dtype, any shape; ParameterError otherwise.
        """
        view = byte_view(out)
        update, size = self._context.update_into, len(view)
        if size <= _CALL_BYTES:
            update(_ZEROS[:size], view)
        else:
            for start in range(0, size, _CALL_BYTES):
                piece = view[start : start + _CALL_BYTES]
                update(_ZEROS[: len(piece)], piece)
        if out.dtype.byteorder == _BIG_ENDIAN:
            read_as_little_endian(out)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Keystream holds a key and is not picklable")


class BlockPrf:
    """AES-256 on single blocks: one independent-looking 16-byte value for each distinct input.

    Made for coins that belong to an index (user, item, round) instead of to a stream position.
    It serves one thread at a time, as Keystream does.
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
