"""Ratio rows of mpc.blank. Replace: the peer or the limit that a user would compare with.

Add ``*blank.ROWS`` to ``ROWS`` in ``benchmarks/ratios.py``.
"""

import numpy as np

from benchmarks.harness import Case, Row
from benchmarks.keystream import keystream
from mpc.blank import RING, announcement, parity
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG


def _announce(n: int, length: int) -> Case:
    messages = RING.random((n, length), SYSTEM_RNG)

    def ours() -> RingArray:
        pads = RING.random((n, length), SYSTEM_RNG)
        return announcement(messages, pads, np.roll(pads, 1, axis=0))

    def check() -> bool:
        return np.array_equal(parity(ours()), parity(messages))

    # The protocol must draw one byte of pad for each bit of each party, and nothing else.
    limit = keystream(n * length)
    return Case(ours, limit, n * length, check, note="one byte holds one bit")


ROWS: tuple[Row, ...] = (
    Row("mpc.blank_n3_1e5.of_keystream", ("mpc",), "bit", lambda: _announce(3, 100_000)),
)
