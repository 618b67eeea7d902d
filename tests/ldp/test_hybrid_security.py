"""The Hybrid Mechanism keeps its epsilon: whole laws on small grids, beside a broken twin."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp.hybrid import Hybrid
from ldp.thresholds import MIN_EPSILON
from mpc.core.prg import Prg
from mpc.core.rng import ONE, Rng
from tests.ldp.mean_laws import at_most_exp, law
from tests.support.stats import fits_binomial
from tests.support.walk import worst_ratio

EPSILONS = [MIN_EPSILON, 1e-12, 0.1, 0.6, 0.62, 1.0, math.log(3), 2.0, 4.0, 8.0, 16.0, 44.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("steps", "places"), [(2, (0.0, 1.0, 2.0)), (3, (0.0, 3.0))])
def test_the_table_of_the_running_sampler_is_exact(
    epsilon: float, steps: int, places: tuple[float, ...]
) -> None:
    mechanism = Hybrid.from_epsilon(epsilon, 0, steps, steps=steps)
    bounds = (steps, mechanism.piecewise.window)
    share = Fraction(mechanism.share, ONE)
    tables = []
    for x in places:
        bits = law(mechanism.duchi, x, 2)
        near = law(mechanism.piecewise, x, 2, bounds)
        expected = {int(bit): (1 - share) * p for bit, p in bits.items() if p}
        if share:
            expected |= {2 + j: share * p for j, p in near.items()}
        table = law(mechanism, x, 2, bounds)
        assert {report: p for report, p in table.items() if p} == expected
        tables.append(table)
    worst = worst_ratio(tables)
    assert at_most_exp(worst, epsilon)
    assert at_most_exp(worst, mechanism.epsilon)
    assert not at_most_exp(worst, math.nextafter(mechanism.epsilon, 0))
    assert mechanism.epsilon <= epsilon
    if epsilon <= 16:
        assert epsilon - mechanism.epsilon < 1e-9


@dataclass(frozen=True)
class BestPart(Hybrid):
    """The twin that chooses the part by the value: Duchi's has less variance near the ends."""

    def perturb(self, x: NDArray[np.float64], *, rng: Rng) -> NDArray[Any]:  # type: ignore[override]
        fractions = self.range.fractions(self.range.checked(x))
        share = ONE // 10 if abs(float(fractions[0]) - 0.5) > 0.4 else self.share
        return Hybrid(self.duchi, self.piecewise, share).perturb(x, rng=rng)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_table_rejects_a_part_that_is_chosen_by_the_value(epsilon: float) -> None:
    right = Hybrid.from_epsilon(epsilon, 0, 2, steps=2)
    bounds = (2, right.piecewise.window)
    assert at_most_exp(worst_ratio([law(right, x, 2, bounds) for x in (0.0, 1.0, 2.0)]), epsilon)
    twin = BestPart(right.duchi, right.piecewise, right.share)
    assert not at_most_exp(worst_ratio([law(twin, x, 2, bounds) for x in (0.0, 1.0, 2.0)]), epsilon)


def test_the_part_does_not_depend_on_the_value() -> None:
    """400,000 reports about each of three values: exact binomial bounds, alarm 1e-9 each."""
    mechanism = Hybrid.from_epsilon(1.0)
    n = 400_000
    for x in (-1.0, 0.3, 1.0):
        told = mechanism.perturb(np.full(n, x), rng=Prg(b"hybrid: the part is a public coin"[:32]))
        assert fits_binomial(int((told >= 2).sum()), n, mechanism.share / ONE)


def test_entries_are_randomized_independently() -> None:
    mechanism = Hybrid.from_epsilon(1.0)
    n, share = 400_000, mechanism.share / ONE
    near = mechanism.perturb(np.zeros((n, 2)), rng=Prg(b"hybrid: entries are alone, 32 by")) >= 2
    assert fits_binomial(int(np.all(near, axis=1).sum()), n, share**2)
    assert not fits_binomial(int(near[:, 0].sum()), n, share**2)
