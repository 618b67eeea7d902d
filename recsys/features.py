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
    count_answers,
    count_average_answers,
    estimate_average,
    estimate_visitors,
    share_budget,
)
from recsys.simulation import SimulationRng

Floats = NDArray[np.float64]

_QUESTIONS = {
    "visitors": ("visitors",),
    "average": ("average",),
    "three": ("visitors", "returning", "recent"),
}
"""What users are asked for each kind of dynamic features."""


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
    users = prepared.n_users
    private = np.zeros((users, 0)) if user_features is None else _checked(user_features, users)
    ones = answers(prepared, config, coins)
    return assemble_from(prepared, config, private, ones, users)


def assemble_from(
    places: Prepared,
    config: TrainConfig,
    private: Floats,
    ones: NDArray[np.int64],
    users: int,
) -> Features:
    """The same, from the randomized bits that were collected: what the recommender can do alone.

    places: whose POIs count, and nothing else.  private: features (any number of users, m).
    ones: as ``answers``, added up over all ``users``.
    """
    pois = places.n_pois
    names = [f"user:{column}" for column in range(private.shape[1])]
    columns = [np.zeros((pois, 0))]
    counts: tuple[PoiEstimates, ...] = ()
    if config.feature_kind in ("static", "all"):
        table = static_features(
            places, regions=config.region_count(pois), categories=config.categories
        )
        columns.append(table.values)
        names += table.names
    if config.feature_kind == "all":
        counts = _estimates(config, ones, (users, pois))
        columns += [as_feature(count)[:, np.newaxis] for count in counts]
        names += [f"dynamic:{count.name}" for count in counts]
    return Features(private, np.concatenate(columns, axis=1), tuple(names), counts)


def answers(prepared: Prepared, config: TrainConfig, coins: CoinSource) -> NDArray[np.int64]:
    """What these users answer: int64 (questions, POIs), how many randomized bits are one.

    No question is asked where ``config`` has no dynamic features.
    """
    shape = (prepared.n_users, prepared.n_pois)
    names = questions(config)
    coin = share_budget(config.epsilon, max(1, len(names)))
    rows = [np.zeros((0, shape[1]), np.int64)]
    for name in names:
        if name == "average":
            row = count_average_answers(
                name, prepared.history, shape, config.visit_cap, coin, coins
            )
        else:
            row = count_answers(name, getattr(prepared, name), shape, coin, coins)
        rows.append(row[np.newaxis])
    return np.concatenate(rows)


def questions(config: TrainConfig) -> tuple[str, ...]:
    """The dynamic features that ``config`` asks for, by name."""
    return _QUESTIONS[config.dynamic] if config.feature_kind == "all" else ()


def _estimates(
    config: TrainConfig, ones: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[PoiEstimates, ...]:
    names = questions(config)
    coin = share_budget(config.epsilon, len(names))
    if config.dynamic == "average":
        return (estimate_average("average", ones[0], shape, config.visit_cap, coin),)
    return tuple(
        estimate_visitors(name, row, shape, coin) for name, row in zip(names, ones, strict=True)
    )


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
