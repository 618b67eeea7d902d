"""From Renyi and zero-concentrated privacy losses to (epsilon, delta), rounded up.

Losses in these two notions add up over releases, so that sums of them are converted once, at the
end. Every order alpha gives a valid bound: the best one is found with floats, and the bound for it
computed exactly.

Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
    2020), section 2.3 (page 13 of arXiv 2004.00010v3): rho-zCDP is (alpha, alpha rho)-RDP for
    every alpha > 1, and (alpha, loss)-RDP is (epsilon, delta)-DP for
    delta = e^((alpha - 1) (loss - epsilon)) / (alpha - 1) * (1 - 1 / alpha)^alpha.
Error: bounds, rounded up by less than 10^-50 and then to a double.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from ldp.exact_exp import RealNumber, exp_enclosure, log_bounds, positive_rational
from ldp.mechanism import checked_epsilon
from ldp.rounding import round_up
from mpc.core.errors import ParameterError

_MAX_LOSS = 1 << 128
"""Losses beyond it are taken for no privacy at all."""

_ANY_LOSS = 1 << 8192
_DELTA_BITS = 1200  # the smallest double is 2^-1074


def epsilon_of_rdp(alpha: RealNumber, loss: RealNumber, delta: float) -> float:
    """An epsilon for which (alpha, loss)-RDP is (epsilon, delta)-DP, rounded up.

    alpha: above 1.  loss: positive, in nats.  delta: in (0, 1).  Infinity for losses above 2^128.
    """
    order = _checked_order(alpha)
    exact = positive_rational("loss", loss, _ANY_LOSS)
    log_delta = log_bounds(checked_delta(delta))
    log_order = log_bounds(order)
    kept = log_bounds((order - 1) / order)
    if exact > _MAX_LOSS:
        return math.inf
    rest = (log_delta[0] + log_order[0]) / (order - 1)
    return max(0.0, round_up(exact + kept[1] - rest))


def epsilon_of_rho(rho: RealNumber, delta: float) -> float:
    """An epsilon for which rho-zCDP is (epsilon, delta)-DP, rounded up.

    rho: positive, in nats.  delta: in (0, 1).  It is about rho + 2 sqrt(rho ln(1 / delta));
    infinity for losses above 2^128.
    """
    loss = positive_rational("rho", rho, _ANY_LOSS)
    log_delta = math.log(checked_delta(delta))
    if loss > _MAX_LOSS:
        return math.inf
    # The derivative of epsilon by alpha has the sign of this.
    excess = _root(lambda a: a * a * float(loss) + log_delta + math.log1p(a))
    return epsilon_of_rdp(1 + excess, (1 + excess) * loss, delta)


def delta_of_rho(rho: RealNumber, epsilon: float) -> float:
    """A delta for which rho-zCDP is (epsilon, delta)-DP, rounded up; 1.0 if there is none below.

    rho: positive, in nats.  epsilon: finite, at least 0.
    """
    loss = positive_rational("rho", rho, _ANY_LOSS)
    target = checked_epsilon(epsilon, 0.0)
    if loss > _MAX_LOSS:
        return 1.0
    # The derivative of ln(delta) by alpha.
    excess = _root(lambda a: (2 * a + 1) * float(loss) - target - math.log1p(1 / a))
    order = 1 + excess
    kept = log_bounds(excess / order)
    log_delta = excess * (order * loss - Fraction(target)) - log_bounds(excess)[0] + order * kept[1]
    if log_delta >= 0:
        return 1.0
    return round_up(Fraction(exp_enclosure(-log_delta, _DELTA_BITS)[1], 1 << _DELTA_BITS))


def checked_delta(delta: float) -> Fraction:
    """``delta`` as an exact fraction; ParameterError unless it is a number in (0, 1)."""
    exact = positive_rational("delta", delta, 1)
    if exact == 1:
        raise ParameterError("delta must be below 1", remedy="at 1 nothing is protected")
    return exact


def _checked_order(alpha: RealNumber) -> Fraction:
    order = positive_rational("alpha", alpha, 1 << 1000)
    if order <= 1:
        raise ParameterError(f"alpha must be above 1, got {alpha!r}")
    return order


def _root(increasing: Callable[[float], float]) -> Fraction:
    """About where an increasing function of alpha - 1 crosses 0, within 2^-40 ... 2^500."""
    low, high = 2.0**-40, 2.0**500
    for _ in range(120):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return Fraction(high)
