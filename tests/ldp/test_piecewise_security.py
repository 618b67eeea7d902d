"""The Piecewise Mechanism keeps its epsilon: whole laws on small grids, beside broken twins."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp.mean import GridRounding
from ldp.piecewise import Piecewise
from ldp.thresholds import MIN_EPSILON
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.mean_laws import Law, at_most_exp, law
from tests.support.stats import fits_binomial
from tests.support.walk import worst_ratio

EPSILONS = [MIN_EPSILON, 1e-12, 0.1, 0.5, 1.0, math.log(3), 2.0, 4.0, 8.0, 16.0, 30.0, 44.0]
GRIDS = [(steps, window) for steps in (2, 3, 4) for window in range(1, steps + 1)]


def laws(mechanism: Piecewise, parts: int = 1) -> list[Law]:
    """The law given each multiple of 1/parts of a step; the range is [0, steps]."""
    places = np.arange(mechanism.steps * parts + 1) / parts
    return [law(mechanism, x, parts, (mechanism.steps, mechanism.window)) for x in places]


def small(epsilon: float, steps: int, window: int | None = None) -> Piecewise:
    return Piecewise.from_epsilon(epsilon, 0, steps, steps=steps, window=window)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("steps", "window"), GRIDS)
def test_the_table_of_the_running_sampler_is_exact(epsilon: float, steps: int, window: int) -> None:
    mechanism = small(epsilon, steps, window)
    keep = Fraction(mechanism.keep, ONE)
    tables = laws(mechanism)
    for i, table in enumerate(tables):
        assert table == {
            j: keep / window if i <= j < i + window else (1 - keep) / steps
            for j in range(steps + window)
        }
    worst = worst_ratio(tables)
    assert worst == keep * steps / ((1 - keep) * window)
    assert at_most_exp(worst, epsilon)
    assert at_most_exp(worst, mechanism.epsilon)
    assert mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_values_between_grid_points_have_mixtures_of_their_laws(epsilon: float, steps: int) -> None:
    mechanism = small(epsilon, steps)
    tables = laws(mechanism, parts=4)
    for i, table in enumerate(tables):
        below, part = tables[i - i % 4], Fraction(i % 4, 4)
        above = tables[min(i - i % 4 + 4, 4 * steps)]
        assert table == {j: (1 - part) * below[j] + part * above[j] for j in below}
    assert at_most_exp(worst_ratio(tables), epsilon)


@dataclass(frozen=True)
class Overlap(Piecewise):
    """The twin whose "others" are all points: those of the window then come up twice."""

    def report(
        self, values: NDArray[np.float64], rounding: GridRounding, rng: Rng, out: NDArray[Any]
    ) -> None:
        words = rounding.draw(values.size, rng)
        points = rounding.to_points(values, self.steps, words).astype(self.dtype)
        inside = rng.bernoulli(self.keep, points.size)
        near = points + rng.uniform(self.window, points.size, self.dtype)
        other = rng.uniform(self.outcomes, points.size, self.dtype)
        out[...] = np.where(inside, near, other)


@dataclass(frozen=True)
class OneSided(Piecewise):
    """The twin that forgets to step over the window: points past it never come up."""

    def report(
        self, values: NDArray[np.float64], rounding: GridRounding, rng: Rng, out: NDArray[Any]
    ) -> None:
        words = rounding.draw(values.size, rng)
        points = rounding.to_points(values, self.steps, words).astype(self.dtype)
        inside = rng.bernoulli(self.keep, points.size)
        near = points + rng.uniform(self.window, points.size, self.dtype)
        other = rng.uniform(self.steps, points.size, self.dtype)
        out[...] = np.where(inside, near, other)


@dataclass(frozen=True)
class RoundedAfter(Piecewise):
    """The twin that moves the report by what rounding took off: the low bits come out in clear."""

    def perturb(self, x: NDArray[np.float64], *, rng: Rng) -> NDArray[Any]:  # type: ignore[override]
        return super().perturb(np.floor(x), rng=rng) + (x - np.floor(x))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_table_rejects_broken_twins(epsilon: float) -> None:
    right = small(epsilon, 4)
    fields = (right.low, right.high, right.steps, right.window, right.keep)
    bounds = (right.window, right.outcomes)
    overlapping = [law(Overlap(*fields), x, 1, bounds) for x in range(5)]
    assert not at_most_exp(worst_ratio(overlapping), epsilon)
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio([law(OneSided(*fields), x, 1, bounds) for x in range(5)])
    with pytest.raises(ValueError, match="impossible"):
        worst_ratio([law(RoundedAfter(*fields), x, 4, bounds) for x in (1.0, 1.25)])


@given(st.floats(1e-6, 40), st.integers(1, 2**31), st.data())
def test_the_ratio_is_at_most_the_requested_on_every_grid(
    epsilon: float, steps: int, data: st.DataObject
) -> None:
    # Narrower windows leave no coin between "all reports alike" and too much for small epsilons.
    window = data.draw(st.none() | st.integers(max(1, steps // 1000), steps))
    mechanism = Piecewise.from_epsilon(epsilon, steps=steps, window=window)
    ratio = Fraction(mechanism.keep * steps, (ONE - mechanism.keep) * mechanism.window)
    assert at_most_exp(ratio, epsilon)
    assert at_most_exp(ratio, mechanism.epsilon)
    assert not at_most_exp(ratio, math.nextafter(mechanism.epsilon, 0))
    if mechanism.keep < ONE - 1:
        # The broken twin of directed rounding: one step of 2^-64 more is too much.
        more = Fraction((mechanism.keep + 1) * steps, (ONE - mechanism.keep - 1) * mechanism.window)
        assert not at_most_exp(more, epsilon)


def test_entries_are_randomized_independently() -> None:
    """400,000 pairs of reports, both inside the window: exact binomial bounds, alarm 1e-9."""
    mechanism = Piecewise.from_epsilon(1.0)
    n, keep, window = 400_000, mechanism.keep / ONE, mechanism.window
    x = np.full((n, 2), -1.0)
    inside = mechanism.perturb(x, rng=Prg(b"piecewise: entries are alone, ok")) < window
    assert fits_binomial(int(inside[:, 0].sum()), n, keep)
    assert fits_binomial(int(np.all(inside, axis=1).sum()), n, keep**2)
    # The twin draws one coin for each row.
    shared = np.repeat(inside[:, :1], 2, axis=1)
    assert not fits_binomial(int(np.all(shared, axis=1).sum()), n, keep**2)
