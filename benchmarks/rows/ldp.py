"""Ratio rows of ``ldp``."""

from functools import partial

import numpy as np

from benchmarks.harness import SCRIPTS, Case, Peer, Row
from benchmarks.peers.bits import bits, told_truthfully
from ldp.randomized_response import RandomizedResponse

MULTI_FREQ_LDPY = (
    "multi-freq-ldpy==0.2.5",
    "numba==0.68.1",
    "numpy==2.4.6",
    "xxhash==3.5.0",  # its local hashing fails with the current one
)
PURE_LDP = (
    "pure-ldp==1.2.0",
    "bitstring==5.0.0",
    "numpy==2.4.6",
    "scikit-learn==1.9.1",  # it imports this one and statsmodels, and declares neither
    "scipy==1.17.1",
    "statsmodels==0.15.0",
    "xxhash==3.5.0",  # its local hashing fails with the current one
)
OPENDP = ("opendp==0.16.0", "numpy==2.4.6")

REPORTS = 1_000_000
EPSILON = 1.0


def _randomized_response(note: str) -> Case:
    mechanism = RandomizedResponse.from_epsilon(EPSILON)
    truth = bits(REPORTS)
    x = np.array(truth, dtype=np.bool_)

    def check() -> bool:
        reports = mechanism.perturb(x)
        estimate = mechanism.estimate_count(reports)
        near = bool(abs(estimate.value - x.sum()) < 7 * np.sqrt(estimate.variance))
        return near and told_truthfully(truth, reports.astype(int).tolist(), EPSILON)

    return Case(
        ours=lambda: mechanism.perturb(x),
        other=None,
        operations=REPORTS,
        check=check,
        note=f"a million bits at epsilon 1; {note}",
    )


def _versus(name: str, environment: str, requirements: tuple[str, ...], note: str) -> Row:
    return Row(
        name=f"ldp.rr.vs_{name}",
        groups=("core", "ldp"),
        unit="report",
        make=partial(_randomized_response, note),
        peer=Peer(
            environment=environment,
            requirements=requirements,
            script=SCRIPTS / f"{name}_rr.py",
            arguments=(str(REPORTS), str(EPSILON)),
        ),
    )


ROWS: tuple[Row, ...] = (
    _versus(
        "multi_freq_ldpy",
        "multi-freq-ldpy",
        MULTI_FREQ_LDPY,
        "the peer's documented client takes one value a call and draws from a Mersenne Twister",
    ),
    _versus(
        "pure_ldp",
        "pure-ldp",
        PURE_LDP,
        "the peer's documented client takes one value a call and draws from a Mersenne Twister",
    ),
    _versus(
        "opendp",
        "opendp",
        OPENDP,
        "the peer's one call on a vector of bits, packed beforehand; its coins are secure and its "
        "probabilities exact for the float it is given, ours for a multiple of 2^-64",
    ),
)
