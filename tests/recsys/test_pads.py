"""Pads in blocks of rounds: bounded, claimed first, each served once."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

import recsys.pads
import secagg.pads
from mpc.core.errors import StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from recsys.pads import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    MAX_BLOCK,
    CohortPads,
    block_rounds,
    chunk_elements,
    upload_bytes,
)
from secagg.pads import MAX_PAD_BYTES, PadSupply
from secagg.params import Region
from secagg.watermark import MemoryWatermark

RING = Ring(32)
COHORTS = [np.array([0, 3, 5], dtype=np.int32), np.array([1, 2, 4, 6], dtype=np.int32)]


class Claims(MemoryWatermark):
    """Remembers every claim on a stretch of a key's stream."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[bytes, Region]] = []

    def claim(self, key_id: bytes, epoch: int, start: int, stop: int) -> None:
        super().claim(key_id, epoch, start, stop)
        self.all.append((key_id, Region(epoch, start, stop)))


def opened(watermark: MemoryWatermark | None = None, dim: int = 5) -> CohortPads:
    return CohortPads(
        COHORTS,
        dim,
        RING,
        min_cohort=3,
        watermark=watermark or MemoryWatermark(),
        network=LocalNetwork(),
    )


def encoded(cohort: int, round_: int, dim: int = 5) -> NDArray[np.uint32]:
    rng = np.random.default_rng([cohort, round_])
    return rng.integers(0, 2**32, (COHORTS[cohort].size, dim), dtype=np.uint32)


def serve(pads: CohortPads, rounds: range, end: int, dim: int = 5) -> None:
    """Run ``rounds``; every sum is that of the plain ring."""
    for round_ in rounds:
        pads.begin(round_, end)
        for cohort in range(len(COHORTS)):
            x = encoded(cohort, round_, dim)
            assert np.array_equal(pads.run_round(cohort, round_, x), RING.sum(x, axis=0))


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_sums_are_right_across_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(recsys.pads, "MAX_BLOCK", block)
    serve(opened(), range(7), 7)


@pytest.mark.parametrize("first", [0, 1, 4, 5])
def test_a_resumed_run_starts_at_any_round(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(recsys.pads, "MAX_BLOCK", 4)
    serve(opened(), range(first, 9), 9)


def test_no_stretch_of_a_stream_is_claimed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recsys.pads, "MAX_BLOCK", 2)
    watermark = Claims()
    serve(opened(watermark), range(5), 7)
    serve(opened(watermark), range(3, 7), 7)  # a resumed process, under keys of its own
    claims = watermark.all
    assert len(claims) == 2 * (3 + 3)
    assert len({key for key, _ in claims}) == 2 * len(COHORTS)
    assert not any(a[0] == b[0] and a[1].overlaps(b[1]) for a, b in combinations(claims, 2))


def test_every_cohort_that_agrees_is_told() -> None:
    told = list[str]()
    CohortPads(
        COHORTS,
        5,
        RING,
        min_cohort=3,
        watermark=MemoryWatermark(),
        network=LocalNetwork(),
        tell=told.append,
    )
    assert told == ["key agreement: 0 of 2 cohorts", "key agreement: 1 of 2 cohorts"]


def test_a_round_serves_once() -> None:
    pads = opened()
    pads.begin(0, 3)
    pads.run_round(0, 1, encoded(0, 1))
    for spent in (0, 1):
        with pytest.raises(StateError, match=f"the pads of round {spent} are spent"):
            pads.run_round(0, spent, encoded(0, 9))


def test_nothing_is_expanded_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    expand = PadSupply.expand

    def watched(self: PadSupply, first_round: int, rounds: int) -> None:
        asked.append((first_round, rounds))
        expand(self, first_round, rounds)

    monkeypatch.setattr(PadSupply, "expand", watched)
    monkeypatch.setattr(recsys.pads, "MAX_BLOCK", 4)
    serve(opened(), range(6), 6)
    assert asked == [(0, 4), (0, 4), (4, 2), (4, 2)]  # each cohort, block by block


