"""The feature vector of a sample: X^ij, the user's private part beside the POI's public part.

Source: PriRec (Chen et al., 2020), section 3.1.2: concatenation of X^i and X^j.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.data.features import static_features
from recsys.data.prepare import Prepared
from recsys.dynamic import (
    CoinSource,
    PoiEstimates,
    as_feature,
    collect,
    collect_average,
    share_budget,
)
from recsys.simulation import SimulationRng

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Features:
    """user (users, m), private; poi (POIs, n), public. D = m + n.

    counts: the dynamic features' raw estimates, averages too; empty without dynamic features.
    """

    user: Floats
    poi: Floats
    names: tuple[str, ...]
    counts: tuple[PoiEstimates, ...]

    @property
    def dim(self) -> int:
        """D, without the constant feature."""
        return int(self.user.shape[1] + self.poi.shape[1])

    def samples(self, users: NDArray[np.int32], pois: NDArray[np.int32]) -> Floats:
        """X^ij for index arrays, ``users`` broadcasting to the shape of ``pois``: (..., D)."""
        public = self.poi[pois]
        if not self.user.shape[1]:
            return public
        private = np.broadcast_to(self.user[users], (*public.shape[:-1], self.user.shape[1]))
        return np.concatenate([private, public], axis=-1)


def assemble(
    prepared: Prepared,
    config: TrainConfig,
    sim: SimulationRng,
    coins: CoinSource,
    user_features: Floats | None = None,
) -> Features:
    """Build the features that ``config`` asks for; dynamic ones cost the users privacy.

    user_features: float64 (users, m) of the users that are left, None for none.
    Raises ParameterError for another shape, other types and numbers that are not finite.
    """
    users, pois = prepared.n_users, prepared.n_pois
    private = np.zeros((users, 0)) if user_features is None else _checked(user_features, users)
    names = [f"user:{column}" for column in range(private.shape[1])]
    columns = [np.zeros((pois, 0))]
    counts: tuple[PoiEstimates, ...] = ()
    if config.feature_kind in ("static", "all"):
        table = static_features(
            prepared, regions=config.region_count(pois), categories=config.categories
        )
        columns.append(table.values)
        names += table.names
    if config.feature_kind == "all":
        counts = _dynamic(prepared, config, coins)
        columns += [as_feature(count)[:, np.newaxis] for count in counts]
        names += [f"dynamic:{count.name}" for count in counts]
    return Features(private, np.concatenate(columns, axis=1), tuple(names), counts)


def _dynamic(
    prepared: Prepared, config: TrainConfig, coins: CoinSource
) -> tuple[PoiEstimates, ...]:
    shape = (prepared.n_users, prepared.n_pois)
    if config.dynamic == "average":
        coin, cap = share_budget(config.epsilon, 1), config.visit_cap
        return (collect_average("average", prepared.history, shape, cap, coin, coins),)
    questions = {"visitors": prepared.visitors}
    if config.dynamic == "three":
        questions["returning"] = prepared.returning
        questions["recent"] = prepared.recent
    coin = share_budget(config.epsilon, len(questions))
    return tuple(collect(name, pairs, shape, coin, coins) for name, pairs in questions.items())


def _checked(user_features: Floats, users: int) -> Floats:
    array = np.asarray(user_features)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or array.shape[0] != users:
        raise ParameterError(
            f"user_features must be numbers of shape ({users}, m), got {array.dtype} {array.shape}"
        )
    values = array.astype(np.float64)
    wrong = ~np.isfinite(values).all(axis=1)
    if wrong.any():
        raise ParameterError(f"user_features must be finite, row {int(np.argmax(wrong))} is not")
    return values
