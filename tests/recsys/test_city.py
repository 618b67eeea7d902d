"""The synthetic city: reproducible, of the size asked for, and with something to learn in it."""

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mpc.core.errors import ParameterError
from recsys.data.checkins import CheckIns
from recsys.data.city import (
    CATEGORIES,
    FOURSQUARE_SIZE,
    KOUBEI_SIZE,
    CityConfig,
    synthetic_city,
)
from recsys.data.features import static_features
from recsys.data.geo import haversine, nearest, random_neighbours, spherical_mean
from recsys.data.prepare import PrepareConfig, Prepared, prepare
from recsys.simulation import SimulationRng

CITY = synthetic_city()
SEEDS = range(4)


def same(one: CheckIns, other: CheckIns) -> bool:
    return all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
        for a, b in zip(
            (getattr(one, field.name) for field in dataclasses.fields(one)),
            (getattr(other, field.name) for field in dataclasses.fields(other)),
            strict=True,
        )
    )


def test_the_same_config_is_the_same_city() -> None:
    assert same(CITY, synthetic_city(CityConfig()))
    other = synthetic_city(CityConfig(seed=1))
    assert not np.array_equal(CITY.lat, other.lat)
    assert CITY.pairs().keys.tolist() != other.pairs().keys.tolist()


def test_it_is_made_of_numbered_ids_at_sea() -> None:
    """Nobody is invented, and no coordinate is anybody's: there is no land near (0, 0)."""
    assert CITY.user_ids == tuple(f"u{i}" for i in range(400))
    assert CITY.poi_ids == tuple(f"p{i}" for i in range(300))
    assert CITY.category_names == CATEGORIES
    for part in (CITY.lat, CITY.lon, CITY.user_lat, CITY.user_lon):
        assert part is not None
        assert np.abs(part).max() < 0.2


def test_its_default_size() -> None:
    visits = CITY.counts.sum() / CITY.n_users
    assert 36 < visits < 44
    pairs = CITY.pairs()
    assert pairs.keys.size == CITY.users.size, "one row for each pair"
    assert 25 < pairs.keys.size / CITY.n_users < 31
    known = (CITY.category >= 0).mean()
    assert 0.8 < known < 0.98
    assert CITY.order is not None
    for user in range(CITY.n_users):
        mine = CITY.order[CITY.users == user]
        assert sorted(mine.tolist()) == list(range(mine.size))


def test_popularity_is_heavy_tailed() -> None:
    city = synthetic_city(CityConfig(users=2_000, pois=1_500))
    visitors = np.sort(np.bincount(city.pairs().keys % city.n_pois, minlength=city.n_pois))
    assert visitors[-75:].sum() > 0.15 * visitors.sum(), "a twentieth of the POIs, evenly .05"
    assert visitors[-1] > 5 * np.median(visitors)


def test_visits_fall_with_the_distance_from_home() -> None:
    assert CITY.user_lat is not None
    assert CITY.user_lon is not None
    there = haversine(
        CITY.user_lat[CITY.users],
        CITY.user_lon[CITY.users],
        CITY.lat[CITY.pois],
        CITY.lon[CITY.pois],
    )
    anywhere = haversine(
        CITY.user_lat[:, np.newaxis], CITY.user_lon[:, np.newaxis], CITY.lat, CITY.lon
    )
    assert np.median(there) < 0.6 * np.median(anywhere)


def taste_distance(users: NDArray[np.integer], others: NDArray[np.integer]) -> float:
    """Mean total variation between the category mixes of pairs of users."""
    mixes = np.zeros((CITY.n_users, len(CATEGORIES) + 1))
    np.add.at(mixes, (CITY.users, CITY.category[CITY.pois]), 1)  # unknown is the last column
    mixes /= mixes.sum(axis=1, keepdims=True)
    return float(np.abs(mixes[users] - mixes[others]).sum(axis=1).mean() / 2)


def test_tastes_change_with_the_place() -> None:
    assert CITY.user_lat is not None
    assert CITY.user_lon is not None
    everyone = np.arange(CITY.n_users)
    near = nearest(CITY.user_lat, CITY.user_lon, 1)[0][:, 0]
    far = random_neighbours(CITY.n_users, 1, SimulationRng(0))[:, 0]
    assert taste_distance(everyone, near) < 0.8 * taste_distance(everyone, far)


def popularity_auc(prepared: Prepared) -> float:
    visitors = np.bincount(prepared.train.positives()[1], minlength=prepared.n_pois)
    return float(roc_auc_score(prepared.test.labels, visitors[prepared.test.pois]))


