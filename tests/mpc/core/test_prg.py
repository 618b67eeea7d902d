"""The agreed generator: equal at both ends, positions, every residue, the whole seed."""

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.prg import SEED_BYTES, Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from tests.support.stats import fits_binomial
from tests.support.strategies import rings, seeds
from tests.support.vectors import cases

SEED = bytes(range(32))


@pytest.mark.parametrize("case", cases("transcripts", "streams"), ids=lambda case: case["offset"])
def test_known_answers_in_every_word_size(case: dict[str, Any]) -> None:
    def prg() -> Prg:
        return Prg(bytes.fromhex(case["seed"]), case["offset"])

    assert prg().bytes(48).hex() == case["bytes"]
    assert prg().words(12, np.uint32).tolist() == case["uint32"]
    assert prg().words((3, 2), np.uint64).reshape(-1).tolist() == case["uint64"]
    assert Ring(20).random(12, prg()).tolist() == case["ring20"]


@given(seeds(), st.integers(0, 300), st.integers(0, 2**64), rings())
def test_an_offset_gives_the_tail_of_the_stream(
    seed: bytes, skipped: int, base: int, ring: Ring
) -> None:
    start = 16 * base
    tail = Prg(seed, start).bytes(16 * skipped + 64)[16 * skipped :]
    assert Prg(seed, start + 16 * skipped).bytes(64) == tail
    size = ring.element_bytes()
    whole = ring.random(16 * skipped // size + 8, Prg(seed, start))
    assert np.array_equal(ring.random(8, Prg(seed, start + 16 * skipped)), whole[-8:])


@given(seeds(), seeds())
def test_both_ends_agree_exactly_if_their_seeds_do(one: bytes, other: bytes) -> None:
    assert (Prg(one).bytes(64) == Prg(other).bytes(64)) == (one == other)


def test_o12_the_whole_seed_counts() -> None:
    """Seeds that a 32-bit fold makes equal, and seeds one bit apart, all give other streams."""
    folded = [bytes(32), b"a" * 32, b"b" * 32, bytes(range(32))]
    flipped = [(1 << bit).to_bytes(SEED_BYTES, "big") for bit in range(8 * SEED_BYTES)]
    streams = {Prg(seed).bytes(32) for seed in folded + flipped}
    assert len(streams) == len(folded) + len(flipped)


def test_o12_the_largest_residue_appears_as_often_as_any() -> None:
    """10,000 draws modulo 2, alarm 1e-9; a range without its top residue shows no ones at all."""
    ones = int(Ring(1).random(10_000, Prg(SEED)).sum())
    assert fits_binomial(ones, 10_000, 0.5)
    without_top = int(Prg(SEED).uniform(1, 10_000).sum())
    assert not fits_binomial(without_top, 10_000, 0.5)


def test_o12_global_seeds_do_not_reach_the_toolkit() -> None:
    def draw() -> bytes:
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the global state is what this test is about
        return SYSTEM_RNG.bytes(32)

    assert draw() != draw()
    assert Prg(SEED).bytes(8) == Prg(SEED).bytes(8)


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), "s" * 32, bytearray(32), None])
def test_a_seed_of_another_size_or_kind_is_refused(seed: Any) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        Prg(seed)


@pytest.mark.parametrize("offset", [-16, 8, 2**132, 0.0, True])
def test_an_offset_that_is_no_block_position_is_refused(offset: Any) -> None:
    with pytest.raises(ParameterError, match="offset must"):
        Prg(SEED, offset)


def test_a_prg_is_neither_pickled_nor_copied() -> None:
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not picklable"):
            escape(Prg(SEED))
