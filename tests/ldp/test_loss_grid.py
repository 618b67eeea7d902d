"""Losses on a grid: they dominate what was put there, and rounding misplaces less than told."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.loss_grid import GRIDS, TAIL, floating_error, grid_step, on_grid
from ldp.losses import LaplaceLoss, Pair, PureLoss, ResponseLoss
from mpc.core.rng import ONE

losses = st.lists(st.floats(-30, 30), min_size=1, max_size=6)


def hockey_stick(law: dict[float, float], epsilon: float) -> float:
    return math.fsum(-math.expm1(epsilon - x) * mass for x, mass in law.items() if x > epsilon)


def downwards(pair: Pair, step: float) -> dict[int, float]:
    """The broken twin: every loss moves to the grid point below it."""
    law: dict[int, float] = {}
    for loss, mass in zip(pair.losses.tolist(), pair.masses.tolist(), strict=True):
        point = math.floor(loss / step)
        law[point] = law.get(point, 0.0) + mass
    return law


def dominates(put: Callable[[Pair, float], dict[int, float]], pair: Pair, step: float) -> bool:
    law = {point * step: mass for point, mass in put(pair, step).items()}
    before = dict(zip(pair.losses.tolist(), pair.masses.tolist(), strict=True))
    return all(
        hockey_stick(law, epsilon) >= hockey_stick(before, epsilon) * (1 - 1e-12)
        for epsilon in np.linspace(0, 31, 200)
    )


@given(losses, st.sampled_from([2.0**-12, 2.0**-3, 1.0, 4.0]))
def test_the_grid_dominates_what_was_put_on_it(found: list[float], step: float) -> None:
    """Every delta grows, and both masses of an atom stay what they were."""
    distinct = np.array(sorted(set(found)))
    pair = Pair(distinct, np.full(distinct.size, 1 / distinct.size))
    assert dominates(on_grid, pair, step)
    law = on_grid(pair, step)
    assert math.fsum(law.values()) == pytest.approx(1, rel=1e-11)
    other = math.fsum(mass * math.exp(-point * step) for point, mass in law.items())
    assert other == pytest.approx(float(np.exp(-distinct) @ pair.masses), rel=1e-9)


def test_rounding_losses_down_is_caught() -> None:
    pair = ResponseLoss(3, ONE // 2).pair()
    assert dominates(on_grid, pair, 0.25)
    assert not dominates(downwards, pair, 0.25)


def test_losses_on_the_grid_stay_there() -> None:
    law = on_grid(PureLoss(1.0).pair(), 2.0**-10)
    assert sorted(law) == [-1024, 1024]


@given(st.floats(1e-12, 1e6), st.integers(1, 10**6), st.sampled_from(GRIDS))
def test_the_step_is_a_power_of_two_with_about_so_many_points(
    epsilon: float, count: int, points: int
) -> None:
    step = grid_step([(PureLoss(epsilon).pair(), count)], points)
    assert math.frexp(step)[0] == 0.5
    assert 2 * epsilon / step <= points
    likely = 2 * epsilon * math.sqrt(2 * count * math.log(2 / TAIL))
    assert min(2 * epsilon * count, max(likely, 2 * epsilon)) / step > points / 2 - 1


@pytest.mark.parametrize(("loss", "count"), [(PureLoss(1.0), 200), (LaplaceLoss(2.0, 3), 64)])
@pytest.mark.parametrize("points", GRIDS)
def test_rounding_misplaces_less_than_is_taken_off_delta(
    loss: PureLoss | LaplaceLoss, count: int, points: int
) -> None:
    """dp-accounting's fast transform against the same power by plain sums, term by term."""
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415

    pair = loss.pair()
    # All losses lie on one lattice, so that the plain sums are short.
    between = abs(float(pair.losses[1] - pair.losses[0]))
    every = 2 ** int(math.log2(points / (2 * count * (pair.losses.size - 1))))
    assert every >= 2
    first = float(pair.losses.min())
    indices = np.rint((pair.losses - first) / between * every).astype(int)
    masses = dict(zip(indices.tolist(), pair.masses.tolist(), strict=True))
    fast = pld_pmf.create_pmf(masses, between / every, 0.0, True).to_dense_pmf()
    found = np.asarray(fast.self_compose(count, 0.0)._probs)
    single = np.array([masses[index] for index in sorted(masses)])
    exact = np.array([1.0])
    for _ in range(count):
        exact = np.convolve(exact, single)
    expected = np.zeros(found.size)
    expected[::every] = exact
    misplaced = float(np.sum(np.abs(found - expected)))
    assert 0 < misplaced < floating_error(count, found.size)
