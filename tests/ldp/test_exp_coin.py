"""Coins of probability e^(-n step): exact at every precision, and independent."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.exact_exp import exp_enclosure
from ldp.exp_coin import COIN_BITS, ExpCoin
from mpc.core.prg import Prg
from tests.ldp.table_walk import Script
from tests.support.stats import fits_binomial

STEPS = [
    Fraction(1),
    Fraction(1, 3),
    Fraction(1, 2**9),
    Fraction(1, 2 * 1000**2),
    Fraction(1, 2**41),
]
COINS = {step: ExpCoin(step) for step in STEPS}


def toss(coin: ExpCoin, n: int, bits: str) -> bool:
    """The coin for the real whose binary digits are ``bits``, and zeros after them."""
    first = int(bits[:COIN_BITS].ljust(COIN_BITS, "0"), 2)
    rest = bits[COIN_BITS:]
    padded = rest.ljust(-(-len(rest) // 64) * 64, "0")
    words = [int(padded[i : i + 64], 2) for i in range(0, len(padded), 64)]
    return bool(coin.toss(np.array([n]), Script(first, *words, 0))[0])


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=40)
@given(st.data())
def test_the_coin_turns_where_the_exponential_lies(step: Fraction, data: st.DataObject) -> None:
    """At 32, 96 and 224 bits: the real just below e^(-n step) is heads, the one above tails."""
    n = data.draw(st.integers(0, int(3 / step)))
    depth = data.draw(st.sampled_from([32, 96, 224]))
    low, high = exp_enclosure(step * n, depth)
    coin = COINS[step]
    for cell, heads in ((low - 1, True), (low - 2, True), (high, False), (high + 1, False)):
        if 0 <= cell < 2**depth:
            assert toss(coin, n, f"{cell:0{depth}b}") == heads


@pytest.mark.parametrize("step", STEPS)
def test_small_large_and_vast_exponents(step: Fraction) -> None:
    coin = COINS[step]
    n = np.array([0, 2**62])
    heads = coin.toss(np.repeat(n, 1000), Prg(bytes(32))).reshape(2, 1000)
    assert heads[0].all()  # probability 1
    expected = math.exp(-(2**62) * step) if step * 2**62 < 700 else 0.0
    assert fits_binomial(int(heads[1].sum()), 1000, expected)


def test_frequencies() -> None:
    """A million coins for each of five exponents, in one call; exact binomial bounds."""
    coin = COINS[Fraction(1, 2 * 1000**2)]
    exponents = np.array([0, 1, 40_000, 900_000, 1_900_000])
    heads = coin.toss(np.repeat(exponents, 10**6), Prg(b"f" * 32)).reshape(5, -1).sum(axis=1)
    for count, n in zip(heads, exponents, strict=True):
        assert fits_binomial(int(count), 10**6, math.exp(-int(n) / 2_000_000))
    assert not fits_binomial(int(heads[3]), 10**6, math.exp(-0.45 * 1.02))  # a twin 2 % off


def test_one_word_decides_nearly_all() -> None:
    """Among a million coins about one needs more bits: at most 30."""

    class Counting(Prg):
        def fill(self, out: NDArray[Any]) -> None:
            draws.append(out.size)
            super().fill(out)

    draws: list[int] = []
    n = np.arange(10**6)
    COINS[Fraction(1, 2 * 1000**2)].toss(n, Counting(b"n" * 32))
    assert draws[0] == n.size
    assert len(draws) <= 31
    assert set(draws[1:]) <= {1}


def test_entries_of_a_batch_keep_their_places() -> None:
    coin = COINS[Fraction(1)]
    n = np.array([0, 100, 0, 1])
    # Coins of 1/2 for each: e^-1 = .37 lies below and 1 above.
    assert coin.toss(n, Script([2**31] * 4)).tolist() == [True, False, True, False]
    assert coin.toss(np.array([], dtype=np.int64), Prg(bytes(32))).shape == (0,)
