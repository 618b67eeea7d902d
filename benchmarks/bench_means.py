"""Means of numbers in a range: the client, the collector's mean, the wire."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ldp.clipped_laplace import ClippedLaplace
from ldp.duchi import Duchi
from ldp.hybrid import Hybrid
from ldp.mechanism import Mechanism
from ldp.one_bit_mean import OneBitMean
from ldp.piecewise import Piecewise

EPSILONS = (1.0, 4.0)

MEANS: dict[str, Callable[[float], Mechanism]] = {
    "one_bit_mean": lambda epsilon: OneBitMean.from_epsilon(epsilon, -1.0, 1.0),
    "duchi": Duchi.from_epsilon,
    "piecewise": Piecewise.from_epsilon,
    "hybrid": Hybrid.from_epsilon,
    "clipped_laplace": lambda epsilon: ClippedLaplace.from_epsilon(epsilon, 1.0),
}

USERS = 100_000

every_mechanism = pytest.mark.parametrize("name", MEANS)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


def _describe(benchmark: Any, mechanism: Mechanism, size: int, data: bytes) -> None:
    benchmark.extra_info.update(
        operations=size,
        rounds=1,
        report_bits=mechanism.report_bits,
        bytes=len(data),
        epsilon=mechanism.epsilon,
    )


@pytest.mark.benchmark(group="mean.perturb")
@pytest.mark.parametrize("users", [1, 1_000, USERS])
@every_epsilon
@every_mechanism
def test_perturb(benchmark: Any, name: str, epsilon: float, users: int) -> None:
    mechanism = MEANS[name](epsilon)
    x = np.sin(np.arange(users))
    reports = benchmark(mechanism.perturb, x)
    estimate = mechanism.estimate(reports)
    assert abs(estimate.value - x.mean()) < 9 * np.sqrt(estimate.worst)
    _describe(benchmark, mechanism, users, mechanism.pack(reports))


@pytest.mark.benchmark(group="mean.estimate")
@every_epsilon
@every_mechanism
def test_estimate(benchmark: Any, name: str, epsilon: float) -> None:
    mechanism = MEANS[name](epsilon)
    x = np.sin(np.arange(USERS))
    reports = mechanism.perturb(x)
    estimate = benchmark(mechanism.estimate, reports)
    assert abs(estimate.value - x.mean()) < 9 * np.sqrt(estimate.worst)
    _describe(benchmark, mechanism, USERS, mechanism.pack(reports))


@pytest.mark.benchmark(group="mean.wire")
@pytest.mark.parametrize("operation", ["pack", "unpack"])
@every_epsilon
@every_mechanism
def test_wire(benchmark: Any, name: str, epsilon: float, operation: str) -> None:
    mechanism = MEANS[name](epsilon)
    reports = mechanism.perturb(np.sin(np.arange(USERS)))
    data = mechanism.pack(reports)
    if operation == "pack":
        assert benchmark(mechanism.pack, reports) == data
    else:
        assert np.array_equal(benchmark(mechanism.unpack, data, reports.shape), reports)
    _describe(benchmark, mechanism, USERS, data)
