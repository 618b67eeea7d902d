"""Randomness as an object: the ``Rng`` interface and ``SYSTEM_RNG``, the secure default.

Source: AES-256-CTR (NIST SP 800-38A) keyed by the operating system; rejection sampling for exact
    uniform integers (Devroye, "Non-Uniform Random Variate Generation", 1986, II.3); byte-wise
    comparison of a uniform word with a threshold, refined only on ties, for Bernoulli bits.
Model: the operating system's generator gives uniform keys; AES-256 is a pseudo-random permutation.
Error: given uniform bytes, uniform integers are exact for every bound, and the probabilities of
    Bernoulli bits are exact multiples of 2^-64.
"""

import os
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import KEY_BYTES, PIECE_BYTES, Keystream

Shape = int | tuple[int, ...]

ONE = 1 << 64
"""Probability 1 as a threshold of ``Rng.bernoulli``."""

_UNSIGNED = tuple(np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64))


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

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Integers uniform in [0, bound), exactly, for 1 <= bound <= 2^w of the unsigned dtype.

        The words of w' bits are cut into ``bound`` equal shares, one for each integer; a word of
        the rest, which is smaller than a share, is redrawn, so that no integer is favoured as a
        modulo would favour the small ones. w' is the least of 8, 16, 32 and 64 that leaves a rest
        below 1/256 of the words, or 64; for a power of two the least that holds it, with no rest.
        Takes one such word for each entry, in order, then one for each that is redrawn.
        """
        kind = np.dtype(dtype)
        if kind not in _UNSIGNED:
            raise ParameterError(f"dtype must be a native unsigned integer's, got {kind}")
        bound = integer("bound", bound, 1, 1 << 8 * kind.itemsize)
        even = bound & (bound - 1) == 0
        drawn = next(
            word
            for word in _UNSIGNED
            if bound * (1 if even else 256) <= 1 << 8 * word.itemsize or word.itemsize == 8
        )
        words = np.asarray(self.words(shape, drawn))
        if even:
            out: NDArray[Any] = words & drawn.type(bound - 1)
            return out.astype(kind, copy=False)
        share, largest = drawn.type((1 << 8 * drawn.itemsize) // bound), drawn.type(bound - 1)
        flat = words.reshape(-1)
        if share > 1:
            np.floor_divide(flat, share, out=flat)
        too_large = np.flatnonzero(flat > largest)
        while too_large.size:
            again = self.words(too_large.size, drawn) // share
            flat[too_large] = again
            too_large = too_large[again > largest]
        return words.astype(kind, copy=False)

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        """Independent bits that are True with probability exactly threshold / 2^64.

        threshold: integer in [0, 2^64].  Returns a bool array of ``shape``.
        Takes a byte for each entry and a 64-bit word for each of the few that the byte leaves
        open, so the bytes that one entry takes depend on the others: a batch is not its rows in a
        row.
        """
        threshold = integer("threshold", threshold, 0, ONE)
        out = np.empty(shape, dtype=np.bool_)
        if threshold == ONE:
            out[...] = True
            return out
        flat = out.reshape(-1)
        top, low = threshold >> 56, np.uint64(threshold & ((1 << 56) - 1))
        scratch = np.empty(min(flat.size, PIECE_BYTES), dtype=np.uint8)
        for start in range(0, flat.size, PIECE_BYTES):
            piece = flat[start : start + PIECE_BYTES]
            first = scratch[: piece.size]
            self.fill(first)
            np.less(first, top, out=piece)
            if low:
                # One byte decides 255 cases in 256; a tie is decided by the other 56 bits.
                ties = np.flatnonzero(first == top)
                if ties.size:
                    piece[ties] = (self.words(ties.size, np.uint64) >> np.uint64(8)) < low
        return out


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
