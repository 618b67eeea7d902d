"""Experiment coins: reproducible from a seed, and bound to an index instead of a stream position.

A coin is a function of (seed, purpose, user, item, round), so that changing the number of users,
the order of work or the place where a run resumes changes no other coin.

It may supply the split, initial values, the order of samples, rounding coins and, only when the
user asks for a seeded run, privacy coins. It never makes a key, a mask or a share: whoever knows
the seed knows every coin.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keys import derive
from mpc.core.keystream import BLOCK_BYTES, BlockPrf, byte_view, read_as_little_endian
from mpc.core.rng import Rng, Shape

MAX_INDICES = 4


class SimulationRng:
    """The root of all experiment coins of one run. ``seed``: an integer in [0, 2^64)."""

    def __init__(self, seed: int) -> None:
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self._key = derive(self.seed.to_bytes(32, "big"), "simulation")

    def coins(self, purpose: str, *index: ArrayLike) -> NDArray[np.uint64]:
        """One uniform 64-bit word for each index tuple; indices broadcast against each other.

        index: one to four integer arrays or integers, each entry in [0, 2^32).
        Returns uint64 of the broadcast shape.  Calls with another purpose or another number of
        indices give unrelated coins; ParameterError for other indices.
        """
        if not 1 <= len(index) <= MAX_INDICES:
            raise ParameterError(f"coins take 1 to {MAX_INDICES} indices, got {len(index)}")
        arrays = np.broadcast_arrays(*(_index(part) for part in index))
        inputs = np.zeros((arrays[0].size, MAX_INDICES), dtype=np.uint32)
        for column, part in enumerate(arrays):
            inputs[:, column] = part.reshape(-1)
        key = derive(self._key, purpose, len(index))
        return BlockPrf(key).blocks(inputs)[:, 0].reshape(arrays[0].shape)

    def order(self, purpose: str, *index: ArrayLike) -> NDArray[np.intp]:
        """A random permutation of the positions of ``index``: sorts by their coins.

        Where the indices broadcast to more than one axis, each line of the last axis gets one.
        """
        return np.argsort(np.atleast_1d(self.coins(purpose, *index)), kind="stable")

    def rows(self, purpose: str, rows: ArrayLike, *index: int) -> Rng:
        """A generator for arrays whose leading axis is ``rows``, each row with coins of its own.

        Row r's bytes depend on (seed, purpose, rows[r], index) alone: a batch draws, row by row,
        what a generator for the single row would. At most two further indices. It gives ``words``
        and what takes a fixed number of them for each row, as unbiased rounding does; a draw that
        goes back for more where it needs to, as ``uniform`` and Bernoulli bits do, is refused.
        """
        if len(index) > MAX_INDICES - 2:
            raise ParameterError(f"rows take up to {MAX_INDICES - 2} indices, got {len(index)}")
        lines = np.atleast_1d(_index(rows))
        if lines.ndim != 1:
            raise ParameterError(f"rows must have one axis, got shape {lines.shape}")
        key = derive(self._key, purpose, b"rows", len(index))
        further = tuple(integer("an index", part, 0, 2**32 - 1) for part in index)
        return _RowRng(BlockPrf(key), lines, further)

    def generator(self, purpose: str, *index: int) -> np.random.Generator:
        """A numpy generator for synthetic data, where coins are not bound to single items.

        index: any number of integers in [0, 2^64).
        """
        key = derive(self._key, purpose, b"generator", *index)
        return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))

    def __repr__(self) -> str:
        return f"SimulationRng(seed={self.seed})"


class _RowRng(Rng):
    """Bytes of each row from blocks (row, index, index, counter) of a pseudo-random function."""

    def __init__(self, prf: BlockPrf, rows: NDArray[np.uint32], index: tuple[int, ...]) -> None:
        self._prf = prf
        self._rows = rows
        self._index = index
        self._next = 0

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        raise self._refusal("exact integers below a bound")

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        raise self._refusal("Bernoulli bits")

    @staticmethod
    def _refusal(what: str) -> ParameterError:
        return ParameterError(
            f"{what} take a different number of words in each row",
            remedy="draw them from SimulationRng.coins",
        )

    def fill(self, out: NDArray[Any]) -> None:
        count = self._rows.size
        if out.ndim == 0 or out.shape[0] != count:
            raise ParameterError(f"out must have {count} rows, got shape {out.shape}")
        if not out.size:
            return
        width = out.nbytes // count
        blocks = -(-width // BLOCK_BYTES)
        inputs = np.zeros((count, blocks, MAX_INDICES), dtype=np.uint32)
        inputs[:, :, 0] = self._rows[:, np.newaxis]
        for column, part in enumerate(self._index, start=1):
            inputs[:, :, column] = part
        inputs[:, :, 3] = np.arange(self._next, self._next + blocks, dtype=np.uint32)
        self._next += blocks  # whole blocks, so a row's position never depends on other rows
        words = self._prf.blocks(inputs.reshape(-1, MAX_INDICES)).astype("<u8", copy=False)
        view = np.frombuffer(byte_view(out), dtype=np.uint8)
        view.reshape(count, width)[...] = words.view(np.uint8).reshape(count, -1)[:, :width]
        read_as_little_endian(out)


def _index(part: ArrayLike) -> NDArray[np.uint32]:
    array = np.asarray(part)
    if array.dtype.kind not in "iu":
        raise ParameterError(f"indices are integers, got dtype {array.dtype}")
    if array.size and (array.min() < 0 or array.max() >= 2**32):
        raise ParameterError(f"indices lie in [0, 2^32), got {array.min()} to {array.max()}")
    return array.astype(np.uint32)
