"""Which frequency oracle to take: all of them at one k and epsilon, ranked by their exact error.

Source: Wang, Blocki, Li and Jha, "Locally differentially private protocols for frequency
    estimation" (USENIX Security 2017), compares oracles by the variance of a value that
    nobody holds; so does this module.
Error: none; variances are those that the mechanisms state, not approximations for large domains.

Why a count of 0: with many values nearly all counts are small beside the number of users, and the
error of a small count decides which values can be told from noise. Holders only add to it where a
large part of the users hold one value; ``variance_of`` of a candidate gives the error of any count.
Hadamard response in several blocks has no single such variance: its mean over all ways to number
the values is taken, as its ``variance_of`` says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ldp.dbitflip import DBitFlip
from ldp.frequency import MAX_VALUES, FrequencyOracle
from ldp.hadamard import HadamardResponse
from ldp.k_ary import KaryRandomizedResponse
from ldp.local_hashing import LocalHashing
from ldp.mechanism import checked_epsilon
from ldp.subset_selection import SubsetSelection
from ldp.thresholds import MIN_EPSILON
from ldp.unary import UnaryEncoding
from mpc.core.checks import integer
from mpc.core.errors import ParameterError

# Of equal ones the first is preferred. dBitFlip stands here with the shortest of its reports; with
# all buckets asked it is symmetric unary encoding.
_ORACLES: dict[str, Callable[[int, float], FrequencyOracle]] = {
    "k-ary randomized response": KaryRandomizedResponse.from_epsilon,
    "Hadamard response": HadamardResponse.from_epsilon,
    "local hashing": LocalHashing.from_epsilon,
    "subset selection": SubsetSelection.from_epsilon,
    "optimized unary encoding": UnaryEncoding.optimized,
    "symmetric unary encoding": UnaryEncoding.symmetric,
    "dBitFlip, one bucket": lambda k, epsilon: DBitFlip.from_epsilon(k, epsilon, 1),
}


@dataclass(frozen=True)
class Candidate:
    """An oracle and what it costs.

    standard_error: of the estimated count of a value that none of the n users holds.
    report_bits: of one report on the wire.
    """

    name: str
    mechanism: FrequencyOracle
    standard_error: float
    report_bits: int


@dataclass(frozen=True)
class BestOracle:
    """The choice, and all candidates from the best to the worst by the rule that was asked for."""

    table: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        """The name of the best oracle."""
        return self.table[0].name

    @property
    def mechanism(self) -> FrequencyOracle:
        """The best oracle, ready to use."""
        return self.table[0].mechanism

    def __str__(self) -> str:
        head = f"{'oracle':<26}{'standard error':>16}{'bits a report':>16}"
        rows = (f"{c.name:<26}{c.standard_error:>16.6g}{c.report_bits:>16,}" for c in self.table)
        return "\n".join([head, *rows])


def best_oracle(
    k: int,
    epsilon: float,
    n: int,
    by: Literal["variance", "bytes"] = "variance",
    *,
    within: float = 1.25,
) -> BestOracle:
    """Rank all oracles for n users with a value out of k each, at a privacy loss of ``epsilon``.

    by: "variance" puts the smallest variance of a count of 0 first; of equal ones the shorter
    report. "bytes" puts the shortest report first, among the oracles whose variance is at most
    ``within`` times the smallest; the others follow by their variance.
    k: in [2, 2^32].  epsilon: finite, at least 2^-60.  n: in [1, 2^53).  within: at least 1.
    An oracle that has no coin for so small an epsilon over so many values is left out.
    Raises ParameterError for anything else.
    """
    k = integer("k", k, 2, MAX_VALUES)
    n = integer("n", n, 1, 2**53 - 1)
    epsilon = checked_epsilon(epsilon, MIN_EPSILON)
    if by not in ("variance", "bytes"):
        raise ParameterError(f'by must be "variance" or "bytes", got {by!r}')
    if not 1 <= within < math.inf:  # false for NaN too
        raise ParameterError(f"within must be finite and at least 1, got {within!r}")
    found = sorted(
        _candidates(k, epsilon, n), key=lambda found: (found.standard_error, found.report_bits)
    )
    if by == "bytes":
        largest = found[0].standard_error * math.sqrt(within)
        found.sort(
            key=lambda found: found.report_bits if found.standard_error <= largest else math.inf
        )
    return BestOracle(tuple(found))


def _candidates(k: int, epsilon: float, n: int) -> list[Candidate]:
    found = []
    for name, build in _ORACLES.items():
        try:
            mechanism = build(k, epsilon)
        except ParameterError:
            continue  # k and epsilon are in their domain, but no threshold is left between them
        error = math.sqrt(float(mechanism.variance_of(0, n)))
        found.append(Candidate(name, mechanism, error, mechanism.report_bits))
    return found
