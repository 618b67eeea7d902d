"""Shamir's sharing by holders and threshold: seeds and vectors, with and without commitments."""

from typing import Any

import numpy as np
import pytest

from mpc.core.rng import SYSTEM_RNG
from mpc.shamir import FIELD, lagrange, reconstruct, secret_of, share, words
from mpc.share_commitments import reconstruct_committed, share_committed

SEED_BYTES = 32
every_size = pytest.mark.parametrize(("n", "t"), [(5, 3), (100, 67), (500, 334)])


@pytest.mark.benchmark(group="shamir.share")
@every_size
@pytest.mark.parametrize("seeds", [1, 100])
def test_share(benchmark: Any, n: int, t: int, seeds: int) -> None:
    """Seeds of 32 bytes, many at once."""
    secrets = words(SYSTEM_RNG.bytes(SEED_BYTES * seeds))
    shares = benchmark(share, secrets, n, t)
    assert np.array_equal(reconstruct(range(n - t + 1, n + 1), shares[-t:], t), secrets)
    benchmark.extra_info.update(operations=seeds, rounds=1, bytes=n * (2 * secrets.size + 2))


@pytest.mark.benchmark(group="shamir.reconstruct")
@every_size
@pytest.mark.parametrize("weights", ["kept", "new"])
def test_reconstruct(benchmark: Any, n: int, t: int, weights: str) -> None:
    """A seed, under weights that are kept or computed for a new set of holders."""
    seed = SYSTEM_RNG.bytes(SEED_BYTES)
    shares, indices = share(words(seed), n, t)[-t:], range(n - t + 1, n + 1)

    def combined() -> bytes:
        if weights == "new":
            lagrange.__wrapped__(tuple(indices), FIELD)
        return secret_of(reconstruct(indices, shares, t))

    assert benchmark(combined) == seed
    benchmark.extra_info.update(operations=1, rounds=1)


@pytest.mark.benchmark(group="shamir.vector")
@pytest.mark.parametrize("operation", ["share", "reconstruct"])
def test_vector(benchmark: Any, operation: str) -> None:
    """A vector of 100,000 elements among ten."""
    secret = SYSTEM_RNG.uniform(FIELD.prime, 100_000, np.uint32)
    shares = share(secret, 10, 7)
    if operation == "share":
        shares = benchmark(share, secret, 10, 7)
        found = reconstruct(range(1, 8), shares[:7], 7)
    else:
        found = benchmark(reconstruct, range(1, 8), shares[:7], 7)
    assert np.array_equal(found, secret)
    benchmark.extra_info.update(operations=secret.size, rounds=1)


@pytest.mark.benchmark(group="shamir.committed")
@pytest.mark.parametrize("operation", ["share", "reconstruct"])
@pytest.mark.parametrize(("n", "t"), [(5, 3), (100, 67)])
def test_committed(benchmark: Any, n: int, t: int, operation: str) -> None:
    """A seed with commitments to its shares; every share is checked."""
    seed, session = SYSTEM_RNG.bytes(SEED_BYTES), SYSTEM_RNG.bytes(16)
    held, published = share_committed(words(seed), n, t, session)
    if operation == "share":
        held, published = benchmark(share_committed, words(seed), n, t, session)
        found = reconstruct_committed(held[:t], published)
    else:
        found = benchmark(reconstruct_committed, held[:t], published)
    assert secret_of(found) == seed
    sent = sum(len(each.to_bytes()) for each in held) + n * len(published.to_bytes())
    benchmark.extra_info.update(operations=1, rounds=1, bytes=sent)
