"""Ratio rows of ``mpc``."""

from functools import partial
from itertools import count

import numpy as np

from benchmarks.harness import Case, Row
from benchmarks.keystream import keystream
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import DirectChannel, Groups, PairKeys, SealedRelay, batch_sum

RING = Ring(32)
SESSION = SYSTEM_RNG.bytes(16)


def _secure_sum(n: int, dim: int, batch: int) -> Case:
    x = RING.random((n, batch, dim), SYSTEM_RNG)
    channel = DirectChannel(LocalNetwork())

    def ours() -> bool:
        total = batch_sum(x, RING, channel=channel)
        return np.array_equal(total, RING.sum(x, axis=0))

    # Each of n neighbours draws n-1 shares of dim elements.
    random_bytes = batch * n * (n - 1) * dim * RING.element_bytes()
    return Case(
        ours=ours,
        other=keystream(random_bytes),
        operations=batch,
        check=ours,
        note=f"{n} neighbours' shares and sums, the receiver's sum, traffic counted, and the check "
        f"against the plain sum, {batch} updates at once; the limit is {random_bytes // batch} "
        "bytes of AES-256-CTR for each",
    )


def _relay(n: int, dim: int, batch: int) -> Case:
    x = RING.random((n, batch, dim), SYSTEM_RNG)
    receivers = np.arange(batch)
    neighbours = (7 * receivers + np.arange(n)[:, np.newaxis]) % 500 + batch
    groups = partial(Groups, SESSION, receivers=receivers, neighbours=neighbours)
    keys, rounds = PairKeys(), count()
    pairs = keys.prepare(groups(0))
    relay = SealedRelay(LocalNetwork(), keys)
    direct = DirectChannel(LocalNetwork())

    def ours() -> bool:
        total = batch_sum(x, RING, channel=relay, groups=groups(next(rounds)))
        return np.array_equal(total, RING.sum(x, axis=0))

    def other() -> bool:
        total = batch_sum(x, RING, channel=direct)
        return np.array_equal(total, RING.sum(x, axis=0))

    return Case(
        ours=ours,
        other=other,
        operations=batch,
        check=lambda: ours() and other(),
        note=f"{n * n} messages for each update, each sealed, forwarded and opened under a key of "
        f"its own that both ends derive; {pairs} pairs agreed their keys before",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="mpc.secure_sum_n30_d7_u32.of_keystream",
        groups=("core", "mpc"),
        unit="update",
        make=partial(_secure_sum, 30, 7, 2048),
    ),
    Row(
        name="mpc.secure_sum_n10_d90_u32.of_keystream",
        groups=("core", "mpc"),
        unit="update",
        make=partial(_secure_sum, 10, 90, 1024),
    ),
    Row(
        name="mpc.secure_sum_n10_d7_u32_relay.over_direct",
        groups=("core", "mpc"),
        unit="update",
        make=partial(_relay, 10, 7, 128),
    ),
)
