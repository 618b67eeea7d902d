"""Sums over a catalogue in stretches: the dense vector, its masks, its sums, in little memory."""

import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import Rng
from secagg.chunks import Catalogue, Chunk, SparseVector, mask_chunks, sum_chunks
from secagg.masks import add_pads
from secagg.quantize import Quantizer
from tests.support.strategies import rings, seeds

SEED = bytes(range(32))

catalogues = st.builds(Catalogue, st.integers(1, 60), st.integers(1, 9), st.integers(0, 20))
sizes = st.integers(1, 400)


def dense(
    catalogue: Catalogue, ring: Ring, items: list[int], rows: RingArray, tail: RingArray
) -> RingArray:
    """The whole vector, written out."""
    whole = np.zeros((catalogue.n_items, catalogue.width), dtype=ring.dtype)
    whole[items] = rows
    return np.concatenate([whole.reshape(-1), tail])


def drawn(catalogue: Catalogue, ring: Ring, rng: Rng) -> tuple[SparseVector, RingArray]:
    """A client with some of the items, and its whole vector."""
    n = catalogue.n_items
    items = np.flatnonzero(rng.uniform(3, n) == 0).tolist()
    rows = ring.random((len(items), catalogue.width), rng)
    tail = ring.random((catalogue.tail,), rng)
    sent = SparseVector(catalogue, ring, np.array(items, dtype=np.int32), rows, tail)
    return sent, dense(catalogue, ring, items, rows, tail)


def joined(chunks: Iterator[Chunk]) -> RingArray:
    whole: list[RingArray] = []
    for start, elements in chunks:
        assert start == sum(part.size for part in whole)
        whole.append(elements)
    return np.concatenate(whole)


@given(catalogue=catalogues, ring=rings(), seed=seeds(), chunk_bytes=sizes)
def test_the_stretches_in_a_row_are_the_dense_vector(
    catalogue: Catalogue, ring: Ring, seed: bytes, chunk_bytes: int
) -> None:
    sent, whole = drawn(catalogue, ring, Prg(seed))
    assert whole.size == catalogue.size
    assert np.array_equal(joined(sent.chunks(chunk_bytes)), whole)
    assert np.array_equal(joined(sent.chunks()), whole)


@given(catalogue=catalogues, ring=rings(), seed=seeds(), data=st.data())
def test_any_stretch_is_a_piece_of_the_dense_vector(
    catalogue: Catalogue, ring: Ring, seed: bytes, data: st.DataObject
) -> None:
    sent, whole = drawn(catalogue, ring, Prg(seed))
    start = data.draw(st.integers(0, catalogue.size))
    stop = data.draw(st.integers(start, catalogue.size))
    found = sent.dense(start, stop)
    assert found.dtype == ring.dtype
    assert np.array_equal(found, whole[start:stop])


@given(catalogue=catalogues, ring=rings(), chunk_bytes=sizes)
def test_stretches_hold_whole_rows_and_begin_at_whole_cipher_blocks(
    catalogue: Catalogue, ring: Ring, chunk_bytes: int
) -> None:
    size, spans = ring.element_bytes(), list(catalogue.spans(ring, chunk_bytes))
    assert spans[0][0] == 0
    assert spans[-1][1] == catalogue.size
    assert all(stop == start for (_, stop), (start, _) in pairwise(spans))
    for start, stop in spans:
        if start < catalogue.rows_size:
            assert start % catalogue.width == stop % catalogue.width == 0
            assert start * size % 16 == 0
            assert stop <= catalogue.rows_size
        # At most what was asked for, or the fewest rows that fill whole blocks.
        assert (stop - start) * size <= max(chunk_bytes, 16 * catalogue.width * size)


