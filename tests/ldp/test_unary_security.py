"""Unary encoding keeps its epsilon: exact laws of the running code, and broken twins."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.thresholds import largest_threshold
from ldp.unary import UnaryEncoding
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.oracle_laws import (
    EPSILONS,
    Perturb,
    bit_shares,
    check_promise,
    honest,
    keeps,
    laws_of,
    mean_estimates,
)
from tests.support.stats import fits_binomial
from tests.support.walk import walk

Make = Callable[[int, float], UnaryEncoding]
MAKERS = [UnaryEncoding.symmetric, UnaryEncoding.optimized]
DOMAINS = [2, 3, 4, 5]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("k", DOMAINS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_table(make: Make, k: int, epsilon: float) -> None:
    oracle = make(k, epsilon)
    laws = laws_of(honest(oracle), k)
    one, zero = Fraction(oracle.one, ONE), Fraction(oracle.zero, ONE)
    for value, law in enumerate(laws):
        rates = [one if place == value else zero for place in range(k)]
        assert law == {
            report: prod(rate if bit else 1 - rate for rate, bit in zip(rates, report, strict=True))
            for report in product((False, True), repeat=k)
        }
    check_promise(oracle, laws, epsilon)


@pytest.mark.parametrize("make", MAKERS)
def test_the_estimate_is_unbiased_exactly(make: Make) -> None:
    oracle = make(4, 1.0)
    for value, law in enumerate(laws_of(honest(oracle), 4)):
        assert mean_estimates(oracle.support, bit_shares(law, 4)) == [y == value for y in range(4)]


def test_two_reports_are_independent() -> None:
    oracle = UnaryEncoding.optimized(2, 1.0)
    one = laws_of(honest(oracle), 2)
    x = np.array([1, 0])
    both, left = walk(
        lambda rng: tuple(oracle.perturb(x, rng=rng).reshape(-1).tolist()), Fraction(0)
    )
    assert left == 0
    assert both == {(*a, *b): one[1][a] * one[0][b] for a in one[1] for b in one[0]}


def last_bit_in_clear(oracle: UnaryEncoding) -> Perturb:
    """O06's twin: noise for k - 1 of k bits."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[Any]:
        told = oracle.perturb(x, rng=rng)
        told[:, -1] = x == oracle.k - 1
        return told

    return perturb


def own_bit_in_clear(oracle: UnaryEncoding) -> Perturb:
    """Noise is added to the zeros only: the own bit is always set."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[Any]:
        told = oracle.perturb(x, rng=rng)
        told[np.arange(x.size), x] = True
        return told

    return perturb


def whole_epsilon_for_each_bit(oracle: UnaryEncoding, epsilon: float) -> Perturb:
    """Calibrated to one bit, though two values differ in two: the loss is twice as large."""
    keep = largest_threshold(epsilon)
    return honest(UnaryEncoding(oracle.k, keep, ONE - keep))


def own_bit_or_the_noise(oracle: UnaryEncoding) -> Perturb:
    """O05's fair-coin lie: the own bit that is not told is drawn like any other, and may be one."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[Any]:
        told = rng.bernoulli(oracle.zero, (x.size, oracle.k))
        told[np.arange(x.size), x] |= rng.bernoulli(oracle.one, x.size)
        return told

    return perturb


def next_coin(oracle: UnaryEncoding) -> Perturb:
    """One step of 2^-64 less noise in the zeros."""
    return honest(UnaryEncoding(oracle.k, oracle.one, oracle.zero - 1))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [2, 3])
def test_broken_twins_do_not_keep_epsilon(make: Make, k: int, epsilon: float) -> None:
    oracle = make(k, epsilon)
    assert keeps(laws_of(honest(oracle), k), epsilon)
    for twin in (
        last_bit_in_clear(oracle),
        own_bit_in_clear(oracle),
        whole_epsilon_for_each_bit(oracle, epsilon),
        own_bit_or_the_noise(oracle),
    ):
        assert not keeps(laws_of(twin, k), epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_next_coin_would_break_the_promise(epsilon: float) -> None:
    oracle = UnaryEncoding.optimized(3, epsilon)
    assert not keeps(laws_of(next_coin(oracle), 3), epsilon)


def meets_o06(perturb: Perturb, k: int, own: float) -> bool:
    """Every bit of every value flips as often as stated, exactly binomial; alarm below 1e-9.

    With optimized bits at epsilon .1, zeros flip with the case's probability .47502 and ones
    with 1/2. 100,000 reports of each of the first and the last value.
    """
    for value in (0, k - 1):
        x = np.full(100_000, value)
        flips = perturb(x, Prg(k.to_bytes(32, "big"))) != (np.arange(k) == value)
        for place, count in enumerate(flips.sum(axis=0)):
            rate = own if place == value else 0.4750208125210601
            if not fits_binomial(int(count), 100_000, rate, 1e-11):
                return False
    return True


@pytest.mark.parametrize("k", [2, 8, 9, 64])
def test_o06_every_bit_is_randomized(k: int) -> None:
    oracle = UnaryEncoding.optimized(k, 0.1)
    assert meets_o06(honest(oracle), k, 0.5)
    assert not meets_o06(last_bit_in_clear(oracle), k, 0.5)
    assert not meets_o06(own_bit_in_clear(oracle), k, 0.5)


def test_o06_every_user_is_randomized() -> None:
    """Own bits in every tenth of an array beyond three pieces are fair coins."""
    oracle = UnaryEncoding.optimized(2, 0.1)
    x = np.arange(10 * 20_001) % 2
    told = oracle.perturb(x, rng=Prg(b"all users, of the last piece too"))
    spoilt = told.copy()
    spoilt[-20_001:] = x[-20_001:, np.newaxis] == np.arange(2)

    def fits(reports: NDArray[Any]) -> bool:
        own = reports[np.arange(x.size), x].reshape(10, -1).sum(axis=1)
        return all(fits_binomial(int(ones), 20_001, 0.5, 1e-10) for ones in own)

    assert fits(told)
    assert not fits(spoilt)
