"""Frequency oracles by the size of the domain: the client, the collector's counts, the wire."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.peers.values import values
from ldp.dbitflip import DBitFlip
from ldp.frequency import FrequencyOracle
from ldp.hadamard import HadamardResponse
from ldp.k_ary import KaryRandomizedResponse
from ldp.local_hashing import LocalHashing
from ldp.subset_selection import SubsetSelection
from ldp.unary import UnaryEncoding

EPSILON = 1.0

ORACLES: dict[str, Callable[[int], FrequencyOracle]] = {
    "k_ary": lambda k: KaryRandomizedResponse.from_epsilon(k, EPSILON),
    "unary_optimized": lambda k: UnaryEncoding.optimized(k, EPSILON),
    "unary_symmetric": lambda k: UnaryEncoding.symmetric(k, EPSILON),
    "subset_selection": lambda k: SubsetSelection.from_epsilon(k, EPSILON),
    "local_hashing": lambda k: LocalHashing.from_epsilon(k, EPSILON),
    "hadamard": lambda k: HadamardResponse.from_epsilon(k, EPSILON),
    "dbitflip": lambda k: DBitFlip.from_epsilon(k, EPSILON, d=min(k, 16)),
}

CELLS = 10_000_000
"""Bits, or hashes, of a call: where a report costs k of them there are fewer reports."""

every_oracle = pytest.mark.parametrize("oracle", ORACLES)
every_size = pytest.mark.parametrize("k", [4, 100, 10_000])


def _population(k: int) -> NDArray[np.int64]:
    return np.array(values(min(100_000, CELLS // k), k))


def _describe(benchmark: Any, mechanism: FrequencyOracle, reports: NDArray[Any]) -> None:
    benchmark.extra_info.update(
        operations=len(reports),
        rounds=1,
        k=mechanism.k,
        report_bits=mechanism.report_bits,
        bytes=len(mechanism.pack(reports)),
        epsilon=mechanism.epsilon,
    )


def _check(mechanism: FrequencyOracle, reports: NDArray[Any], x: NDArray[np.int64]) -> None:
    estimate = mechanism.estimate(reports)
    off = estimate.value - np.bincount(x, minlength=mechanism.k)
    assert np.all(np.abs(off) < 9 * np.sqrt(estimate.worst))


@pytest.mark.benchmark(group="oracle.perturb")
@every_size
@every_oracle
def test_perturb(benchmark: Any, oracle: str, k: int) -> None:
    mechanism = ORACLES[oracle](k)
    x = _population(k)
    reports = benchmark(mechanism.perturb, x)
    _check(mechanism, reports, x)
    _describe(benchmark, mechanism, reports)


@pytest.mark.benchmark(group="oracle.estimate")
@every_size
@every_oracle
def test_estimate(benchmark: Any, oracle: str, k: int) -> None:
    mechanism = ORACLES[oracle](k)
    x = _population(k)
    reports = mechanism.perturb(x)
    benchmark(mechanism.estimate, reports)
    _check(mechanism, reports, x)
    _describe(benchmark, mechanism, reports)


@pytest.mark.benchmark(group="oracle.wire")
@pytest.mark.parametrize("operation", ["pack", "unpack"])
@every_size
@every_oracle
def test_wire(benchmark: Any, oracle: str, k: int, operation: str) -> None:
    mechanism = ORACLES[oracle](k)
    reports = mechanism.perturb(_population(k))
    data = mechanism.pack(reports)
    if operation == "pack":
        assert benchmark(mechanism.pack, reports) == data
    else:
        read = benchmark(mechanism.unpack, data, reports.shape)
        assert np.array_equal(read, reports)
    _describe(benchmark, mechanism, reports)
