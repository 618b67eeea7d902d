"""Draws below a bound, units, primes: exact laws, ranges, known primes and composites."""

from collections import Counter
from math import gcd, isqrt

import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG
from mpc.paillier import primes
from mpc.paillier.primes import below, draw_prime, is_prime, unit
from tests.support.script import ScriptEndError, ScriptRng
from tests.support.stats import fits_binomial

SIEVED = [p for p in range(2, 3000) if all(p % d for d in range(2, isqrt(p) + 1))]

# Fool Fermat's test, Miller-Rabin to the bases 2, 3, 5 and 7, and to the first 11 primes: the
# least Carmichael numbers; Pomerance, Selfridge and Wagstaff (1980); Jaeschke (1993) and others.
PSEUDOPRIMES = [561, 1105, 1729, 2047, 3215031751, 3825123056546413051]

MERSENNE = [89, 107, 127, 521, 607, 1279, 2203]


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 128, 200, 255, 256])
def test_each_integer_below_the_bound_is_given_by_equally_many_first_bytes(bound: int) -> None:
    counts: Counter[int] = Counter()
    redrawn = 0
    for byte in range(256):
        try:
            counts[int(below(mpz(bound), ScriptRng([byte])))] += 1
        except ScriptEndError:
            redrawn += 1
    assert set(counts) == set(range(bound))
    assert len(set(counts.values())) == 1
    assert redrawn == 256 - sum(counts.values())
    assert redrawn < 128


def test_a_refused_byte_leaves_no_trace_in_the_next_draw() -> None:
    for byte in range(200):
        assert below(mpz(200), ScriptRng([255, 200, byte])) == byte


@given(st.integers(1, 2**300))
def test_draws_lie_below_any_bound(bound: int) -> None:
    drawn = below(mpz(bound), SYSTEM_RNG)
    assert isinstance(drawn, mpz)
    assert 0 <= drawn < bound


def test_a_large_draw_is_its_bytes_in_big_endian_order() -> None:
    script = list(range(1, 34))
    assert below(mpz(1) << 264, ScriptRng(script)) == int.from_bytes(bytes(script), "big")


@pytest.mark.parametrize("bound", [0, -1])
def test_an_empty_range_is_refused(bound: int) -> None:
    with pytest.raises(ParameterError, match="bound"):
        below(mpz(bound), SYSTEM_RNG)


@pytest.mark.parametrize("n", [2, 15, 77, 253, 256])
def test_each_unit_is_given_by_equally_many_first_bytes(n: int) -> None:
    counts: Counter[int] = Counter()
    for byte in range(256):
        try:
            counts[int(unit(mpz(n), ScriptRng([byte])))] += 1
        except ScriptEndError:
            continue
    assert set(counts) == {r for r in range(n) if gcd(r, n) == 1}
    assert len(set(counts.values())) == 1


def test_primality_is_right_below_3000() -> None:
    assert [n for n in range(-10, 3000) if is_prime(mpz(n))] == SIEVED


def test_numbers_that_fool_simpler_tests_are_composite() -> None:
    assert not [n for n in PSEUDOPRIMES if is_prime(mpz(n))]


@pytest.mark.parametrize("exponent", MERSENNE)
def test_mersenne_primes_are_prime_and_their_neighbours_and_products_are_not(exponent: int) -> None:
    number = mpz(2) ** exponent - 1
    assert is_prime(number)
    assert not is_prime(number - 2**7)
    assert not is_prime(number * (2**61 - 1))


@pytest.mark.parametrize("bits", [5, 6, 8, 16, 64, 257, 512])
def test_a_drawn_prime_is_3_modulo_4_and_in_the_upper_part_of_its_length(bits: int) -> None:
    for _ in range(5):
        p = draw_prime(bits, SYSTEM_RNG)
        assert is_prime(p)
        assert p % 4 == 3
        assert p.bit_length() == bits
        assert p * p > mpz(1) << (2 * bits - 1)


def test_primes_are_uniform_among_those_of_their_length() -> None:
    # Of 8 bits, 3 mod 4, above 2^7.5 = 181.02: 16,000 draws, 1e-9 for all ten counts.
    expected = [p for p in SIEVED if 182 <= p < 256 and p % 4 == 3]
    counts = Counter(int(draw_prime(8, SYSTEM_RNG)) for _ in range(16_000))
    assert sorted(counts) == expected
    share = 1e-9 / len(expected)
    assert all(fits_binomial(counts[p], 16_000, 1 / len(expected), share) for p in expected)
    # The next prime after a uniform number, a common short cut, favours primes after long gaps.
    skewed = Counter(next(p for p in expected if p >= n) for n in range(182, 252))
    assert not all(
        fits_binomial(16_000 * skewed[p] // 70, 16_000, 1 / len(expected), share) for p in expected
    )


def test_what_is_not_accepted_is_never_tested_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = []

    def spy(number: mpz) -> bool:
        tested.append(int(number))
        return bool(is_prime(number))

    monkeypatch.setattr(primes, "is_prime", spy)
    assert draw_prime(5, SYSTEM_RNG, lambda p: p != 23) == 31
    assert 23 not in tested


def test_a_prime_depends_on_its_generator_alone() -> None:
    seed = bytes(range(32))
    assert draw_prime(256, Prg(seed, 0)) == draw_prime(256, Prg(seed, 0))
    assert draw_prime(256, Prg(seed, 0)) != draw_prime(256, Prg(bytes(32), 0))
