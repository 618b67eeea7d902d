"""Ratio rows of ``mpc``: Shamir's sharing of a seed, and its reconstruction."""

from functools import partial

import numpy as np

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.rows.secagg import FLOWER
from mpc.core.rng import SYSTEM_RNG
from mpc.shamir import Elements, reconstruct, secret_of, share, words

SEED_BYTES = 32


def _share(n: int, t: int) -> Case:
    seed = SYSTEM_RNG.bytes(SEED_BYTES)

    def ours() -> Elements:
        return share(words(seed), n, t)

    def check() -> bool:
        shares, again = ours(), ours()
        renewed = np.mean(shares == again) < 0.01
        hidden = np.mean(shares == words(seed)) < 0.01
        some = (range(1, t + 1), range(n - t + 1, n + 1))
        return bool(renewed and hidden) and all(
            secret_of(reconstruct(ids, shares[ids[0] - 1 : ids[-1]], t)) == seed for ids in some
        )

    return Case(
        ours=ours,
        other=None,
        operations=1,
        check=check,
        note=f"a seed of {SEED_BYTES} bytes among {n}, any {t} of whom open it; the peer takes two "
        "blocks of GF(2^128) and one of padding, ours 16 elements of Z_65537",
    )


def _combine(n: int, t: int) -> Case:
    seed = SYSTEM_RNG.bytes(SEED_BYTES)
    indices = range(n - t + 1, n + 1)
    shares = share(words(seed), n, t)[-t:]

    def ours() -> bytes:
        return secret_of(reconstruct(indices, shares, t))

    return Case(
        ours=ours,
        other=None,
        operations=1,
        check=lambda: ours() == seed,
        note=f"a seed of {SEED_BYTES} bytes from {t} of {n} shares; ours keeps the weights of a "
        "round's survivors, the peer computes them for each seed",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="mpc.shamir_share_500_334.vs_flower",
        groups=("mpc",),
        unit="seed",
        make=partial(_share, 500, 334),
        peers=(
            Peer(
                environment="flower",
                requirements=FLOWER,
                script=SCRIPTS / "flower_shamir_share.py",
                arguments=("500", "334"),
            ),
        ),
    ),
    Row(
        name="mpc.shamir_combine_100_67.vs_flower",
        groups=("mpc",),
        unit="seed",
        make=partial(_combine, 100, 67),
        peers=(
            Peer(
                environment="flower",
                requirements=FLOWER,
                script=SCRIPTS / "flower_shamir_combine.py",
                arguments=("100", "67"),
            ),
        ),
    ),
)
