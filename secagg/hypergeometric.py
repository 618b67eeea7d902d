"""Tails of the hypergeometric law, exactly.

Of N elements M are marked and m are drawn, all sets of m with equal probability; X of the drawn
ones are marked. P(X = j) = C(M, j) C(N - M, m - j) / C(N, m).

Error: none in ``tail`` and ``least_within``, whose probabilities are fractions of integers;
    ``log_tail`` is in floating point, for a first look.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import comb, inf, lgamma, log

from mpc.core.checks import integer

MAX_POPULATION = 2**32


def tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """P(X >= least)."""
    total = sum(count for hit, count in _from_the_top(population, marked, drawn) if hit >= least)
    return Fraction(total, comb(population, drawn))


def least_within(population: int, marked: int, drawn: int, limit: Fraction) -> int:
    """The smallest x with P(X >= x) <= limit, at most drawn + 1; ``limit`` is at least 0."""
    allowed = limit * comb(population, drawn)
    total = 0
    for hit, count in _from_the_top(population, marked, drawn):
        total += count
        if total > allowed:
            return hit + 1
    return 0


def log_tail(population: int, marked: int, drawn: int, least: int) -> float:
    """ln P(X >= least), within 10^-3; -inf where that cannot happen."""
    others, top = population - marked, min(marked, drawn)
    hit = max(least, drawn - others, 0)
    if hit > top:
        return -inf
    first = _log_comb(marked, hit) + _log_comb(others, drawn - hit) - _log_comb(population, drawn)
    term = total = 1.0  # in units of the first term
    while hit < top and term > 1e-9 * total:
        term *= (marked - hit) * (drawn - hit) / ((hit + 1) * (others - drawn + hit + 1))
        total += term
        hit += 1
    return first + log(total)


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _from_the_top(population: int, marked: int, drawn: int) -> Iterator[tuple[int, int]]:
    """(j, C(M, j) C(N - M, m - j)) for every j that can happen, falling."""
    population = integer("population", population, 0, MAX_POPULATION)
    marked = integer("marked", marked, 0, population)
    drawn = integer("drawn", drawn, 0, population)
    others = population - marked
    hit = min(marked, drawn)
    count = comb(marked, hit) * comb(others, drawn - hit)
    while count:
        yield hit, count
        # The ratio of neighbouring terms; the quotient is again a product of binomials.
        count = count * hit * (others - drawn + hit) // ((marked - hit + 1) * (drawn - hit + 1))
        hit -= 1