def pooled_auc(prepared: Prepared, neighbours: NDArray[np.int32]) -> float:
    """AUC of popularity times the odds of a POI's region and category among the neighbours."""
    x = static_features(prepared, regions=8).values
    users, pois = prepared.train.positives()
    own = np.zeros((prepared.n_users, x.shape[1]))
    np.add.at(own, users, x[pois])
    pooled, base = own + own[neighbours].sum(axis=1), own.sum(axis=0)
    prior = 0.02 * base + 0.05
    share = pooled.sum(axis=1, keepdims=True) / base.sum()
    weights = np.log(pooled + prior) - np.log(base * share + prior)
    visitors = np.bincount(pois, minlength=prepared.n_pois)
    test = prepared.test
    score = (weights[test.users] * x[test.pois]).sum(axis=1) + np.log1p(visitors)[test.pois]
    return float(roc_auc_score(test.labels, score))


def test_popularity_alone_has_an_auc_of_about_seven_tenths() -> None:
    aucs = [
        popularity_auc(prepare(synthetic_city(CityConfig(seed=seed)), sim=SimulationRng(seed)))
        for seed in SEEDS
    ]
    assert all(0.65 < auc < 0.75 for auc in aucs), aucs


def test_neighbours_help_who_has_few_samples() -> None:
    """Five positives each: geographic neighbours beat oneself alone, and random ones do not."""
    geographic, alone, random, popular = [], [], [], []
    for seed in SEEDS:
        sim = SimulationRng(seed)
        out = prepare(synthetic_city(CityConfig(seed=seed)), PrepareConfig(max_positives=5), sim)
        users, pois = out.train.positives()
        lat, lon = spherical_mean(users, out.lat[pois], out.lon[pois], out.n_users)
        geographic.append(pooled_auc(out, nearest(lat, lon, 10)[0]))
        alone.append(pooled_auc(out, nearest(lat, lon, 0)[0]))
        random.append(pooled_auc(out, random_neighbours(out.n_users, 10, sim)))
        popular.append(popularity_auc(out))
    mean = {
        name: float(np.mean(aucs))
        for name, aucs in (
            ("geographic", geographic),
            ("alone", alone),
            ("random", random),
            ("popular", popular),
        )
    }
    assert mean["geographic"] > mean["alone"] + 0.02, mean
    assert mean["geographic"] > mean["random"] + 0.05, mean
    assert mean["alone"] > mean["popular"] + 0.02, mean


def test_users_who_join_change_nothing_for_the_others() -> None:
    small, large = (synthetic_city(CityConfig(users=users)) for users in (50, 120))
    assert small.user_lat is not None
    assert large.user_lat is not None
    assert np.array_equal(small.lat, large.lat)
    assert np.array_equal(small.user_lat, large.user_lat[:50])
    assert np.array_equal(small.pois, large.pois[large.users < 50])
    assert np.array_equal(small.counts, large.counts[large.users < 50])


@pytest.mark.parametrize(
    "config",
    [
        CityConfig(users=1, pois=1),
        CityConfig(users=2, pois=300),
        CityConfig(users=3, pois=5, pois_per_user=5),
        CityConfig(users=40, pois=2, pois_per_user=1.5),
    ],
)
def test_tiny_cities_come_to_an_end(config: CityConfig) -> None:
    city = synthetic_city(config)
    assert (city.n_users, city.n_pois) == (config.users, config.pois)
    assert set(city.users.tolist()) == set(range(config.users))


@pytest.mark.parametrize(
    "settings",
    [
        {"users": 0},
        {"users": 1.5},
        {"users": True},
        {"users": 10**6 + 1},
        {"pois": 0},
        {"pois_per_user": 0.5},
        {"pois_per_user": 301},
        {"pois_per_user": float("nan")},
        {"pois_per_user": "many"},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_sizes_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        CityConfig(**settings)


def test_a_mean_below_two_is_met() -> None:
    """Koubei's mean is 1.46 POIs per user: whole numbers must not round it away."""
    city = synthetic_city(CityConfig(users=20_000, pois=600, pois_per_user=1.456))
    assert city.pairs().keys.size / 20_000 == pytest.approx(1.456, abs=0.02)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("config", "pairs"), [(FOURSQUARE_SIZE, 462_237), (KOUBEI_SIZE, 497_838 / 4)]
)
def test_the_sizes_of_the_paper(config: CityConfig, pairs: float) -> None:
    tracemalloc.start()
    city = synthetic_city(config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (city.n_users, city.n_pois) == (config.users, config.pois)
    assert city.pairs().keys.size == pytest.approx(pairs, rel=0.01)
    assert peak < 2 << 30
    out = prepare(city, PrepareConfig(min_visitors=0, validation_fraction=0))
    assert len(out.train) + len(out.test) == 2 * city.users.size
