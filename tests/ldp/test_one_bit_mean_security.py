"""1BitMean keeps its epsilon: the exact table of the sampler that runs, beside broken twins."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.one_bit_mean import OneBitMean
from ldp.thresholds import MIN_EPSILON
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.mean_laws import at_most_exp, first_word_that_changes, law
from tests.support.stats import fits_binomial
from tests.support.walk import worst_ratio

EPSILONS = [MIN_EPSILON, 1e-12, 0.1, 1.0, math.log(3), 2.0, 8.0, 16.0, 30.0, 44.0]
SIXTEENTHS = [i / 16 for i in range(17)]


@dataclass(frozen=True)
class EndsInClear(OneBitMean):
    """The twin that takes a value at an end for one that needs no coin, as rounding needs none."""

    def perturb(self, x: NDArray[np.float64], *, rng: Rng) -> NDArray[np.bool_]:  # type: ignore[override]
        told = super().perturb(x, rng=rng)
        return np.where(x == self.low, False, np.where(x == self.high, True, told))


@dataclass(frozen=True)
class CoinForOnesOnly(OneBitMean):
    """The twin that flips a coin for rounded ones and reports zeros as they are."""

    def perturb(self, x: NDArray[np.float64], *, rng: Rng) -> NDArray[np.bool_]:  # type: ignore[override]
        bits = rng.words(x.shape, np.uint64) < (x * 2.0**63).astype(np.uint64) * np.uint64(2)
        return bits & self.coin.perturb(bits, rng=rng)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_table_of_the_running_sampler_is_exact(epsilon: float) -> None:
    mechanism = OneBitMean.from_epsilon(epsilon)
    keep = Fraction(mechanism.coin.keep, ONE)
    laws = [law(mechanism, f) for f in SIXTEENTHS]
    for f, table in zip(SIXTEENTHS, laws, strict=True):
        # The paper's probability, linear in the value, with keep for e^epsilon / (e^epsilon + 1).
        assert table[True] == (1 - keep) + Fraction(f) * (2 * keep - 1)
        assert sum(table.values()) == 1
    worst = worst_ratio(laws)
    assert worst == keep / (1 - keep)  # attained: by the two ends of the range
    assert at_most_exp(worst, epsilon)
    assert at_most_exp(worst, mechanism.epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_table_rejects_broken_twins(epsilon: float) -> None:
    coin = OneBitMean.from_epsilon(epsilon).coin
    for twin in (EndsInClear(0, 1, coin), CoinForOnesOnly(0, 1, coin)):
        with pytest.raises(ValueError, match="impossible"):
            worst_ratio([law(twin, f) for f in (0.0, 0.5)])


@given(
    st.floats(-7, 3),
    st.integers(0, ONE - 1),
    st.floats(MIN_EPSILON, 50),
)
def test_whatever_the_rounding_the_coin_alone_decides(x: float, word: int, epsilon: float) -> None:
    """The mixture argument: given the rounded bit, a report has the two laws of the coin."""
    mechanism = OneBitMean.from_epsilon(epsilon, -7, 3)
    keep = mechanism.coin.keep
    coins = np.array([0, keep - 1, keep, ONE - 1], dtype=np.uint64)
    told = mechanism.perturb_with(np.full(4, x), np.full(4, word, dtype=np.uint64), coins)
    assert told.tolist() == [told[0], told[0], not told[0], not told[0]]


@given(st.data())
def test_the_rounding_is_as_unbiased_as_it_says(data: st.DataObject) -> None:
    """The words that round up, found by bisection, against the exact fraction of the range."""
    low = data.draw(st.floats(-1e6, 1e6))
    high = data.draw(st.floats(low + 1e-3, low + 1e9))
    x = data.draw(st.floats(low, high))
    mechanism = OneBitMean.from_epsilon(50.0, low, high)
    never_flips = np.zeros((), dtype=np.uint64)

    def report(word: int) -> int:
        given = np.array(word, dtype=np.uint64)
        return int(mechanism.perturb_with(x, given, never_flips))

    exact = (Fraction(x) - Fraction(low)) / (Fraction(high) - Fraction(low))
    words = first_word_that_changes(report) if report(0) else 0
    error = Fraction(words, ONE) - exact
    assert abs(error) <= Fraction(31, 10) * exact / 2**53 + Fraction(1, 2**62)
    if low == 0 and high == 1:
        assert -Fraction(1, 2**62) < error <= 0


def test_given_coins_and_drawn_ones_have_the_same_law() -> None:
    """400,000 reports about .3 on either way: exact binomial bounds, false alarm 1e-9 each."""
    mechanism = OneBitMean.from_epsilon(1.0)
    n, rng = 400_000, Prg(b"one bit mean, given and drawn ok")
    x = np.full(n, 0.3)
    keep = mechanism.coin.keep / ONE
    p = (1 - keep) + 0.3 * (2 * keep - 1)
    words = rng.words((2, n), np.uint64)
    for told in (mechanism.perturb(x, rng=rng), mechanism.perturb_with(x, words[0], words[1])):
        assert fits_binomial(int(told.sum()), n, p)
    # The twin uses one word for both draws: a value that rounds up then nearly always says so.
    twin = mechanism.perturb_with(x, words[0], words[0])
    assert not fits_binomial(int(twin.sum()), n, p)


def test_entries_are_randomized_independently() -> None:
    mechanism = OneBitMean.from_epsilon(1.0)
    n, x = 400_000, np.tile([0.25, 0.75], (400_000, 1))
    p = float(law(mechanism, 0.25)[True] * law(mechanism, 0.75)[True])
    told = mechanism.perturb(x, rng=Prg(b"one bit mean, entries are alone!"))
    assert fits_binomial(int(np.all(told, axis=1).sum()), n, p)
    one_coin = np.repeat(mechanism.perturb(x[:, :1], rng=Prg(bytes(32))), 2, axis=1)
    assert not fits_binomial(int(np.all(one_coin, axis=1).sum()), n, p)
