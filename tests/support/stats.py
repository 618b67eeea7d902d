"""Bounds for statistical tests, each with its false-alarm rate as an argument.

A test states its sample size and calls one of these with ``alarm`` (1e-9 unless it says why), and
then shows that the same call rejects a wrong twin. The intervals are exact where they say so;
nothing here looks at a sample before the bound is fixed.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

ALARM = 1e-9
"""The false-alarm rate of one statistical test: one in a thousand million."""


def binomial_interval(n: int, p: float, alarm: float = ALARM) -> tuple[int, int]:
    """The counts (low, high), ends included, that Binomial(n, p) leaves with at most ``alarm``.

    Exact: each tail outside is at most alarm / 2, by the binomial's own distribution function.
    """
    _check_alarm(alarm)
    low = int(stats.binom.ppf(alarm / 2, n, p))  # P(X < low) < alarm / 2
    high = int(stats.binom.isf(alarm / 2, n, p))  # P(X > high) <= alarm / 2
    return low, high


def fits_binomial(count: int, n: int, p: float, alarm: float = ALARM) -> bool:
    """Whether ``count`` successes of ``n`` fit probability ``p``; exact."""
    low, high = binomial_interval(n, p, alarm)
    return low <= count <= high


def fits_multinomial(
    counts: ArrayLike, probabilities: Sequence[float], alarm: float = ALARM
) -> bool:
    """Whether every cell's count fits its probability: a binomial interval each; exact.

    The alarm is shared out among the cells (union bound), so the whole keeps to ``alarm``.
    """
    observed = np.asarray(counts)
    if observed.shape != (len(probabilities),) or not math.isclose(sum(probabilities), 1):
        raise ValueError("one probability for each cell, with sum 1")
    n, share = int(observed.sum()), alarm / len(probabilities)
    return all(
        fits_binomial(int(count), n, p, share)
        for count, p in zip(observed, probabilities, strict=True)
    )


def chi_square_p_value(counts: ArrayLike, probabilities: ArrayLike | None = None) -> float:
    """The p-value of Pearson's test of ``counts`` against ``probabilities`` (uniform if None).

    The law is the limit for large counts: ValueError unless each cell expects at least 100.
    """
    observed = np.asarray(counts, dtype=np.float64)
    share = np.full(observed.size, 1 / observed.size) if probabilities is None else probabilities
    expected = observed.sum() * np.asarray(share, dtype=np.float64)
    if expected.min() < 100:
        raise ValueError(f"a cell expects {expected.min():.1f} counts, 100 are needed")
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, observed.size - 1))


def normal_half_width(standard_error: float, alarm: float = ALARM) -> float:
    """How far a normal estimate of this standard error strays with probability ``alarm``."""
    _check_alarm(alarm)
    return float(stats.norm.isf(alarm / 2)) * standard_error


def hoeffding_half_width(n: int, width: float, alarm: float = ALARM) -> float:
    """How far the mean of ``n`` independent values, each in a range of ``width``, may stray.

    Exact, whatever the law within the range (Hoeffding 1963, theorem 2).
    """
    _check_alarm(alarm)
    return width * math.sqrt(math.log(2 / alarm) / (2 * n))


def byte_counts(data: bytes | NDArray[Any]) -> NDArray[np.int64]:
    """How often each of the 256 byte values occurs."""
    values = np.frombuffer(data if isinstance(data, bytes) else data.tobytes(), dtype=np.uint8)
    return np.bincount(values, minlength=256)


def _check_alarm(alarm: float) -> None:
    if not 0 < alarm <= 1e-6:
        raise ValueError(f"a false-alarm rate lies in (0, 1e-6], got {alarm}")
