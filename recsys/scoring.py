"""Scores of user-POI pairs by a trained model, with fallbacks for who and what is unknown.

Source: PriRec (Chen et al., 2020), Algorithm 3, lines 5-8.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recsys.features import Features
from recsys.models import fm


class Scorer(Protocol):
    """How a kind of model turns its arrays into scores.

    tables: fixed arrays of any dtype that it needs besides those that were learned, such as an
    index; users hold them.
    """

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """Fixed arrays by name, to be stored with the model."""

    def score(
        self, arrays: Mapping[str, fm.Floats], users: NDArray[np.int32], pois: NDArray[np.int32]
    ) -> fm.Floats:
        """The logit of a visit for index pairs, users and pois int32 (n,): float64 (n,).

        -1 stands for an unknown user or POI.
        """


@dataclass(frozen=True)
class MachineScorer:
    """Factorization machines: arrays ``w`` and ``v`` over ``features``; see ``score_pairs``."""

    features: Features

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """None: a machine is its parameters and its features."""
        return {}

    def score(
        self, arrays: Mapping[str, fm.Floats], users: NDArray[np.int32], pois: NDArray[np.int32]
    ) -> fm.Floats:
        """Eq. 1 for index pairs."""
        return score_pairs(self.features, arrays["w"], arrays["v"], users, pois)


# Feature values that are held at once: 32 MiB, whatever the number of pairs.
_CHUNK = 1 << 22


def score_pairs(
    features: Features,
    w: fm.Floats,
    v: fm.Floats,
    users: NDArray[np.int32],
    pois: NDArray[np.int32],
) -> fm.Floats:
    """Eq. 1 for index pairs, users and pois int32 (n,): float64 (n,), the logit of a visit.

    w: (D + 1,) for one model, (users, D + 1) for one of each user.  v: (D, K).
    -1 stands for the unknown: a user without features and without a linear model of her own, the
    mean of all POIs.
    """
    scores = np.empty(users.size)
    mean_poi = features.poi.mean(axis=0)
    step = max(1, _CHUNK // max(1, features.dim))
    for start in range(0, users.size, step):
        user, poi = users[start : start + step], pois[start : start + step]
        known_user, known_poi = (user >= 0)[:, np.newaxis], (poi >= 0)[:, np.newaxis]
        private = np.where(known_user, features.user[user], 0.0)
        public = np.where(known_poi, features.poi[poi], mean_poi)
        own = w if w.ndim == 1 else np.where(known_user, w[user], 0.0)
        x = np.concatenate([private, public], axis=1)
        scores[start : start + step] = fm.forward(x, own, v).score
    return scores
