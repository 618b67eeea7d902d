"""Pseudo-random generator: an agreed 32-byte seed expanded by AES-256-CTR.

Source: NIST SP 800-38A counter mode; Bonawitz et al., CCS 2017, section 3.4 uses it for masks.
Model: computationally uniform for whoever does not know the seed.
Differs: all 256 seed bits are used and every residue of the ring is reached; the generator that
    users of numpy-seeded masks know has neither property.
"""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mpc.core.keystream import BLOCK_BYTES, KEY_BYTES, Keystream
from mpc.core.rng import Rng

SEED_BYTES = KEY_BYTES


class Prg(Rng):
    """The keystream of ``seed`` from byte ``offset`` on (a multiple of 16); equal at both ends."""

    __slots__ = ("_stream",)

    def __init__(self, seed: bytes, offset: int = 0) -> None:
        self._stream = Keystream(seed, offset)

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite ``out`` with the next bytes of the stream, as Keystream.fill does."""
        self._stream.fill(out)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Prg holds a seed and is not picklable")

    def __repr__(self) -> str:
        return "Prg(<seed hidden>)"


PrgFactory = Callable[[bytes, int], Rng]
"""(seed, byte offset) -> stream. ``Prg`` is the one in use; tests put in a random function."""

__all__ = ["BLOCK_BYTES", "SEED_BYTES", "Prg", "PrgFactory"]
