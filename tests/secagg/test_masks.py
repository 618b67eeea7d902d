"""The mask kernels: results, refusals, and case O12 (weak mask generators)."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.masks import accumulate, add_pads, mask, net_pad, sign
from secagg.messages import RoundConfirmed
from tests.secagg.session import inputs, params, start
from tests.support.stats import fits_binomial
from tests.support.strategies import rings, seeds
from tests.support.vectors import cases


class Counting(Rng):
    """Words 0, 1, 2, ... from ``start`` on, read along the last axis; batch rows are equal."""

    def __init__(self, start: int = 0) -> None:
        self.next = start

    def fill(self, out: NDArray[Any]) -> None:
        length = out.shape[-1]
        out[...] = np.arange(self.next, self.next + length, dtype=np.uint64).astype(out.dtype)
        self.next += length


def test_the_sign_follows_the_order_of_ids() -> None:
    assert sign(3, 7) == 1
    assert sign(7, 3) == -1
    with pytest.raises(ParameterError, match="no pad with itself"):
        sign(3, 3)


def test_streams_are_added_and_subtracted_in_the_ring() -> None:
    pad = net_pad([(1, Counting(10)), (-1, Counting(3)), (-1, Counting(9))], (4,), Ring(4))
    assert pad.tolist() == [(14 - at) % 16 for at in range(4)]
    assert pad.dtype == np.uint8


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("length", [0, 1, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 3 << 17])
def test_pieces_join_without_a_seam(batch: tuple[int, ...], length: int) -> None:
    # 2^17 elements of 32 bits are one piece.
    pad = net_pad([(1, Counting(5)), (-1, Counting(0))], (*batch, length), Ring(32))
    assert pad.shape == (*batch, length)
    assert np.all(pad == 5)


@given(ring=rings(), seed=seeds(), length=st.integers(0, 50))
def test_the_two_ends_of_a_pair_cancel(ring: Ring, seed: bytes, length: int) -> None:
    ends = np.stack([net_pad([(way, Prg(seed))], (length,), ring) for way in (1, -1)])
    total = np.zeros(length, dtype=ring.dtype)
    accumulate(total, ends, ring)
    assert not total.any()
    if length >= 20 and ring.bits > 1:
        assert ends.any()


@given(ring=rings(), seed=seeds())
def test_mask_and_accumulate_give_back_the_sum(ring: Ring, seed: bytes) -> None:
    x = ring.random((3, 4), Prg(seed, 1 << 20))
    pads = np.stack(
        [
            net_pad([(1, Prg(seed)), (1, Prg(seed, 64))], (4,), ring),
            net_pad([(-1, Prg(seed)), (1, Prg(seed, 128))], (4,), ring),
            net_pad([(-1, Prg(seed, 64)), (-1, Prg(seed, 128))], (4,), ring),
        ]
    )
    total = np.zeros(4, dtype=ring.dtype)
    accumulate(total, mask(x, pads, ring), ring)
    assert np.array_equal(total, ring.sum(x, axis=0))


def test_bad_arrays_and_signs_are_refused() -> None:
    ring = Ring(8)
    out = np.zeros(4, dtype=np.uint8)
    for factor in (0, 2, -2):
        with pytest.raises(ParameterError, match="sign must be 1 or -1"):
            add_pads(out, [(1, Counting()), (factor, Counting())], ring)
    assert not out.any()
    with pytest.raises(ParameterError, match="dtype"):
        add_pads(np.zeros(4, dtype=np.uint32), [(1, Counting())], ring)
    with pytest.raises(ParameterError, match="dtype"):
        mask(np.zeros(4), out, ring)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="outside"):
        mask(np.full(4, 4, dtype=np.uint8), out, Ring(2))


O12_SEEDS = {
    "zeros": bytes(32),
    "all a": b"a" * 32,
    "all b": b"b" * 32,
    "counting": bytes(range(32)),
}


def test_o12_seeds_that_fold_to_the_same_32_bits_give_four_masks() -> None:
    found = {name: net_pad([(1, Prg(seed))], (100,), Ring(32)) for name, seed in O12_SEEDS.items()}
    for one, pad in found.items():
        for other, its in found.items():
            # Two independent uniform words agree with probability 2^-32.
            assert one == other or np.count_nonzero(pad == its) <= 1


@pytest.mark.parametrize("seed", O12_SEEDS.values(), ids=O12_SEEDS)
def test_o12_the_top_residue_appears_with_two_residues(seed: bytes) -> None:
    # 10,000 draws; false alarm 1e-9 if the stream were random, and it is fixed.
    ones = int(net_pad([(1, Prg(seed))], (10_000,), Ring(1)).sum())
    assert fits_binomial(ones, 10_000, 0.5)


def test_o12_a_generator_without_the_top_residue_is_caught() -> None:
    class WithoutTop(Prg):
        def fill(self, out: NDArray[Any]) -> None:
            super().fill(out)
            out[...] = (out & 1) * 0  # randint(0, R - 1) with R = 2 leaves 0 alone

    ones = int(net_pad([(1, WithoutTop(bytes(32)))], (10_000,), Ring(1)).sum())
    assert not fits_binomial(ones, 10_000, 0.5)


def test_o12_global_seeds_decide_nothing() -> None:
    agreed = params()
    x = inputs(agreed)[0]

    def sent() -> bytes:
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the legacy global state is what must not matter
        return start(agreed).clients[2].mask(0, x)[0].payload

    assert sent() != sent()


@pytest.mark.parametrize("case", cases("nist_aes256", "counter"), ids=lambda case: case["case"])
def test_o12_a_pad_is_the_nist_keystream_as_little_endian_words(case: dict[str, str]) -> None:
    plaintext, ciphertext = bytes.fromhex(case["plaintext"]), bytes.fromhex(case["ciphertext"])
    words = [
        int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
        for a, b in (
            (plaintext[at : at + 4], ciphertext[at : at + 4]) for at in range(0, len(plaintext), 4)
        )
    ]
    stream = Prg(bytes.fromhex(case["key"]), 16 * int(case["counter"], 16))
    assert net_pad([(1, stream)], (len(words),), Ring(32)).tolist() == words


@pytest.mark.parametrize("case", cases("pads"), ids=lambda case: f"l={case['bits']}")
def test_o12_whole_sessions_give_the_transcripts_of_an_independent_script(
    case: dict[str, Any],
) -> None:
    agreed = params(
        bits=case["bits"],
        dim=case["dim"],
        sums=case["sums_per_round"],
        epoch=case["rounds_per_epoch"],
    )
    assert agreed.digest.hex() == case["digest"]
    session = start(agreed, fixed_keys=True)
    assert session.server.roster().to_bytes().hex() == case["roster"]
    found = []
    for round in case["rounds"]:
        for client, member in session.clients.items():
            grid = np.indices(agreed.shape)
            x = agreed.ring.reduce(1000 * client + 100 * grid[0] + grid[1])
            found += [message.to_bytes().hex() for message in member.mask(round, x)]
            member.confirm(RoundConfirmed(agreed.session, round))
    assert found == case["masked"]
