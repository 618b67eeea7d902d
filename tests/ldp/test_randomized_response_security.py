"""Randomized response keeps its epsilon: the exact table, and real samples beside broken twins.

The table comes from the sampler that runs: all 256 first bytes, and for the byte that ties with
the threshold the boundary of the word that decides. Statistical tests use fixed seeds and hold
with probability above 1 - 1e-9 for a fresh one; where a case states a tolerance, the sample is
larger than the case's until the tolerance is that wide.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.randomized_response import RandomizedResponse
from ldp.thresholds import MIN_EPSILON
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.support.stats import fits_binomial

EPSILONS = [MIN_EPSILON, 1e-12, 1e-6, 0.1, 0.5, 1.0, math.log(3), 2.0, 8.0, 16.0, 30.0, 44.0]
Bits = NDArray[np.bool_]
Perturb = Callable[[Bits, Rng], Bits]


class Scripted(Rng):
    """Gives the stated bytes, then the stated word to every draw of 64-bit words."""

    def __init__(self, first: NDArray[np.uint8], word: int) -> None:
        self._first = first
        self._word = np.uint64(word)

    def fill(self, out: NDArray[Any]) -> None:
        out[...] = self._first if out.dtype == np.uint8 else self._word


def reports(mechanism: RandomizedResponse, bit: bool, word: int) -> Bits:
    """The report for each of the 256 first bytes, with ``word`` on a tie."""
    x = np.full(256, bit)
    return mechanism.perturb(x, rng=Scripted(np.arange(256, dtype=np.uint8), word))


def table(mechanism: RandomizedResponse) -> dict[tuple[bool, bool], Fraction]:
    """P(report | bit) for the four pairs (report, bit), exactly, from the sampler that runs."""
    law = {}
    for bit in (False, True):
        lowest, highest = reports(mechanism, bit, 0), reports(mechanism, bit, 2**64 - 1)
        tied = lowest != highest
        assert tied.sum() <= 1
        # The report of the tied byte changes once in the word: bisection finds where.
        low, high = 0, 2**64 - 1
        while tied.any() and high - low > 1:
            middle = (low + high) // 2
            same = np.array_equal(reports(mechanism, bit, middle), lowest)
            low, high = (middle, high) if same else (low, middle)
        ones = Fraction(int((lowest & ~tied).sum()), 256)
        if tied.any():
            below = Fraction(high, 2**64)  # the share of words that give the lowest one's report
            ones += (below if lowest[tied][0] else 1 - below) / 256
        law[True, bit] = ones
        law[False, bit] = 1 - ones
    return law


def worst_ratio(law: dict[tuple[bool, bool], Fraction]) -> Fraction:
    return max(law[report, bit] / law[report, not bit] for report, bit in law)


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Whether ratio <= e^epsilon, with a hundred digits, far more than any pair here needs."""
    with localcontext() as context:
        context.prec = 100
        return ratio <= Fraction(Decimal(epsilon).exp())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_table_of_the_running_sampler_is_exact(epsilon: float) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    law = table(mechanism)
    keep = Fraction(mechanism.keep, ONE)
    assert law[True, True] == law[False, False] == keep
    assert law[True, False] == law[False, True] == 1 - keep
    assert at_most_exp(worst_ratio(law), epsilon)
    assert at_most_exp(worst_ratio(law), mechanism.epsilon)


@pytest.mark.parametrize("epsilon", [e for e in EPSILONS if e < 44])
def test_the_next_coin_would_break_the_promise(epsilon: float) -> None:
    """The broken twin of directed rounding: one step of 2^-64 more and the ratio is too large."""
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    twin = RandomizedResponse(mechanism.keep + 1)
    assert not at_most_exp(worst_ratio(table(twin)), epsilon)
    assert twin.epsilon >= epsilon


@given(st.floats(MIN_EPSILON, 60))
def test_the_ratio_is_at_most_the_requested_for_every_epsilon(epsilon: float) -> None:
    keep = RandomizedResponse.from_epsilon(epsilon).keep
    assert at_most_exp(Fraction(keep, ONE - keep), epsilon)
    if keep < ONE - 1:
        assert not at_most_exp(Fraction(keep + 1, ONE - keep - 1), epsilon)


