"""Ratio rows of ``ldp``."""

import math
from pathlib import Path

import numpy as np

from benchmarks.harness import Case, Peer, Row
from ldp.randomized_response import RandomizedResponse

MULTI_FREQ_LDPY = (
    "multi-freq-ldpy==0.2.5",
    "numba==0.68.1",
    "numpy==2.4.6",
    "xxhash==3.5.0",  # its local hashing fails with the current one
)
_PEERS = Path(__file__).resolve().parent.parent / "peers"

REPORTS = 1_000_000
EPSILON = 1.0


def _randomized_response() -> Case:
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    x = np.arange(REPORTS) % 10 < 3

    def check() -> bool:
        estimate = mechanism.estimate_count(mechanism.perturb(x))
        return bool(abs(estimate.value - x.sum()) < 7 * math.sqrt(estimate.variance))

    return Case(
        ours=lambda: mechanism.perturb(x),
        other=Peer(
            environment="multi-freq-ldpy",
            requirements=MULTI_FREQ_LDPY,
            script=_PEERS / "multi_freq_ldpy_rr.py",
            arguments=(str(REPORTS), str(EPSILON)),
        ),
        operations=REPORTS,
        check=check,
        note="a million bits at epsilon 1; the peer's documented client takes one value a call",
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="ldp.rr.vs_multi_freq_ldpy",
        groups=("core", "ldp"),
        unit="report",
        make=_randomized_response,
    ),
)
