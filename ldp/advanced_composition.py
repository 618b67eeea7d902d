"""Advanced composition of pure losses: the optimum for equal ones, a closed form for any.

Source: the optimum for k releases of one epsilon: Kairouz, Oh and Viswanath, "The composition
    theorem for differential privacy" (ICML 2015), theorem 3.3, whose proof shows that k randomized
    responses are the worst case, taken at its exact loss instead of its lattice of epsilons. The
    closed form: Dwork, Rothblum and Vadhan, "Boosting and differential privacy" (FOCS 2010),
    theorem III.3, with the mean loss epsilon tanh(epsilon / 2) of Kairouz, Oh and Viswanath,
    theorem 3.5.
Model: as in ``ldp.accounting``; adaptive releases are covered.
Error: none towards less. The optimum is computed with 60 digits and rounded up; k randomized
    responses really lose it. The closed form holds for any list, and is not tight.
"""

import math
from collections.abc import Mapping
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from fractions import Fraction

from ldp.losses import SLACK
from ldp.rounding import round_up

MOST_TERMS = 1 << 20
"""Above so many releases the sum over binomial terms takes too long."""

# No delta that anybody asks for takes anything off a larger loss.
_LARGEST = 1 << 16

# Sums of up to 2^20 terms, each a product of as many factors with 60 digits, are right to 1e-50.
_CONTEXT = Context(
    prec=60,
    rounding=ROUND_HALF_EVEN,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
_MORE, _LESS = Decimal("1") + Decimal("1e-45"), Decimal("1") - Decimal("1e-45")


def advanced(counts: Mapping[float, int], delta: float) -> float:
    """The smallest epsilon found such that the releases together are (epsilon, delta)-private.

    counts: finite epsilon of a release -> how many releases have it.  delta: in (0, 1).
    """
    losses = {epsilon: count for epsilon, count in counts.items() if epsilon > 0 and count > 0}
    if not losses:
        return 0.0
    total = sum((Fraction(epsilon) * count for epsilon, count in losses.items()), Fraction(0))
    # Treating every release as the largest is sound, and best where they are nearly equal.
    alike = optimal(max(losses), sum(losses.values()), delta)
    return min(round_up(total), closed_form(losses, delta), alike)


def closed_form(counts: Mapping[float, int], delta: float) -> float:
    """Mean loss of all releases, and what they exceed it by with probability at most ``delta``.

    A release's loss lies within +-epsilon and has a mean of at most epsilon tanh(epsilon / 2), so
    by Azuma's inequality the sum exceeds its mean by t with probability exp(-t^2 / (2 sum eps^2)).
    """
    if max(counts) >= _LARGEST:
        return math.inf  # no better than the plain sum, and its square may be no double
    mean = math.fsum(count * (e * math.tanh(e / 2)) for e, count in counts.items())
    squares = math.fsum(count * e**2 for e, count in counts.items())
    return (mean + math.sqrt(2 * squares * -math.log(delta))) * SLACK


def optimal(epsilon: float, k: int, delta: float) -> float:
    """What k releases of one epsilon cost together at most, at ``delta``; it is really lost.

    The loss of k randomized responses is (2i - k) epsilon with i binomial, and the answer solves
    P(loss > x) - e^x Q(loss > x) = delta for x. Infinity where k or epsilon is too large to sum.
    """
    if k > MOST_TERMS or epsilon >= _LARGEST:
        return math.inf
    c, allowed = _CONTEXT, Decimal(delta)
    odds = c.exp(Decimal(epsilon))
    truth = c.divide(odds, c.add(odds, 1))
    # The probability of i truths under either input, from i = k downwards.
    p, q = c.power(truth, k), c.power(c.divide(truth, odds), k)
    above_p, above_q = Decimal(0), Decimal(0)
    for i in range(k, k // 2, -1):  # losses above 0 are all that counts
        if above_q and c.subtract(above_p, c.multiply(above_q, c.divide(p, q))) > allowed:
            break  # the answer lies between this loss and the one before
        above_p, above_q = c.add(above_p, p), c.add(above_q, q)
        p = c.divide(c.multiply(p, i), c.multiply(odds, k - i + 1))
        q = c.divide(c.multiply(c.multiply(q, i), odds), k - i + 1)
    rest = c.subtract(c.multiply(above_p, _MORE), allowed)
    if rest <= 0:
        return 0.0
    answer = c.ln(c.divide(rest, c.multiply(above_q, _LESS)))
    return max(0.0, round_up(Fraction(answer) + Fraction(1, 10**40)))
