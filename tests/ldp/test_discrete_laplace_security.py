"""Discrete Laplace noise has exactly its law: the tables that run, ratios, tails, broken twins.

Probabilities are bracketed by the walk of ``tests.ldp.table_walk`` and compared with their formulas
in decimal arithmetic. Statistical tests use fixed seeds and hold with probability above 1 - 1e-9
for a fresh one.
"""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.discrete_laplace import Digit, DiscreteLaplace, Quotients
from ldp.exact_table import ExactTable
from ldp.integer_noise import MAX_INPUT
from ldp.rice import LIMIT
from mpc.core.prg import Prg
from mpc.core.rng import Rng
from tests.ldp.table_walk import (
    CELLS,
    Interval,
    Script,
    boundaries,
    contains,
    exp,
    index_of,
    masses,
    real,
)
from tests.ldp.table_walk import digits as decimals
from tests.support.stats import fits_multinomial, normal_half_width

SCALES = [Fraction(1, 10), Fraction(1), Fraction(3, 2), Fraction(10), Fraction(33), Fraction(0.2)]
LARGE = [Fraction(128), Fraction(520), Fraction(2**18), Fraction(10**9, 7)]
ALL_ONES = 2**64 - 1
Sampler = Callable[[int, Rng], NDArray[np.int64]]


def mass(scale: Fraction, x: int) -> Decimal:
    """(1 - rho) / (1 + rho) rho^|x|."""
    rho = exp(-1 / scale)
    return (1 - rho) / (1 + rho) * exp(-abs(x) / scale)


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with decimals(80):
        yield


@cache
def quotients(scale: Fraction) -> list[Interval]:
    """The law of the quotient's table, in its order."""
    mechanism = DiscreteLaplace(scale)
    return masses(boundaries(mechanism._quotients))


@cache
def digits(scale: Fraction) -> list[list[Interval]]:
    """The laws of the digits' tables, most significant first."""
    laws = []
    for width, table in DiscreteLaplace(scale)._digits:
        found = [*boundaries(table, signed=False), (Fraction(1), Fraction(1))]
        assert len(found) == 2**width
        laws.append(masses(found))
    return laws


@pytest.mark.parametrize("scale", SCALES)
def test_the_law_of_the_running_table_is_exact(scale: Fraction) -> None:
    law = quotients(scale)
    assert not digits(scale)
    for index, interval in enumerate(law):
        x = index // 2 if index % 2 == 0 else -(index + 1) // 2
        assert contains(interval, mass(scale, x))
        assert interval[1] - interval[0] < Fraction(2 * CELLS, 2**64)
    seen = sum(low for low, _ in law)
    assert 1 - seen < Fraction(1, 2**42)  # a few cells of 2^-64 for each of at most 3,000


@pytest.mark.parametrize("scale", LARGE)
def test_the_laws_of_quotient_and_digits_are_exact(scale: Fraction) -> None:
    mechanism = DiscreteLaplace(scale)
    shift = mechanism._shift
    assert shift == sum(width for width, _ in mechanism._digits) > 0
    rho, ratio = exp(-1 / scale), exp(-(2**shift) / scale)
    for index, interval in enumerate(quotients(scale)):
        weight = (1 if index % 2 == 0 else rho) * ratio ** (index // 2)
        assert contains(interval, weight * (1 - ratio) / (1 + rho))
    rest = shift
    for law in digits(scale):
        rest -= len(law).bit_length() - 1
        step = exp(-(2**rest) / scale)
        for digit, interval in enumerate(law):
            assert contains(interval, (1 - step) * step**digit / (1 - step ** len(law)))


def digit_prefixes(table: ExactTable) -> dict[int, int]:
    """A prefix of the table for each of its digits that a prefix alone can give."""
    out = np.empty(2**16, dtype=np.int64)
    table.fill(out, Script(np.arange(2**16), 0))
    settled = np.ones(2**16, dtype=np.bool_)
    settled[table.open_prefixes] = False
    return {int(d): int(p) for p, d in enumerate(out) if settled[p]}


@pytest.mark.parametrize("scale", LARGE)
def test_a_draw_is_its_signed_quotient_and_digits(scale: Fraction) -> None:
    """Every digit with some quotients: x = t 2^shift + rest above 0, mirrored below."""
    mechanism = DiscreteLaplace(scale)
    shift = mechanism._shift
    chosen = [(t, p) for t, p in digit_prefixes(mechanism._quotients).items() if -4 <= t < 4]
    assert {t for t, _ in chosen} == set(range(-4, 4))
    tables = [list(digit_prefixes(table).items()) for _, table in mechanism._digits]
    widths = [width for width, _ in mechanism._digits]
    for (t, prefix), several in product(chosen, zip(*(_cycled(t) for t in tables), strict=True)):
        rest = 0
        for width, (digit, _) in zip(widths, several, strict=True):
            rest = rest << width | digit
        x = mechanism.sample(1, rng=Script(prefix, *(p for _, p in several)))
        assert int(x[0]) == (t * 2**shift + rest if t >= 0 else t * 2**shift + 2**shift - 1 - rest)


def _cycled(items: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return (items * 256)[:256]


def located(scale: Fraction, x: int) -> Interval:
    """The interval of P(x) from the walked laws of the tables that make x."""
    mechanism = DiscreteLaplace(scale)
    t = x >> mechanism._shift
    low, high = quotients(scale)[int(index_of(np.array(t)))]
    rest = (x if x >= 0 else ~x) % 2**mechanism._shift
    widths = [width for width, _ in mechanism._digits]
    for i, law in enumerate(digits(scale)):
        digit = (rest >> sum(widths[i + 1 :])) % 2 ** widths[i]
        low, high = low * law[digit][0], high * law[digit][1]
    return low, high


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3, 2), Fraction(33), *LARGE])
@pytest.mark.parametrize("sensitivity", [1, 2, 7])
def test_neighbouring_shifts_have_the_ratio_of_epsilon(scale: Fraction, sensitivity: int) -> None:
    """P(x) / P(x + sensitivity) is e^epsilon exactly outside of the shift, and less within."""
    ratio = exp(sensitivity / scale)
    reach = min(int(12 * scale), 4000)
    for x in {0, 1, 5, reach // 3, reach}:
        for near, far in ((x, x + sensitivity), (-x, -x - sensitivity)):
            one, other = located(scale, near), located(scale, far)
            assert one[0] / other[1] <= Fraction(ratio) <= one[1] / other[0]
            assert contains(one, mass(scale, near))
    epsilon = DiscreteLaplace(scale, sensitivity).epsilon
    assert Fraction(ratio) <= Fraction(exp(Fraction(epsilon))) * (1 + Fraction(1, 10**70))


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10)])
def test_far_boundaries_are_exact_beyond_64_bits(scale: Fraction) -> None:
    """A boundary of the tail is met to 600 bits, and the draws on either side of it differ."""
    table = DiscreteLaplace(scale)._quotients
    for x in (int(60 * scale), int(200 * scale)):
        with decimals(400):
            cell = int(Fraction(1 - exp(-x / scale)) * 2**600)  # F(2x) = 1 - rho^x
        assert real(table, f"{cell - 2:b}") == -x
        assert real(table, f"{cell + 2:b}") == x


