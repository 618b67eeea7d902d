"""Keys for tests from stored primes, so that no test waits for a search; and scripted coins."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.paillier.encrypt import Djn
from mpc.paillier.keys import PrivateKey
from tests.support.vectors import cases

BITS = (1024, 2048, 3072, 4096)
"""Bits of the stored keys. Those of 1024 are ``small_for_tests``."""

TOY = (23, 31)
"""The smallest primes of a key of Blum form, n = 713: everything can be enumerated."""


@cache
def stored(bits: int) -> dict[str, Any]:
    """The entry of tests/vectors/paillier.json for a key of ``bits`` bits."""
    return next(entry for entry in cases("paillier", "keys") if entry["bits"] == bits)


@cache
def private_key(bits: int) -> PrivateKey:
    """The stored key of one of ``BITS``, of Blum form."""
    entry = stored(bits)
    return PrivateKey(int(entry["p"], 16), int(entry["q"], 16), small_for_tests=bits < 2048)


@cache
def toy_key() -> PrivateKey:
    """n = 713: nothing is hidden, and every law can be listed."""
    return PrivateKey(*TOY, small_for_tests=True)


@cache
def encryptor(bits: int) -> Djn:
    """A ``Djn`` under the stored key, its table built once for all tests."""
    return Djn(private_key(bits).public, rng=SYSTEM_RNG)


class BytesRng(Rng):
    """Gives the bytes of a script, in order; IndexError past its end."""

    def __init__(self, script: bytes) -> None:
        self._script = script
        self.used = 0

    def fill(self, out: NDArray[Any]) -> None:
        part = self._script[self.used : self.used + out.nbytes]
        if len(part) < out.nbytes:
            raise IndexError("the script of bytes is over")
        self.used += out.nbytes
        out[...] = np.frombuffer(part, dtype=out.dtype).reshape(out.shape)
