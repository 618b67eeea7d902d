"""Small worlds for the tests of the recommenders: a city, data made by hand, runs that remember."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recsys.config import TrainConfig
from recsys.data.checkins import CheckIns, DistinctPairs
from recsys.data.city import CityConfig, synthetic_city
from recsys.data.prepare import Pairs, PrepareConfig, Prepared, prepare
from recsys.features import Features, assemble
from recsys.run import MEMO_KEY_BYTES, MemoryRun, Snapshot
from recsys.simulation import SimulationRng

Row = tuple[int, int, int]
"""(user, POI, label)"""

LAST = PrepareConfig(validation_fraction=0.0)
"""Without a validation part the last epoch is the model: every epoch shows in the digest."""


@cache
def city(users: int = 40, pois: int = 30, pois_per_user: float = 10) -> CheckIns:
    """A city small enough to train on in a few hundredths of a second."""
    return synthetic_city(CityConfig(users=users, pois=pois, pois_per_user=pois_per_user))


def small(**changes: Any) -> TrainConfig:
    """Settings for such a city; every epoch of a short training counts."""
    quick: dict[str, Any] = {"mode": "simulate", "seed": 0, "epochs": 2, "neighbours": 3}
    return TrainConfig(**{**quick, "prepare": LAST, **changes})


def pairs(rows: Iterable[Row]) -> Pairs:
    """Labelled pairs in the order that ``Pairs`` promises."""
    ordered = sorted(rows)
    users, pois, labels = (np.array([row[part] for row in ordered]) for part in range(3))
    return Pairs(users.astype(np.int32), pois.astype(np.int32), labels.astype(np.int8))


def world(
    train: Iterable[Row],
    *,
    validation: Iterable[Row] = (),
    test: Iterable[Row] = (),
    users: int,
    pois: int,
) -> Prepared:
    """Prepared data made by hand, on a line along the equator; users need not be in any part."""
    parts = [list(train), list(validation), list(test)]
    visits = sorted({user * pois + poi for part in parts for user, poi, label in part if label > 0})
    keys = np.array(visits, dtype=np.int64)
    return Prepared(
        name="by-hand",
        train=pairs(parts[0]),
        validation=pairs(parts[1]),
        test=pairs(parts[2]),
        user_ids=tuple(f"u{user}" for user in range(users)),
        poi_ids=tuple(f"p{poi}" for poi in range(pois)),
        lat=np.zeros(pois),
        lon=np.linspace(0, 0.01 * (pois - 1), pois),
        category=(np.arange(pois) % 3 - 1).astype(np.int32),
        category_names=("cafe", "museum"),
        visited=DistinctPairs(keys, np.ones(keys.size, dtype=np.int64), None),
        notes=(),
    )


def everyone(users: int, samples: int = 2, pois: int = 8) -> list[Row]:
    """``samples`` positives of each user and as many negatives."""
    return [
        (user, (user + 2 * sample + (label < 0)) % pois, label)
        for user in range(users)
        for sample in range(samples)
        for label in (1, -1)
    ]


def seeded_coins(
    sim: SimulationRng, family: str, rows: NDArray[np.uint32], pois: NDArray[np.uint32]
) -> NDArray[np.uint64]:
    """Privacy coins as a seeded run draws them."""
    return sim.coins(f"privacy:{family}", rows[:, np.newaxis], pois)


def built(data: CheckIns, config: TrainConfig) -> tuple[Prepared, Features, SimulationRng]:
    """What ``fit`` hands to a learner under a seeded ``config``."""
    sim = SimulationRng(config.seed or 0)
    prepared = prepare(data, config.prepare, sim)
    features = assemble(prepared, config, sim, lambda *asked: seeded_coins(sim, *asked))
    return prepared, features, sim


class KeepingRun(MemoryRun):
    """Keeps every snapshot, and starts from ``start`` if there is one."""

    def __init__(self, start: Snapshot | None = None, seed: int = 5) -> None:
        super().__init__()
        self._seed = seed
        self._start = start
        self.snapshots: list[Snapshot] = []

    def load(self) -> Snapshot | None:
        return copy.deepcopy(self._start)

    def save(self, snapshot: Snapshot) -> None:
        self.snapshots.append(copy.deepcopy(snapshot))


class KnownKeysRun(KeepingRun):
    """Its memo keys are those of ``secret``, as if they had been read from disk."""

    def __init__(self, secret: int = 0, seed: int = 5, start: Snapshot | None = None) -> None:
        super().__init__(start, seed)
        self._secret = secret

    def memo_keys(self, users: int) -> NDArray[np.uint8]:
        keys = np.arange(users * MEMO_KEY_BYTES).reshape(users, MEMO_KEY_BYTES) // 7
        return ((keys + self._secret) % 256).astype(np.uint8)


def without_seed(config: TrainConfig) -> TrainConfig:
    """The same settings with privacy coins from memo keys."""
    return replace(config, seed=None)
