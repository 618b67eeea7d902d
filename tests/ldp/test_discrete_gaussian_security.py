"""Discrete Gaussian noise has exactly its law: tables, blocks, coins, ratios, broken twins.

Probabilities are bracketed by the walk of ``tests.ldp.table_walk`` and compared with their formulas
in decimal arithmetic. Statistical tests use fixed seeds and hold with probability above 1 - 1e-9
for a fresh one.
"""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.discrete_gaussian import TABLE_SIGMA, DiscreteGaussian, _Blocks
from ldp.exact_exp import exp_enclosure
from ldp.exact_table import ExactTable
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.ldp.table_walk import CELLS, Interval, Script, boundaries, contains, exp, masses, real
from tests.ldp.table_walk import digits as decimals
from tests.support.stats import fits_multinomial, normal_half_width

SIGMAS = [Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(4), Fraction(30)]
Sampler = Callable[[int, Rng], NDArray[np.int64]]


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with decimals(80):
        yield


def table_of(sigma: Fraction) -> ExactTable:
    sampler = DiscreteGaussian(sigma)._sampler
    assert isinstance(sampler, ExactTable)
    return sampler


@cache
def walked(sigma: Fraction) -> list[Interval]:
    return masses(boundaries(table_of(sigma)))


@cache
def total(sigma: Fraction) -> Decimal:
    """The sum of all weights, to 80 digits: beyond 25 sigma there is less than 10^-130."""
    reach = int(25 * sigma) + 20
    return 1 + 2 * sum((weight(sigma, x) for x in range(1, reach)), Decimal(0))


@cache
def weight(sigma: Fraction, x: int) -> Decimal:
    return exp(-Fraction(x * x) / (2 * sigma**2))


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_law_of_the_running_table_is_exact(sigma: Fraction) -> None:
    law = walked(sigma)
    for index, interval in enumerate(law):
        assert contains(interval, weight(sigma, (index + 1) // 2) / total(sigma))
        assert interval[1] - interval[0] < Fraction(2 * CELLS, 2**64)
    assert 1 - sum(low for low, _ in law) < Fraction(1, 2**46)


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(4), Fraction(30)])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_neighbouring_shifts_have_the_ratio_of_the_law(sigma: Fraction, sensitivity: int) -> None:
    """P(x) / P(x + k) = e^((2 x k + k^2) / (2 sigma^2)): unbounded, so no finite epsilon."""
    law = walked(sigma)
    for x in range(0, int(6 * sigma)):
        near, far = law[2 * x], law[2 * (x + sensitivity)]
        ratio = exp(Fraction(2 * x * sensitivity + sensitivity**2) / (2 * sigma**2))
        assert near[0] / far[1] <= Fraction(ratio) <= near[1] / far[0]


def test_boundaries_are_exact_beyond_64_bits() -> None:
    """A boundary in the body and two in the tail, met to 500 bits."""
    sigma = Fraction(4)
    for x in (1, 50, 60):
        with decimals(300):
            inner = 1 + 2 * sum((exp(-Fraction(y * y, 32)) for y in range(1, x)), Decimal(0))
            everything = 1 + 2 * sum((exp(-Fraction(y * y, 32)) for y in range(1, 250)), Decimal(0))
            cell = int(Fraction(inner / everything) * 2**500)  # F(2x - 1) = P(|X| < x)
        assert real(table_of(sigma), f"{cell - 2:0500b}") == x - 1
        assert real(table_of(sigma), f"{cell + 2:0500b}") == -x


def test_the_tail_reaches_as_far_as_coins_of_one_go() -> None:
    ones = "1" * 640 + "0"
    assert abs(real(table_of(Fraction(4)), ones)) > 4 * math.sqrt(2 * 640 * math.log(2)) - 8