def test_the_tail_reaches_as_far_as_coins_of_one_go() -> None:
    """O10: no cut near 36.7 scales, where double precision ends."""
    far = int(DiscreteLaplace(1).sample(1, rng=Script(0xFFFF, *[ALL_ONES] * 20, 0))[0])
    assert abs(far) > 20 * 64 * math.log(2) - 2
    large = int(DiscreteLaplace(2**18).sample(1, rng=Script(0xFFFF, *[ALL_ONES] * 3, 0))[0])
    assert abs(large) > 2**18 * 120


def test_the_truncated_twin_is_seen_by_its_law_and_by_no_sample() -> None:
    """A table that ends where 64 bits end can never answer far from the secret."""

    class Cut(Quotients):
        def enclosures(self, bits):  # type: ignore[no-untyped-def]
            from itertools import islice  # noqa: PLC0415

            return islice(super().enclosures(bits), 88)

    honest, twin = (
        ExactTable(Quotients(Fraction(1), 0), signed=True),
        ExactTable(Cut(Fraction(1), 0), signed=True),
    )
    ones = "1" * 640 + "0"
    assert abs(real(twin, ones)) == 44  # from a secret of 0 never 45: infinite loss
    assert abs(real(honest, ones)) > 400
    coins = b"four million draws of noise each"
    drawn = [table.draw(4_000_000, Prg(coins)) for table in (honest, twin)]
    assert np.array_equal(drawn[0], drawn[1])


class OneReal(Rng):
    """The digits of one real for the first table that asks, zeros for every other."""

    def __init__(self, bits: str) -> None:
        self._prefix = int(bits[:16], 2)
        self._words = [int(bits[16:64].ljust(64, "0"), 2)]
        self._words += [int(bits[i : i + 64], 2) for i in range(64, len(bits), 64)]

    def fill(self, out: NDArray[Any]) -> None:
        if out.dtype == np.uint16:
            out[...], self._prefix = self._prefix, 0
        else:
            out[...] = self._words.pop(0)


def coins_for(scale: Fraction, shift: int, t: int) -> OneReal:
    """Coins for quotient ``t``: the middle of its stretch of [0, 1), to 900 bits; digits 0."""
    q = t if t >= 0 else ~t
    with decimals(400):
        rho, ratio = exp(-1 / scale), exp(-(2**shift) / scale)
        inner = ratio**q * (rho + ratio) / (1 + rho)
        edges = (ratio**q, inner) if t >= 0 else (inner, ratio ** (q + 1))
        bits = f"{int(Fraction(1 - sum(edges) / 2) * 2**900):0900b}".ljust(960, "0")
    return OneReal(bits)


