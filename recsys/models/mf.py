"""Matrix factorization with biases: prediction and gradients on arrays, and how a model scores.

Source: Mnih and Salakhutdinov, "Probabilistic Matrix Factorization" (2007), for the factors;
    Koren, Bell, Volinsky, "Matrix Factorization Techniques for Recommender Systems" (2009), for
    the biases; PriRec (Chen et al., 2020), Eq. 2, for the loss.
    score = b + b_i + c_j + u_i . v_j for user i and POI j.
Error: floating point only; the gradients are checked against finite differences.
Differs: the sources fit ratings by squared error; here labels are -1 or +1, and the loss is
    ``fm.loss``, so that a score is the logit of a visit as in the other models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def product(left: Floats, right: Floats) -> Floats:
    """u_i . v_j for samples with any leading axes: (..., K) and (..., K) give (...,)."""
    products: Floats = np.einsum("...k,...k->...", left, right)
    return products


def factor_gradient(slopes: Floats, other: Floats, own: Floats, penalty: float) -> Floats:
    """Derivative of a sample's loss by one of its two factor vectors, penalty * |own|^2 included.

    slopes (...,) from ``fm.slope``; own, other (..., K): that vector and its partner.
    """
    gradient: Floats = slopes[..., np.newaxis] * other + 2 * penalty * own
    return gradient


@dataclass(frozen=True)
class BiasedScorer:
    """Arrays ``bias`` (1,), ``user_bias``, ``poi_bias``, ``user_factors`` and ``poi_factors``.

    An unknown user is scored by bias and POI bias alone; an unknown POI as the mean of all POIs.
    """

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """None: the rows are users and POIs."""
        return {}

    def score(
        self, arrays: Mapping[str, Floats], users: NDArray[np.int32], pois: NDArray[np.int32]
    ) -> Floats:
        """The logit of a visit for index pairs, users and pois int32 (n,): float64 (n,)."""
        known_user, known_poi = users >= 0, pois >= 0
        c, v = arrays["poi_bias"], arrays["poi_factors"]
        poi_bias = np.where(known_poi, c[pois], c.mean())
        poi = np.where(known_poi[:, np.newaxis], v[pois], v.mean(axis=0))
        own = arrays["user_bias"][users] + product(arrays["user_factors"][users], poi)
        scores: Floats = arrays["bias"][0] + poi_bias + np.where(known_user, own, 0.0)
        return scores
