"""A sum of n discrete Laplace variables has exactly its law: tables, their split, samples, twins.

Laws are compared with convolutions in decimal arithmetic, and the tables that run are bracketed by
the walk of ``tests.ldp.table_walk``. Statistical tests use fixed seeds and hold with probability
above 1 - 1e-9 for a fresh one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldp.discrete_laplace import DiscreteLaplace
from ldp.exact_table import ExactTable
from ldp.summed_laplace import Doubled, SummedLaplace
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.ldp.table_walk import CELLS, boundaries, contains, digits, exp, masses
from tests.support.stats import ALARM, fits_multinomial

Law = dict[int, Decimal]
Sampler = Callable[[int, int, Rng], NDArray[np.int64]]
"""(terms, draws, coins) -> that many sums."""

PAPER = 13106
BITS = 128


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with digits(80):
        yield


def laplace(scale: Fraction, reach: int) -> Law:
    """(1 - rho) / (1 + rho) rho^|x| for |x| <= reach."""
    rho = exp(-1 / scale)
    return {x: (1 - rho) / (1 + rho) * rho ** abs(x) for x in range(-reach, reach + 1)}


def digit_difference(scale: Fraction, width: int) -> Law:
    """The law of d - d' for two geometric variables below 2^width."""
    rho, size = exp(-1 / scale), 2**width
    digit = [(1 - rho) / (1 - rho**size) * rho**d for d in range(size)]
    return {
        x: sum((digit[d] * digit[d - x] for d in range(max(x, 0), size + min(x, 0))), Decimal(0))
        for x in range(1 - size, size)
    }


def convolved(one: Law, other: Law) -> Law:
    law: Law = {}
    for x, p in one.items():
        for y, q in other.items():
            law[x + y] = law.get(x + y, Decimal(0)) + p * q
    return law


def power(law: Law, n: int) -> Law:
    out = {0: Decimal(1)}
    for _ in range(n):
        out = convolved(out, law)
    return out


def signed(index: int) -> int:
    return index // 2 if index % 2 == 0 else -(index + 1) // 2


