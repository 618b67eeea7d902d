"""Algorithm 1 by parties, dimension and ring; sharing, fixed point and the sealed relay."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from mpc.additive import expand, reconstruct, share, share_compressed
from mpc.core.local import LocalNetwork
from mpc.core.prg import SEED_BYTES
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.fixed import FixedPoint
from mpc.secure_sum import DirectChannel, Groups, PairKeys, SealedRelay, batch_sum

SESSION = SYSTEM_RNG.bytes(16)


@pytest.mark.benchmark(group="secure_sum.batch")
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("n", "dim"), [(3, 7), (10, 7), (30, 7), (10, 90), (30, 90)])
@pytest.mark.parametrize("batch", [1, 1024])
def test_batch_sum(benchmark: Any, n: int, dim: int, bits: int, batch: int) -> None:
    ring = Ring(bits)
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    total = benchmark(batch_sum, x, ring)
    assert np.array_equal(total, ring.sum(x, axis=0))
    network = LocalNetwork()
    batch_sum(x, ring, channel=DirectChannel(network))
    benchmark.extra_info.update(
        operations=batch, rounds=network.round, bytes=network.bytes // batch, ring_bits=bits
    )


@pytest.mark.benchmark(group="secure_sum.relay")
@pytest.mark.parametrize(("n", "dim"), [(3, 7), (10, 7), (10, 90)])
def test_sealed_relay(benchmark: Any, n: int, dim: int) -> None:
    ring, batch, rounds, keys = Ring(32), 8, count(), PairKeys()
    x = ring.random((n, batch, dim), SYSTEM_RNG)
    receivers = np.arange(batch)
    neighbours = (receivers + np.arange(n)[:, np.newaxis]) % (n + 1) + batch

    def groups() -> Groups:
        return Groups(SESSION, next(rounds), receivers, neighbours)

    keys.prepare(groups())
    network = LocalNetwork()
    channel = SealedRelay(network, keys)
    batch_sum(x, ring, channel=channel, groups=groups())
    moved, passed = network.bytes, network.round
    total = benchmark(lambda: batch_sum(x, ring, channel=channel, groups=groups()))
    assert np.array_equal(total, ring.sum(x, axis=0))
    benchmark.extra_info.update(
        operations=batch, rounds=passed, bytes=moved // batch, ring_bits=32, key_bits=256
    )


@pytest.mark.benchmark(group="secure_sum.agreement")
def test_key_agreement(benchmark: Any) -> None:
    """One pair from nothing: two key pairs, and the agreement at both ends."""
    keys = benchmark(_introduced)
    assert keys.of(1).knows(2)
    assert keys.of(2).knows(1)
    benchmark.extra_info.update(operations=1, rounds=1, bytes=2 * 32, key_bits=256)


def _introduced() -> PairKeys:
    keys = PairKeys()
    keys.introduce(1, 2)
    return keys


@pytest.mark.benchmark(group="additive")
@pytest.mark.parametrize("n", [2, 10])
@pytest.mark.parametrize("compressed", [False, True], ids=["full", "compressed"])
def test_share(benchmark: Any, n: int, compressed: bool) -> None:
    ring, size = Ring(32), 100_000
    x = ring.random((size,), SYSTEM_RNG)
    if compressed:
        sharing = benchmark(share_compressed, x, n, ring)
        shares = np.stack([*(expand(s, size, ring) for s in sharing.seeds), sharing.correction])
    else:
        shares = benchmark(share, x, n, ring)
    assert np.array_equal(reconstruct(shares, ring), x)
    each = SEED_BYTES if compressed else size * ring.element_bytes()
    benchmark.extra_info.update(operations=size, rounds=1, bytes=(n - 1) * each, ring_bits=32)


@pytest.mark.benchmark(group="fixed")
@pytest.mark.parametrize("shape", [(30, 128, 7), (1_000_000,)], ids=str)
@pytest.mark.parametrize("operation", ["encode", "decode"])
def test_fixed_point(benchmark: Any, operation: str, shape: tuple[int, ...]) -> None:
    fixed = FixedPoint(Ring(32), 16)
    values = np.sin(np.arange(np.prod(shape))).reshape(shape)
    encoded = fixed.encode(values)
    if operation == "encode":
        assert np.array_equal(benchmark(fixed.encode, values), encoded)
    else:
        assert np.abs(benchmark(fixed.decode, encoded) - values).max() <= fixed.resolution / 2
    benchmark.extra_info.update(operations=values.size, ring_bits=32)
