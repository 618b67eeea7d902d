"""Checks of local hashing as pure-ldp and multi-freq-ldpy do it: both hash the decimal digits.

A report is (y, seed), and it supports the values v whose xxh32(str(v), seed) mod g is y. The peers'
environments have xxhash; the rows, whose reports are hashed otherwise, do not import this module.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from values import others, supports_rightly  # type: ignore[import-not-found]
from xxhash import xxh32_intdigest  # type: ignore[import-not-found]

Report = tuple[int, int]

CHECKED = 100
"""Values of a large domain whose support a check counts again."""


def hash_size(epsilon: float) -> int:
    """g of optimized local hashing, as both peers round it."""
    return round(math.exp(epsilon)) + 1


def hashes_rightly(truth: Sequence[int], reports: Sequence[Report], k: int, epsilon: float) -> bool:
    """Whether ``reports`` support their users' own values, and others, as often as they should.

    And whether nearly every user has a hash of her own.
    """
    if len({seed for _, seed in reports}) < 0.99 * len(truth):
        return False
    g = hash_size(epsilon)
    p = math.exp(epsilon) / (math.exp(epsilon) + g - 1)
    own = [_supports(report, value, g) for report, value in zip(reports, truth, strict=True)]
    other = [
        _supports(report, value, g) for report, value in zip(reports, others(truth, k), strict=True)
    ]
    return bool(supports_rightly(truth, own, other, k, p, 1 / g))


def estimates_rightly(
    reports: Sequence[Report], estimates: ArrayLike, k: int, epsilon: float, *, normalized: bool
) -> bool:
    """Whether the estimates follow from the reports' support, counted again for some values.

    normalized: they are clipped at 0 and scaled to the sum 1, so only their ratios are known.
    """
    found = np.asarray(estimates, dtype=np.float64)
    if found.shape != (k,):
        return False
    g = hash_size(epsilon)
    p = math.exp(epsilon) / (math.exp(epsilon) + g - 1)
    some = range(0, k, max(1, k // CHECKED))
    counts = [sum(_supports(report, value, g) for report in reports) for value in some]
    raw = (np.array(counts) - len(reports) / g) / (p - 1 / g)
    if normalized:
        raw = np.maximum(raw, 0)
        raw *= found[some].max() / raw.max()
    return bool(np.allclose(found[some], raw, rtol=1e-9, atol=1e-9))


def _supports(report: Report, value: int, g: int) -> bool:
    told, seed = report
    return bool(xxh32_intdigest(str(value), seed=int(seed)) % g == told)