@given(
    catalogue=catalogues, ring=rings(), seed=seeds(), chunk_bytes=sizes, clients=st.integers(1, 4)
)
def test_masks_and_sums_are_those_of_dense_vectors(
    catalogue: Catalogue, ring: Ring, seed: bytes, chunk_bytes: int, clients: int
) -> None:
    rng = Prg(seed)
    keys = [[rng.bytes(32) for _ in range(2)] for _ in range(clients)]

    def streams(client: int, sign: int) -> list[tuple[int, Rng]]:
        first, second = keys[client]
        return [(sign, Prg(first)), (-sign, Prg(second))]

    vectors = [drawn(catalogue, ring, rng) for _ in range(clients)]
    masked: list[RingArray] = []
    for client, (sent, whole) in enumerate(vectors):
        expected = whole.copy()
        add_pads(expected, streams(client, 1), ring)
        masked.append(expected)
        chunks = mask_chunks(sent.chunks(chunk_bytes), streams(client, 1), ring)
        assert np.array_equal(joined(chunks), expected)

    def again() -> list[Iterator[Chunk]]:
        return [
            mask_chunks(sent.chunks(chunk_bytes), streams(client, 1), ring)
            for client, (sent, _) in enumerate(vectors)
        ]

    assert np.array_equal(joined(sum_chunks(again(), ring)), ring.sum(np.stack(masked), axis=0))
    left = [stream for client in range(clients) for stream in streams(client, -1)]
    unmasked = joined(mask_chunks(sum_chunks(again(), ring), left, ring))
    assert np.array_equal(unmasked, ring.sum(np.stack([whole for _, whole in vectors]), axis=0))


def test_masks_that_begin_anew_in_each_stretch_are_caught() -> None:
    catalogue, ring = Catalogue(40, 2), Ring(32)
    sent, whole = drawn(catalogue, ring, Prg(SEED))
    expected = whole.copy()
    add_pads(expected, [(1, Prg(SEED))], ring)
    restarted = [part for _, part in sent.chunks(64)]
    for part in restarted:
        add_pads(part, [(1, Prg(SEED))], ring)
    assert not np.array_equal(np.concatenate(restarted), expected)
    offsets = [start * ring.element_bytes() for start, _ in sent.chunks(64)]
    for (_, part), offset in zip(chunks := list(sent.chunks(64)), offsets, strict=True):
        add_pads(part, [(1, Prg(SEED, offset))], ring)  # a worker that begins in the middle
    assert np.array_equal(np.concatenate([part for _, part in chunks]), expected)


