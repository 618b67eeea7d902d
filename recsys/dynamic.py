"""Dynamic POI features: what the recommender learns about POIs through randomized bits.

Source: PriRec (Chen et al., 2020), section 3.3: the number of visitors by Eq. 5 and 6, and a
    real-valued feature, which is the average number of visits here, by 1BitMean (Ding, Kulkarni and
    Yekhanin, NIPS 2017), which the section names for it.
Model: each user randomizes her own bits; the recommender sees reports only.
Leaks: epsilon for each (user, POI) pair, once: coins are bound to the user's memo key, so that a
    second collection repeats the same answers. A user's whole row costs epsilon for each POI. The
    cap on the visits that a user reports is public.
Error: see ``PoiEstimates``. An average is that of capped visits, so it is below the true one where
    somebody visited a POI more often; its noise grows with the cap.
Differs: held-out positives are not reported (the paper does not say; reporting the test part
    would leak it). Raw counts make the machine diverge, so they are clipped softly, on the scale of
    their noise, and standardised; see ``as_feature``. One visitor count holds the whole budget by
    default; the paper's three counts share it. The paper's example of an average is what people
    spend at a POI, which check-ins do not tell.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp.mechanism import Estimate
from ldp.one_bit_mean import OneBitMean
from ldp.randomized_response import RandomizedResponse
from ldp.rounding import round_down
from recsys.data.checkins import DistinctPairs
from recsys.data.prepare import Pairs

Words = NDArray[np.uint64]
CoinSource = Callable[[str, NDArray[np.uint32], NDArray[np.uint32]], Words]
"""(question family, users, POIs) -> one 64-bit coin for each pair, shape (users, POIs)."""

_BLOCK_WORDS = 1 << 22
_NO_SPREAD = 1e-8  # of the largest, and at least so many standard errors

T = TypeVar("T", np.bool_, np.float64)


@dataclass(frozen=True)
class PoiEstimates:
    """Raw, unbiased estimates (POIs,), possibly negative, with their standard error.

    unit: of an estimate, ``visitors`` or ``visits per user``.  cap: the most visits to one POI that
    a user reports, None where she reports a bit.  standard_error: of the mechanism's noise; where
    it depends on the POI, as that of an average does, the largest.  epsilon: the loss about one
    user-POI pair, in nats.  bytes_per_user: her packed report.
    """

    name: str
    unit: str
    cap: int | None
    estimate: NDArray[np.float64]
    standard_error: float
    epsilon: float
    bytes_per_user: int


def share_budget(epsilon: float, questions: int) -> RandomizedResponse:
    """The coin of each of ``questions`` features that spend at most ``epsilon`` together.

    Basic composition adds their losses up again. The share is rounded down, so that the exact sum
    of the shares stays within ``epsilon``.
    """
    return RandomizedResponse.from_epsilon(round_down(Fraction(epsilon) / questions))


def collect(
    name: str,
    pairs: Pairs,
    shape: tuple[int, int],
    mechanism: RandomizedResponse,
    coins: CoinSource,
) -> PoiEstimates:
    """Every user of ``shape`` (users, POIs) answers one bit for each POI; Eq. 6 adds them up.

    pairs: those with a positive label are the bits that are one.  coins: see ``CoinSource``.
    """
    return estimate_visitors(
        name, count_answers(name, pairs, shape, mechanism, coins), shape, mechanism
    )


def count_answers(
    name: str,
    pairs: Pairs,
    shape: tuple[int, int],
    mechanism: RandomizedResponse,
    coins: CoinSource,
) -> NDArray[np.int64]:
    """Eq. 5 for all of these users: how many randomized bits of each POI are one (POIs,)."""
    rows, columns = pairs.positives()
    order = np.argsort(rows, kind="stable")
    visited = np.ones(rows.size, dtype=np.bool_)
    questions = np.arange(shape[1], dtype=np.uint32)
    ones = np.zeros(shape[1], dtype=np.int64)
    for block, bits in _blocks(rows[order], columns[order], visited, shape):
        reports = mechanism.perturb_with(bits, coins(name, block, questions))
        ones += reports.sum(axis=0)
    return ones


def estimate_visitors(
    name: str, ones: NDArray[np.int64], shape: tuple[int, int], mechanism: RandomizedResponse
) -> PoiEstimates:
    """Eq. 6 for the randomized bits of all users, of which ``ones`` (POIs,) are one."""
    users, pois = shape
    estimate = mechanism.estimate_from_ones(ones, users)
    return _told(name, "visitors", None, estimate, mechanism, pois)


def collect_average(
    name: str,
    history: DistinctPairs,
    shape: tuple[int, int],
    cap: int,
    coin: RandomizedResponse,
    coins: CoinSource,
) -> PoiEstimates:
    """Every user of ``shape`` (users, POIs) answers for each POI how often she was there: 1BitMean.

    history: whose visits count; pairs that it does not hold have none.  cap: at least 1; who came
    more often reports so many visits.  coins: see ``CoinSource``. A pair has two, one that rounds
    her number to a bit and one that randomizes the bit. Their families name the cap, since the same
    coins under another cap would tell whether the rounded bits differ.
    """
    ones = count_average_answers(name, history, shape, cap, coin, coins)
    return estimate_average(name, ones, shape, cap, coin)


def count_average_answers(
    name: str,
    history: DistinctPairs,
    shape: tuple[int, int],
    cap: int,
    coin: RandomizedResponse,
    coins: CoinSource,
) -> NDArray[np.int64]:
    """1BitMean for all of these users: how many randomized bits of each POI are one (POIs,)."""
    mechanism = OneBitMean(0.0, cap, coin)
    ones = np.zeros(shape[1], dtype=np.int64)
    questions = np.arange(shape[1], dtype=np.uint32)
    rows, columns = np.divmod(history.keys, shape[1])
    capped = np.minimum(history.visits, cap).astype(np.float64)
    family = f"{name} up to {cap}"
    for block, visits in _blocks(rows, columns, capped, shape):
        rounding = coins(f"{family}, rounding", block, questions)
        reports = mechanism.perturb_with(visits, rounding, coins(family, block, questions))
        ones += reports.sum(axis=0)
    return ones


def estimate_average(
    name: str, ones: NDArray[np.int64], shape: tuple[int, int], cap: int, coin: RandomizedResponse
) -> PoiEstimates:
    """The average of all users' visits, from the randomized bits of which ``ones`` are one."""
    users, pois = shape
    mechanism = OneBitMean(0.0, cap, coin)
    estimate = mechanism.estimate_from_ones(ones, users)
    return _told(name, "visits per user", cap, estimate, mechanism, pois)


