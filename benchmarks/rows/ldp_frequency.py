"""Ratio rows of the frequency oracles."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.harness import Case, Row
from benchmarks.peers.values import (
    others,
    picks_columns_rightly,
    sets_bits_rightly,
    supports_rightly,
    tells_rightly,
    values,
)
from benchmarks.rows.ldp_peers import peer
from ldp.hadamard import HadamardResponse
from ldp.k_ary import KaryRandomizedResponse
from ldp.local_hashing import LocalHashing
from ldp.mechanism import Estimate
from ldp.unary import UnaryEncoding

EPSILON = 1.0
ODDS = math.exp(EPSILON)
K = 100
LARGE_K = 10_000

# Reports of one call, so few that the slower peer takes about a second for them.
TOLD = 1_000_000
UNARY = 50_000
HASHED = 200_000
COLUMNS = 200_000
SERVED = 200

_CLIENTS = "the peers' clients take one value a call and draw from a Mersenne Twister"


def _k_ary(count: int) -> Case:
    mechanism = KaryRandomizedResponse.from_epsilon(K, EPSILON)
    truth = values(count, K)
    x = np.array(truth)

    def check() -> bool:
        reports = mechanism.perturb(x)
        rightly = tells_rightly(truth, reports, K, ODDS / (ODDS + K - 1))
        return rightly and _counts(mechanism.estimate(reports), truth)

    note = f"k = {K}, epsilon 1; {_CLIENTS}"
    return Case(lambda: mechanism.perturb(x), None, count, check, note)


def _unary(count: int) -> Case:
    mechanism = UnaryEncoding.optimized(K, EPSILON)
    truth = values(count, K)
    x = np.array(truth)

    def check() -> bool:
        reports = mechanism.perturb(x)
        rightly = sets_bits_rightly(truth, reports, K, 0.5, 1 / (1 + ODDS))
        return rightly and _counts(mechanism.estimate(reports), truth)

    note = f"reports of {K} bits, epsilon 1; {_CLIENTS}"
    return Case(lambda: mechanism.perturb(x), None, count, check, note)


def _hadamard(count: int) -> Case:
    mechanism = HadamardResponse.from_epsilon(K, EPSILON, blocks=1)
    truth = values(count, K)
    x = np.array(truth)

    def check() -> bool:
        reports = mechanism.perturb(x)
        rightly = picks_columns_rightly(truth, reports, K, ODDS / (1 + ODDS))
        return rightly and _counts(mechanism.estimate(reports), truth)

    note = f"k = {K}, epsilon 1, one block, as the peer has it up to this epsilon; {_CLIENTS}"
    return Case(lambda: mechanism.perturb(x), None, count, check, note)


def _hashing_client(count: int) -> Case:
    mechanism = LocalHashing.from_epsilon(K, EPSILON)
    truth = values(count, K)
    x = np.array(truth)
    p, q = float(mechanism.support.p), float(mechanism.support.q)

    def check() -> bool:
        reports = mechanism.perturb(x)
        own, other = (_supports(mechanism, reports, v) for v in (truth, others(truth, K)))
        distinct = np.unique(reports["a"]).size > 0.99 * count
        rightly = distinct and supports_rightly(truth, own, other, K, p, q)
        return rightly and _counts(mechanism.estimate(reports), truth)

    note = (
        f"k = {K}, epsilon 1, four buckets on both sides; ours draws a function of a family in "
        f"which any two hashes are independent, the peers a seed of xxHash; {_CLIENTS}"
    )
    return Case(lambda: mechanism.perturb(x), None, count, check, note)


def _hashing_server(count: int) -> Case:
    mechanism = LocalHashing.from_epsilon(LARGE_K, EPSILON)
    reports = mechanism.perturb(np.array(values(count, LARGE_K)))
    some = np.arange(0, LARGE_K, 97)
    p, q = float(mechanism.support.p), float(mechanism.support.q)

    def check() -> bool:
        # Each report against each of some values, by the definition of the hash.
        counts = np.array([_supports(mechanism, reports, value).sum() for value in some])
        found = mechanism.estimate(reports).value
        return found.shape == (LARGE_K,) and np.allclose(
            found[some], (counts - count * q) / (p - q), rtol=1e-9, atol=1e-9
        )

    note = (
        f"{count} reports, k = {LARGE_K}, so {count * LARGE_K} hashes; ours multiplies and shifts, "
        "the peers hash the decimal digits by xxHash, a call each"
    )
    return Case(lambda: mechanism.estimate(reports), None, count, check, note)


def _supports(
    mechanism: LocalHashing, reports: NDArray[np.void], value: ArrayLike
) -> NDArray[np.bool_]:
    """Whether each report, of 32-bit words, supports ``value``: one for all, or one for each."""
    a, b, y = (reports[name].astype(np.uint64) for name in ("a", "b", "y"))
    word = (a * np.asarray(value, dtype=np.uint64) + b) % 2**32
    return np.asarray((word >> 16) * mechanism.g >> 16 == y)


def _counts(estimate: Estimate, truth: list[int]) -> bool:
    """Whether every count lies within seven of its standard errors."""
    off = estimate.value - np.bincount(truth, minlength=estimate.value.size)
    return bool(np.all(np.abs(off) < 7 * np.sqrt(estimate.worst)))


def _row(
    name: str, make: Callable[[int], Case], operation: str, count: int, k: int, *peers: str
) -> Row:
    return Row(
        name=f"ldp.{name}.vs_best_peer",
        groups=("ldp",),
        unit="report",
        make=partial(make, count),
        peers=tuple(peer(other, operation, count, k, EPSILON) for other in peers),
    )


_BOTH = ("multi-freq-ldpy", "pure-ldp")

ROWS: tuple[Row, ...] = (
    _row("krr_100", _k_ary, "krr", TOLD, K, *_BOTH),
    _row("oue_100", _unary, "oue", UNARY, K, *_BOTH),
    _row("olh_client_100", _hashing_client, "olh_client", HASHED, K, *_BOTH),
    _row("olh_server_1e4", _hashing_server, "olh_server", SERVED, LARGE_K, *_BOTH),
    _row("hadamard_client_100", _hadamard, "hadamard_client", COLUMNS, K, "pure-ldp"),
)
