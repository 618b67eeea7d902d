"""Renyi curves of single releases, at fixed orders.

Source: Mironov, "Renyi differential privacy" (CSF 2017); pure losses and zCDP: Bun and Steinke,
    "Concentrated differential privacy" (TCC 2016).
Model: divergences of one order add up over releases, adaptive ones too.
Error: none towards less. Each order is a bound by itself, so that a list of orders only costs
    tightness: less than one part in a thousand of epsilon with these.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ldp.losses import SLACK, Loss, Pair, SkellamLoss

ORDERS = 1 + 2.0 ** (np.arange(-85, 321) / 16)
"""From 1.025 to a million: small orders serve large losses, and large ones small losses."""


def renyi_curve(loss: Loss, pair: Pair | None) -> NDArray[np.float64]:
    """Renyi divergences of one release at ORDERS: rho times the order, its pair's, or epsilon.

    pair: a pair of ``loss``, or None to do without.
    """
    above = ORDERS - 1
    with np.errstate(over="ignore"):  # infinity is a bound
        bounds = [ORDERS * loss.rho * SLACK, np.full(ORDERS.size, loss.epsilon)]
    if isinstance(loss, SkellamLoss):
        bounds.append(loss.renyi(ORDERS))
    if pair is not None and not pair.infinite:
        logs = np.array([_log_moment(pair, order) for order in above])
        bounds.append(logs / above)
    return np.asarray(np.min(bounds, axis=0))


def _log_moment(pair: Pair, order: float) -> float:
    """ln E e^(order loss), with more room for rounding than a sum over all atoms needs."""
    exponents = order * pair.losses
    largest = float(exponents.max())
    moment = float(np.exp(exponents - largest) @ pair.masses)
    error = 2.0**-50 * (1024 + exponents.size) * (1 + abs(largest))
    return largest + math.log(moment) + error
