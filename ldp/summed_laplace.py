"""Sums of discrete Laplace variables, each drawn at once and exactly: the noise of many reports.

For simulations in which only the sum over n users is used. A discrete Laplace variable is the
difference of two geometric ones, so the sum of n of them is a difference of two negative binomial
variables with n successes each, a Polya law. A geometric variable has an independent quotient and
independent digits, so that the sum of n differences is

    2^shift * (sum of n differences of quotients) + sum over digits i of
    2^(place of i) * (sum of n differences of digits i),

where all sums are independent. The first is one of n discrete Laplace variables, of a 2^shift-th of
the scale. For n = 1, 2, 4, ... each sum has a table; another n is the sum of its binary digits.

Source: the split into quotient and remainder is that of Canonne, Kamath and Steinke, "The discrete
    Gaussian for differential privacy" (NeurIPS 2020), algorithm 2. The laws of sums are powers of
    generating functions.
Model: whoever draws this knows the noise of the sum, as only a simulation may. No epsilon is
    stated, since no report has this noise; for a report see ``ldp.discrete_laplace``.
Leaks: the time of a draw depends a little on the noise.
Error: none in the law; but a sum of up to 1,024 variables beyond 2^50, which no parameter makes
    likelier than e^-60000, may count as 2^50.
Differs: the usual way is a Poisson variable whose mean is a gamma variable, in floating point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.discrete_laplace import DiscreteLaplace
from ldp.exact_exp import Enclosure, RealNumber, exp_enclosure, positive_rational
from ldp.exact_table import PIECE, ExactTable
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng

MAX_SCALE = 1 << 34
MAX_TERMS = 1 << 20

_FARTHEST = 1 << 50  # 2^16 scales, and 2^10 of them fit into 64 bits
_MOST_DOUBLINGS = 10

# Quotients of a scale below 2^4 and digits of 5 bits: then the sum of 128 has about a thousand
# boundaries among the 2^16 prefixes of a table, and few draws need a second look.
_QUOTIENT_SCALE_BITS = 4
_DIGIT_BITS = 5

# What the largest scale and the roundings on the way to 1,024 terms cost, and some more.
_GUARD_BITS = 64

_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation])


@dataclass(frozen=True)
class Doubled:
    """The law of the sum of 2^doublings independent differences of two geometric variables.

    scale: of the variables, P(x) proportional to e^(-x / scale).  width: of a digit, a variable
    given that it is below 2^width; None for quotients, which are unbounded.  Outcomes are in the
    order 0, -1, 1, -2, 2, ...
    """

    scale: Fraction
    width: int | None
    doublings: int

    def enclosures(self, bits: int) -> Iterator[Enclosure]:
        """The boundaries of the law, for ``ldp.exact_table``."""
        digits = (bits + _GUARD_BITS) // 3  # three bits each, at least
        unit = 10**digits
        mass = _masses(self, digits)
        middle = len(mass) // 2
        # Masses are lower bounds, and what they leave to one is all that they can lack.
        missing = unit - sum(mass)
        below = mass[middle]
        yield (below << bits) // unit, -(-(below + missing << bits) // unit)
        for x in range(1, middle + 1):
            for outcome in (-x, x):
                below += mass[middle + outcome]
                yield (below << bits) // unit, -(-(below + missing << bits) // unit)


@lru_cache(maxsize=64)
def _masses(law: Doubled, digits: int) -> list[int]:
    """Lower bounds of 10^digits P(x) for x = -reach ... reach; beyond, P(x) is below a unit."""
    if law.doublings:
        half = _masses(Doubled(law.scale, law.width, law.doublings - 1), digits)
        return _product(half, half, digits)
    unit, bits = 10**digits, 4 * digits
    low, high = exp_enclosure(1 / law.scale, bits)
    rho = (low * unit >> bits, -(-high * unit >> bits))
    if law.width is None:
        side = list(_powers((unit - rho[1]) * unit // (unit + rho[1]), rho[0], unit))
        return [*side[:0:-1], *side]
    beyond = exp_enclosure(2**law.width / law.scale, bits)[0] * unit >> bits
    powers = _powers((unit - rho[1]) * unit // (unit - beyond), rho[0], unit)
    digit = [mass for _, mass in zip(range(2**law.width), powers, strict=False)]
    return _product(digit, digit[::-1], digits)


def _powers(weight: int, ratio: int, unit: int) -> Iterator[int]:
    """``weight``, and ``ratio`` of the last one each time, rounded down, until nothing is left."""
    while weight:
        yield weight
        weight = weight * ratio // unit


def _product(f: Sequence[int], g: Sequence[int], digits: int) -> list[int]:
    """The product of two polynomials, in units of 10^-digits and rounded down.

    Coefficients are probabilities. Each has a slot in a long number that no coefficient of the
    product outgrows, so that one product makes them all. Zeros at both ends are dropped.
    """
    slot = 2 * digits + 1
    one, other = (Decimal("".join([str(c).zfill(slot) for c in h])) for h in (f, g))
    size = len(f) + len(g) - 1
    text = str(_EXACT.multiply(one, other)).zfill(slot * size)
    out = [int(text[i : i + slot - digits]) for i in range(0, slot * size, slot)]
    while len(out) > 1 and not (out[0] or out[-1]):
        out = out[1:-1]
    return out


@dataclass(frozen=True)
class SummedLaplace:
    """Draws sums of independent ``DiscreteLaplace(scale)`` noise, of any number of terms each.

    scale: int, float (taken as the dyadic rational that it is) or Fraction, in (0, 2^34]; kept as a
    Fraction.
    """

    scale: Fraction

    def __init__(self, scale: RealNumber) -> None:
        exact = positive_rational("scale", scale, MAX_SCALE, "measure x in coarser steps")
        object.__setattr__(self, "scale", exact)

    @cached_property
    def variance(self) -> float:
        """Variance of one term; that of a sum of n is n times as large."""
        return DiscreteLaplace(self.scale).variance

    def sample(
        self, terms: NDArray[np.integer[Any]], each: int = 1, *, rng: Rng = SYSTEM_RNG
    ) -> NDArray[np.int64]:
        """``each`` independent sums of terms[i] variables, for every i: int64 (n, each).

        terms: integers in [0, 2^20], shape (n,); a sum of none is 0.
        Raises ParameterError for other terms, and for each below 1.
        """
        left = _checked(terms)
        width = integer("each", each, 1, 1 << 40)
        out = np.zeros((left.size, width), dtype=np.int64)
        rows = max(1, PIECE // width)
        for doublings in range(_MOST_DOUBLINGS, -1, -1):
            part = 1 << doublings
            while (places := np.flatnonzero(left >= part)).size:
                left[places] -= part
                for start in range(0, places.size, rows):
                    chosen = places[start : start + rows]
                    drawn = self._draw(doublings, chosen.size * width, rng)
                    out[chosen] += drawn.reshape(-1, width)
        return out

    def _draw(self, doublings: int, count: int, rng: Rng) -> NDArray[np.int64]:
        """``count`` sums of 2^doublings terms each."""
        quotients, digits = self._tables(doublings)
        out = np.empty(count, dtype=np.int64)
        digit = np.empty(min(count, PIECE), dtype=np.int64)
        for start in range(0, count, PIECE):
            piece = out[start : start + PIECE]
            quotients.fill(piece, rng)
            for width, table in digits:
                piece <<= width
                table.fill(digit[: piece.size], rng)
                piece += digit[: piece.size]
        return out

    def _tables(self, doublings: int) -> tuple[ExactTable, list[tuple[int, ExactTable]]]:
        """The table of quotients, and width and table of the digits, most significant first."""
        if doublings not in self._known:
            rest = max(int(self.scale).bit_length() - _QUOTIENT_SCALE_BITS, 0)
            law = Doubled(self.scale / 2**rest, None, doublings)
            quotients = ExactTable(law, signed=True, limit=_FARTHEST >> rest)
            digits = []
            while rest:
                width = min(rest, _DIGIT_BITS)
                rest -= width
                law = Doubled(self.scale / 2**rest, width, doublings)
                digits.append((width, ExactTable(law, signed=True)))
            self._known[doublings] = quotients, digits
        return self._known[doublings]

    @cached_property
    def _known(self) -> dict[int, tuple[ExactTable, list[tuple[int, ExactTable]]]]:
        return {}


def _checked(terms: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """A copy of ``terms``, which the caller may change."""
    given = np.asarray(terms)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise ParameterError(
            f"terms must be integers of shape (n,), got {given.dtype} {given.shape}"
        )
    if given.size and not (given.min() >= 0 and given.max() <= MAX_TERMS):
        raise ParameterError(
            f"terms must lie in [0, 2^20], got {given.min()} to {given.max()}",
            remedy="add several sums",
        )
    return given.astype(np.int64)
