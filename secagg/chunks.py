"""Dense sums over a large catalogue in bounded memory: rows by item in, stretches of a vector out.

    sent = SparseVector(catalogue, ring, items, rows)           # the few items that a client has
    masked = mask_chunks(sent.chunks(), streams, ring)          # what it sends, in order
    totals = mask_chunks(sum_chunks(parts, ring), left, ring)   # the server, ``left`` unmasks

A client sends every coordinate of the catalogue, zero or not, so that nobody sees which items it
has. Nobody ever holds a whole vector: rows are written out a stretch at a time, streams are read on
from where the last stretch ended, and totals go to the caller one by one. Each step is a generator,
so that others fit between them, noise on every coordinate for example.

Source: ours; masks as in ``secagg.masks``.
Model: that of the protocol whose streams these are. They serve *one* vector of one round, cut into
    pieces: a second vector under them would show its difference to the first.
Leaks: the length of the catalogue.
Error: none. The pieces in a row are the dense vector and its sum, element for element.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import BLOCK_BYTES
from mpc.core.ring import Ring, RingArray
from secagg.masks import SignedStreams, add_pads

CHUNK_BYTES = 1 << 24
"""The size of a stretch, by default."""

MAX_LENGTH = 2**40

Chunk = tuple[int, RingArray]
"""Where a stretch begins in the whole vector, and its elements."""


@dataclass(frozen=True)
class Catalogue:
    """The layout of a vector: ``n_items`` rows of ``width`` entries, then ``tail`` entries.

    n_items, width: at least 1.  tail: at least 0.  ParameterError otherwise.
    """

    n_items: int
    width: int
    tail: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_items", 1), ("width", 1), ("tail", 0)):
            exact = integer(name, getattr(self, name), least, MAX_LENGTH)
            object.__setattr__(self, name, exact)

    @property
    def rows_size(self) -> int:
        """Entries of all rows."""
        return self.n_items * self.width

    @property
    def size(self) -> int:
        """Entries of the whole vector."""
        return self.rows_size + self.tail

    def spans(self, ring: Ring, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, int]]:
        """(start, stop) of consecutive stretches of at most ``chunk_bytes``, or the least there is.

        Each holds whole rows or a part of the tail. A stretch of rows begins at a whole cipher
        block of a stream that begins at the vector's first element.
        """
        size = ring.element_bytes()
        most = integer("chunk_bytes", chunk_bytes, 1, 2**62)
        unit = self.width * size
        together = BLOCK_BYTES // gcd(BLOCK_BYTES, unit)
        step = max(1, most // (unit * together)) * together * self.width
        yield from _cut(0, self.rows_size, step)
        yield from _cut(self.rows_size, self.size, max(1, most // size))


class SparseVector:
    """A client's vector over a catalogue, of which it has few rows; the others are zero.

    items: integers (m,), distinct, rising, in [0, n_items).  rows: ring elements (m, width).
    tail: ring elements (tail,), if the catalogue has one.  Raises ParameterError otherwise. The
    arrays are kept, not copied, and not shown.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        ring: Ring,
        items: ArrayLike,
        rows: RingArray,
        tail: RingArray | None = None,
    ) -> None:
        held = np.asarray(items)
        if held.ndim != 1 or held.dtype.kind not in "iu":
            raise ParameterError(f"items must be integers (m,), got {held.dtype} {held.shape}")
        if held.size and not (int(held.min()) >= 0 and int(held.max()) < catalogue.n_items):
            raise ParameterError(f"items must lie in [0, {catalogue.n_items})")
        if (held[1:] <= held[:-1]).any():
            raise ParameterError("items must be distinct and in rising order")
        end = np.zeros(0, dtype=ring.dtype) if tail is None else tail
        expected = {
            "rows": (ring.check(rows), (held.size, catalogue.width)),
            "tail": (ring.check(end), (catalogue.tail,)),
        }
        for name, (array, shape) in expected.items():
            if array.shape != shape:
                raise ParameterError(f"{name} must have shape {shape}, got {array.shape}")
        self.catalogue = catalogue
        self.ring = ring
        self._items = held.astype(np.int64)
        self._rows = rows
        self._tail = end

    def dense(self, start: int, stop: int) -> RingArray:
        """Entries ``start`` to ``stop`` of the whole vector: a new array, ring dtype."""
        size, width = self.catalogue.rows_size, self.catalogue.width
        start = integer("start", start, 0, self.catalogue.size)
        stop = integer("stop", stop, start, self.catalogue.size)
        first, last = min(start, size) // width, -(-min(stop, size) // width)
        block: NDArray[Any] = np.zeros((last - first, width), dtype=self.ring.dtype)
        held = slice(*np.searchsorted(self._items, [first, last]))
        block[self._items[held] - first] = self._rows[held]
        lead = first * width
        rows = block.reshape(-1)[min(start, size) - lead : min(stop, size) - lead]
        if stop <= size:
            return rows
        return np.concatenate([rows, self._tail[max(start - size, 0) : stop - size]])

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
        """The whole vector, stretch by stretch."""
        for start, stop in self.catalogue.spans(self.ring, chunk_bytes):
            yield start, self.dense(start, stop)

    def __repr__(self) -> str:
        return f"SparseVector({self.catalogue})"


def mask_chunks(chunks: Iterable[Chunk], streams: SignedStreams, ring: Ring) -> Iterator[Chunk]:
    """Add to each stretch the next elements of every stream, by its sign; in place.

    chunks: from the first element of a vector on, without a gap, as the streams are read without
    one; ParameterError otherwise.  The same with the signs turned takes masks away again.
    """
    reached = 0
    for start, elements in chunks:
        if start != reached:
            raise ParameterError(f"a stretch begins at {start}, where {reached} was to come")
        add_pads(elements, streams, ring)
        reached += elements.size
        yield start, elements


def sum_chunks(parts: Sequence[Iterable[Chunk]], ring: Ring) -> Iterator[Chunk]:
    """The sums of several vectors, stretch by stretch; holds one stretch of each at a time.

    parts: each vector's stretches, at least one vector, all cut alike; ParameterError otherwise.
    """
    if not parts:
        raise ParameterError("a sum has at least one vector")
    for together in zip_longest(*parts):
        first = together[0]
        if first is None or any(
            other is None or (other[0], other[1].shape) != (first[0], first[1].shape)
            for other in together
        ):
            raise ParameterError("the vectors are not cut into the same stretches")
        total = ring.check(first[1]).copy()
        for _, elements in together[1:]:
            ring.add(total, elements, out=total)
        yield first[0], total


def _cut(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    for at in range(start, stop, step):
        yield at, min(at + step, stop)
