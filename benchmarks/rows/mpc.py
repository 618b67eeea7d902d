"""Ratio rows of ``mpc``: sharing and secure sums."""

from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np

from benchmarks.environments import NO_DEPS
from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.keystream import keystream
from benchmarks.peers.integers import integers
from mpc.additive import reconstruct, share
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.secure_sum import DirectChannel, Groups, PairKeys, SealedRelay, batch_sum

CRYPTEN = ("crypten==0.4.1", NO_DEPS, "torch==2.13.0", "numpy==2.4.6", "omegaconf==2.3.1")
MPYC = ("mpyc==0.11", "gmpy2==2.3.2", "numpy==2.4.6")  # it asks for gmpy2, and goes without
SPU = ("spu==0.9.5", "numpy==1.26.4")  # the last numpy it works with

RING = Ring(32)
WIDE = Ring(64)
SESSION = SYSTEM_RNG.bytes(16)
PARTIES = 3
ELEMENTS = 1_000_000
SUMS, SUM_DIM = 1_000, 100


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


def _mac_sum(n: int, dim: int, batch: int) -> Case:
    x = RING.random((n, batch, dim), SYSTEM_RNG)
    total = RING.sum(x, axis=0)

    def check() -> bool:
        network = LocalNetwork()
        with_macs = batch_sum(x, RING, channel=DirectChannel(network), security="malicious")
        # Inputs, opening and the four steps of the check: a sum without MACs has two.
        checked = network.round == 6
        return checked and all(np.array_equal(s, total) for s in (with_macs, batch_sum(x, RING)))

    return Case(
        ours=lambda: batch_sum(x, RING, security="malicious"),
        other=lambda: batch_sum(x, RING),
        operations=batch,
        check=check,
        note=f"{n} neighbours' sums of {dim} elements of 32 bits, {batch} receivers at once; ours "
        "with MACs of s = 32 over Z_2^64, with the dealer's work, input masks and the check",
    )


def _share(note: str, other: Callable[[], object] | None = None) -> Case:
    x = np.array(integers(ELEMENTS), dtype=np.uint64)

    def check() -> bool:
        shares = share(x, PARTIES, WIDE)
        fresh = share(x, PARTIES, WIDE)
        hidden = all(np.mean(row == x) < 0.01 for row in shares)
        # Each share by itself: one that never changes hides nothing.
        renewed = all(np.mean(a == b) < 0.01 for a, b in zip(shares, fresh, strict=True))
        return hidden and renewed and np.array_equal(reconstruct(shares, WIDE), x)

    return Case(
        ours=lambda: share(x, PARTIES, WIDE),
        other=other,
        operations=ELEMENTS,
        check=check,
        note=f"a million elements among {PARTIES}; {note}",
    )


def _share_of_keystream() -> Case:
    random_bytes = (PARTIES - 1) * ELEMENTS * WIDE.element_bytes()
    note = f"the limit is {random_bytes} bytes of AES-256-CTR, two random shares of 64 bits each"
    return _share(note, keystream(random_bytes))


def _sum_in_memory() -> Case:
    values = integers(PARTIES * SUMS * SUM_DIM)
    x = np.array(values, dtype=np.uint64).reshape(PARTIES, SUMS, SUM_DIM)

    return Case(
        ours=lambda: batch_sum(x, WIDE),
        other=None,
        operations=SUMS * SUM_DIM,
        check=lambda: np.array_equal(batch_sum(x, WIDE), WIDE.sum(x, axis=0)),
        note=f"{PARTIES} parties' vectors of 1e5 elements, everybody's work, no messages on either "
        "side; ours over Z_2^64: two of the three learn nothing, all three are needed; the peer's "
        "Shamir sharing over 2^61 - 1: one learns nothing, two open everything and are enough",
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
    Row(
        name="mpc.share_n3.vs_mpyc",
        groups=("core", "mpc"),
        unit="element",
        make=partial(
            _share,
            "ours additive over Z_2^64: two of the three learn nothing, all three are needed; the "
            "peer's Shamir sharing over 2^61 - 1: one learns nothing, two are enough",
        ),
        peers=(
            Peer(
                environment="mpyc",
                requirements=MPYC,
                script=SCRIPTS / "mpyc_share.py",
                arguments=(str(ELEMENTS), str(PARTIES)),
            ),
        ),
    ),
    Row(
        name="mpc.share_n3.vs_spu",
        groups=("core", "mpc"),
        unit="element",
        make=partial(
            _share,
            "both additive over Z_2^64, where two of the three learn nothing; the peer also writes "
            "each share as a message",
        ),
        peers=(
            Peer(
                environment="spu",
                requirements=SPU,
                script=SCRIPTS / "spu_share.py",
                arguments=(str(ELEMENTS), str(PARTIES)),
            ),
        ),
    ),
    Row(
        name="mpc.secure_sum_n3.vs_mpyc",
        groups=("core", "mpc"),
        unit="element",
        make=_sum_in_memory,
        peers=(
            Peer(
                environment="mpyc",
                requirements=MPYC,
                script=SCRIPTS / "mpyc_sum.py",
                arguments=(str(SUMS * SUM_DIM), str(PARTIES)),
            ),
        ),
    ),
    Row(
        name="mpc.share_n3_1e6.of_keystream",
        groups=("mpc",),
        unit="element",
        make=_share_of_keystream,
    ),
    Row(
        name="mpc.share_n3_1e6.vs_crypten",
        groups=("mpc",),
        unit="element",
        make=partial(
            _share,
            "both additive over Z_2^64, where two of the three learn nothing; ours in one process "
            "with AES-256-CTR, the peer's three parties in three with MT19937, whose seeds of 64 "
            "bits they have in pairs",
        ),
        peers=(
            Peer(
                environment="crypten",
                requirements=CRYPTEN,
                script=SCRIPTS / "crypten_share.py",
                arguments=(str(ELEMENTS),),
            ),
        ),
    ),
    Row(
        name="mpc.mac_sum.over_semi_honest",
        groups=("mpc",),
        unit="update",
        make=partial(_mac_sum, 10, 1000, 64),
    ),
)