@given(st.integers(ONE // 2 + 1, ONE - 1))
def test_the_reported_epsilon_covers_the_ratio_of_every_coin(keep: int) -> None:
    mechanism = RandomizedResponse(keep)
    ratio = Fraction(keep, ONE - keep)
    assert at_most_exp(ratio, mechanism.epsilon)
    assert not at_most_exp(ratio, math.nextafter(mechanism.epsilon, 0))


@given(st.integers(ONE // 2 + 1, ONE - 1), st.integers(0, 2**64 - 1), st.booleans())
def test_a_tie_is_decided_by_the_low_56_bits(keep: int, word: int, bit: bool) -> None:
    """What the bisection of ``table`` takes for granted: one boundary in the word."""
    mechanism = RandomizedResponse(keep)
    top, low = keep >> 56, keep & (2**56 - 1)
    truthful = (np.arange(256) < top) | ((np.arange(256) == top) & ((word >> 8) < low))
    assert np.array_equal(reports(mechanism, bit, word), truthful == bit)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_given_coins_have_the_same_exact_table(epsilon: float) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    keep = mechanism.keep
    coins = np.array([0, keep - 1, keep, ONE - 1], dtype=np.uint64)
    for bit in (False, True):
        told = mechanism.perturb_with(np.full(4, bit), coins)
        assert told.tolist() == [bit, bit, not bit, not bit]


def honest(mechanism: RandomizedResponse) -> Perturb:
    return lambda x, rng: mechanism.perturb(x, rng=rng)


def fair_coin_lie(mechanism: RandomizedResponse) -> Perturb:
    """O05's twin: who does not tell the truth tosses a fair coin, which may be the truth."""

    def perturb(x: Bits, rng: Rng) -> Bits:
        truthful = rng.bernoulli(mechanism.keep, x.shape)
        return np.where(truthful, x, rng.bernoulli(ONE // 2, x.shape))

    return perturb


def lost_bracket(mechanism: RandomizedResponse) -> Perturb:
    """O05's other twin: a misplaced bracket makes P(1|0) = 1 / (1 + p), .57768 at epsilon 1."""
    flip = ONE * ONE // (ONE + mechanism.keep)
    return lambda x, rng: x ^ rng.bernoulli(flip, x.shape)


def last_bit_in_clear(mechanism: RandomizedResponse) -> Perturb:
    """O06's twin: noise for n - 1 of n bits."""

    def perturb(x: Bits, rng: Rng) -> Bits:
        told = x.copy()
        told[..., :-1] = mechanism.perturb(x[..., :-1], rng=rng)
        return told

    return perturb


def meets_o05(perturb: Perturb, keep: float, seed: bytes) -> bool:
    """P(1|1) and P(1|0) within .0022. 4,000,000 reports each: 10 standard errors at eps = ln 3."""
    n, rng = 4_000_000, Prg(seed)
    rates = [float(perturb(np.full(n, bit), rng).mean()) for bit in (True, False)]
    return abs(rates[0] - keep) <= 0.0022 and abs(rates[1] - (1 - keep)) <= 0.0022


@pytest.mark.parametrize(("epsilon", "keep"), [(math.log(3), 0.75), (1.0, 0.73106)])
def test_o05_the_lie_branch_never_tells_the_truth(epsilon: float, keep: float) -> None:
    mechanism = RandomizedResponse.from_epsilon(epsilon)
    seed = b"O05: four million of 0 and of 1."
    assert mechanism.keep / ONE == pytest.approx(keep, abs=5e-6)
    assert meets_o05(honest(mechanism), keep, seed)
    assert not meets_o05(fair_coin_lie(mechanism), keep, seed)
    assert not meets_o05(lost_bracket(mechanism), keep, seed)


def test_o05_the_lost_bracket_has_the_rate_that_the_case_computes() -> None:
    twin = lost_bracket(RandomizedResponse.from_epsilon(1.0))
    told = twin(np.zeros(4_000_000, dtype=np.bool_), Prg(bytes(32)))
    assert told.mean() == pytest.approx(0.57768, abs=0.0022)  # 8 standard errors


def test_o05_the_fair_coin_lie_has_the_epsilon_that_the_case_computes() -> None:
    mechanism = RandomizedResponse.from_epsilon(math.log(3))
    told = fair_coin_lie(mechanism)(np.ones(4_000_000, dtype=np.bool_), Prg(bytes(32)))
    assert told.mean() == pytest.approx(0.875, abs=0.0022)  # 13 standard errors


def meets_o06(perturb: Perturb, length: int) -> bool:
    """Every position of an all-zero vector flips with probability .47502 within .008.

    200,000 reports: 7.1 standard errors, so all 84 positions pass but for 1e-10.
    """
    x = np.zeros((200_000, length), dtype=np.bool_)
    rates = perturb(x, Prg(length.to_bytes(32, "big"))).mean(axis=0)
    return bool(np.all(np.abs(rates - 0.47502) <= 0.008))


@pytest.mark.parametrize("length", [1, 2, 8, 9, 64])
def test_o06_every_position_is_randomized(length: int) -> None:
    mechanism = RandomizedResponse.from_epsilon(0.1)
    assert meets_o06(honest(mechanism), length)
    assert not meets_o06(last_bit_in_clear(mechanism), length)


def test_positions_are_randomized_independently() -> None:
    """Two bits both flip with probability (1 - p)^2: exact binomial bounds, a million reports."""
    mechanism = RandomizedResponse.from_epsilon(1.0)
    n, flip = 1_000_000, 1 - mechanism.keep / ONE
    told = mechanism.perturb(np.zeros((n, 2), dtype=np.bool_), rng=Prg(b"p" * 32))
    assert fits_binomial(int(np.all(told, axis=1).sum()), n, flip**2)
    # The twin draws one coin for each report and uses it for both bits.
    shared = np.repeat(mechanism.perturb(np.zeros((n, 1), np.bool_), rng=Prg(b"p" * 32)), 2, axis=1)
    assert not fits_binomial(int(np.all(shared, axis=1).sum()), n, flip**2)


Estimator = Callable[[RandomizedResponse, Bits], NDArray[np.float64]]


def meets_o07(estimator: Estimator) -> bool:
    """The mean estimate of a POI with 3 visitors among 1,000 users is 3.

    The case allows 5 standard errors of 10,000 repetitions; over 20,000 that is 7 of their own.
    """
    mechanism = RandomizedResponse.from_epsilon(1.0)
    x = np.zeros((1_000, 20_000), dtype=np.bool_)
    x[:3] = True
    values = estimator(
        mechanism, mechanism.perturb(x, rng=Prg(b"O07: one POI, three visitors, 1k"))
    )
    allowed = 5 * math.sqrt(1_000 * mechanism.variance / 10_000)
    return bool(abs(values.mean() - 3) <= allowed)


def test_o07_the_raw_estimate_is_unbiased_and_the_clipped_one_is_not() -> None:
    assert meets_o07(lambda mechanism, told: mechanism.estimate_count(told).value)
    assert not meets_o07(lambda mechanism, told: mechanism.estimate_count(told).clipped().value)
    # The twin forgets the correction and counts the reported ones.
    assert not meets_o07(lambda mechanism, told: told.sum(axis=0).astype(np.float64))


def test_o07_the_variance_is_that_of_the_estimates() -> None:
    """20,000 estimates; the sample variance has a relative standard error of 1 %: 7 allowed."""
    mechanism = RandomizedResponse.from_epsilon(1.0)
    told = mechanism.perturb(np.zeros((200, 20_000), np.bool_), rng=Prg(b"v" * 32))
    result = mechanism.estimate_count(told)
    assert result.value.var() / result.variance[0] == pytest.approx(1, abs=0.07)
    # The paper's e^eps / (e^eps - 1)^2 without the square would be off by 1.7.
    wrong = 200 * math.e / (math.e - 1)
    assert result.value.var() / wrong != pytest.approx(1, abs=0.07)
