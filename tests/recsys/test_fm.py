"""The factorization machine: Eq. 1 to 4 against their definitions and finite differences."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recsys.models import fm

Floats = NDArray[np.float64]


@st.composite
def machines(draw: st.DrawFn, batch: int = 3) -> tuple[Floats, Floats, Floats, Floats]:
    """x (B, D), labels (B,), w (D + 1,), V (D, K) of moderate size, D and K from 0 and 1."""
    size = draw(st.integers(1, batch))
    dim, factors = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 2.0]))
    x, w, v = (scale * rng.standard_normal(s) for s in ((size, dim), dim + 1, (dim, factors)))
    return x, rng.choice([-1.0, 1.0], size), w, v


def double_sum(x: Floats, w: Floats, v: Floats) -> float:
    """Eq. 1 for one sample, as it is written."""
    dim, factors = v.shape
    linear = w[0] + sum(w[d + 1] * x[d] for d in range(dim))
    crossed = sum(
        x[d] * x[e] * sum(v[d, k] * v[e, k] for k in range(factors))
        for d in range(dim)
        for e in range(d + 1, dim)
    )
    return float(linear + crossed)


def total_loss(x: Floats, labels: Floats, w: Floats, v: Floats) -> float:
    """Eq. 2 without penalties, written with logarithm and exponential."""
    scores = np.array([double_sum(sample, w, v) for sample in x])
    return float(np.sum(np.log1p(np.exp(-labels * scores))))


def central_differences(loss: Any, at: Floats, step: float = 1e-5) -> Floats:
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        there, here = at.copy(), at.copy()
        there[index] += step
        here[index] -= step
        gradient[index] = (loss(there) - loss(here)) / (2 * step)
    return gradient


@given(machines())
def test_prediction_equals_the_double_sum_of_eq_1(
    machine: tuple[Floats, Floats, Floats, Floats],
) -> None:
    x, _, w, v = machine
    expected = [double_sum(sample, w, v) for sample in x]
    assert fm.forward(x, w, v).score == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(machines())
def test_loss_is_that_of_eq_2(machine: tuple[Floats, Floats, Floats, Floats]) -> None:
    x, labels, w, v = machine
    score = fm.forward(x, w, v).score
    assert fm.loss(score, labels).sum() == pytest.approx(total_loss(x, labels, w, v), rel=1e-9)


@given(machines())
def test_linear_gradient_equals_finite_differences_eq_3(
    machine: tuple[Floats, Floats, Floats, Floats],
) -> None:
    x, labels, w, v = machine
    slopes = fm.slope(fm.forward(x, w, v).score, labels)
    expected = central_differences(lambda at: total_loss(x, labels, at, v), w)
    assert fm.linear_gradient(x, slopes) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@given(machines())
def test_factor_gradient_equals_finite_differences_eq_4(
    machine: tuple[Floats, Floats, Floats, Floats],
) -> None:
    x, labels, w, v = machine
    pass_ = fm.forward(x, w, v)
    slopes = fm.slope(pass_.score, labels)
    expected = central_differences(lambda at: total_loss(x, labels, w, at), v)
    gradient = fm.factor_gradient(x, slopes, pass_.factor_sums, v)
    assert gradient == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_each_leading_axis_has_a_machine_of_its_own() -> None:
    rng = np.random.default_rng(1)
    x, w, v = (
        rng.standard_normal((4, 3, 5)),
        rng.standard_normal((4, 6)),
        rng.standard_normal((5, 2)),
    )
    labels = rng.choice([-1.0, 1.0], (4, 3))
    together = fm.forward(x, w[:, np.newaxis], v)
    slopes = fm.slope(together.score, labels)
    linear = fm.linear_gradient(x, slopes)
    factors = fm.factor_gradient(x, slopes, together.factor_sums, v)
    for user in range(4):
        alone = fm.forward(x[user], w[user], v)
        assert together.score[user] == pytest.approx(alone.score)
        own = fm.slope(alone.score, labels[user])
        assert linear[user] == pytest.approx(fm.linear_gradient(x[user], own))
        expected = fm.factor_gradient(x[user], own, alone.factor_sums, v)
        assert factors[user] == pytest.approx(expected)


@pytest.mark.parametrize("score", [0.0, 40.0, 1e3, 1e300])
def test_huge_scores_neither_overflow_nor_lose_the_slope(score: float) -> None:
    # A warning is an error here, so an overflow inside would show.
    both, labels = np.array([score, -score]), np.array([1.0, 1.0])
    loss, slope = fm.loss(both, labels), fm.slope(both, labels)
    assert np.isfinite(loss).all()
    assert loss[1] - loss[0] == pytest.approx(score)  # softplus(x) - softplus(-x) = x
    assert -1 <= slope[1] <= -0.5 <= slope[0] <= 0
    if score >= 1e3:
        assert slope.tolist() == [0.0, -1.0]


def test_the_loss_of_an_untrained_machine_is_ln_2() -> None:
    assert fm.loss(np.zeros(2), np.array([1, -1])) == pytest.approx([np.log(2)] * 2)


@given(machines())
def test_a_padded_sample_has_no_gradient(machine: tuple[Floats, Floats, Floats, Floats]) -> None:
    x, labels, w, v = machine
    pass_ = fm.forward(x, w, v)
    slopes = fm.slope(pass_.score, labels)
    padded = fm.slope(pass_.score, np.zeros_like(labels))
    assert not padded.any()
    more = np.concatenate([x, x]), np.concatenate([slopes, padded])
    sums = np.concatenate([pass_.factor_sums] * 2)
    assert fm.linear_gradient(*more) == pytest.approx(fm.linear_gradient(x, slopes))
    expected = fm.factor_gradient(x, slopes, pass_.factor_sums, v)
    assert fm.factor_gradient(*more, sums, v) == pytest.approx(expected)