@pytest.mark.parametrize("t", [-20_480, -16_386, -16_385, -16_384, 16_383, 16_384, 20_479])
def test_the_clip_of_reports_is_that_of_the_true_sum(t: int) -> None:
    """Noise near and beyond the ends of the range gives what exact arithmetic would give."""
    scale, shift = Fraction(2**54), 48
    noise = t << shift if t >= 0 else (t + 1 << shift) - 1  # with digits of 0
    mechanism = DiscreteLaplace(scale)
    assert mechanism._shift == shift
    drawn = mechanism.sample(1, rng=coins_for(scale, shift, t))
    assert drawn.tolist() == [max(-LIMIT, min(LIMIT, noise))]
    for x in (MAX_INPUT, -MAX_INPUT, 0, 12345):
        told = mechanism.perturb(np.array([x]), rng=coins_for(scale, shift, t))
        assert told.tolist() == [max(-LIMIT, min(LIMIT, x + noise))]


@pytest.mark.parametrize("t", [20_480, 20_481, 30_000, -20_481, -20_482, -30_000])
def test_noise_beyond_the_word_does_not_wrap(t: int) -> None:
    scale, shift = Fraction(2**54), 48
    for x in (MAX_INPUT, -MAX_INPUT):
        told = DiscreteLaplace(scale).perturb(np.array([x]), rng=coins_for(scale, shift, t))
        assert told.tolist() == [LIMIT if t > 0 else -LIMIT]


def noise(scale: float) -> Sampler:
    return lambda n, rng: DiscreteLaplace(scale).sample(n, rng=rng)


def too_small(scale: float) -> Sampler:
    """The broken twin of all noise: a tenth too small."""
    return noise(0.9 * scale)


def one_sided(scale: float) -> Sampler:
    return lambda n, rng: np.abs(DiscreteLaplace(scale).sample(n, rng=rng))


def doubled_zero(scale: float) -> Sampler:
    """The twin that draws sign and magnitude without care: 0 comes twice as often."""

    def sample(n: int, rng: Rng) -> NDArray[np.int64]:
        x = DiscreteLaplace(scale).sample(n, rng=rng)
        return np.where(x < 0, x + 1, x)

    return sample


def has_the_moments(sampler: Sampler, scale: float, seed: bytes) -> bool:
    """Mean 0 and the variance, from four million draws, each within 6.1 standard errors."""
    n = 4_000_000
    x = sampler(n, Prg(seed)).astype(np.float64)
    variance = DiscreteLaplace(scale).variance
    # The fourth moment of the law: 2 rho (1 + 10 rho + rho^2) / (1 - rho)^4.
    rho = math.exp(-1 / scale)
    fourth = 2 * rho * (1 + 10 * rho + rho**2) / -(math.expm1(-1 / scale) ** 4) * -1
    mean_allowed = normal_half_width(math.sqrt(variance / n))
    square_allowed = normal_half_width(math.sqrt((fourth - variance**2) / n))
    return bool(abs(x.mean()) <= mean_allowed and abs(np.mean(x * x) - variance) <= square_allowed)


@pytest.mark.parametrize("scale", [0.5, 1.0, 20.0, 1000.0, 2.0**18])
def test_moments(scale: float) -> None:
    seed = b"moments of four million of noise"
    assert has_the_moments(noise(scale), scale, seed)
    assert not has_the_moments(too_small(scale), scale, seed)
    assert not has_the_moments(one_sided(scale), scale, seed)


def has_the_law(sampler: Sampler, scale: float, seed: bytes) -> bool:
    """The counts of -3 ... 3 and of both tails among four million draws; exact binomial bounds."""
    n, reach = 4_000_000, 3
    cells = np.clip(sampler(n, Prg(seed)), -reach - 1, reach + 1) + reach + 1
    rho = math.exp(-1 / scale)
    inner = [(1 - rho) / (1 + rho) * rho ** abs(x) for x in range(-reach, reach + 1)]
    tail = rho ** (reach + 1) / (1 + rho)
    return fits_multinomial(np.bincount(cells, minlength=2 * reach + 3), [tail, *inner, tail])


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_counts(scale: float) -> None:
    seed = b"counts of four million of noise."
    assert has_the_law(noise(scale), scale, seed)
    for twin in (too_small(scale), one_sided(scale), doubled_zero(scale)):
        assert not has_the_law(twin, scale, seed)


def test_low_digits_of_large_noise() -> None:
    """For scale 2^18 each remainder modulo 16 comes as often, to a part in 10^5; four millions."""
    n = 4_000_000
    x = DiscreteLaplace(2**18).sample(n, rng=Prg(b"l" * 32))
    assert fits_multinomial(np.bincount(x % 16, minlength=16), [1 / 16] * 16)
    assert not fits_multinomial(np.bincount((x & ~1) % 16, minlength=16), [1 / 16] * 16)


def test_the_law_of_a_digit_and_of_quotients_does_not_depend_on_precision() -> None:
    """Enclosures at more bits lie within those at fewer."""
    for law in (Digit(Fraction(2**18), 8), Digit(Fraction(1, 3), 4), Quotients(Fraction(5), 0)):
        for (a, b), (c, d), _ in zip(
            law.enclosures(80), law.enclosures(200), range(300), strict=False
        ):
            assert a <= Fraction(d, 2**120)
            assert Fraction(c, 2**120) <= b
            assert b - a <= 2
            assert d - c <= 2
