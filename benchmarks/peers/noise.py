"""What samples of discrete Laplace and discrete Gaussian noise satisfy if their law is right."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

_DEVIATIONS = 7
"""Standard deviations allowed. A right result leaves them less than once in 10^8 times."""

_LOW = 8


def is_discrete_laplace(samples: ArrayLike, scale: float) -> bool:
    """Whether independent samples have P(x) proportional to exp(-|x| / scale).

    They are counted in cells a quarter of the scale wide, one integer at the least, up to six
    scales from 0; from a scale of 1,000 on also by their lowest bits, which are then uniform to
    within 10^-5.  Made for a hundred thousand samples.
    """
    width = max(1, int(scale / 4))
    reach = math.ceil(6 * scale / width)

    def at_least(x: int) -> float:
        # Positive and negative tails alike: P(X >= x) for x >= 1 is r^x / (1 + r).
        tail = math.exp(-(x if x > 0 else 1 - x) / scale) / (1 + math.exp(-1 / scale))
        return tail if x > 0 else 1 - tail

    drawn = _drawn(samples)
    if drawn is None or not _cells_fit(
        drawn, at_least, [i * width for i in range(-reach, reach + 1)]
    ):
        return False
    if scale < 1000:
        return True
    return _fits(np.bincount(drawn % _LOW, minlength=_LOW), drawn.size, np.full(_LOW, 1 / _LOW))


def is_discrete_gaussian(samples: ArrayLike, sigma: float) -> bool:
    """Whether independent samples have P(x) proportional to exp(-x^2 / (2 sigma^2)).

    They are counted for each integer up to three sigma from 0.  Made for fifty thousand samples.
    """
    reach = math.ceil(3 * sigma)
    weights = {x: math.exp(-(x**2) / (2 * sigma**2)) for x in range(-4 * reach, 4 * reach + 1)}
    total = math.fsum(weights.values())

    def at_least(x: int) -> float:
        return math.fsum(weight for y, weight in weights.items() if y >= x) / total

    drawn = _drawn(samples)
    return drawn is not None and _cells_fit(drawn, at_least, list(range(-reach, reach + 1)))


def _drawn(samples: ArrayLike) -> NDArray[np.int64] | None:
    drawn = np.asarray(samples)
    return drawn.astype(np.int64) if drawn.ndim == 1 and drawn.dtype.kind in "iu" else None


def _cells_fit(
    drawn: NDArray[np.int64], at_least: Callable[[int], float], edges: list[int]
) -> bool:
    """Whether each cell between neighbouring edges, and beyond them, is hit as often as it should.

    And whether neighbouring samples are independent of each other, as far as being positive goes.
    """
    cells = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(edges) + 1)
    probabilities = -np.diff([1.0, *map(at_least, edges), 0.0])
    positive = drawn > 0
    first, second = positive[: drawn.size // 2 * 2 : 2], positive[1::2]
    both = np.count_nonzero(first & second)
    return _fits(cells, drawn.size, probabilities) and _fits(both, first.size, at_least(1) ** 2)


def _fits(hits: ArrayLike, trials: int, probability: ArrayLike) -> bool:
    p = np.asarray(probability)
    off = np.abs(np.asarray(hits) - trials * p)
    return bool(np.all(off <= _DEVIATIONS * np.sqrt(trials * p * (1 - p))))
