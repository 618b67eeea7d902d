"""The limit that shares and masks are measured against: AES-256-CTR keystream at full speed.

It uses the cipher library directly, never the toolkit's own ``Prg``: a limit that ran our code
would move with it.
"""

import os
from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

PIECE_BYTES = 1 << 16


def keystream(n_bytes: int) -> Callable[[], None]:
    """A call that makes exactly ``n_bytes`` of keystream from one kept context.

    Zeros go in and keystream comes out, in pieces of 64 KiB that reuse one buffer, so the output
    stays in cache and memory traffic is no part of the limit.
    """
    if n_bytes < 1:
        raise ValueError(f"n_bytes must be at least 1, got {n_bytes}")
    update = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor().update_into
    zeros = memoryview(bytes(PIECE_BYTES))
    buffer = memoryview(bytearray(PIECE_BYTES))
    pieces, rest = divmod(n_bytes, PIECE_BYTES)

    def run() -> None:
        for _ in range(pieces):
            update(zeros, buffer)
        if rest:
            update(zeros[:rest], buffer[:rest])

    return run
