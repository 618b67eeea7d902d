"""What memoized, flipped reports of many rounds give away about a history of values: exact bounds.

A user holds one memoized bit B_v for each grid point v, independent, with P(B_v = 1) = p_v rising
in v from q to p = 1 - q. In round t she reports B_v for the point v of that round, flipped with
probability gamma, afresh. Write a = 1 - gamma and b = gamma. The rounds of one point form a group,
and groups are independent: a history's reports have probability the product over its groups of

    F(v; o, z) = p_v a^o b^z + (1 - p_v) b^o a^z

for o ones and z zeros among the group's reports. How rounds fall into groups is up to the history,
and both histories of a pair are free, so the worst ratio is max F over histories / min F over
histories, for the reports that make it largest; only their numbers of ones and zeros matter.

The maximum: given a point, a report of one and another of one are positively correlated (both
follow B_v), a one and a zero negatively. So it is best to have all ones in one group and all zeros
in another, at the points that suit them, which are the two ends: H(o) H(z), where
H(k) = p a^k + q b^k.

The minimum: ``exact_ratio`` finds it among all ways to give o ones and z zeros to the points. For
any grid it is at least e^m c^(T - 2m), where m = min(o, z), c = q a + p b and e = min(a b, c^2):
a group with z <= o has F >= (a b)^z c^(o - z), since p_v a^k + (1 - p_v) b^k, the mean of the k-th
power of a or b, is at least the k-th power of its mean, which is at least c; the same with o and z
exchanged; and c^2 >= e, so the product over groups is least with as many pairs as there can be.

The bound: ln(H(T - m) H(m)) is convex in m, because ln H is convex (a sum of exponentials), and
ln(e^m c^(T - 2m)) is linear in m; so the largest ratio is at m = 0 or at m = floor(T / 2), and

    ratio <= max(H(T) / c^T, H(T - m) H(m) / (e^m c^(T - 2m)) at m = floor(T / 2)).

It is never above (a / b)^T, the loss of T flips by basic composition, and it is attained where T is
even, a b <= c^2 and the second term is the larger: one history separates the ones from the zeros,
the other stays where it is. Their ratio is at least p^2 (a / b)^(T / 2), so no account stays below
that: a value that moves between two points is told, in the long run, from one that does not.

Source: memoization with output perturbation of Ding, Kulkarni and Yekhanin, "Collecting telemetry
    data privately" (NIPS 2017); T randomized responses as the worst composition:
    Kairouz, Oh and Viswanath, "The composition theorem for differential privacy" (ICML 2015).
Model: the collector knows which reports are one user's, and their rounds. Memoized bits are ideal.
Error: none towards less. Ratios are exact rationals or decimals rounded to the safe side.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
)
from fractions import Fraction

import numpy as np

from ldp.rounding import exp_bounds, round_up, shown

EXACT_ROUNDS = 8
"""Up to so many rounds the loss is found by enumeration; beyond, it is the bound for any grid."""

DELTA_ROUNDS = 5
"""Up to so many rounds delta is found by enumeration of the ways to divide rounds into groups."""

_DIGITS = 60


def _context(rounding: str) -> Context:
    return Context(prec=_DIGITS, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


_UP, _DOWN = _context(ROUND_CEILING), _context(ROUND_FLOOR)


@dataclass(frozen=True)
class RepeatedCost:
    """What all reports of ``rounds`` rounds, seen together, tell about one user, in nats.

    still: the loss between two histories whose rounded value never changes.
    pattern: between two that change in the same rounds and return to the same places; only which
        values these are differs.
    moving: between any two. Infinite where nothing flips the memoized reports and there is more
        than one round: a report that changes then proves that the value did.
    is_exact: whether ``moving`` is the loss itself; else it is a bound that no two histories pass.
    """

    rounds: int
    still: float
    pattern: float
    moving: float
    is_exact: bool

    def __str__(self) -> str:
        if math.isinf(self.moving):
            moving = "epsilon infinity if it changes: a changed report proves a changed value"
        else:
            how = "" if self.is_exact else "at most "
            moving = f"{how}{shown(self.moving)} for any two histories"
        return (
            f"epsilon {shown(self.still)} for each user whose rounded value stays the same for "
            f"{self.rounds} rounds, {moving}"
        )


def exact_ratio(ones: Sequence[Fraction], flip: Fraction, rounds: int) -> Fraction | None:
    """The worst ratio over all pairs of histories of ``rounds`` rounds; None if it is infinite.

    ones: P(B_v = 1) for each grid point, rising, first and last adding up to 1.  flip: in [0, 1/2).
    Work grows with the fifth power of ``rounds``.
    """
    # A group does best at the lowest or the highest point that is free, since F is linear in p_v;
    # so no history needs more than ``rounds`` points from either end.
    points = [*ones[:rounds], *ones[max(rounds, len(ones) - rounds) :]]
    scale = math.lcm(*(p.denominator for p in points))
    unit = flip.denominator
    a = [(unit - flip.numerator) ** k for k in range(rounds + 1)]
    b = [flip.numerator**k for k in range(rounds + 1)]
    # Integers throughout: the entry for o ones and z zeros counts in units of
    # scale^points * unit^(o + z).
    least = {(0, 0): 1}
    for p in points:
        share = int(p * scale)
        group = {
            (o, z): share * a[o] * b[z] + (scale - share) * b[o] * a[z]
            for o in range(rounds + 1)
            for z in range(rounds + 1 - o)
        }
        more: dict[tuple[int, int], int] = {}
        for (o, z), value in least.items():
            for i in range(rounds + 1 - o):
                for j in range(rounds + 1 - o - z - i):
                    found = value * group[i, j]
                    key = (o + i, z + j)
                    if key not in more or found < more[key]:
                        more[key] = found
        least = more
    top = int(ones[-1] * scale)
    most = [top * a[k] + (scale - top) * b[k] for k in range(rounds + 1)]
    worst = Fraction(0)
    for o in range(rounds + 1):
        denominator = least[o, rounds - o] * scale**2
        if not denominator:
            return None
        numerator = most[o] * most[rounds - o] * scale ** len(points)
        worst = max(worst, Fraction(numerator, denominator))
    return worst


def bounding_loss(p: Fraction, flip: Fraction, rounds: int) -> float:
    """ln of the bound of the module's docstring, rounded up: for every grid, any two histories.

    p: P(B_v = 1) at the top of the grid, in (1/2, 1).  flip: in [0, 1/2).
    """
    q, a, b = 1 - p, 1 - flip, flip
    c = q * a + p * b
    pairs, single = rounds // 2, rounds % 2
    e = min(a * b, c * c)
    if pairs and not e:
        return math.inf
    terms = [(_most(p, flip, rounds), _power(_decimal(c, _DOWN), rounds, _DOWN))]
    if pairs:
        most = _UP.multiply(_most(p, flip, pairs + single), _most(p, flip, pairs))
        least = _power(_decimal(e, _DOWN), pairs, _DOWN)
        terms.append((most, _DOWN.multiply(least, _decimal(c, _DOWN)) if single else least))
    return max(_log_up(_UP.divide(most, least)) for most, least in terms)


def loss_of(ratio: Fraction) -> float:
    """ln(ratio) for a ratio of at least 1, of any size: rounded up, by at most two doubles."""
    return 0.0 if ratio == 1 else _log_up(_decimal(ratio, _UP))


def enumerated_delta(p: Fraction, flip: Fraction, rounds: int, epsilon: float) -> float:
    """The largest delta at ``epsilon`` over pairs of histories, for grids of any size; rounded up.

    A history's law is linear in each p_v, and delta is convex in it, so the largest has every p_v
    at p or q: it is found among all divisions of the rounds into groups of these two kinds. Coarse
    grids have fewer points near the ends and a delta that is no larger.
    rounds: at most ``DELTA_ROUNDS``.
    """
    reports = (np.arange(2**rounds)[:, np.newaxis] >> np.arange(rounds)) & 1
    follows = np.where(reports == 1, float(1 - flip), float(flip))  # given that the bit is one
    against = float(1 - flip) + float(flip) - follows
    laws = []
    for groups in _divisions(tuple(range(rounds))):
        law = np.ones((1, 2**rounds))
        for group in groups:
            one = follows[:, group].prod(axis=1)
            zero = against[:, group].prod(axis=1)
            kinds = [float(share) * one + float(1 - share) * zero for share in (p, 1 - p)]
            law = np.concatenate([law * kind for kind in kinds])
        laws.append(law)
    every = np.concatenate(laws)
    scaled = math.exp(min(epsilon, 700.0)) * every  # a factor that is too small is on the safe side
    worst = max(float(np.maximum(law - scaled, 0).sum(axis=1).max()) for law in every)
    # All sums are of positive numbers up to 1: a few dozen roundings, far below the margin.
    return min(1.0, worst + 1e-12)


def flips_delta(flip: Fraction, rounds: int, epsilon: float) -> float:
    """Delta of ``rounds`` flips alone, given all memoized bits; it bounds that of any histories.

    Both histories draw on the same memoized bits, so their laws are mixtures, with the same
    weights, of products of flips; delta is convex, and largest where all bits differ.
    """
    if not flip:
        return 1.0
    epsilon_low, _ = exp_bounds(epsilon, _DIGITS)
    factor = _decimal(epsilon_low, _DOWN)
    tables = {
        context: (
            _powers(_decimal(1 - flip, context), rounds, context),
            _powers(_decimal(flip, context), rounds, context),
        )
        for context in (_UP, _DOWN)
    }
    total, ways = Decimal(0), 1
    for k in range(rounds + 1):
        (a, b), (a_low, b_low) = tables[_UP], tables[_DOWN]
        more = _UP.multiply(a[rounds - k], b[k])
        less = _DOWN.multiply(factor, _DOWN.multiply(a_low[k], b_low[rounds - k]))
        gap = _UP.subtract(more, less)
        if gap > 0:
            total = _UP.add(total, _UP.multiply(Decimal(ways), gap))
        ways = ways * (rounds - k) // (k + 1)
    return min(1.0, round_up(Fraction(total)))


def _divisions(rounds: tuple[int, ...]) -> Iterator[list[list[int]]]:
    """All ways to divide ``rounds`` into groups."""
    if not rounds:
        yield []
        return
    first, rest = rounds[0], rounds[1:]
    for groups in _divisions(rest):
        yield [[first], *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], [first, *group], *groups[i + 1 :]]


def _most(p: Fraction, flip: Fraction, k: int) -> Decimal:
    """H(k), rounded up."""
    follows = _power(_decimal(1 - flip, _UP), k, _UP)
    against = _power(_decimal(flip, _UP), k, _UP)
    return _UP.add(
        _UP.multiply(_decimal(p, _UP), follows), _UP.multiply(_decimal(1 - p, _UP), against)
    )


def _decimal(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


def _power(base: Decimal, exponent: int, context: Context) -> Decimal:
    # Products of positive numbers that are each rounded to one side stay on that side.
    result = Decimal(1)
    for bit in f"{exponent:b}" if exponent else "":
        result = context.multiply(result, result)
        if bit == "1":
            result = context.multiply(result, base)
    return result


def _powers(base: Decimal, most: int, context: Context) -> list[Decimal]:
    powers = [Decimal(1)]
    for _ in range(most):
        powers.append(context.multiply(powers[-1], base))
    return powers


def _log_up(ratio: Decimal) -> float:
    nearest = ratio.ln(_context(ROUND_HALF_EVEN))  # within half a unit of its last place
    return max(0.0, round_up(Fraction(nearest.next_plus(_UP))))
