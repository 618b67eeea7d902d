"""Enclosures of e^-x and ln x at any precision, and the rational parameters that they take.

A sampler that is to follow a law exactly needs the law's probabilities to as many bits as its coins
happen to ask for. So a real number is given by integers below and above it, in units of 2^-bits,
and whoever needs more asks again with more bits.

Source: Python's decimal arithmetic rounds the exponential and the logarithm correctly at any
    precision (General Decimal Arithmetic Specification 1.70).
Error: none; the enclosures hold, and narrow with the bits asked for.
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real

from mpc.core.errors import ParameterError

Enclosure = tuple[int, int]
"""Integers low <= 2^bits x <= high for a real number x."""

RealNumber = int | float | Fraction
"""A parameter that is taken exactly: a float is the dyadic rational that it stores."""


def _context(precision: int) -> Context:
    # Everything is set here, since a caller may have changed the default context.
    return Context(
        prec=precision,
        rounding=ROUND_HALF_EVEN,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        traps=[InvalidOperation],
    )


def exp_enclosure(x: Fraction, bits: int) -> Enclosure:
    """Integers around 2^bits * e^-x, at most 2 apart, for rational x >= 0 and bits >= 1."""
    one = 1 << bits
    if x == 0:
        return one, one
    if x >= bits:
        return 0, 1  # e > 2
    digits = bits // 3 + 10  # 10^digits > 10^9 * 2^bits, since 2^3 < 10
    unit = 10**digits
    context = _context(digits + 10)  # x < bits < 10^10, so that its multiple of 1 / unit fits
    steps = Decimal(-(x.numerator * unit // x.denominator))
    nearest = int(context.exp(steps.scaleb(-digits, context)).scaleb(digits, context))
    # In units of 10^-digits: cutting x moved the value up by at most 1, the exponential is rounded
    # by far less than 1, and int() took off less than 1.
    low = (nearest - 2 << bits) // unit
    high = -(-(nearest + 2 << bits) // unit)
    return max(low, 0), min(high, one)


def log_bounds(x: Fraction, digits: int = 60) -> tuple[Fraction, Fraction]:
    """Rationals around ln x for positive rational x, 10^-digits apart or closer.

    Numerator and denominator must lie below e^(10^9).
    """
    context = _context(digits + 12)
    nearest = Fraction(Decimal(x.numerator).ln(context)) - Fraction(
        Decimal(x.denominator).ln(context)
    )
    error = Fraction(1, 4 * 10**digits)  # each logarithm is below 10^9, and rounded correctly
    return nearest - error, nearest + error


def positive_rational(name: str, value: RealNumber, high: int, remedy: str = "") -> Fraction:
    """``value`` as an exact fraction in (0, high]; ParameterError with ``remedy`` otherwise.

    high: a power of two.  Takes integers, floats and fractions; neither booleans nor strings, NaN
    or infinity.
    """
    given: object = value  # whatever the caller really passed
    if isinstance(given, bool) or not isinstance(given, Real):
        raise ParameterError(
            f"{name} must be a real number, got {type(given).__name__}",
            remedy="pass an int, a float or a Fraction",
        )
    if not 0 < value <= high:  # false for NaN too
        shown = "1" if high == 1 else f"2^{high.bit_length() - 1}"
        raise ParameterError(f"{name} must lie in (0, {shown}], got {value!r}", remedy=remedy)
    return Fraction(value) if isinstance(value, Rational) else Fraction(float(value))
