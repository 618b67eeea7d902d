"""Ratio rows of randomized response."""

from functools import partial

import numpy as np

from benchmarks.harness import Case, Row
from benchmarks.peers.bits import bits, told_truthfully
from benchmarks.rows.ldp_peers import peer
from ldp.randomized_response import RandomizedResponse

REPORTS = 1_000_000
EPSILON = 1.0

# What each peer calls, in the order of the rows.
PEERS = {
    "multi-freq-ldpy": "the peer's documented client takes one value a call and draws from a "
    "Mersenne Twister",
    "pure-ldp": "the peer's documented client takes one value a call and draws from a Mersenne "
    "Twister",
    "opendp": "the peer's one call on a vector of bits, packed beforehand; its coins are secure "
    "and its probabilities exact for the float it is given, ours for a multiple of 2^-64",
}


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


def _row(other: str, groups: tuple[str, ...], note: str, *names: str) -> Row:
    return Row(
        name=f"ldp.rr.vs_{other}",
        groups=groups,
        unit="report",
        make=partial(_randomized_response, note),
        peers=tuple(peer(name, "rr", REPORTS, EPSILON) for name in names),
    )


ROWS: tuple[Row, ...] = (
    *(_row(name.replace("-", "_"), ("core", "ldp"), note, name) for name, note in PEERS.items()),
    _row("best_peer", ("ldp",), "each peer as in its own row", *PEERS),
)
