"""Directed rounding: the exponential and the logarithm between exact bounds.

A privacy statement may only err to one side, so nothing here is rounded to nearest: a value is
enclosed between two rationals, and the enclosure is narrowed until both ends round alike.

Source: e^x and ln x are irrational for rational x other than 0 and 1 (Lindemann), so narrowing
    always ends. Python's decimal arithmetic rounds both functions correctly at any precision.
Error: none; the results are the exact floor or the next double above or below.
"""

import math
import sys
from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from fractions import Fraction
from numbers import Rational
from typing import TypeVar

T = TypeVar("T")

_DIGITS = 50


def settle(bounds: Callable[[int], tuple[T, T]]) -> T:
    """The common value of both ends of ``bounds(digits)``, at the least precision that has one.

    ``bounds`` gives the rounded lower and upper end of an enclosure at a number of digits.
    """
    digits = _DIGITS
    while True:
        low, high = bounds(digits)
        if low == high:
            return low
        digits *= 2


def _context(digits: int) -> Context:
    # Everything is set here, since a caller may have changed the default context.
    traps = [InvalidOperation, DivisionByZero, Overflow]
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=traps)


def exp_bounds(x: float, digits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around e^x, a relative 2 * 10^(1-digits) apart, for |x| below 10^6."""
    nearest = Fraction(Decimal(x).exp(_context(digits)))
    error = nearest / 10 ** (digits - 1)  # twice the half unit that correct rounding allows
    return nearest - error, nearest + error


def log_ratio_bounds(numerator: int, denominator: int, digits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around ln(numerator / denominator) for positive integers below 10^43.

    They lie 2 * 10^(2-digits) apart: each logarithm is below 100, hence half a unit in its last
    place below 10^(2-digits) / 2, and the difference of the two is taken exactly.
    """
    context = _context(digits)
    upper, lower = Decimal(numerator).ln(context), Decimal(denominator).ln(context)
    nearest = Fraction(upper) - Fraction(lower)
    error = Fraction(100, 10**digits)
    return nearest - error, nearest + error


def shown(epsilon: float) -> str:
    """Epsilon (finite, at least 0) for a reader: four decimals, rounded up, never down.

    Read as a double again, the text is never below ``epsilon``.
    """
    # From the shortest decimal that names the double, so that 1.1 stays 1.1. The largest double
    # has 309 digits before the point.
    wide = Context(prec=400)
    rounded = Decimal(repr(epsilon)).quantize(Decimal("0.0001"), ROUND_CEILING, wide)
    return f"{rounded:,f}".rstrip("0").rstrip(".")


def exact(x: float | Fraction) -> Fraction:
    """A finite real number of any type, numpy's included, as the rational number that it is."""
    if isinstance(x, Rational):
        return Fraction(int(x.numerator), int(x.denominator))
    return Fraction(*x.as_integer_ratio())


def round_up(x: Fraction) -> float:
    """The smallest double that is at least ``x``: infinity above the largest finite one."""
    try:
        nearest = x.numerator / x.denominator  # true division of integers rounds correctly
    except OverflowError:
        return math.inf if x > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def round_down(x: Fraction) -> float:
    """The largest double that is at most ``x``: minus infinity below the smallest finite one."""
    return 0.0 - round_up(-x)  # a bare minus would turn 0.0 into -0.0
