"""What many releases of one user cost together, by every method that applies, and the best one.

Source: basic, ``ldp.accounting``; advanced, ``ldp.advanced_composition``; zCDP, ``ldp.renyi``;
    Renyi DP, ``ldp.renyi_curves``; privacy loss distributions, ``ldp.loss_grid``. For the last two
    methods Google's dp-accounting converts the curves and convolves the laws.
Model: all releases of the user are seen together, and a later one may depend on earlier reports;
    each release's loss holds as stated (``ldp.losses``).
Error: every epsilon is an upper bound at its delta, rounded up; a release without privacy makes all
    of them infinite. What floating point adds to the last method is bounded and taken off delta.
Differs: dp-accounting's own accountant of privacy loss distributions charges a repeated randomized
    response once (version 0.6.0). Here it gets laws and only convolves them, so counts are ours.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ldp.advanced_composition import MOST_TERMS, advanced
from ldp.loss_grid import GRIDS, TAIL, floating_error, grid_step, on_grid
from ldp.losses import SLACK, Loss, Pair, PureLoss, ResponseLoss, loss_of
from ldp.mechanism import Mechanism
from ldp.renyi import epsilon_of_rho
from ldp.renyi_curves import ORDERS, renyi_curve
from ldp.rounding import exact, round_down, round_up, shown
from mpc.core.checks import integer
from mpc.core.errors import MissingLibraryError, ParameterError

METHODS = ("basic", "advanced", "zcdp", "rdp", "pld")
"""The methods by name; the last two need dp-accounting, which the extra ``recsys`` installs."""

Counts = Mapping[Loss, int]
"""How often each loss is released."""

_BUILT_IN = METHODS[:3]

_MOST_RELEASES = 2**63 - 1
_MOST_CONVOLVED = 1 << 20

# A release that loses more is as good as open, and its powers would leave the range of doubles.
_LARGEST_LOSS, _LARGEST_RHO = 2.0**40, 2.0**80


@dataclass(frozen=True)
class Release:
    """``count`` releases, each with this loss about the same user."""

    loss: Loss
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", integer("count", self.count, 0, _MOST_RELEASES))

    @classmethod
    def of(cls, mechanism: Mechanism, count: int = 1) -> "Release":
        """``count`` reports of a mechanism, each with fresh coins."""
        return cls(loss_of(mechanism), count)


@dataclass(frozen=True)
class Bound:
    """All releases together are (epsilon, delta)-private, by the named method.

    epsilon: in nats, never below the truth; infinity where the method says nothing.
    """

    method: str
    epsilon: float
    delta: float

    def __str__(self) -> str:
        at = f" at delta = {self.delta!r}" if self.delta else ""
        return f"epsilon {shown_bound(self.epsilon)}{at}, {self.method} composition"


@dataclass(frozen=True)
class Composition:
    """The bounds of several methods for the same releases, and the smallest as ``best``."""

    bounds: tuple[Bound, ...]

    @property
    def best(self) -> Bound:
        """The smallest epsilon; the first of equal ones, so that basic needs no delta."""
        return min(self.bounds, key=lambda bound: bound.epsilon)

    def __getitem__(self, method: str) -> Bound:
        """The bound of one method; ParameterError where it was not asked for."""
        for bound in self.bounds:
            if bound.method == method:
                return bound
        raise ParameterError(f"no bound by {method!r}", remedy=f"it holds {self._methods()}")

    def _methods(self) -> str:
        return ", ".join(bound.method for bound in self.bounds)

    def __str__(self) -> str:
        rows = [("method", "epsilon", "delta")]
        rows += [(b.method, shown_bound(b.epsilon), repr(b.delta)) for b in self.bounds]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"best: {self.best}"])


def shown_bound(epsilon: float) -> str:
    """Epsilon for a reader, four decimals, rounded up; ``infinity`` as a word."""
    return "infinity" if math.isinf(epsilon) else shown(epsilon)


def compose_releases(
    releases: Iterable[Release], delta: float, *, methods: Iterable[str] | None = None
) -> Composition:
    """The cost of all ``releases`` together by each of ``methods``, by default all of METHODS.

    delta: in (0, 1); the basic sum does not need it.  Raises ParameterError for another delta or an
    unknown method, and MissingLibraryError for ``rdp`` and ``pld`` without dp-accounting.
    """
    delta = _checked_delta(delta)
    chosen = METHODS if methods is None else tuple(methods)
    if not chosen or not set(chosen) <= set(METHODS):
        raise ParameterError(
            f"methods must be some of {', '.join(METHODS)}, got {', '.join(chosen) or 'none'}"
        )
    counts = _counted(releases)
    open_ended = PureLoss(math.inf) in counts
    bounds = []
    for method in chosen:
        epsilon = math.inf if open_ended else _EPSILON[method](counts, delta)
        bounds.append(Bound(method, epsilon, 0.0 if method == "basic" else delta))
    return Composition(tuple(bounds))


def best_bound(releases: Iterable[Release], delta: float) -> Bound:
    """The smallest of all bounds, without loading a library that cannot make it smaller.

    Where all releases are randomized response of one epsilon, or as bad as that, the advanced bound
    is the optimum. Else all methods are asked; without dp-accounting those that need none.
    """
    kept = [release for release in releases if release.count]
    equal = len({release.loss.epsilon for release in kept}) <= 1
    few = sum(release.count for release in kept) <= MOST_TERMS
    if not (equal and few and all(_worst_pure(release.loss) for release in kept)):
        try:
            return compose_releases(kept, delta).best
        except MissingLibraryError:
            pass
    return compose_releases(kept, delta, methods=_BUILT_IN).best


def _worst_pure(loss: Loss) -> bool:
    """Whether the loss is as bad as its epsilon allows: binary randomized response."""
    return isinstance(loss, PureLoss) or (isinstance(loss, ResponseLoss) and loss.k == 2)


def _counted(releases: Iterable[Release]) -> Counts:
    """Equal losses together: how often each occurs, without those that cost nothing."""
    counts: Counter[Loss] = Counter()
    for release in releases:
        if release.count and release.loss.epsilon:
            counts[release.loss] += release.count
    return counts


def _basic(counts: Counts, _: float) -> float:
    """The exact sum of pure losses."""
    if any(loss.epsilon == math.inf for loss in counts):
        return math.inf
    total = sum((Fraction(loss.epsilon) * count for loss, count in counts.items()), Fraction(0))
    return round_up(total)


def _advanced(counts: Counts, delta: float) -> float:
    pure: Counter[float] = Counter()
    for loss, count in counts.items():
        pure[loss.epsilon] += count
    return math.inf if math.inf in pure else advanced(pure, delta)


def _zcdp(counts: Counts, delta: float) -> float:
    """The sum of all rho, converted at the best of the orders."""
    if any(loss.rho == math.inf for loss in counts):
        return math.inf
    total = sum((Fraction(loss.rho) * count for loss, count in counts.items()), Fraction(0))
    if total > _LARGEST_RHO:
        return math.inf
    return epsilon_of_rho(total, delta) if total else 0.0


def _rdp(counts: Counts, delta: float) -> float:
    """The sum of all Renyi curves, converted by dp-accounting."""
    rdp, _ = _dp_accounting()
    if not counts:
        return 0.0
    with np.errstate(over="ignore"):  # infinity is a bound
        curves = [count * SLACK * renyi_curve(loss, _pair(loss)) for loss, count in counts.items()]
        curve = np.sum(curves, axis=0)
    epsilon, _ = rdp.compute_epsilon(ORDERS, curve, delta)
    return _raised(float(epsilon))


def _pld(counts: Counts, delta: float) -> float:
    """The law of the whole loss: pairs on a grid, convolved and asked by dp-accounting."""
    _, pld_pmf = _dp_accounting()
    if not counts:
        return 0.0
    pairs = [(pair, count) for loss, count in counts.items() if (pair := _pair(loss)) is not None]
    if len(pairs) < len(counts) or sum(count for _, count in pairs) > _MOST_CONVOLVED:
        return math.inf
    return min(_convolved(pairs, delta, points, pld_pmf) for points in GRIDS)


def _convolved(pairs: list[tuple[Pair, int]], delta: float, points: int, pld_pmf: Any) -> float:
    """The epsilon at ``delta`` of all pairs together, on a grid of about so many points."""
    step, length = grid_step(pairs, points), 1
    transforms = sum(count for _, count in pairs) + 2 * len(pairs)
    if floating_error(transforms, points // 4) >= delta:
        return math.inf  # more would be lost to rounding than is asked for
    whole = pld_pmf.create_pmf({0: 1.0}, step, 0.0, True)
    for pair, count in pairs:
        masses = on_grid(pair, step)
        part = pld_pmf.create_pmf(masses, step, pair.infinite, True)
        part = part.self_compose(count, TAIL) if count > 1 else part
        whole = pld_pmf.compose_pmfs(whole, part, TAIL)
        length = max(length, max(masses) - min(masses) + 1, part.size, whole.size)
    # Small laws are convolved term by term, which errs less than the slack of the masses.
    dense = isinstance(whole, pld_pmf.DensePLDPmf)
    return _asked(whole, delta - floating_error(transforms if dense else 0, length))


def _pair(loss: Loss) -> Pair | None:
    """The loss's pair where doubles can compute with it."""
    pair = loss.pair()
    return None if pair is None or pair.losses.max() > _LARGEST_LOSS else pair


