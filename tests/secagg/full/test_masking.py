"""Masks as pure functions: what is put on comes off, for arrays with and without a batch."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import PeerError
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import Rng
from secagg.full.masking import (
    Dropped,
    UnmaskTask,
    client_streams,
    mask,
    pair_key,
    run_task,
    split,
    unmask,
)
from secagg.full.sharing import self_mask_key
from tests.support.strategies import rings

DIGEST = bytes(range(32))
CLIENTS = (1, 4, 6)


def keys(client: int) -> KeyPair:
    return KeyPair(bytes([client]) * 32)


def seed(client: int) -> bytes:
    return bytes([client + 100]) * 32


def streams(client: int, peers: tuple[int, ...] = CLIENTS) -> list[tuple[int, Rng]]:
    pairs = [
        (peer, pair_key(keys(client), keys(peer).public, DIGEST, client, peer))
        for peer in peers
        if peer != client
    ]
    return list(client_streams(client, self_mask_key(seed(client), DIGEST, client), pairs))


def task(ring: Ring, dim: int, survivors: tuple[int, ...]) -> UnmaskTask:
    gone = tuple(
        Dropped(c, bytes([c]) * 32, tuple((s, keys(s).public) for s in survivors))
        for c in CLIENTS
        if c not in survivors
    )
    return UnmaskTask(DIGEST, ring, dim, tuple((c, seed(c)) for c in survivors), gone)


@given(rings(), st.sampled_from([CLIENTS, (1, 4), (4, 6), (1, 6), (6,)]), st.integers(1, 9))
def test_masks_come_off_whoever_has_dropped(
    ring: Ring, survivors: tuple[int, ...], dim: int
) -> None:
    x = {c: ring.random(dim, Prg(bytes([c]) * 32)) for c in CLIENTS}
    masked = [mask(x[c], streams(c), ring) for c in survivors]
    total = ring.sum(np.stack(masked), axis=0)
    found = ring.add(total, run_task(task(ring, dim, survivors)))
    assert np.array_equal(found, ring.sum(np.stack([x[c] for c in survivors]), axis=0))


def test_the_formula_of_the_paper() -> None:
    """y_u = x_u + PRG(b_u) + sum over greater peers - sum over smaller ones."""
    ring, x = Ring(16), np.array([5, 6], np.uint16)

    def prg(key: bytes) -> NDArray[Any]:
        return ring.random(2, Prg(key))

    smaller, greater = (pair_key(keys(4), keys(v).public, DIGEST, 4, v) for v in (1, 6))
    own = self_mask_key(seed(4), DIGEST, 4)
    expected = x + prg(own) + prg(greater) - prg(smaller)
    assert np.array_equal(mask(x, streams(4), ring), expected)
    assert np.array_equal(x, [5, 6])


def test_a_pair_has_one_key_and_both_ids_are_in_it() -> None:
    one = pair_key(keys(1), keys(4).public, DIGEST, 1, 4)
    assert one == pair_key(keys(4), keys(1).public, DIGEST, 4, 1)
    assert one != pair_key(keys(1), keys(4).public, DIGEST, 1, 5)
    assert one != pair_key(keys(1), keys(4).public, bytes(32), 1, 4)
    with pytest.raises(PeerError) as caught:
        pair_key(keys(1), bytes(32), DIGEST, 1, 4)
    assert caught.value.party == 4


class Counting(Rng):
    """A stream whose words count up, over a batch of any shape."""

    def __init__(self, key: bytes, offset: int) -> None:
        assert offset == 0
        self._next = key[0]

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._next + np.arange(out.shape[-1], dtype=out.dtype)
        self._next += out.shape[-1]


def test_masks_take_any_stream_and_a_leading_batch() -> None:
    ring = Ring(8)
    x = np.zeros((3, 2, 4), np.uint8)
    signed = client_streams(
        4, bytes(32), [(1, b"\x64" + bytes(31)), (6, b"\x0a" + bytes(31))], Counting
    )
    masked = mask(x, signed, ring)
    row = np.arange(4) + (np.arange(4) + 10) - (np.arange(4) + 100)
    assert np.array_equal(masked, np.broadcast_to(row % 256, x.shape))
    unmask(
        masked, [(-s, Counting(k, 0)) for s, k in ((1, bytes(32)), (1, b"\x0a"), (-1, b"d"))], ring
    )
    assert not masked.any()


def test_more_streams_than_are_opened_at_a_time() -> None:
    ring, total = Ring(32), np.zeros(3, np.uint32)
    many = [bytes([i % 256, i // 256]) + bytes(30) for i in range(600)]
    unmask(total, ((1, Prg(key)) for key in many), ring)
    expected = ring.sum(np.stack([ring.random(3, Prg(key)) for key in many]), axis=0)
    assert np.array_equal(total, expected)


@given(
    st.integers(0, 6),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(1, 12),
)
def test_the_parts_hold_every_mask_once(seeds: int, gone: list[int], parts: int) -> None:
    own = [(i, bytes(32)) for i in range(seeds)]
    dropped = [
        Dropped(100 + i, bytes(32), tuple((p, bytes(32)) for p in range(count)))
        for i, count in enumerate(gone)
    ]
    made = list(split(own, dropped, parts))
    assert [s for some, _ in made for s in some] == own
    pairs = [(d.client, p[0]) for _, some in made for d in some for p in d.peers]
    assert pairs == [(d.client, p[0]) for d in dropped for p in d.peers]
    sizes = [len(some) + sum(len(d.peers) for d in more) for some, more in made]
    assert max(sizes) - min(sizes) <= 1
    assert len(made) == max(1, min(parts, seeds + sum(gone)))


def test_tasks_and_dropped_clients_show_no_secret() -> None:
    shown = repr(task(Ring(32), 3, (1, 4)))
    assert "private" not in shown
    assert "seeds" not in shown