def test_other_steps_fit_between_the_stretches() -> None:
    """Noise on every coordinate, whether the client has the item or not."""
    catalogue, ring = Catalogue(100, 3), Ring(16)
    sent, whole = drawn(catalogue, ring, Prg(SEED))
    noise = Prg(bytes(32)).uniform(7, catalogue.size, np.uint16)

    def noisy(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for start, elements in chunks:
            ring.add(elements, noise[start : start + elements.size], out=elements)
            yield start, elements

    assert np.array_equal(joined(noisy(sent.chunks(100))), whole + noise)


def test_memory_is_that_of_a_stretch() -> None:
    """A catalogue whose dense vector takes 132 MB, three clients, stretches of 256 KB."""
    catalogue, ring, chunk_bytes = Catalogue(10**6, 33), Ring(32), 1 << 18
    quantizer = Quantizer(1.0, 16, ring, 3)
    parts, keys = [], [Prg(SEED).bytes(32) for _ in range(3)]
    for client in range(3):
        items = np.arange(client, 10**6, 10_000)
        rows, _ = quantizer.encode(np.full((items.size, 33), 0.25), rng=Prg(SEED))
        parts.append(SparseVector(catalogue, ring, items, rows))
    tracemalloc.start()
    try:
        masked = [
            mask_chunks(part.chunks(chunk_bytes), [(1, Prg(key))], ring)
            for part, key in zip(parts, keys, strict=True)
        ]
        nonzero = 0.0
        unmask = [(-1, Prg(key)) for key in keys]
        for _, total in mask_chunks(sum_chunks(masked, ring), unmask, ring):
            nonzero += quantizer.decode(total).sum()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert nonzero == 3 * 100 * 33 * 0.25
    assert peak < 20 * chunk_bytes < catalogue.size * 4 / 20


# Refusals.


@pytest.mark.parametrize("change", [{"n_items": 0}, {"width": 0}, {"tail": -1}, {"width": 2.0}])
def test_a_catalogue_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(change))):
        Catalogue(**({"n_items": 3, "width": 2} | change))


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([3, 1], "rising"),
        ([1, 1], "rising"),
        ([-1, 1], r"lie in \[0, 5\)"),
        ([1, 5], r"lie in \[0, 5\)"),
        ([0.0, 1.0], "must be integers"),
        ([[0, 1]], "must be integers"),
    ],
)
def test_items_that_are_none_of_the_catalogue_are_refused(items: Any, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        SparseVector(Catalogue(5, 2), Ring(8), items, np.zeros((2, 2), np.uint8))


@pytest.mark.parametrize(
    ("rows", "tail", "reason"),
    [
        (np.zeros((2, 3), np.uint8), np.zeros(1, np.uint8), "rows must have shape"),
        (np.zeros((1, 2), np.uint8), np.zeros(1, np.uint8), "rows must have shape"),
        (np.zeros((2, 2), np.uint8), np.zeros(2, np.uint8), "tail must have shape"),
        (np.zeros((2, 2), np.uint8), None, "tail must have shape"),
        (np.zeros((2, 2), np.uint16), np.zeros(1, np.uint8), "dtype uint8"),
        (np.full((2, 2), 128, np.uint8), np.zeros(1, np.uint8), "outside"),
        (np.zeros((2, 2), np.uint8), np.zeros(1), "dtype uint8"),
    ],
)
def test_rows_of_another_shape_or_ring_are_refused(
    rows: NDArray[Any], tail: NDArray[Any] | None, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        SparseVector(Catalogue(5, 2, 1), Ring(7), [0, 4], rows, tail)


def test_stretches_out_of_order_are_not_masked() -> None:
    """The streams would be read for one stretch and added to another."""
    sent, _ = drawn(Catalogue(50, 2), Ring(32), Prg(SEED))
    first, second, *_ = sent.chunks(64)
    for wrong in ([second, first], [first, first], [second]):
        with pytest.raises(ParameterError, match="a stretch begins at"):
            list(mask_chunks(wrong, [(1, Prg(SEED))], Ring(32)))


def test_vectors_that_are_cut_otherwise_are_not_summed() -> None:
    ring = Ring(32)
    sent, _ = drawn(Catalogue(50, 2), ring, Prg(SEED))
    shorter, _ = drawn(Catalogue(40, 2), ring, Prg(SEED))
    cut: list[list[Iterator[Chunk]]] = [[sent.chunks(32)], [shorter.chunks(64)], [iter([])]]
    for others in cut:
        with pytest.raises(ParameterError, match="same stretches"):
            list(sum_chunks([sent.chunks(64), *others], ring))
    with pytest.raises(ParameterError, match="same stretches"):
        list(sum_chunks([iter([]), sent.chunks(64)], ring))
    with pytest.raises(ParameterError, match="at least one vector"):
        list(sum_chunks([], ring))


@pytest.mark.parametrize("span", [(-1, 3), (3, 2), (0, 11), (11, 11)])
def test_stretches_beyond_the_vector_are_refused(span: tuple[int, int]) -> None:
    sent, _ = drawn(Catalogue(5, 2), Ring(8), Prg(SEED))
    with pytest.raises(ParameterError):
        sent.dense(*span)


def test_rows_are_not_shown() -> None:
    sent, _ = drawn(Catalogue(5, 2), Ring(8), Prg(SEED))
    assert repr(sent) == "SparseVector(Catalogue(n_items=5, width=2, tail=0))"
