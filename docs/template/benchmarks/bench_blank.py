"""mpc.blank: what all parties' announcements cost, pads included.

Replace: the operation, the parameters that matter to a user, and the counts in ``extra_info``.
"""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mpc.blank import RING, announcement, parity
from mpc.core.ring import RingArray
from mpc.core.rng import SYSTEM_RNG


@pytest.mark.benchmark(group="blank.announce")
@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("length", [1_000, 100_000])
def test_announce(benchmark: BenchmarkFixture, n: int, length: int) -> None:
    messages = RING.random((n, length), SYSTEM_RNG)

    def announce() -> RingArray:
        pads = RING.random((n, length), SYSTEM_RNG)
        return announcement(messages, pads, np.roll(pads, 1, axis=0))

    said = benchmark(announce)
    assert np.array_equal(parity(said), parity(messages))
    benchmark.extra_info.update(rounds=2, payload_bytes=n * length + n * (n - 1) * length)
