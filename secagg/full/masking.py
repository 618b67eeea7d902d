"""Masks of one round as pure functions on arrays: put on by clients, taken off by the server.

    y_u = x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)    in Z_{2^l}
    sum_{u in U_3} x_u = sum y_u - sum_{u in U_3} PRG(b_u) + sum_{v in U_2 \\ U_3} (v's masks)

Source: Bonawitz et al., CCS 2017, Figure 4, rounds 2 and 4; Bell et al., CCS 2020, Algorithm 2,
    where v runs over the neighbours of u. v's masks are what v would have added in sum; its
    neighbours in U_3 have added the opposite.
Model: each mask serves one vector: its key belongs to one (session, round).
Error: none, arithmetic is exact in the ring.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpc.core.errors import PeerError, WireError
from mpc.core.keys import KeyPair
from mpc.core.prg import Prg, PrgFactory
from mpc.core.ring import Ring, RingArray
from secagg.full.sharing import self_mask_key
from secagg.masks import SignedStreams, add_pads, sign

Map = Callable[..., Iterable[Any]]
"""The builtin ``map``, or ``Executor.map``: results in the order of the tasks."""

# Streams opened at a time: an open cipher takes about a kilobyte.
_BATCH = 256


def pair_key(keys: KeyPair, public: bytes, digest: bytes, own: int, peer: int) -> bytes:
    """The key of the mask that ``own`` and ``peer`` share in the round with this digest.

    Raises PeerError, naming the peer, for a public key that ``KeyPair.agree`` refuses.
    """
    low, high = sorted((own, peer))
    try:
        return keys.agree(public, "secagg.full.pair-mask", digest, low, high)
    except WireError as error:
        raise PeerError(f"client {peer}: {error.message}", party=peer) from error


def mask(x: RingArray, streams: SignedStreams, ring: Ring) -> RingArray:
    """x plus every stream, by its sign: what the server may see of x.

    x: ring elements of shape (*batch, d); leading axes are a batch that the streams fill.
    Returns the same shape. Streams start where the mask starts.
    """
    masked = ring.check(x).copy()
    add_pads(masked, streams, ring)
    return masked


def client_streams(
    client: int, self_key: bytes, pair_keys: Sequence[tuple[int, bytes]], prg: PrgFactory = Prg
) -> SignedStreams:
    """All masks of ``client``: its self mask, and one for each (peer, key)."""
    return [(1, prg(self_key, 0)), *((sign(client, v), prg(key, 0)) for v, key in pair_keys)]


def unmask(total: RingArray, streams: Iterable[tuple[int, Any]], ring: Ring) -> None:
    """Add every stream to ``total`` (*batch, d) in place, by its sign, a batch at a time."""
    waiting: list[tuple[int, Any]] = []
    for stream in streams:
        waiting.append(stream)
        if len(waiting) == _BATCH:
            add_pads(total, waiting, ring)
            waiting.clear()
    add_pads(total, waiting, ring)


@dataclass(frozen=True)
class Dropped:
    """A member of U_2 without an input: its mask key, and its neighbours in U_3."""

    client: int
    private: bytes = field(repr=False)
    peers: tuple[tuple[int, bytes], ...] = field(repr=False)


@dataclass(frozen=True)
class UnmaskTask:
    """A part of what the server takes off; may travel to a worker process.

    As secret as the server's own state: it opens self masks and the masks of the dropped.
    seeds: (survivor, self-mask seed).
    """

    digest: bytes
    ring: Ring
    dim: int
    seeds: tuple[tuple[int, bytes], ...] = field(repr=False)
    dropped: tuple[Dropped, ...] = field(repr=False)
    prg: PrgFactory = Prg

    def streams(self) -> Iterator[tuple[int, Any]]:
        """Self masks of survivors with sign -1; masks of the dropped as these would add them."""
        for client, seed in self.seeds:
            yield -1, self.prg(self_mask_key(seed, self.digest, client), 0)
        for gone in self.dropped:
            keys = KeyPair(gone.private)
            for peer, public in gone.peers:
                key = pair_key(keys, public, self.digest, gone.client, peer)
                yield sign(gone.client, peer), self.prg(key, 0)


def run_task(task: UnmaskTask) -> RingArray:
    """What ``task`` adds to the sum: ring elements (dim,)."""
    part: RingArray = np.zeros(task.dim, dtype=task.ring.dtype)
    unmask(part, task.streams(), task.ring)
    return part


def split(
    seeds: Sequence[tuple[int, bytes]], dropped: Sequence[Dropped], parts: int
) -> Iterator[tuple[tuple[tuple[int, bytes], ...], tuple[Dropped, ...]]]:
    """The work in ``parts`` of about the same number of masks; less if there are fewer masks.

    One dropped client's masks may be divided between parts.
    """
    total = len(seeds) + sum(len(gone.peers) for gone in dropped)
    parts = max(1, min(parts, total))
    # Every mask has a number; a part is an interval of numbers.
    for part in range(parts):
        start, stop = part * total // parts, (part + 1) * total // parts
        own, base, some = tuple(seeds[start:stop]), len(seeds), []
        for gone in dropped:
            peers = gone.peers[max(0, start - base) : max(0, stop - base)]
            if peers:
                some.append(Dropped(gone.client, gone.private, peers))
            base += len(gone.peers)
        yield own, tuple(some)
