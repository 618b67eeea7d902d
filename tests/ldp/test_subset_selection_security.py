"""Subset selection keeps its epsilon: laws of the running code, and broken twins.

Sets of one are drawn in a bounded number of steps, so their laws are complete. Larger sets may ask
for one more place again and again: there the walk stops at a rest of 2^-40, and every report's
stated probability must lie within what has been seen and what is left.
"""

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.subset_selection import SubsetSelection, complete, first_share
from ldp.thresholds import largest_threshold
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.oracle_laws import (
    EPSILONS,
    Law,
    Perturb,
    bit_shares,
    check_promise,
    honest,
    keeps,
    laws_of,
    mean_estimates,
    walked,
)
from tests.support.stats import fits_binomial
from tests.support.walk import walk, worst_ratio

SHAPES = [(2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (5, 2)]


def stated(oracle: SubsetSelection, value: int) -> Law:
    """keep / C(k-1, size-1) for each set with the value, (1 - keep) / C(k-1, size) without."""
    keep = Fraction(oracle.keep, ONE)
    held = keep / math.comb(oracle.k - 1, oracle.size - 1)
    other = (1 - keep) / math.comb(oracle.k - 1, oracle.size)
    return {
        tuple(place in chosen for place in range(oracle.k)): held if value in chosen else other
        for chosen in combinations(range(oracle.k), oracle.size)
    }


def is_bounded_by(law: Law, seen: Law, left: Fraction) -> bool:
    """Whether every probability of ``law`` lies between what was seen and that plus the rest."""
    return seen.keys() <= law.keys() and all(
        0 <= share - seen.get(report, Fraction(0)) <= left for report, share in law.items()
    )


@pytest.mark.parametrize(("k", "size"), SHAPES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_table(k: int, size: int, epsilon: float) -> None:
    oracle = SubsetSelection.from_epsilon(k, epsilon, size)
    laws = [stated(oracle, value) for value in range(k)]
    for value, law in enumerate(laws):
        assert sum(law.values()) == 1
        assert is_bounded_by(law, *walked(honest(oracle), value))
    check_promise(oracle, laws, epsilon)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_the_table_of_single_values_is_complete(k: int) -> None:
    oracle = SubsetSelection.from_epsilon(k, 1.0, 1)
    assert laws_of(honest(oracle), k) == [stated(oracle, value) for value in range(k)]


@pytest.mark.parametrize(("k", "size"), SHAPES)
def test_the_estimate_is_unbiased_exactly(k: int, size: int) -> None:
    oracle = SubsetSelection.from_epsilon(k, 1.0, size)
    for value in range(k):
        law = stated(oracle, value)
        assert mean_estimates(oracle.support, bit_shares(law, k)) == [y == value for y in range(k)]


@pytest.mark.parametrize(("size", "share"), [(1, 64), (1, 128), (2, 64), (2, 128)])
@pytest.mark.parametrize("value", [0, 2, 3])
def test_the_first_coins_leave_no_trace(size: int, share: int, value: int) -> None:
    """Small domains start from no coins at all; with any the law is the same.

    All that ``complete`` can meet happens here: rows of the size at once, with too few ones, and
    with too many.
    """
    oracle = SubsetSelection.from_epsilon(4, 1.0, size)

    def kernel(rng: Rng) -> tuple[Any, ...]:
        out = rng.bernoulli(share << 56, (1, 4))
        complete(np.array([value], dtype=np.uint8), size, oracle.keep, out, rng)
        return tuple(out[0].tolist())

    law, left = walk(kernel, Fraction(1, 2**30))
    assert is_bounded_by(stated(oracle, value), law, left)


def test_two_reports_are_independent() -> None:
    oracle = SubsetSelection.from_epsilon(3, 1.0, 1)
    one = laws_of(honest(oracle), 3)
    x = np.array([2, 0])
    both, left = walk(
        lambda rng: tuple(oracle.perturb(x, rng=rng).reshape(-1).tolist()), Fraction(0)
    )
    assert left == 0
    assert both == {(*a, *b): one[2][a] * one[0][b] for a in one[2] for b in one[0]}


def one_by_one(
    x: NDArray[Any], told: NDArray[np.bool_], size: int, k: int, skip: bool, rng: Rng
) -> NDArray[np.bool_]:
    """A plain sampler for twins: one place after another, with or without the own one."""
    out = np.zeros((x.size, k), dtype=np.bool_)
    for row, own in enumerate(x):
        out[row, own] = told[row]
        pool = [place for place in range(k) if not (out[row, place] or (skip and place == own))]
        for _ in range(size - int(told[row])):
            out[row, pool.pop(int(rng.uniform(len(pool))))] = True
    return out


def lie_may_hold_the_truth(oracle: SubsetSelection) -> Perturb:
    """O05's twin: a set that need not hold the own value is drawn from all k values."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[np.bool_]:
        told = rng.bernoulli(oracle.keep, x.size)
        return one_by_one(x, told, oracle.size, oracle.k, False, rng)

    return perturb


def plain(oracle: SubsetSelection) -> Perturb:
    """The mechanism by the textbook: not a twin but a second witness."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[np.bool_]:
        told = rng.bernoulli(oracle.keep, x.size)
        return one_by_one(x, told, oracle.size, oracle.k, True, rng)

    return perturb


def binary_coin(oracle: SubsetSelection, epsilon: float) -> Perturb:
    """O05's other twin: the coin of two values, e^epsilon / (e^epsilon + 1), whatever the size."""
    return plain(SubsetSelection(oracle.k, oracle.size, largest_threshold(epsilon)))


def next_values(oracle: SubsetSelection) -> Perturb:
    """Sets are runs of values from a random place on: as often each value, but not each set."""

    def perturb(x: NDArray[Any], rng: Rng) -> NDArray[np.bool_]:
        told = rng.bernoulli(oracle.keep, x.size)
        out = np.zeros((x.size, oracle.k), dtype=np.bool_)
        first = rng.uniform(oracle.k - 1, x.size).astype(np.int64)
        for row, own in enumerate(x):
            out[row, own] = told[row]
            run = first[row] + np.arange(oracle.size - int(told[row]))
            out[row, (own + 1 + run % (oracle.k - 1)) % oracle.k] = True
        return out

    return perturb


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("k", "size"), SHAPES)
def test_broken_twins_do_not_keep_epsilon(k: int, size: int, epsilon: float) -> None:
    oracle = SubsetSelection.from_epsilon(k, epsilon, size)
    laws = laws_of(plain(oracle), k)
    assert laws == [stated(oracle, value) for value in range(k)]
    assert keeps(laws, epsilon)
    assert not keeps(laws_of(lie_may_hold_the_truth(oracle), k), epsilon)
    if 2 * size < k:
        assert not keeps(laws_of(binary_coin(oracle, epsilon), k), epsilon)
    if 1 < size < k - 2:  # of three places, runs of two are all the sets there are
        assert not keeps(laws_of(next_values(oracle), k), epsilon)
    step = SubsetSelection(k, size, oracle.keep + 1)
    assert not keeps([stated(step, value) for value in range(k)], epsilon)


def test_the_walk_tells_runs_from_sets() -> None:
    """The bound of the exact table rejects a sampler whose sets are not equally likely."""
    oracle = SubsetSelection.from_epsilon(5, 1.0, 2)
    law, left = walked(next_values(oracle), 1)
    assert worst_ratio([law, law]) == 1
    assert not is_bounded_by(stated(oracle, 1), law, left)


def fits_stated(reports: NDArray[np.bool_], oracle: SubsetSelection, value: int) -> bool:
    """Every value and every pair of neighbours in the sets of ``value`` as often as stated.

    Exact binomial bounds for 2 k counts together; alarm below 1e-9.
    """
    n, k, size = len(reports), oracle.k, oracle.size
    p, q = oracle.support.p, oracle.support.q
    with_own = p * Fraction(size - 1, k - 1)
    pair = p * Fraction((size - 1) * (size - 2), (k - 1) * (k - 2)) + (1 - p) * Fraction(
        size * (size - 1), (k - 1) * (k - 2)
    )
    singles = reports.sum(axis=0)
    pairs = (reports & np.roll(reports, -1, axis=1)).sum(axis=0)
    return all(
        fits_binomial(int(count), n, float(rate), 1e-9 / (2 * k))
        for place in range(k)
        for count, rate in (
            (singles[place], p if place == value else q),
            (pairs[place], with_own if value in (place, (place + 1) % k) else pair),
        )
    )


@pytest.mark.parametrize(("k", "epsilon"), [(14, 1.0), (100, 1.0), (100, 2.5), (300, 0.1)])
def test_real_sizes_have_the_stated_law(k: int, epsilon: float) -> None:
    """100,000 reports of one value, from coins that leave rows both short and too long."""
    oracle = SubsetSelection.from_epsilon(k, epsilon)
    assert first_share(k, oracle.size) > 0
    value = k // 3
    told = oracle.perturb(np.full(100_000, value), rng=Prg(k.to_bytes(32, "big")))
    assert fits_stated(told, oracle, value)
    # One twin has a last value that is never a lie, the other's sets are runs.
    spoilt = told.copy()
    spoilt[:, -1] = False
    assert not fits_stated(spoilt, oracle, value)
    if oracle.size > 1:
        runs = next_values(oracle)(np.full(100_000, value), Prg(bytes(32)))
        assert not fits_stated(runs, oracle, value)


def test_o06_every_user_is_randomized() -> None:
    """The truth is held in every tenth of an array beyond three pieces as often as stated."""
    oracle = SubsetSelection.from_epsilon(300, 0.1)
    x = np.arange(10 * 2_501) % 300
    told = oracle.perturb(x, rng=Prg(b"all users, of the last piece too"))

    def fits(reports: NDArray[Any]) -> bool:
        held = reports[np.arange(x.size), x].reshape(10, -1).sum(axis=1)
        return all(fits_binomial(int(h), 2_501, oracle.keep / ONE, 1e-10) for h in held)

    assert fits(told)
    told[np.arange(x.size), x] |= np.arange(x.size) >= 9 * 2_501  # the last tenth in clear
    assert not fits(told)