def enclosed(law: Doubled) -> list[tuple[Fraction, Fraction]]:
    """Intervals around the probabilities of 0, -1, 1, -2, 2, ..., from the law's enclosures."""
    edges = [(Fraction(a, 2**BITS), Fraction(b, 2**BITS)) for a, b in law.enclosures(BITS)]
    return [(b[0] - a[1], b[1] - a[0]) for a, b in pairwise([(Fraction(0), Fraction(0)), *edges])]


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(3, 2), Fraction(4)])
@pytest.mark.parametrize("doublings", [0, 1, 2])
def test_the_law_of_quotients_is_the_convolution(scale: Fraction, doublings: int) -> None:
    """One, two and four terms, as far as 40 standard deviations of one reach."""
    reach = int(57 * scale) + 57  # beyond it less than e^-57 of each term
    expected = power(laplace(scale, reach), 2**doublings)
    checked = 0
    for index, interval in enumerate(enclosed(Doubled(scale, None, doublings))):
        assert interval[1] - interval[0] <= Fraction(4, 2**BITS)
        x = signed(index)
        if abs(x) <= reach // 2:
            # The terms that the window leaves out are below e^-57 / 2.
            assert abs(Fraction(expected[x]) - (interval[0] + interval[1]) / 2) < Fraction(1, 2**79)
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(40), Fraction(PAPER)])
@pytest.mark.parametrize(("width", "doublings"), [(1, 0), (3, 0), (3, 1), (3, 2), (5, 1)])
def test_the_law_of_digits_is_the_convolution(scale: Fraction, width: int, doublings: int) -> None:
    expected = power(digit_difference(scale, width), 2**doublings)
    found = enclosed(Doubled(scale, width, doublings))
    for index, interval in enumerate(found):
        assert interval[1] - interval[0] <= Fraction(4, 2**BITS)
        assert contains(interval, expected[signed(index)])
    # Outcomes that no enclosure names weigh less than what the last one leaves open.
    missing = {x for x in expected if abs(x) > len(found) // 2}
    assert sum(expected[x] for x in missing) < Decimal(2) ** -BITS


def placed(law: Law, width: int) -> NDArray[np.float64]:
    """The probabilities of 2^width x, x = -reach ... reach, and zeros in between."""
    values = [float(law[x]) for x in sorted(law)]
    out = np.zeros((len(values) - 1 << width) + 1)
    out[:: 1 << width] = values
    return out


@pytest.mark.parametrize("scale", [Fraction(20), Fraction(40), Fraction(100)])
@pytest.mark.parametrize("doublings", [0, 1])
def test_quotients_and_digits_make_up_the_sum(scale: Fraction, doublings: int) -> None:
    """The laws of the running tables, each at its place, convolve to that of the sum: to 10^-12."""
    quotients, parts = SummedLaplace(scale)._tables(doublings)
    law, shift = quotients._law, sum(width for width, _ in parts)
    assert law == Doubled(scale / 2**shift, None, doublings)
    each = placed(laplace(scale / 2**shift, int(30 * scale / 2**shift)), shift)
    rest, total = shift, np.ones(1)
    for width, table in parts:
        rest -= width
        assert table._law == Doubled(scale / 2**rest, width, doublings)
        each = np.convolve(each, placed(digit_difference(scale / 2**rest, width), rest))
    for _ in range(2**doublings):
        total = np.convolve(total, each)
    single = placed(laplace(scale, int(30 * scale)), 0)
    expected = single if not doublings else np.convolve(single, single)
    around = np.arange(-int(10 * scale), int(10 * scale) + 1)
    found = total[total.size // 2 + around]
    assert np.abs(found - expected[expected.size // 2 + around]).max() < 1e-12


@pytest.mark.parametrize(
    "law",
    [
        Doubled(Fraction(3, 2), None, 1),
        Doubled(Fraction(10), None, 3),
        Doubled(Fraction(40), 3, 1),
        Doubled(Fraction(PAPER), 5, 3),
    ],
)
def test_the_law_of_the_running_table_is_that_of_its_enclosures(law: Doubled) -> None:
    expected = enclosed(law)
    found_edges = boundaries(ExactTable(law, signed=True))
    if len(found_edges) == len(expected) - 1:
        found_edges.append((Fraction(1), Fraction(1)))  # behind the last outcome of all
    walked = masses(found_edges)
    for found, interval in zip(walked, expected, strict=False):
        assert found[1] - found[0] <= Fraction(2 * CELLS, 2**64)
        assert found[0] <= interval[1]
        assert interval[0] <= found[1]
    assert 1 - sum(low for low, _ in walked) < Fraction(1, 2**44)


def test_one_term_has_the_law_of_discrete_laplace_noise() -> None:
    """Both split a geometric variable, at other places."""
    scale = Fraction(20)
    expected = laplace(scale, 2000)
    quotients, parts = SummedLaplace(scale)._tables(0)
    assert [width for width, _ in parts] == [1]
    inner = masses(boundaries(quotients))[:41]
    digit = masses([*boundaries(parts[0][1]), (Fraction(1), Fraction(1))])
    for x in range(-10, 11):
        # x = 2 q + d for the differences d = -1, 0 and 1 of two bits.
        ways = [(q, d) for q in range(-6, 7) for d in (-1, 0, 1) if 2 * q + d == x]
        ends = [
            sum((inner[place(q)][end] * digit[place(d)][end] for q, d in ways), Fraction(0))
            for end in (0, 1)
        ]
        assert contains((ends[0], ends[1]), expected[x])


def place(x: int) -> int:
    return 2 * x if x >= 0 else -2 * x - 1


@pytest.mark.parametrize(
    "law",
    [
        Doubled(Fraction(10), None, 4),
        Doubled(Fraction(2**34), 5, 10),
        Doubled(Fraction(9), 5, 2),
    ],
)
def test_more_bits_narrow_the_same_law(law: Doubled) -> None:
    for (a, b), (c, d) in zip(law.enclosures(128), law.enclosures(192), strict=False):
        assert a <= Fraction(d, 2**64)
        assert Fraction(c, 2**64) <= b
        assert max(b - a, d - c) <= 2


def summed(scale: float, terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    return SummedLaplace(scale).sample(np.full(1, terms), draws, rng=rng).reshape(-1)


def exact(terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    return summed(SCALE, terms, draws, rng)


def too_small(terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    """The broken twin of all noise: a tenth too small."""
    return summed(0.9 * SCALE, terms, draws, rng)


def one_term(terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    """One Laplace variable for a sum of many."""
    return DiscreteLaplace(SCALE).sample(draws, rng=rng)


def one_wide_term(terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    """One Laplace variable with the variance of the sum."""
    return DiscreteLaplace(SCALE * math.sqrt(terms)).sample(draws, rng=rng)


def one_too_few(terms: int, draws: int, rng: Rng) -> NDArray[np.int64]:
    return summed(SCALE, terms - 1, draws, rng)


SCALE = 1.5
TWINS: Sequence[Sampler] = (too_small, one_term, one_wide_term, one_too_few)


def has_the_law(sampler: Sampler, terms: int) -> bool:
    """The counts of -9 ... 9 and of both tails among two million; exact binomial bounds."""
    draws, reach = 2_000_000, 9
    law = power(laplace(Fraction(SCALE), 60), terms)
    inner = [float(law[x]) for x in range(-reach, reach + 1)]
    tail = (1 - sum(inner)) / 2
    drawn = np.clip(sampler(terms, draws, Prg(b"c" * 32)), -reach - 1, reach + 1) + reach + 1
    return fits_multinomial(np.bincount(drawn, minlength=2 * reach + 3), [tail, *inner, tail])


@pytest.mark.parametrize("terms", [2, 3, 5])
def test_counts(terms: int) -> None:
    with digits(30):
        assert has_the_law(exact, terms)
        for twin in TWINS:
            assert not has_the_law(twin, terms)


def same_law(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether two samples pass for one law: Kolmogorov and Smirnov's test at ``ALARM``."""
    return bool(stats.ks_2samp(one, other, method="asymp").pvalue > ALARM)


@pytest.mark.parametrize("terms", [3, 37])
def test_sums_look_like_sums_of_users_own_noise(terms: int) -> None:
    """200,000 sums at the paper's scale against as many of ``terms`` real draws."""
    draws, noise = 200_000, DiscreteLaplace(PAPER)
    real = np.zeros(draws, dtype=np.int64)
    for user in range(terms):
        real += noise.sample(draws, rng=Prg(bytes([user]) * 32))

    coins = Prg(b"s" * 32)
    at_once = summed(PAPER, terms, draws, coins)
    assert same_law(real, at_once)
    assert same_law(np.abs(real), np.abs(at_once))
    assert not same_law(real, summed(0.9 * PAPER, terms, draws, coins))
    more = summed(PAPER, terms + 1 + terms // 8, draws, coins)
    assert not same_law(np.abs(real), np.abs(more))
    for scale in (PAPER, PAPER * math.sqrt(terms)):
        assert not same_law(real, DiscreteLaplace(scale).sample(draws, rng=coins))


def test_low_digits() -> None:
    """Sums at the paper's scale leave each remainder modulo 32 as often; two millions."""
    x = summed(PAPER, 5, 2_000_000, Prg(b"l" * 32))
    assert fits_multinomial(np.bincount(x % 32, minlength=32), [1 / 32] * 32)
    assert not fits_multinomial(np.bincount((x & ~1) % 32, minlength=32), [1 / 32] * 32)
