"""Factorization machine of order two: prediction, loss and gradients on arrays.

Source: Rendle, "Factorization Machines with libFM" (2012); PriRec (Chen et al., 2020), Eq. 1-4.
    The paper's w_0, w_d are column 0 and columns 1..D of ``w``; its V is ``v`` (D, K).
Error: floating point only; the gradients are checked against finite differences.

Every function takes samples with any leading axes: x (..., D), and a linear model that broadcasts
against them: w (..., D + 1). One machine serves the central FM (one w for all) and PriRec (one w
for each user).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Forward:
    """What the gradients need again: scores (...,) and the factor sums V^T x, shape (..., K)."""

    score: Floats
    factor_sums: Floats


def forward(x: Floats, w: Floats, v: Floats) -> Forward:
    """Eq. 1 in O(K D): the interactions are half of (sum_d v x)^2 - sum_d v^2 x^2, over k."""
    sums = x @ v
    squares = (x * x) @ (v * v).sum(axis=1)
    linear = w[..., 0] + np.einsum("...d,...d->...", x, w[..., 1:])
    return Forward(linear + 0.5 * ((sums * sums).sum(axis=-1) - squares), sums)


def loss(score: Floats, label: NDArray[Any]) -> Floats:
    """-ln sigma(y score) of Eq. 2 for each sample, without overflow. label: -1 or +1."""
    return np.logaddexp(0.0, -label * score)


def slope(score: Floats, label: NDArray[Any]) -> Floats:
    """Derivative of the loss by the score, y (sigma(y score) - 1): the factor of Eq. 3 and 4."""
    return -label * expit(-label * score)


def linear_gradient(x: Floats, slopes: Floats) -> Floats:
    """Eq. 3 without the penalty, summed over the samples of a batch.

    x (..., B, D), slopes (..., B) -> (..., D + 1); a padded sample has slope 0.
    """
    bias = slopes.sum(axis=-1)[..., np.newaxis]
    return np.concatenate([bias, np.einsum("...b,...bd->...d", slopes, x)], axis=-1)


def factor_gradient(x: Floats, slopes: Floats, factor_sums: Floats, v: Floats) -> Floats:
    """Eq. 4 without the penalty, summed over the samples of a batch: shape (..., D, K).

    The sum over d' != d of v x is the full sum less the d-th term.
    """
    weighted = slopes[..., np.newaxis] * x
    full = np.swapaxes(weighted, -1, -2) @ factor_sums
    own = np.einsum("...bd,...bd->...d", weighted, x)
    gradient: Floats = full - own[..., np.newaxis] * v
    return gradient
