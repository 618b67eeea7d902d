"""AES-256 in counter mode and as a function on blocks: known answers, positions, refusals."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keystream import BLOCK_BYTES, PIECE_BYTES, BlockPrf, Keystream
from tests.support.strategies import seeds
from tests.support.vectors import cases

KEY = bytes(range(32))


def read(stream: Keystream, size: int) -> bytes:
    out = np.empty(size, dtype=np.uint8)
    stream.fill(out)
    return out.tobytes()


def as_words(data: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(data, dtype="<u4").astype(np.uint32).reshape(-1, 4)


def encrypt(key: bytes, data: bytes) -> bytes:
    return BlockPrf(key).blocks(as_words(data)).astype("<u8").tobytes()


@pytest.mark.parametrize("case", cases("nist_aes256", "blocks"), ids=lambda case: case["case"])
def test_blocks_are_aes_256_of_nist(case: dict[str, str]) -> None:
    assert encrypt(bytes.fromhex(case["key"]), bytes.fromhex(case["input"])).hex() == case["output"]


@pytest.mark.parametrize("case", cases("nist_aes256", "counter"), ids=lambda case: case["case"])
def test_the_stream_is_counter_mode_of_nist(case: dict[str, str]) -> None:
    plaintext = bytes.fromhex(case["plaintext"])
    stream = Keystream(bytes.fromhex(case["key"]), BLOCK_BYTES * int(case["counter"], 16))
    masked = bytes(a ^ b for a, b in zip(plaintext, read(stream, len(plaintext)), strict=True))
    assert masked.hex() == case["ciphertext"]


@pytest.mark.parametrize("case", cases("transcripts", "streams"), ids=lambda case: case["offset"])
def test_the_stream_equals_the_independent_transcript(case: dict[str, Any]) -> None:
    stream = Keystream(bytes.fromhex(case["seed"]), case["offset"])
    assert read(stream, len(case["bytes"]) // 2).hex() == case["bytes"]


@given(seeds(), st.integers(0, 2**128 - 4) | st.sampled_from([2**32 - 2, 2**64 - 2, 2**128 - 4]))
def test_a_position_is_a_block_counter(key: bytes, first: int) -> None:
    counters = b"".join((first + i).to_bytes(BLOCK_BYTES, "big") for i in range(4))
    assert read(Keystream(key, BLOCK_BYTES * first), 4 * BLOCK_BYTES) == encrypt(key, counters)


@given(st.lists(st.integers(0, 40), max_size=12))
def test_many_small_reads_continue_one_stream(sizes: list[int]) -> None:
    stream = Keystream(KEY)
    parts = b"".join(read(stream, size) for size in sizes)
    assert parts == read(Keystream(KEY), sum(sizes))


@pytest.mark.parametrize(
    "size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 9 * PIECE_BYTES + 5]
)
def test_reads_across_the_borders_of_pieces_continue_the_stream(size: int) -> None:
    whole = read(Keystream(KEY), 2 * size)
    stream = Keystream(KEY)
    assert read(stream, size) + read(stream, size) == whole
    tail = size - size % BLOCK_BYTES
    assert read(Keystream(KEY, tail), 2 * size - tail) == whole[tail:]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_words_are_little_endian_for_arrays_of_either_byte_order(size: int) -> None:
    data = read(Keystream(KEY), 8 * size)
    want = [int.from_bytes(data[i * size : (i + 1) * size], "little") for i in range(8)]
    for dtype in (f"<u{size}", f">u{size}"):
        out = np.zeros((2, 4), dtype=dtype)
        Keystream(KEY).fill(out)
        assert out.reshape(-1).tolist() == want


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (2, 3, 5)])
def test_arrays_of_every_shape_are_filled(shape: tuple[int, ...]) -> None:
    out = np.zeros(shape, dtype=np.uint16)
    Keystream(KEY).fill(out)
    assert out.tobytes() == read(Keystream(KEY), out.nbytes)


def test_signed_words_are_filled_too() -> None:
    out = np.zeros(4, dtype=np.int32)
    Keystream(KEY).fill(out)
    assert out.tobytes() == read(Keystream(KEY), 16)


def read_only() -> NDArray[np.uint8]:
    out = np.zeros(4, dtype=np.uint8)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(4, dtype=np.float64),
        np.zeros(4, dtype=np.bool_),
        np.zeros(4, dtype=object),
        np.zeros(8, dtype=np.uint8)[::2],
        np.zeros((2, 3), dtype=np.uint8).T,
        read_only(),
    ],
    ids=["float", "bool", "object", "strided", "transposed", "read-only"],
)
def test_an_array_that_cannot_take_raw_bytes_is_refused_untouched(out: NDArray[Any]) -> None:
    before = out.copy()
    with pytest.raises(ParameterError, match="writable C-contiguous integer array"):
        Keystream(KEY).fill(out)
    assert np.array_equal(out, before)


@pytest.mark.parametrize("make", [Keystream, BlockPrf])
@pytest.mark.parametrize("key", [b"", bytes(16), bytes(31), bytes(33), bytearray(32), "k" * 32, 7])
def test_a_key_of_another_size_or_kind_is_refused(make: Callable[[Any], object], key: Any) -> None:
    with pytest.raises(ParameterError, match="key must be 32 bytes"):
        make(key)


@pytest.mark.parametrize("offset", [-16, -1, 1, 15, 17, 2**132, 16.0, True, "0", None])
def test_an_offset_that_is_no_block_position_is_refused(offset: Any) -> None:
    with pytest.raises(ParameterError, match="offset must"):
        Keystream(KEY, offset)


@pytest.mark.parametrize("make", [Keystream, BlockPrf])
def test_a_context_is_neither_pickled_nor_copied(make: Callable[[bytes], object]) -> None:
    holder = make(KEY)
    for escape in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not picklable"):
            escape(holder)


@pytest.mark.parametrize(
    "inputs",
    [
        np.zeros(4, dtype=np.uint32),
        np.zeros((2, 3), dtype=np.uint32),
        np.zeros((1, 2, 4), dtype=np.uint32),
        np.zeros((2, 4), dtype=np.int32),
        np.zeros((2, 4), dtype=np.uint64),
        np.zeros((2, 4), dtype=">u4"),
    ],
    ids=lambda inputs: f"{inputs.dtype.str}{inputs.shape}",
)
def test_blocks_take_four_words_a_row_and_nothing_else(inputs: NDArray[Any]) -> None:
    with pytest.raises(ParameterError, match=r"uint32 of shape \(n, 4\)"):
        BlockPrf(KEY).blocks(inputs)


def test_blocks_map_rows_one_by_one() -> None:
    inputs = as_words(read(Keystream(KEY), 64 * BLOCK_BYTES))
    prf = BlockPrf(KEY)
    batch = prf.blocks(inputs)
    assert batch.shape == (64, 2)
    assert batch.dtype == np.uint64
    assert all(
        np.array_equal(prf.blocks(row[np.newaxis])[0], out)
        for row, out in zip(inputs, batch, strict=True)
    )
    assert np.array_equal(prf.blocks(np.asfortranarray(inputs)), batch)
    assert np.array_equal(prf.blocks(inputs[::-1])[::-1], batch)
    assert prf.blocks(inputs[:0]).shape == (0, 2)


def test_small_draws_open_no_new_context(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def counting(*arguments: Any) -> Any:
        opened.append(arguments)
        return Cipher(*arguments)

    monkeypatch.setattr("mpc.core.keystream.Cipher", counting)
    stream, prf = Keystream(KEY), BlockPrf(KEY)
    for _ in range(100):
        read(stream, 4)
        prf.blocks(np.zeros((1, 4), dtype=np.uint32))
    assert len(opened) == 2
