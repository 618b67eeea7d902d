"""Exact laws of reports as they are sent, whatever their form, and the error over many runs."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ldp.frequency import FrequencyOracle
from mpc.core.prg import Prg
from mpc.core.rng import Rng, Shape
from tests.ldp.oracle_laws import covers
from tests.support.walk import walk

Law = dict[bytes, Fraction]

EPSILONS = [0.01, 0.1, 0.5, 1.0, math.log(3), 2.0, 4.0, 8.0, 12.0, 16.0]


class Reports(Protocol):
    """What is walked: an oracle, or a twin of one."""

    def perturb(self, x: NDArray[Any], *, rng: Rng) -> NDArray[Any]:
        """A report for each value."""

    def pack(self, reports: NDArray[Any]) -> bytes:
        """Reports as they are sent."""

    def unpack(self, data: bytes, shape: Shape) -> NDArray[Any]:
        """Reports as they are received."""


def sent(mechanism: Reports, x: Sequence[int], rng: Rng) -> bytes:
    """The packed reports about the values ``x``."""
    return mechanism.pack(mechanism.perturb(np.array(x, dtype=np.int64), rng=rng))


def law(mechanism: Reports, *x: int) -> Law:
    """The exact law of the packed reports about the values ``x``, a user each."""
    found, left = walk(lambda rng: sent(mechanism, x, rng), residual=Fraction(0))
    assert left == 0
    assert sum(found.values()) == 1
    return found


def laws(mechanism: FrequencyOracle) -> list[Law]:
    """The law of the packed report about each value."""
    return [law(mechanism, x) for x in range(mechanism.k)]


def is_product(mechanism: Reports, x: int, y: int) -> bool:
    """Whether the reports of two users are independent, each with the law that it has alone."""
    first, second = law(mechanism, x), law(mechanism, y)
    joint = law(mechanism, x, y)
    one_by_one = {
        mechanism.pack(
            np.concatenate([mechanism.unpack(left, (1,)), mechanism.unpack(right, (1,))])
        ): first[left] * second[right]
        for left in first
        for right in second
    }
    return joint == one_by_one


def mean_and_variance(
    mechanism: FrequencyOracle, reports: Law
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the estimate from one report with this law: shape (k,) each.

    The sums are exact; the values that they run over are the doubles that ``estimate`` gives.
    """
    mean = [Fraction(0)] * mechanism.k
    square = [Fraction(0)] * mechanism.k
    for data, probability in reports.items():
        value = mechanism.estimate(mechanism.unpack(data, (1,))).value
        for v, z in enumerate(map(Fraction, value.tolist())):
            mean[v] += probability * z
            square[v] += probability * z * z
    variance = [s - m * m for s, m in zip(square, mean, strict=True)]
    return np.array(mean, dtype=np.float64), np.array(variance, dtype=np.float64)


def is_unbiased(mechanism: FrequencyOracle, found: Sequence[Law]) -> bool:
    """Whether the mean of the estimate is 1 for the user's own value and 0 for any other."""
    means = np.array([mean_and_variance(mechanism, reports)[0] for reports in found])
    return bool(np.all(np.abs(means - np.eye(mechanism.k)) < 1e-9))


def intervals_cover(mechanism: FrequencyOracle, x: Sequence[int], value: int, seed: bytes) -> bool:
    """Whether at least 95 % of 10,000 intervals hold the count of ``value`` among ``x``.

    Both intervals are tried, with the plug-in variance and with the worst case; and a twin whose
    standard error is 10 % too small must fail. The allowance of ``covers`` holds for each.
    """
    n, truth = len(x), list(x).count(value)
    reports = mechanism.perturb(np.tile(np.array(x), 10_000), rng=Prg(seed))
    found = [mechanism.estimate(reports[start : start + n]) for start in range(0, len(reports), n)]
    values = np.array([estimate.value[value] for estimate in found])
    error = np.sqrt([estimate.variance[value] for estimate in found])
    worst = np.sqrt([estimate.worst[value] for estimate in found])
    z = NormalDist().inv_cdf(0.975)
    return (
        covers(values, z * error, truth)
        and covers(values, z * worst, truth)
        and not covers(values, 0.9 * z * error, truth)
    )


def mean_square_error(
    mechanism: FrequencyOracle, x: Sequence[int], repetitions: int, seed: bytes
) -> NDArray[np.float64]:
    """Of the estimates from fresh reports about ``x``, over the repetitions: shape (k,)."""
    n = len(x)
    truth = np.bincount(np.array(x), minlength=mechanism.k)
    reports = mechanism.perturb(np.tile(np.array(x), repetitions), rng=Prg(seed))
    errors = np.array(
        [mechanism.estimate(reports[i * n : (i + 1) * n]).value - truth for i in range(repetitions)]
    )
    return np.asarray(np.mean(errors**2, axis=0))
