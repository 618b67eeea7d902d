"""What the tests of the pure frequency oracles share: exact laws of the running code, and twins.

A law maps a report, as a tuple of its entries, to its exact probability.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.frequency import FrequencyOracle, Support
from mpc.core.rng import Rng
from tests.support.walk import RESIDUAL, walk, worst_ratio

Perturb = Callable[[NDArray[Any], Rng], NDArray[Any]]
Report = tuple[Any, ...]
Law = dict[Report, Fraction]

EPSILONS = [1e-6, 0.1, 1.0, 1.0986122886681098, 2.0, 8.0, 16.0]
"""The fourth is the double next to ln 3."""

BAD_EPSILONS = [0, -1, float("nan"), 1e-320, "1", True, float("inf"), None]
"""Case O09, and none at all."""


def honest(oracle: FrequencyOracle) -> Perturb:
    return lambda x, rng: oracle.perturb(x, rng=rng)


def laws_of(perturb: Perturb, k: int) -> list[Law]:
    """The complete law of one report of each value in turn, of a sampler that always ends."""
    return [walked(perturb, value, Fraction(0))[0] for value in range(k)]


def walked(perturb: Perturb, value: int, residual: Fraction = RESIDUAL) -> tuple[Law, Fraction]:
    """The law of one report of ``value``, and the mass that was left, at most ``residual``."""
    x = np.array([value])
    law, left = walk(lambda rng: tuple(perturb(x, rng).reshape(-1).tolist()), residual)
    assert left <= residual
    return law, left


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Whether ratio <= e^epsilon, with 120 digits, far more than any pair here needs."""
    with localcontext() as context:
        context.prec = 120
        return ratio <= Fraction(Decimal(epsilon).exp())


def keeps(laws: list[Law], epsilon: float) -> bool:
    """Whether no report tells two values apart by more than ``epsilon``."""
    try:
        return at_most_exp(worst_ratio(laws), epsilon)
    except ValueError:  # a report that only some values can give
        return False


def check_promise(oracle: FrequencyOracle, laws: list[Law], requested: float) -> None:
    """The exact laws keep the requested epsilon and the reported one, which is that of the code."""
    worst = worst_ratio(laws)
    assert at_most_exp(worst, requested)
    assert at_most_exp(worst, oracle.epsilon)
    assert not at_most_exp(worst, np.nextafter(oracle.epsilon, 0))
    assert oracle.epsilon <= requested
    assert requested > 16 or requested - oracle.epsilon <= 1e-9


def bit_shares(law: Law, k: int) -> list[Fraction]:
    """For reports of k bits: the probability that each bit is set."""
    return [sum((p for report, p in law.items() if report[y]), Fraction(0)) for y in range(k)]


def mean_estimates(support: Support, shares: Iterable[Fraction]) -> list[Fraction]:
    """The exact mean of Eq. (1) for one user, from the shares of reports that support each value.

    One at the user's own value and zero elsewhere is what unbiased means: reports add up.
    """
    return [(share - support.q) / (support.p - support.q) for share in shares]


def covers(values: NDArray[np.float64], half: NDArray[np.float64], truth: int) -> bool:
    """Whether at least 95 % of 10,000 intervals hold the truth, but for the sampling error.

    Six standard errors of the share are allowed below: a false alarm of 1e-9.
    """
    assert values.shape == (10_000,)
    return bool(np.mean(np.abs(values - truth) <= half) >= 0.95 - 6 * np.sqrt(0.95 * 0.05 / 10_000))
