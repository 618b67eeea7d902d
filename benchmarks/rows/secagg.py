"""Ratio rows of ``secagg``."""

import numpy as np

from benchmarks.harness import Case, Row
from benchmarks.keystream import keystream
from mpc.core.prg import Prg
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from secagg.masks import add_pads, net_pad

DIM = 100_000


def _mask_expand_and_add() -> Case:
    ring = Ring(32)
    total = ring.random((DIM,), SYSTEM_RNG)
    seed = SYSTEM_RNG.bytes(32)
    streams = [(1, Prg(seed))]  # the context is kept, as it is along an epoch

    def check() -> bool:
        before = ring.random((DIM,), SYSTEM_RNG)
        after = before.copy()
        add_pads(after, [(1, Prg(seed))], ring)
        words = np.frombuffer(Prg(seed).bytes(4 * DIM), dtype="<u4")
        cancelled = after + net_pad([(-1, Prg(seed))], (DIM,), ring)
        return np.array_equal(after - before, words) and np.array_equal(cancelled, before)

    return Case(
        ours=lambda: add_pads(total, streams, ring),
        other=keystream(DIM * ring.element_bytes()),
        operations=1,
        check=check,
        note="expand one pairwise mask and add it, d = 1e5 mod 2^32; limit: its keystream alone",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="secagg.mask_1e5_u32.of_keystream",
        groups=("core", "secagg"),
        unit="mask",
        make=_mask_expand_and_add,
    ),
)
