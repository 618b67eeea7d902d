"""A pad stream as a lazily sampled random function, walked over all its outcomes at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.rng import Rng
from secagg.params import PadParams


class RandomFunction:
    """Maps (stream key, byte position) to a ring word; each new point takes the next tape column.

    The stream key is what the real key schedule derived from the complete label, so a pad that is
    used twice is one point asked for twice, and shows as one column. Words in the unused end of a
    slot are 0 here; ``PairChains`` cuts them off and no view holds them.

    values: (B, columns), every outcome of the words.  Its streams fill arrays of shape (B, m).
    slots: which of an epoch's slots are random; the others give 0, to keep the tapes few.
    """

    def __init__(
        self, params: PadParams, values: NDArray[np.uint64], slots: frozenset[int]
    ) -> None:
        self._params = params
        self._values = values
        self._slots = slots
        self._columns: dict[tuple[bytes, int], int] = {}

    def __call__(self, key: bytes, offset: int) -> Rng:
        return _Stream(self, key, offset)

    @property
    def points(self) -> int:
        """How many different points were asked for."""
        return len(self._columns)

    def words(self, key: bytes, position: int) -> NDArray[np.uint64] | int:
        slot, at = divmod(position, self._params.slot_bytes)
        size = self._params.ring.element_bytes()
        if slot not in self._slots or at >= self._params.dim * size:
            return 0
        return self._values[:, self._columns.setdefault((key, position), len(self._columns))]


class _Stream(Rng):
    def __init__(self, function: RandomFunction, key: bytes, position: int) -> None:
        self._function = function
        self._key = key
        self._position = position

    def fill(self, out: NDArray[Any]) -> None:
        for column in range(out.shape[-1]):
            out[:, column] = self._function.words(self._key, self._position)
            self._position += out.itemsize