@pytest.mark.parametrize(
    ("sizes", "dim", "rounds"),
    [
        ([3], 1, MAX_BLOCK),  # as many as a block may have
        ([128] * 100, 225, BLOCK_BYTES // (12_800 * 916)),  # all cohorts share the bytes
        ([16_384], 225, MAX_PAD_BYTES // (16_384 * 916)),  # one cohort's supply has its own bound
        ([2**20], 2**10, 1),  # a single round may be larger
    ],
)
def test_a_block_has_as_many_rounds_as_fit(sizes: list[int], dim: int, rounds: int) -> None:
    assert block_rounds(sizes, dim, RING) == rounds
    held = rounds * (dim * RING.element_bytes() + 16)
    assert rounds == 1 or (held * sum(sizes) <= BLOCK_BYTES and held * max(sizes) <= MAX_PAD_BYTES)


def test_two_objects_mask_with_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same inputs in the same round of two runs give masked vectors that have nothing alike."""
    seen = []
    for _ in range(2):
        network = LocalNetwork(record=True)
        pads = CohortPads(
            COHORTS, 5, RING, min_cohort=3, watermark=MemoryWatermark(), network=network
        )
        pads.begin(0, 1)
        pads.run_round(0, 0, encoded(0, 0))
        seen.append({delivery.data[-20:] for delivery in network.view(-1)[-3:]})
    assert len(seen[0]) == len(seen[1]) == 3
    assert not seen[0] & seen[1]


# Long vectors, in chunks

LONG = 101
CHUNKS = [
    pytest.param(1 << 26, 1 << 30, 1 << 28, id="one chunk"),
    pytest.param(700, 1 << 30, 1 << 28, id="chunks, all pads ahead"),
    pytest.param(700, 4000, 1 << 28, id="chunks, a cohort's pads when it needs them"),
    pytest.param(700, 1 << 30, 1400, id="chunks, two at a time"),
    pytest.param(1, 1, 1, id="as small as chunks get"),
]


@pytest.mark.parametrize(("chunk", "block", "held"), CHUNKS)
def test_chunks_change_no_sum_and_serve_once(
    monkeypatch: pytest.MonkeyPatch, chunk: int, block: int, held: int
) -> None:
    monkeypatch.setattr(recsys.pads, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(recsys.pads, "BLOCK_BYTES", block)
    monkeypatch.setattr(recsys.pads, "MAX_PAD_BYTES", held)
    # ``secagg`` refuses to hold more than that, except for a single one of its rounds.
    monkeypatch.setattr(secagg.pads, "MAX_PAD_BYTES", held)
    watermark = Claims()
    serve(opened(watermark, LONG), range(4), 4, LONG)
    serve(opened(watermark, LONG), range(2, 5), 5, LONG)
    claims = watermark.all
    assert not any(a[0] == b[0] and a[1].overlaps(b[1]) for a, b in combinations(claims, 2))


@pytest.mark.parametrize("chunk", [1 << 26, 700, 1])
def test_the_bytes_of_an_upload_are_known_exactly(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(recsys.pads, "CHUNK_BYTES", chunk)
    network = LocalNetwork()
    pads = CohortPads(
        COHORTS, LONG, RING, min_cohort=3, watermark=MemoryWatermark(), network=network
    )
    pads.begin(0, 1)
    pads.run_round(1, 0, encoded(1, 0, LONG))
    each = upload_bytes([3, 4], LONG, RING)
    assert network.traffic["pads.masked"].bytes == 4 * each
    assert each >= 4 * LONG


def test_parts_are_asked_for_in_order_and_cover_the_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recsys.pads, "CHUNK_BYTES", 700)
    asked = []
    x = encoded(0, 0, LONG)

    def part(start: int, stop: int) -> NDArray[np.uint32]:
        asked.append((start, stop))
        return x[:, start:stop]

    total = opened(dim=LONG).run_parts(0, 0, part)
    assert np.array_equal(total, RING.sum(x, axis=0))
    assert len(asked) == 3
    assert [0, *(stop for _, stop in asked)] == [*(start for start, _ in asked), LONG]


@pytest.mark.parametrize("bits", [8, 32, 64])
@pytest.mark.parametrize(("members", "dim"), [(128, 3706 * 257), (128, 1682 * 33), (10**6, 999)])
def test_a_chunk_fits_and_is_whole_cipher_blocks(members: int, dim: int, bits: int) -> None:
    ring = Ring(bits)
    size = ring.element_bytes()
    chunk = chunk_elements(members, dim, ring)
    if members * dim * size <= CHUNK_BYTES:
        assert chunk == dim
    else:
        assert chunk * size % 16 == 0
        assert members * chunk * size <= CHUNK_BYTES + members * 16


def test_no_more_than_a_stretch_of_pads_waits_for_a_long_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recsys.pads, "CHUNK_BYTES", 700)
    monkeypatch.setattr(recsys.pads, "BLOCK_BYTES", 1400)
    monkeypatch.setattr(recsys.pads, "MAX_PAD_BYTES", 1400)
    held = []
    expand = PadSupply.expand

    def watched(self: PadSupply, first_round: int, rounds: int) -> None:
        expand(self, first_round, rounds)
        held.append(sum(pad.nbytes for pad in self._pads.values()))

    monkeypatch.setattr(PadSupply, "expand", watched)
    serve(opened(dim=LONG), range(2), 2, LONG)
    assert max(held) <= 1400
    assert len(held) == 2 * 2 * 2  # rounds, cohorts, stretches