@pytest.mark.parametrize("sigma", [Fraction(40), Fraction(1024), Fraction(2**20)])
def test_the_law_of_blocks_is_exact(sigma: Fraction) -> None:
    """Weights of the largest value of each block, for some blocks of either sign."""
    blocks = _Blocks(sigma)
    law = masses(boundaries(blocks._table))
    size = 2**blocks._shift
    assert 16 <= sigma / size < 32 or size * 32 == sigma
    firsts = [(index // 2) * size + index % 2 for index in range(4000)]
    weights = [exp(-Fraction(first**2) / (2 * sigma**2)) for first in firsts]
    everything = sum(weights, Decimal(0))
    for index, interval in enumerate(law):
        assert contains(interval, weights[index] / everything)


def proposal(blocks: _Blocks, t: int, offset: int, coin: int, more: int = 0) -> list[int]:
    """What the sampler makes of block t, an offset and a coin: nothing, or the one value."""
    made = blocks._proposals(1, Script(prefixes(blocks)[t], offset, coin, more))
    return [int(x) for x in made]


@cache
def prefixes(blocks: _Blocks) -> dict[int, int]:
    """A prefix of the table for each block that a prefix alone can give."""
    out = np.empty(2**16, dtype=np.int64)
    blocks._table.fill(out, Script(np.arange(2**16), 0))
    is_open = set(blocks._table.open_prefixes.tolist())
    return {int(t): p for p, t in enumerate(out) if p not in is_open}


@pytest.mark.parametrize("sigma", [Fraction(40), Fraction(101), Fraction(300)])
def test_a_proposal_is_accepted_with_the_ratio_of_the_weights(sigma: Fraction) -> None:
    """Block times offset times coin is e^(-x^2 / (2 sigma^2)) for every x: the law is exact."""
    blocks = _Blocks(sigma)
    size = 2**blocks._shift
    for t in (-20, -2, -1, 0, 1, 7, 31):
        for offset in range(size):
            first = t * size if t >= 0 else ~t * size + 1  # the largest weight of the block
            x = first + offset if t >= 0 else -(first + offset)
            assert x // size == t
            low, high = exp_enclosure(Fraction(x * x - first * first) / (2 * sigma**2), 32)
            assert proposal(blocks, t, offset, low - 1) == [x]
            assert proposal(blocks, t, offset, max(low - 2, 0)) == [x]
            if high < 2**32:
                assert proposal(blocks, t, offset, high) == []
                # The coin that ties takes further bits: zeros accept and ones do not.
                assert proposal(blocks, t, offset, low, 0) == [x]
                assert proposal(blocks, t, offset, high - 1, 2**64 - 1) == []


def test_each_x_has_one_block_and_one_offset() -> None:
    blocks = _Blocks(Fraction(101))
    size = 2**blocks._shift
    made = [proposal(blocks, t, offset, 0)[0] for t in range(-5, 5) for offset in range(size)]
    assert sorted(made) == list(range(-5 * size, 5 * size))


@pytest.mark.parametrize("sigma", [2**10, 2**20])
def test_exponents_have_room_in_a_word(sigma: int) -> None:
    """The farthest block times the largest offset stays below 2^63."""
    blocks = _Blocks(Fraction(sigma))
    size = 2**blocks._shift
    far = blocks._table._limit
    assert (2 * (far * size + 1) + size) * size < 2**63


def noise(sigma: float) -> Sampler:
    return lambda n, rng: DiscreteGaussian(sigma).sample(n, rng=rng)


def blocks_of(sigma: float) -> Sampler:
    """The sampler of large sigmas, for a small one whose law can be counted."""

    def sample(n: int, rng: Rng) -> NDArray[np.int64]:
        out = np.empty(n, dtype=np.int64)
        _Blocks(Fraction(sigma)).fill(out, rng)
        return out

    return sample


def too_small(sigma: float) -> Sampler:
    """The broken twin of all noise: a tenth too small."""
    return noise(0.9 * sigma)


def without_coins(sigma: float) -> Sampler:
    """The twin that accepts every proposal: flat within each block."""

    class Heads:
        def toss(self, n: NDArray[np.int64], rng: Rng) -> NDArray[np.bool_]:
            return np.ones(n.size, dtype=np.bool_)

    def sample(n: int, rng: Rng) -> NDArray[np.int64]:
        blocks = _Blocks(Fraction(sigma))
        blocks._coin = Heads()  # type: ignore[assignment]
        out = np.empty(n, dtype=np.int64)
        blocks.fill(out, rng)
        return out

    return sample


def has_the_moments(sampler: Sampler, sigma: float, seed: bytes) -> bool:
    """Mean 0 and the variance, from four million draws, each within 6.1 standard errors."""
    n = 4_000_000
    x = sampler(n, Prg(seed)).astype(np.float64)
    variance = DiscreteGaussian(sigma).variance
    mean_allowed = normal_half_width(math.sqrt(variance / n))
    square_allowed = normal_half_width(math.sqrt(2.0 / n) * variance)  # fourth moment: 3 sigma^4
    return bool(abs(x.mean()) <= mean_allowed and abs(np.mean(x * x) - variance) <= square_allowed)


@pytest.mark.parametrize("sigma", [1.0, 4.0, 100.0, 5000.0, 2.0**20])
def test_moments(sigma: float) -> None:
    seed = b"moments of four million of noise"
    assert has_the_moments(noise(sigma), sigma, seed)
    assert not has_the_moments(too_small(sigma), sigma, seed)


def has_the_law(sampler: Sampler, sigma: float, seed: bytes) -> bool:
    """Counts of 101 cells of the middle and two tails among four million; exact binomial bounds."""
    n, reach = 4_000_000, 50
    cells = np.clip(sampler(n, Prg(seed)), -reach - 1, reach + 1) + reach + 1
    everything = float(total(Fraction(sigma)))
    inner = [math.exp(-x * x / (2 * sigma**2)) / everything for x in range(-reach, reach + 1)]
    tail = max(0.0, (1 - sum(inner)) / 2)
    return fits_multinomial(np.bincount(cells, minlength=2 * reach + 3), [tail, *inner, tail])


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 40.0])
def test_counts(sigma: float) -> None:
    seed = b"counts of four million of noise."
    assert has_the_law(noise(sigma), sigma, seed)
    assert not has_the_law(too_small(sigma), sigma, seed)


@pytest.mark.parametrize("sigma", [40.0, 64.0])
def test_counts_by_blocks(sigma: float) -> None:
    seed = b"counts of four million by blocks"
    assert has_the_law(blocks_of(sigma), sigma, seed)
    assert not has_the_law(without_coins(sigma), sigma, seed)


def test_table_and_blocks_meet() -> None:
    """On either side of the change the variance is that of the law; four million draws each."""
    for sigma in (TABLE_SIGMA - 1, TABLE_SIGMA):
        assert has_the_moments(noise(sigma), sigma, b"table and blocks meet at this si")
