"""Privacy losses on a grid, so that a law of many releases is a convolution of laws of one.

Source: privacy buckets, Meiser and Mohammadi, "Tight on budget?" (CCS 2018); the split of an atom
    over both neighbours, Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the dots"
    (PoPETs 2022).
Model: a pair on the grid dominates the pair that it was made from, whatever the step.
Error: a coarser step makes the composed loss larger, never smaller: by about step^2 / 8 of mean
    loss for each release. Grid points are exact, since the step is a power of two.
"""

import math

import numpy as np

from ldp.losses import SLACK, Pair

TAIL = 1e-15
"""The mass that one convolution may move to infinity, in place of its far tails."""

GRIDS = (1 << 19, 1 << 16, 1 << 13)
"""Numbers of points to try: many make the step small, few the rounding. Each gives a bound."""


def grid_step(pairs: list[tuple[Pair, int]], points: int) -> float:
    """The power of two at which all pairs, each as often as released, need about ``points``."""
    spans = [(float(np.ptp(pair.losses)), count) for pair, count in pairs]
    whole = math.fsum(count * span for span, count in spans)
    # All but the tail of the sum lies within an interval of this length (Hoeffding).
    likely = math.sqrt(2 * math.fsum(n * span**2 for span, n in spans) * math.log(2 / TAIL))
    needed = max(min(whole, likely), *(span for span, _ in spans), 2.0**-900)
    return 2.0 ** math.ceil(math.log2(needed / points))


def on_grid(pair: Pair, step: float) -> dict[int, float]:
    """Masses of ``pair`` at multiples of ``step``: each atom is split over its two neighbours.

    Both laws of the pair keep the atom's mass in the split, so that merging the two points gives
    the atom back. What can be merged back tells no less: the new pair dominates the old one.
    """
    lower = np.floor(pair.losses / step)
    within = pair.losses - lower * step  # exact
    upper = pair.masses * (np.expm1(-within) / math.expm1(-step))
    indices = np.concatenate([lower, lower + 1]).astype(np.int64)
    masses = np.concatenate([pair.masses - upper, upper]) * SLACK
    points, where = np.unique(indices[masses > 0], return_inverse=True)
    sums = np.bincount(where, weights=masses[masses > 0])
    return dict(zip(points.tolist(), sums.tolist(), strict=True))


def floating_error(releases: int, points: int) -> float:
    """More mass than convolving ``releases`` laws on ``points`` points misplaces by rounding.

    A fast Fourier transform of n points errs by at most 8 u log2(n) of its norm, with u = 2^-53
    (Higham, "Accuracy and stability of numerical algorithms", theorem 24.2), its m-th power by m
    times as much and 8 m u for the powers themselves; the norm of all errors bounds their sum with
    a factor sqrt(n). Transforms are up to four times as long as what is kept of them. The last
    term is for adding up masses.
    """
    n = 4.0 * max(points, 2)
    return 2.0**-53 * (32 * releases * math.log2(n) * math.sqrt(n) + 4 * n)
