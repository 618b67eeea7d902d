"""The exact privacy of composed mechanisms, by listing every combination of their outcomes."""

import itertools
import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

Law = list[tuple[Decimal, Decimal]]
"""For each outcome, its probability under the one input and under the other."""

CONTEXT = Context(prec=80, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)


def response(epsilon: float, k: int = 2) -> Law:
    """k-ary randomized response, a truth e^epsilon times as likely as each other value."""
    with localcontext(CONTEXT):
        odds = Decimal(epsilon).exp()
        truth, lie = odds / (odds + k - 1), 1 / (odds + k - 1)
        return [(truth, lie), (lie, truth), *[(lie, lie)] * (k - 2)]


def laplace(scale: float, sensitivity: int) -> Law:
    """Discrete Laplace noise around 0 and around ``sensitivity``, both tails as one outcome."""
    with localcontext(CONTEXT):
        r = (-1 / Decimal(scale)).exp()
        tail = 1 / (1 + r)
        between = [tail * (1 - r) * r**x for x in range(1, sensitivity)]
        masses = [tail, *between, tail * r**sensitivity]
        return list(zip(masses, reversed(masses), strict=True))


def gaussian(sigma: float, sensitivity: int, reach: int) -> Law:
    """Discrete Gaussian noise on [-reach, reach] around 0, and around ``sensitivity``."""
    with localcontext(CONTEXT):
        scale = 2 * Decimal(sigma) ** 2
        weights = {x: (-(Decimal(x) ** 2) / scale).exp() for x in range(-reach, reach + 1)}
        total = sum(weights.values())
        ends = range(-reach, reach + sensitivity + 1)
        zero = Decimal(0)
        both = [(weights.get(x, zero), weights.get(x - sensitivity, zero)) for x in ends]
        return [(p / total, q / total) for p, q in both]


def skellam(variance: float, sensitivity: int, reach: int) -> Law:
    """Skellam noise on [-reach, reach] around 0, and around ``sensitivity``.

    Each weight is the sum over all pairs of Poisson counts that far apart, by its power series.
    """
    with localcontext(CONTEXT):
        half, zero = Decimal(variance) / 2, Decimal(0)
        weights: dict[int, Decimal] = {}
        for x in range(reach + 1):
            term = half**x / math.factorial(x)
            total, k = zero, 0
            while term > total * Decimal("1e-75"):
                total += term
                k += 1
                term *= half * half / (k * (k + x))
            weights[x] = weights[-x] = total
        whole = sum(weights.values())
        ends = range(-reach, reach + sensitivity + 1)
        both = [(weights.get(x, zero), weights.get(x - sensitivity, zero)) for x in ends]
        return [(p / whole, q / whole) for p, q in both]


def together(laws: Sequence[Law]) -> Law:
    """All combinations of outcomes, those of equal likelihood ratio as one."""
    with localcontext(CONTEXT) as context:
        joint = [(Decimal(1), Decimal(1))]
        for law in laws:
            merged: dict[object, tuple[Decimal, Decimal]] = {}
            for (p, q), (a, b) in itertools.product(joint, law):
                # Equal ratios differ in their last digits, by the order of multiplication.
                short = Context(prec=context.prec - 20)
                key = short.divide(p * a, q * b) if q * b else None
                old = merged.get(key, (Decimal(0), Decimal(0)))
                merged[key] = (old[0] + p * a, old[1] + q * b)
            joint = list(merged.values())
        return joint


def delta_of(law: Law, epsilon: float) -> Fraction:
    """The hockey-stick divergence: the least delta at ``epsilon``."""
    with localcontext(CONTEXT):
        factor = Decimal(epsilon).exp()
        return Fraction(sum((max(Decimal(0), p - factor * q) for p, q in law), Decimal(0)))


def epsilon_of(law: Law, delta: float) -> Decimal:
    """The least epsilon, at least 0, at ``delta``."""
    with localcontext(CONTEXT):
        allowed, p_sum, q_sum = Decimal(delta), Decimal(0), Decimal(0)
        rising = sorted(law, key=lambda masses: _ratio(*masses), reverse=True)
        for p, q in rising:
            ratio = _ratio(p, q)
            if ratio <= 1 or (q_sum and p_sum - ratio * q_sum > allowed):
                break
            p_sum, q_sum = p_sum + p, q_sum + q
        if not q_sum or p_sum <= allowed:
            return Decimal(0) if p_sum <= allowed else Decimal("Infinity")
        return max(Decimal(0), ((p_sum - allowed) / q_sum).ln())


def _ratio(p: Decimal, q: Decimal) -> Decimal:
    return p / q if q else Decimal("Infinity")
