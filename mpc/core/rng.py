"""Randomness as an object: the ``Rng`` interface and ``SYSTEM_RNG``, the secure default.

Source: AES-256-CTR (NIST SP 800-38A) keyed from the operating system, as in NIST SP 800-90A's
    counter-mode generators; rejection sampling for exact uniform integers.
Model: the operating system's generator gives uniform keys; AES-256 is a pseudo-random permutation.
Error: uniform integers are exact for every bound, given uniform bytes.
"""

import os
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import KEY_BYTES, Keystream

Shape = int | tuple[int, ...]


class Rng(ABC):
    """A source of uniform bytes. Subclasses give ``fill``; everything else is built on it.

    Kernels take one as the keyword ``rng``; nothing in the toolkit draws from a global generator.
    """

    @abstractmethod
    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` (C-contiguous, integer dtype) with uniform bytes."""

    def words(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Uniform machine words: a new array of ``shape`` and the unsigned ``dtype``."""
        out = np.empty(shape, dtype=dtype)
        self.fill(out)
        return out

    def bytes(self, n: int) -> bytes:
        """``n`` uniform bytes."""
        if n < 0:
            raise ParameterError(f"n must be at least 0, got {n}")
        return self.words(n, np.uint8).tobytes()

    def uniform(self, bound: int, shape: Shape = ()) -> NDArray[np.uint64]:
        """Integers uniform in [0, bound), exactly, for 1 <= bound <= 2^64; dtype uint64.

        Draws the bits that ``bound - 1`` needs and redraws what is too large, so that no value is
        favoured as a modulo would favour the small ones.
        """
        if not 1 <= bound <= 2**64:
            raise ParameterError(f"bound must lie in [1, 2^64], got {bound}")
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        out = np.asarray(self.words(shape, np.uint64)) & mask
        flat = np.atleast_1d(out).reshape(-1)
        too_large = np.flatnonzero(flat > np.uint64(bound - 1))
        while too_large.size:
            flat[too_large] = self.words(too_large.size, np.uint64) & mask
            too_large = too_large[flat[too_large] > np.uint64(bound - 1)]
        return flat.reshape(np.shape(out))


# A fresh key after this many bytes: a later leak of the state opens at most the last gigabyte.
_REKEY_BYTES = 1 << 30


class SystemRng(Rng):
    """AES-256-CTR keyed by the operating system, one key for each process and thread.

    A forked child, a new thread and an unpickled copy each start with a key of their own, so no
    two of them ever give the same bytes. It cannot be seeded.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` with bytes of this process's and thread's own stream."""
        local = self._local
        # The process id tells a forked child, whichever library forked.
        if getattr(local, "pid", None) != os.getpid() or local.left < out.nbytes:
            local.stream = Keystream(os.urandom(KEY_BYTES))
            local.pid = os.getpid()
            local.left = max(_REKEY_BYTES, out.nbytes)
        local.left -= out.nbytes
        local.stream.fill(out)

    def __reduce__(self) -> tuple[object, ...]:
        return (SystemRng, ())

    def __repr__(self) -> str:
        return "SystemRng()"


SYSTEM_RNG: Rng = SystemRng()
"""The default everywhere: secure, not seedable, safe across fork, spawn, threads and pickling."""
