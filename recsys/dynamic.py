"""Dynamic POI features: visitor counts that the recommender learns through randomized response.

Source: PriRec (Chen et al., 2020), section 3.3, Eq. 5 and 6.
Model: each user randomizes her own bits; the recommender sees reports only.
Leaks: epsilon for each (user, POI) bit, once: coins are bound to the user's memo key, so that a
    second collection repeats the same answers. A user's whole row costs epsilon for each POI.
Differs: held-out positives are not reported (the paper does not say; reporting the test part
    would leak it). Raw counts make the machine diverge, so they are clipped softly, on the scale of
    their noise, and standardised; see ``as_feature``. One visitor count holds the whole budget by
    default; the paper's three counts share it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp.randomized_response import RandomizedResponse
from ldp.rounding import round_down
from recsys.data.prepare import Pairs

Words = NDArray[np.uint64]
CoinSource = Callable[[str, NDArray[np.uint32], NDArray[np.uint32]], Words]
"""(question family, users, POIs) -> one 64-bit coin for each pair, shape (users, POIs)."""

_BLOCK_WORDS = 1 << 22


@dataclass(frozen=True)
class VisitorCounts:
    """Raw, unbiased estimates (POIs,), possibly negative, with their standard error.

    epsilon: the loss about one user-POI pair, in nats.  bytes_per_user: her packed report.
    """

    name: str
    estimate: NDArray[np.float64]
    standard_error: float
    epsilon: float
    bytes_per_user: int


def share_budget(epsilon: float, questions: int) -> RandomizedResponse:
    """The mechanism of each of ``questions`` counts that spend at most ``epsilon`` together.

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
) -> VisitorCounts:
    """Every user of ``shape`` (users, POIs) answers one bit for each POI; Eq. 6 adds them up.

    pairs: those with a positive label are the bits that are one.  coins: see ``CoinSource``.
    """
    users, pois = shape
    ones = np.zeros(pois, dtype=np.int64)
    questions = np.arange(pois, dtype=np.uint32)
    for block, bits in _visited(pairs, shape):
        reports = mechanism.perturb_with(bits, coins(name, block, questions))
        ones += reports.sum(axis=0)
    estimate = mechanism.estimate_from_ones(ones, users)
    error = float(np.sqrt(np.max(estimate.variance)))
    return VisitorCounts(
        name=name,
        estimate=estimate.value,
        standard_error=error,
        epsilon=mechanism.epsilon,
        bytes_per_user=-(-pois // 8),
    )


def _visited(
    pairs: Pairs, shape: tuple[int, int]
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.bool_]]]:
    """Blocks of users with their true bits, so that memory stays bounded at any size."""
    users, pois = shape
    positive = pairs.labels > 0
    order = np.argsort(pairs.users[positive], kind="stable")
    rows, columns = pairs.users[positive][order], pairs.pois[positive][order]
    step = max(1, _BLOCK_WORDS // max(pois, 1))
    for start in range(0, users, step):
        block = np.arange(start, min(start + step, users), dtype=np.uint32)
        low, high = np.searchsorted(rows, [start, start + block.size])
        bits = np.zeros((block.size, pois), dtype=np.bool_)
        bits[rows[low:high] - start, columns[low:high]] = True
        yield block, bits


def as_feature(counts: VisitorCounts) -> NDArray[np.float64]:
    """Clip softly at zero and standardise: (POIs,), mean 0 and standard deviation 1, or all 0.

    ln(1 + e^z), with z the estimate in standard errors of its noise, is close to z above the noise
    and falls smoothly to 0 below it. A hard clip followed by log1p makes the most of what is pure
    noise: it stretches the counts within one standard error of zero, and throws the negative half
    away. Post-processing costs no privacy.
    """
    soft = np.logaddexp(0.0, counts.estimate / counts.standard_error)
    if not np.ptp(soft):  # the deviation of equal numbers need not round to 0
        return np.zeros_like(soft)
    standardised: NDArray[np.float64] = (soft - soft.mean()) / soft.std()
    return standardised
