"""Conversions from Renyi and concentrated losses: against the formula, and never too small."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.renyi import delta_of_rho, epsilon_of_rdp, epsilon_of_rho
from mpc.core.errors import ParameterError

RHOS = st.floats(1e-6, 20)
DELTAS = st.floats(1e-12, 0.5)


def formula(alpha: float, loss: float, delta: float) -> float:
    return loss + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)


@given(st.floats(1.01, 1000), st.floats(1e-6, 50), DELTAS)
def test_the_formula_rounded_up(alpha: float, loss: float, delta: float) -> None:
    found = epsilon_of_rdp(alpha, loss, delta)
    expected = max(0.0, formula(alpha, loss, delta))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found >= expected - 1e-9 * (1 + abs(expected))


@settings(max_examples=50)
@given(RHOS, DELTAS)
def test_the_order_chosen_is_the_best(rho: float, delta: float) -> None:
    found = epsilon_of_rho(rho, delta)
    orders = [1 + 2.0 ** (k / 8) for k in range(-80, 160)]
    best = max(0.0, min(formula(a, a * rho, delta) for a in orders))
    assert found <= best * (1 + 1e-12) + 1e-9
    assert found >= best * 0.99 - 1e-9  # the grid of orders is not far from the best


@settings(max_examples=50)
@given(RHOS, st.floats(0.01, 30))
def test_epsilon_and_delta_belong_together(rho: float, epsilon: float) -> None:
    delta = delta_of_rho(rho, epsilon)
    if 1e-300 < delta < 1:
        assert epsilon_of_rho(rho, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-6)


def test_the_known_conversion_is_improved_upon() -> None:
    """rho + 2 sqrt(rho ln(1/delta)) is the bound of Bun and Steinke (2016), proposition 1.3."""
    for rho, delta in ((0.1, 1e-6), (1.0, 1e-10), (5.0, 1e-5)):
        known = rho + 2 * math.sqrt(rho * math.log(1 / delta))
        assert 0.8 * known < epsilon_of_rho(rho, delta) < known


def test_ends() -> None:
    assert epsilon_of_rho(1e-300, 1e-5) == 0.0
    assert delta_of_rho(2.0**100, 1.0) == 1.0
    assert delta_of_rho(1e-3, 1e6) == 5e-324
    assert epsilon_of_rho(2**200, 1e-5) == math.inf
    assert epsilon_of_rdp(2, 2**200, 1e-5) == math.inf
    assert delta_of_rho(2**200, 1e-5) == 1.0
    assert math.isfinite(epsilon_of_rho(2.0**100, 1e-300))
    assert epsilon_of_rdp(2, 1, 0.5) > 0


@pytest.mark.parametrize("rho", [0, -1, math.nan, math.inf, "1", True])
def test_other_losses_are_refused(rho: Any) -> None:
    with pytest.raises(ParameterError, match="rho"):
        epsilon_of_rho(rho, 1e-5)
    with pytest.raises(ParameterError, match="rho"):
        delta_of_rho(rho, 1.0)


@pytest.mark.parametrize("alpha", [1, 0.5, math.nan, math.inf, "2"])
def test_other_orders_are_refused(alpha: Any) -> None:
    with pytest.raises(ParameterError, match="alpha"):
        epsilon_of_rdp(alpha, 1.0, 1e-5)
