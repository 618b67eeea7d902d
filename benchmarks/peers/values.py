"""The values of a population, and what the reports of every right frequency oracle satisfy.

A report supports a set of values: the one that was reported, or those whose bit is set, whose hash
is the reported one, or whose row of the Hadamard matrix has a one in the reported column. It
supports its user's own value with probability p and any other value with probability q.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DEVIATIONS = 7
"""Standard deviations allowed. A right result leaves them less than once in 10^8 times: counts that
expect about a hundred have tails a little heavier than the normal law's."""


def values(count: int, k: int) -> list[int]:
    """Values in [0, k): three users in ten hold 0, and three values in ten nobody else holds."""
    return [i % k if i % 10 >= 3 else 0 for i in range(count)]


def others(truth: Sequence[int], k: int) -> list[int]:
    """For each user a value that is not her own; over the users, every value by turns."""
    return [(value + 1 + i % (k - 1)) % k for i, value in enumerate(truth)]


def supports_rightly(
    truth: Sequence[int], own: ArrayLike, other: ArrayLike, k: int, p: float, q: float
) -> bool:
    """Whether the reports support their users' own values, and those of ``others``, rightly.

    own, other: bools, a user each.  Both are counted, for each value by itself too, and how often
    one report supports both: reports that ignore the truth, or favour a value, or draw one coin for
    two bits, can still have the right totals.  Not for an oracle that reports one value alone.
    """
    held, elsewhere = np.asarray(truth), np.asarray(others(truth, k))
    is_own, is_other = np.asarray(own, dtype=np.bool_), np.asarray(other, dtype=np.bool_)
    if not is_own.shape == is_other.shape == held.shape:
        return False
    return (
        _for_each_value(is_own, held, k, p)
        and _for_each_value(is_other, elsewhere, k, q)
        and _fits(np.count_nonzero(is_own & is_other), held.size, p * q)
    )


def sets_bits_rightly(truth: Sequence[int], rows: NDArray[Any], k: int, p: float, q: float) -> bool:
    """Whether ``rows``, zeros and ones of shape (users, k), are right reports in unary.

    As ``supports_rightly``, and two bits of other values must be independent too.
    """
    if rows.shape != (len(truth), k) or not np.isin(rows, (0, 1)).all():
        return False
    users = np.arange(len(truth))
    elsewhere = np.asarray(others(truth, k))
    beyond = (elsewhere + 1) % k
    own, other, third = (rows[users, value] == 1 for value in (truth, elsewhere, beyond))
    distinct = beyond != truth
    both = np.count_nonzero(other & third & distinct)
    return supports_rightly(truth, own, other, k, p, q) and _fits(
        both, np.count_nonzero(distinct), q * q
    )


def picks_columns_rightly(truth: Sequence[int], columns: ArrayLike, k: int, p: float) -> bool:
    """Whether ``columns`` of the Hadamard matrix of order 2^m > k are right reports.

    A column supports v if the entry in row v + 1 is 1: if an even number of bits are set in both.
    Among those that do, and among those that do not, all are alike; so each column is counted too.
    """
    size = 1 << k.bit_length()
    picked = np.asarray(columns)
    if picked.shape != (len(truth),) or picked.dtype.kind not in "iu":
        return False
    picked = picked.astype(np.int64)
    if picked.min() < 0 or picked.max() >= size:
        return False
    entries = _supports(np.arange(size), np.arange(k)[:, np.newaxis])
    law = np.where(entries, p, 1 - p) / (size / 2)
    holders = np.bincount(truth, minlength=k)
    hits = np.bincount(picked, minlength=size)
    own, other = (_supports(picked, np.asarray(value)) for value in (truth, others(truth, k)))
    return _within(hits, holders @ law, holders @ (law * (1 - law))) and supports_rightly(
        truth, own, other, k, p, 0.5
    )


def tells_rightly(truth: Sequence[int], reports: ArrayLike, k: int, p: float) -> bool:
    """Whether the reports are the truth with probability p, and else any other value alike.

    Lies are counted for each value told, and for each distance from the truth.
    """
    held, told = np.asarray(truth), np.asarray(reports)
    if told.shape != held.shape or told.dtype.kind not in "iu":
        return False
    told = told.astype(np.int64)
    if told.min() < 0 or told.max() >= k:
        return False
    q = (1 - p) / (k - 1)
    lies = np.bincount(told[told != held], minlength=k)
    distances = np.bincount((told - held) % k, minlength=k)[1:]
    return (
        _for_each_value(told == held, held, k, p)
        and _fits(lies, held.size - np.bincount(held, minlength=k), q)
        and _fits(distances, held.size, q)
    )


def _for_each_value(
    supported: NDArray[np.bool_], value: NDArray[np.integer[Any]], k: int, probability: float
) -> bool:
    """Whether the support of each value fits, and that of all together."""
    hits, trials = np.bincount(value[supported], minlength=k), np.bincount(value, minlength=k)
    return _fits(hits, trials, probability) and _fits(hits.sum(), value.size, probability)


def _supports(column: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray(np.bitwise_count(column & (1 + value)) % 2 == 0)


def _fits(hits: ArrayLike, trials: ArrayLike, probability: float) -> bool:
    """Whether every entry of ``hits`` fits its number of independent trials."""
    n = np.asarray(trials, dtype=np.float64)
    return _within(hits, n * probability, n * probability * (1 - probability))


def _within(hits: ArrayLike, expected: NDArray[Any], variance: NDArray[Any]) -> bool:
    return bool(np.all(np.abs(np.asarray(hits) - expected) <= _DEVIATIONS * np.sqrt(variance)))