def _asked(whole: Any, allowed: float) -> float:
    """The least epsilon, to a relative 2^-30, whose delta in the law is at most ``allowed``.

    dp-accounting's own inverse is not used: above 745 it rounds up to the next loss.
    """

    def suffices(epsilon: float) -> bool:
        return bool(whole.get_delta_for_epsilon(epsilon) <= allowed)

    if allowed <= 0 or not suffices(math.inf):
        return math.inf
    if suffices(0.0):
        return 0.0
    low, high = 0.0, 2.0**-10
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 2.0**-30 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _raised(epsilon: float) -> float:
    """``epsilon`` with room for the rounding of the operations behind it, and not below 0."""
    return max(0.0, epsilon * SLACK + 2.0**-40)


def _dp_accounting() -> tuple[Any, Any]:
    """dp-accounting's conversion of Renyi curves, and its convolution of privacy loss laws."""
    try:
        from dp_accounting import rdp  # noqa: PLC0415 - takes a second to load, with scipy
        from dp_accounting.pld import pld_pmf  # noqa: PLC0415
    except ImportError as error:
        raise MissingLibraryError(
            "rdp and pld composition need the package dp-accounting",
            remedy="pip install 'privrec[recsys]', or leave these methods out",
        ) from error
    return rdp, pld_pmf


def _checked_delta(delta: float) -> float:
    given: object = delta
    if isinstance(given, bool) or not isinstance(given, int | float | Fraction | np.floating):
        raise ParameterError(f"delta must be a real number, got {type(given).__name__}")
    if not 0 < delta < 1 or not (below := round_down(exact(delta))):  # false for NaN too
        raise ParameterError(
            f"delta must lie in (0, 1), got {delta!r}",
            remedy="for delta = 0, add up pure losses with ldp.accounting.compose",
        )
    return below


_EPSILON: dict[str, Callable[[Counts, float], float]] = {
    "basic": _basic,
    "advanced": _advanced,
    "zcdp": _zcdp,
    "rdp": _rdp,
    "pld": _pld,
}
