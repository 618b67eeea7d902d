"""Ratio rows of ``mpc``: fixed-point products with their truncation."""

from functools import partial

import numpy as np

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.peers.factors import FRAC_BITS, MAGNITUDE, factors, multiplied_rightly
from benchmarks.rows.mpc import CRYPTEN, SPU
from mpc.additive import reconstruct
from mpc.arrays import Engine, SharedArray
from mpc.core.ring import Ring
from mpc.fixed import FixedPoint

PARTIES = 3
ELEMENTS = 1_000_000
FORMAT = FixedPoint(Ring(64), FRAC_BITS)


def _products(note: str) -> Case:
    engine = Engine(PARTIES, FORMAT)
    plain = [np.array(units) / 2**FRAC_BITS for units in factors(ELEMENTS)]
    x, y = (engine.share(numbers, magnitude=MAGNITUDE) for numbers in plain)

    def ours() -> SharedArray:
        return x * y

    def check() -> bool:
        product, again = ours(), ours()
        units = FORMAT.ring.signed(reconstruct(product.shares, FORMAT.ring))
        pairs = zip(product.shares, again.shares, strict=True)
        # Shares of one product that come again show that a triple or a mask has served twice.
        fresh = all(np.mean(one == other) < 0.01 for one, other in pairs)
        return fresh and multiplied_rightly(units.tolist(), 1)

    return Case(
        ours=ours,
        other=None,
        operations=ELEMENTS,
        check=check,
        note=f"a million products of 16 fractional bits among {PARTIES}, over Z_2^64, from shares "
        f"to shares, the trusted dealer's work included on both sides; {note}",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="mpc.mul_trunc_n3_1e6.vs_crypten",
        groups=("mpc",),
        unit="element",
        make=partial(
            _products,
            "ours in one process; the peer's three parties in three, and its truncation is wrong "
            "for large numbers",
        ),
        peers=(
            Peer(
                environment="crypten",
                requirements=CRYPTEN,
                script=SCRIPTS / "crypten_mul.py",
                arguments=(str(ELEMENTS),),
            ),
        ),
    ),
    Row(
        name="mpc.mul_trunc_n3_1e6.vs_spu",
        groups=("mpc",),
        unit="element",
        make=partial(_products, "ours in one thread; the peer's three parties in three"),
        peers=(
            Peer(
                environment="spu",
                requirements=SPU,
                script=SCRIPTS / "spu_mul.py",
                arguments=(str(ELEMENTS), str(PARTIES)),
            ),
        ),
    ),
)
