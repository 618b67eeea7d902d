"""Randomness as an object: the ``Rng`` interface and ``SYSTEM_RNG``, the secure default.

Source: AES-256-CTR (NIST SP 800-38A) keyed by the operating system; rejection sampling for exact
    uniform integers (Devroye, "Non-Uniform Random Variate Generation", 1986, II.3).
Model: the operating system's generator gives uniform keys; AES-256 is a pseudo-random permutation.
Error: uniform integers are exact for every bound, given uniform bytes.
"""

import os
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mpc.core.checks import integer
from mpc.core.keystream import KEY_BYTES, Keystream

Shape = int | tuple[int, ...]


class Rng(ABC):
    """A source of uniform bytes. Subclasses give ``fill``; everything else is built on it.

    Kernels take one as the keyword ``rng``; nothing in the toolkit draws from a global generator.
    """

    __slots__ = ()

    @abstractmethod
    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` (C-contiguous, writable, integer dtype) with uniform bytes."""

    def words(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Uniform machine words: a new array of ``shape`` and the unsigned ``dtype``.

        Raises ParameterError for a dtype that is not an integer's.
        """
        out = np.empty(shape, dtype=dtype)
        self.fill(out)
        return out

    def bytes(self, n: int) -> bytes:
        """``n`` uniform bytes."""
        return self.words(integer("n", n, 0, sys.maxsize), np.uint8).tobytes()

    def uniform(self, bound: int, shape: Shape = ()) -> NDArray[np.uint64]:
        """Integers uniform in [0, bound), exactly, for 1 <= bound <= 2^64; dtype uint64.

        Keeps of each 64-bit word the bits that ``bound - 1`` needs and redraws what is too large,
        so that no value is favoured as a modulo would favour the small ones. Takes one word for
        each entry, in order, then one for each that is redrawn.
        """
        bound = integer("bound", bound, 1, 2**64)
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        out = np.asarray(self.words(shape, np.uint64)) & mask
        flat = np.atleast_1d(out).reshape(-1)
        too_large = np.flatnonzero(flat > np.uint64(bound - 1))
        while too_large.size:
            flat[too_large] = self.words(too_large.size, np.uint64) & mask
            too_large = too_large[flat[too_large] > np.uint64(bound - 1)]
        return flat.reshape(np.shape(out))


class _Forks:
    """How often this process descends from a fork that Python made."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_Forks.add)


class SystemRng(Rng):
    """AES-256-CTR keyed by the operating system, one key for each process and thread.

    A forked child, a new thread, a copy and an unpickled one each start with a key of their own,
    so no two of them ever give the same bytes. It cannot be seeded. Not covered: two copies of a
    running virtual machine, which share every byte of memory.

    rekey_bytes: a key serves for this many bytes, or for one single larger draw, so that a later
    leak of the state opens at most these. The default is 1 GiB.
    """

    def __init__(self, rekey_bytes: int = 1 << 30) -> None:
        self._rekey_bytes = integer("rekey_bytes", rekey_bytes, 1, sys.maxsize)
        self._local = threading.local()

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` with bytes of this process's and thread's own stream."""
        local = self._local
        # The process id tells a child of any library's fork; the count tells a child of Python's
        # even where its process id repeats an ancestor's, as the first one of a container does.
        process = (os.getpid(), _Forks.count)
        if getattr(local, "process", None) != process or local.left < out.nbytes:
            local.stream = Keystream(os.urandom(KEY_BYTES))
            local.process = process
            local.left = self._rekey_bytes
        local.left -= out.nbytes
        local.stream.fill(out)

    def __reduce__(self) -> tuple[object, ...]:
        return (SystemRng, (self._rekey_bytes,))

    def __repr__(self) -> str:
        return "SystemRng()"


SYSTEM_RNG: Rng = SystemRng()
"""The default everywhere: secure, not seedable, safe across fork, spawn, threads and pickling."""
