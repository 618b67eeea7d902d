"""Exact integer noise by its width: samples, preparation of the tables, the wire."""

from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from ldp.discrete_gaussian import DiscreteGaussian
from ldp.discrete_laplace import DiscreteLaplace
from ldp.integer_noise import IntegerNoise
from ldp.skellam import Skellam

SAMPLES = 100_000

# Each at a small width and at a large one; of Laplace and Gaussian noise the latter has more parts.
NOISE: dict[str, tuple[Callable[[Fraction], IntegerNoise], Fraction]] = {
    "discrete_laplace_s1": (DiscreteLaplace, Fraction(1)),
    "discrete_laplace_s2e18": (DiscreteLaplace, Fraction(2**18)),
    "discrete_gaussian_s4": (DiscreteGaussian, Fraction(4)),
    "discrete_gaussian_s2e12": (DiscreteGaussian, Fraction(2**12)),
    "skellam_v16": (Skellam, Fraction(16)),
    "skellam_v2e19": (Skellam, Fraction(2**19)),
}

every_noise = pytest.mark.parametrize("name", NOISE)


def _noise(name: str) -> IntegerNoise:
    kind, width = NOISE[name]
    return kind(width)


def _describe(benchmark: Any, noise: IntegerNoise, size: int, data: bytes) -> None:
    benchmark.extra_info.update(
        operations=size,
        rounds=1,
        variance=noise.variance,
        report_bits=noise.report_bits,
        bytes=len(data),
    )


@pytest.mark.benchmark(group="noise.sample")
@pytest.mark.parametrize("samples", [1, 1_000, SAMPLES])
@every_noise
def test_sample(benchmark: Any, name: str, samples: int) -> None:
    noise = _noise(name)
    drawn = benchmark(noise.sample, samples)
    assert abs(drawn.mean()) < 9 * np.sqrt(noise.variance / samples)
    _describe(benchmark, noise, samples, noise.pack(drawn))


@pytest.mark.benchmark(group="noise.prepare")
@every_noise
def test_first_sample(benchmark: Any, name: str) -> None:
    """A mechanism and its tables from nothing: what the first report of a process costs."""
    kind, width = NOISE[name]
    steps = count(1)

    def first() -> IntegerNoise:
        noise = kind(width + Fraction(next(steps), 2**32))  # a width that no cache knows
        noise.sample()
        return noise

    noise = benchmark(first)
    assert noise.variance > 0
    benchmark.extra_info.update(operations=1, variance=noise.variance)


@pytest.mark.benchmark(group="noise.wire")
@pytest.mark.parametrize("operation", ["pack", "unpack"])
@every_noise
def test_wire(benchmark: Any, name: str, operation: str) -> None:
    noise = _noise(name)
    reports = noise.sample(SAMPLES)
    data = noise.pack(reports)
    if operation == "pack":
        assert benchmark(noise.pack, reports) == data
    else:
        assert np.array_equal(benchmark(noise.unpack, data, reports.shape), reports)
    _describe(benchmark, noise, SAMPLES, data)
