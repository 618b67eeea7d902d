"""Repeated means keep to their account: laws of whole histories, and twins that averaging reads.

Laws come from the code that runs, on all tapes of its coins at once: with a coin of 3/4, flips of
1/4 and two steps, all thresholds are multiples of 2^62, so four words stand for all.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from ldp.coins import memo_coins, memo_words
from ldp.memo import MemoStore
from ldp.randomized_response import RandomizedResponse
from ldp.repeated import Memos, RepeatedMean
from ldp.repeated_cost import exact_ratio, loss_of
from mpc.core.prg import Prg
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape
from tests.ldp.mean_laws import Law, at_most_exp
from tests.support.stats import binomial_interval, fits_binomial
from tests.support.walk import worst_ratio

COIN = RandomizedResponse(3 << 62)
STEPS = 2


def mechanism(flip: int) -> RepeatedMean:
    """Values in [0, 2] with the grid points 0, 1 and 2."""
    return RepeatedMean(0, STEPS, STEPS, COIN, flip)


class Tapes(Rng):
    """Flips as they stand on the tapes: column t for round t."""

    def __init__(self, flips: NDArray[np.bool_], flip: int) -> None:
        self._flips = iter(flips.T)
        self._flip = flip

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("only flips are drawn")

    def bernoulli(self, threshold: int, shape: Shape = ()) -> NDArray[np.bool_]:
        assert threshold == self._flip
        return next(self._flips)


def tapes(flip: int, rounds: int) -> tuple[Memos, NDArray[np.bool_], list[Fraction]]:
    """All memos and flips, with their weights."""
    half, quarter = np.uint64(1 << 63), np.uint64(1 << 62)
    sizes = [2] * (STEPS + 1) + [4] * (STEPS + 1) + [2] * rounds
    choices = np.indices(sizes).reshape(len(sizes), -1).T.astype(np.uint64)
    rounding = np.ascontiguousarray(choices[:, : STEPS + 1] * half)
    coins = np.ascontiguousarray(choices[:, STEPS + 1 : 2 * STEPS + 2] * quarter)
    flips = choices[:, 2 * STEPS + 2 :] == 1
    alphas = np.zeros(choices.shape[0], dtype=np.uint64)
    gamma = Fraction(flip, ONE)
    each = Fraction(1, 8 ** (STEPS + 1))
    weights = [each * gamma**k * (1 - gamma) ** (rounds - k) for k in range(rounds + 1)]
    return (
        mechanism(flip).memos_with(alphas, rounding, coins),
        flips,
        [weights[k] for k in flips.sum(axis=1).tolist()],
    )


def history_laws(flip: int, histories: Sequence[Sequence[int]]) -> list[Law]:
    """The exact law of the reports of each history of grid points."""
    rounds = len(histories[0])
    memos, flips, weights = tapes(flip, rounds)
    laws = []
    for history in histories:
        rng = Tapes(flips, flip)
        told = [mechanism(flip).report(np.full(len(weights), v), memos, rng=rng) for v in history]
        law: Law = {}
        for reports, weight in zip(np.stack(told, axis=1).tolist(), weights, strict=True):
            if weight:
                law[tuple(reports)] = law.get(tuple(reports), Fraction(0)) + weight
        laws.append(law)
    return laws


def all_histories(rounds: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(STEPS + 1), repeat=rounds))


@pytest.mark.parametrize("flip", [ONE // 4, ONE // 16, ONE // 2 - 1])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_no_pair_of_histories_passes_the_account_and_one_attains_it(flip: int, rounds: int) -> None:
    worst = worst_ratio(history_laws(flip, all_histories(rounds)))
    cost = mechanism(flip).cost(rounds)
    assert cost.is_exact
    assert worst == exact_ratio(mechanism(flip).ones, Fraction(flip, ONE), rounds)
    assert at_most_exp(worst, cost.moving)
    assert cost.moving == loss_of(worst)


@pytest.mark.parametrize("flip", [0, ONE // 4])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_a_value_that_stays_costs_one_answer_however_often_it_is_reported(
    flip: int, rounds: int
) -> None:
    laws = history_laws(flip, [(v,) * rounds for v in range(STEPS + 1)])
    worst = worst_ratio(laws)
    cost = mechanism(flip).cost(rounds)
    assert cost.still <= mechanism(flip).epsilon == COIN.epsilon
    assert at_most_exp(worst, cost.still)
    if not flip:
        assert worst == Fraction(COIN.keep, ONE - COIN.keep)


@pytest.mark.parametrize("flip", [0, ONE // 4])
def test_histories_of_one_pattern_differ_by_an_answer_for_each_place(flip: int) -> None:
    for pattern in [(0, 1, 0), (0, 0, 1), (0, 1, 1)]:
        places = itertools.permutations(range(STEPS + 1), 2)
        worst = worst_ratio(history_laws(flip, [[pair[i] for i in pattern] for pair in places]))
        assert at_most_exp(worst, 2 * COIN.epsilon)
    assert mechanism(flip).cost(3).pattern <= 3 * COIN.epsilon * (1 + 1e-15)


def test_without_flips_a_changed_report_proves_a_changed_value() -> None:
    laws = history_laws(0, [(0, 0), (0, 2)])
    assert (False, True) not in laws[0]
    assert laws[1][False, True] > 0
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio(laws)
    assert mechanism(0).cost(2).moving == math.inf
    # No epsilon helps: delta is at least the probability that the change is seen.
    seen = float(laws[1][False, True] + laws[1][True, False])
    assert mechanism(0).delta(2, 1000.0) >= seen


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("flip", [0, ONE // 4, ONE // 16])
def test_no_pair_of_histories_passes_delta(epsilon: float, flip: int) -> None:
    laws = history_laws(flip, all_histories(2))
    factor = Fraction(math.exp(epsilon))
    for one, other in itertools.product(laws, laws):
        gaps = (p - factor * other.get(reports, Fraction(0)) for reports, p in one.items())
        assert float(sum(gap for gap in gaps if gap > 0)) <= mechanism(flip).delta(2, epsilon)


@dataclass(frozen=True)
class FreshEachRound(RepeatedMean):
    """The twin that draws a new answer in each round, where a memoized one was promised."""

    def report(self, x: ArrayLike, memos: Memos, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        points = self.points(x, memos.alphas)
        bits = self.rounded_bits(points, rng.words(points.shape, np.uint64))
        return self.coin.perturb(bits, rng=rng) ^ rng.bernoulli(self.flip, points.size)


@dataclass(frozen=True)
class FreshAlpha(RepeatedMean):
    """The twin that draws alpha anew in each round: a value that stays is rounded both ways."""

    def report(self, x: ArrayLike, memos: Memos, *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        alphas = rng.words(memos.alphas.shape, np.uint64)
        return super().report(x, Memos(alphas, memos.answers), rng=rng)


ROUNDS, USERS = 300, 2_000


def guessed_by_averaging(twin: RepeatedMean, low: float, high: float, seed: bytes) -> int:
    """How many of 2 * USERS users are told right, low or high, by the mean of their reports."""
    rng = Prg(seed)
    keys = rng.words((2 * USERS, 32), np.uint8)
    memos = twin.memos(keys, "averaged")
    x = np.repeat([low, high], USERS)
    reports = sum(twin.report(x, memos, rng=rng).astype(np.int64) for _ in range(ROUNDS))
    means = np.asarray(reports) / ROUNDS
    return int(np.sum((means > np.median(means)) == (x == high)))


@pytest.mark.parametrize("flip", [0, ONE // 8])
def test_averaging_reads_no_more_than_one_answer_tells(flip: int) -> None:
    """4,000 users, 300 rounds: of any guesses between two values at most e^eps / (1 + e^eps) are
    right on average; exact binomial bound, alarm 1e-9.
    """
    honest = RepeatedMean(0, 1, 4, COIN, flip)
    _, most = binomial_interval(2 * USERS, COIN.keep / ONE)
    seed = b"averaging over rounds, 32 bytes!"
    assert guessed_by_averaging(honest, 0.0, 1.0, seed) <= most
    twin = FreshEachRound(0, 1, 4, COIN, flip)
    assert guessed_by_averaging(twin, 0.0, 1.0, seed) > most


def test_a_value_that_stays_is_always_reported_alike() -> None:
    rng = Prg(b"a value that stays, seed 32 byte")
    keys = rng.words((500, 32), np.uint8)
    x = rng.uniform(1000, 500) / 1000
    for kind, stays in ((RepeatedMean, True), (FreshEachRound, False), (FreshAlpha, False)):
        repeated = kind(0, 1, 4, COIN, 0)
        memos = repeated.memos(keys, "alike")
        rounds = [repeated.report(x, memos, rng=rng) for _ in range(5)]
        assert all(np.array_equal(told, rounds[0]) for told in rounds) == stays


def test_users_points_and_purposes_have_coins_of_their_own() -> None:
    """8,000 memos: exact binomial bounds for pairs that would agree if a coin were shared."""
    rng = Prg(b"independent memos, seed of 32 b.")
    repeated = RepeatedMean(0, 1, 2, COIN, 0)
    keys = rng.words((8_000, 32), np.uint8)
    memos = repeated.memos(keys, "pairs")
    n = keys.shape[0]
    low, middle, high = (memos.answers[:, v] for v in range(3))
    for answers, p in ((low, 0.25), (middle, 0.5), (high, 0.75)):
        assert fits_binomial(int(answers.sum()), n, p)
    for a, b, p in ((low, high, 3 / 16), (low, middle, 1 / 8), (middle, high, 3 / 8)):
        assert fits_binomial(int((a & b).sum()), n, p)
    up = memos.alphas < ONE // 2
    assert fits_binomial(int((up & high).sum()), n, 3 / 8)
    other = repeated.memos(keys, "another family")
    assert fits_binomial(int((middle & other.answers[:, 1]).sum()), n, 1 / 4)
    # The twin takes one word for rounding and for the coin.
    words = rng.words((n, 3), np.uint64)
    shared = repeated.memos_with(memos.alphas, words, words).answers[:, 1]
    assert not fits_binomial(int(shared.sum()), n, 0.5)


def test_words_and_coins_of_one_name_are_unrelated(tmp_path: Path) -> None:
    keys = Prg(bytes(32)).words((3, 32), np.uint8)
    questions = np.arange(50)
    assert not np.intersect1d(
        memo_words(keys, "visited", questions), memo_coins(keys, "visited", questions)
    ).size
    store = MemoStore.create(tmp_path / "memo")
    words = store.words("visited", questions)
    assert np.array_equal(words, MemoStore.open(tmp_path / "memo").words("visited", questions))
    assert words.shape == (50,)
    key = np.frombuffer((tmp_path / "memo" / "key").read_bytes()[-64:-32], np.uint8)
    assert np.array_equal(words, memo_words(key[np.newaxis], "visited", questions)[0])
    assert not np.intersect1d(words, memo_coins(key[np.newaxis], "visited", questions)).size


def test_memos_do_not_print_themselves() -> None:
    memos = mechanism(0).memos(np.zeros((1, 32), dtype=np.uint8), "printed")
    assert "array" not in repr(memos)
