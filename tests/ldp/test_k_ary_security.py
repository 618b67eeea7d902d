"""k-ary randomized response keeps its epsilon: exact laws of the running code, and broken twins."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.k_ary import KaryRandomizedResponse
from ldp.thresholds import largest_threshold
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.oracle_laws import (
    EPSILONS,
    Perturb,
    check_promise,
    honest,
    keeps,
    laws_of,
    mean_estimates,
)
from tests.support.stats import fits_binomial, fits_multinomial
from tests.support.walk import walk

DOMAINS = [2, 3, 4, 5]


@pytest.mark.parametrize("k", DOMAINS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_table(k: int, epsilon: float) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, epsilon)
    laws = laws_of(honest(oracle), k)
    truth = Fraction(oracle.keep, ONE)
    lie = (1 - truth) / (k - 1)
    assert laws == [{(y,): truth if y == x else lie for y in range(k)} for x in range(k)]
    check_promise(oracle, laws, epsilon)


@pytest.mark.parametrize("k", DOMAINS)
def test_the_estimate_is_unbiased_exactly(k: int) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, 1.0)
    for value, law in enumerate(laws_of(honest(oracle), k)):
        shares = [law[y,] for y in range(k)]
        assert mean_estimates(oracle.support, shares) == [y == value for y in range(k)]


def test_two_reports_are_independent() -> None:
    oracle = KaryRandomizedResponse.from_epsilon(3, 1.0)
    one = laws_of(honest(oracle), 3)
    x = np.array([2, 0])
    both, left = walk(lambda rng: tuple(oracle.perturb(x, rng=rng).tolist()), Fraction(0))
    assert left == 0
    assert both == {(a, b): one[2][a,] * one[0][b,] for a in range(3) for b in range(3)}


def lie_may_be_the_truth(oracle: KaryRandomizedResponse) -> Perturb:
    """O05's twin: who does not tell the truth draws from all k values."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[Any]:
        lies = rng.uniform(oracle.k, x.shape, np.uint8)
        return np.where(rng.bernoulli(oracle.keep, x.shape), x, lies)

    return perturb


def binary_coin(oracle: KaryRandomizedResponse, epsilon: float) -> Perturb:
    """O05's other twin: the coin of two values, e^epsilon / (e^epsilon + 1), for k of them."""
    return honest(KaryRandomizedResponse(oracle.k, largest_threshold(epsilon)))


def no_skip(oracle: KaryRandomizedResponse) -> Perturb:
    """Lies are drawn from the first k - 1 values, the own one included and the last one never."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[Any]:
        lies = rng.uniform(oracle.k - 1, x.shape, np.uint8)
        return np.where(rng.bernoulli(oracle.keep, x.shape), x, lies)

    return perturb


def next_coin(oracle: KaryRandomizedResponse) -> Perturb:
    """One step of 2^-64 more truthful."""
    return honest(KaryRandomizedResponse(oracle.k, oracle.keep + 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", DOMAINS)
def test_broken_twins_do_not_keep_epsilon(k: int, epsilon: float) -> None:
    oracle = KaryRandomizedResponse.from_epsilon(k, epsilon)
    assert keeps(laws_of(honest(oracle), k), epsilon)
    twins = [lie_may_be_the_truth(oracle), no_skip(oracle), next_coin(oracle)]
    if k > 2:
        twins.append(binary_coin(oracle, epsilon))
    for twin in twins:
        assert not keeps(laws_of(twin, k), epsilon)


def test_o05_lies_never_tell_the_truth() -> None:
    """Four million reports of value 3 of 100: exact binomial bounds for all cells together."""
    oracle = KaryRandomizedResponse.from_epsilon(100, 1.0)
    p, q = float(oracle.support.p), float(oracle.support.q)
    x = np.full(4_000_000, 3)
    expected = [p if y == 3 else q for y in range(100)]
    told = oracle.perturb(x, rng=Prg(b"O05: one value of one hundred, x"))
    assert fits_multinomial(np.bincount(told, minlength=100), expected)
    twin = lie_may_be_the_truth(oracle)(x, Prg(b"O05: one value of one hundred, x"))
    assert not fits_multinomial(np.bincount(twin, minlength=100), expected)


@pytest.mark.parametrize("k", [2, 256, 257, 10_000])
def test_o06_every_user_is_randomized(k: int) -> None:
    """The truth is told in every tenth of an array beyond three pieces, as often as stated."""
    oracle = KaryRandomizedResponse.from_epsilon(k, 0.1)
    x = np.arange(10 * 20_001) % k
    told = oracle.perturb(x, rng=Prg(k.to_bytes(32, "big")))
    spoilt = told.copy()
    spoilt[-20_001:] = x[-20_001:]  # the twin sends the last piece in clear

    def fits(reports: NDArray[Any]) -> bool:
        true = (reports == x).reshape(10, -1).sum(axis=1)
        return all(fits_binomial(int(t), 20_001, oracle.keep / ONE, 1e-10) for t in true)

    assert fits(told)
    assert not fits(spoilt)