def _told(
    name: str,
    unit: str,
    cap: int | None,
    estimate: Estimate,
    mechanism: RandomizedResponse | OneBitMean,
    pois: int,
) -> PoiEstimates:
    return PoiEstimates(
        name=name,
        unit=unit,
        cap=cap,
        estimate=estimate.value,
        standard_error=float(np.sqrt(np.max(estimate.variance))),
        epsilon=mechanism.epsilon,
        bytes_per_user=-(-pois * mechanism.report_bits // 8),
    )


def _blocks(
    rows: NDArray[np.integer[Any]],
    columns: NDArray[np.integer[Any]],
    values: NDArray[T],
    shape: tuple[int, int],
) -> Iterator[tuple[NDArray[np.uint32], NDArray[T]]]:
    """Blocks of users with their true values, so that memory stays bounded at any size.

    rows, columns: of the pairs whose ``values`` are not zero, rows ascending.
    """
    users, pois = shape
    step = max(1, _BLOCK_WORDS // max(pois, 1))
    for start in range(0, users, step):
        block = np.arange(start, min(start + step, users), dtype=np.uint32)
        low, high = np.searchsorted(rows, [start, start + block.size])
        table = np.zeros((block.size, pois), dtype=values.dtype)
        table[rows[low:high] - start, columns[low:high]] = values[low:high]
        yield block, table


def as_feature(estimates: PoiEstimates) -> NDArray[np.float64]:
    """Clip softly at zero and standardise: (POIs,), mean 0 and standard deviation 1, or all 0.

    ln(1 + e^z), with z the estimate in standard errors of its noise, is close to z above the noise
    and falls smoothly to 0 below it. A hard clip followed by log1p makes the most of what is pure
    noise: it stretches what lies within one standard error of zero, and throws the negative half
    away. Post-processing costs no privacy.
    """
    soft = np.logaddexp(0.0, estimates.estimate / estimates.standard_error)
    # The mean and the deviation of numbers that differ by rounding alone are rounding errors.
    if np.ptp(soft) <= _NO_SPREAD * np.maximum(1.0, np.max(soft)):
        return np.zeros_like(soft)
    standardised: NDArray[np.float64] = (soft - soft.mean()) / soft.std()
    return standardised
