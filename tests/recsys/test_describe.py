"""Distances from home against chance, popularity and activity: the numbers of a description."""

import json
from typing import Any

import numpy as np
import pytest

from recsys.data.catalogue import resolve
from recsys.data.checkins import CheckIns
from recsys.data.describe import (
    BAND_KM,
    ENOUGH_VISITORS,
    Survey,
    describe,
    leave_one_out_homes,
)
from recsys.data.geo import haversine, spherical_mean
from recsys.data.prepare import PrepareConfig
from recsys.simulation import SimulationRng

KM_PER_DEGREE = 6371.0088 * np.pi / 180


def visits(pairs: list[tuple[int, int]], lat: list[float], lon: list[float]) -> CheckIns:
    """Check-ins of the (user, POI) pairs given, one each."""
    users, pois = (np.array(part, dtype=np.int32) for part in zip(*pairs, strict=True))
    return CheckIns(
        name="made by hand",
        users=users,
        pois=pois,
        user_ids=tuple(f"u{user}" for user in range(users.max() + 1)),
        poi_ids=tuple(f"p{poi}" for poi in range(len(lat))),
        lat=np.array(lat, dtype=np.float64),
        lon=np.array(lon, dtype=np.float64),
        category=np.full(len(lat), -1, dtype=np.int32),
        category_names=(),
        order=None,
        counts=np.ones(users.size, dtype=np.int64),
    )


def scattered(users: int, pois: int, seed: int) -> CheckIns:
    """Visits without any law: every POI is as good as any other, wherever it lies."""
    coins = np.random.default_rng(seed)
    pairs = np.argwhere(coins.random((users, pois)) < 0.2)
    return visits(
        [(int(user), int(poi)) for user, poi in pairs],
        list(coins.uniform(-0.1, 0.1, pois)),
        list(coins.uniform(-0.1, 0.1, pois)),
    )


# Homes


def one_by_one(groups: Any, lat: Any, lon: Any) -> Any:
    """The same in a plain loop: each point taken out, the mean of what is left of its group."""
    homes = []
    for index, group in enumerate(groups):
        rest = [other for other in np.flatnonzero(groups == group) if other != index]
        here = np.zeros(len(rest), dtype=np.int64)
        homes.append([part[0] for part in spherical_mean(here, lat[rest], lon[rest], 1)])
    return np.array(homes).T


@pytest.mark.parametrize("spread", [0.01, 1.0, 80.0], ids=["a street", "a region", "the globe"])
def test_leave_one_out_homes_equal_a_plain_loop(spread: float) -> None:
    coins = np.random.default_rng(3)
    groups = np.concatenate([np.repeat(np.arange(6), 2), coins.integers(0, 6, 60)])
    lat, lon = coins.uniform(-spread, spread, 72), 2 * coins.uniform(-spread, spread, 72) + 10
    got = leave_one_out_homes(groups, lat, lon, 6)
    expected = one_by_one(groups, lat, lon)
    assert haversine(*got, *expected).max() < 1e-6  # km: a millimetre


def test_where_the_others_cancel_out_their_first_stands_in() -> None:
    # Without the third point two antipodes are left, and likewise without the sixth.
    groups = np.array([0, 0, 0, 1, 1, 1])
    lat = np.array([0.0, 0, 30, 50, 0, 0])
    lon = np.array([0.0, 180, 5, 5, 20, -160])
    got = np.array(leave_one_out_homes(groups, lat, lon, 2))
    np.testing.assert_allclose(got, one_by_one(groups, lat, lon), atol=1e-9)
    np.testing.assert_allclose(got[:, 2], (0, 0), atol=1e-9)
    np.testing.assert_allclose(got[:, 3], (0, 20), atol=1e-9)


def test_a_home_with_the_visit_itself_would_make_nearness_where_there_is_none() -> None:
    """POIs without any law of distance: measured with such homes they would seem to have one."""
    data = scattered(users=300, pois=15, seed=1)
    far = Survey.of(data).distances
    who, user = np.unique(data.users, return_inverse=True)
    poi = data.pois
    lat, lon = spherical_mean(user, data.lat[poi], data.lon[poi], who.size)
    biased = haversine(lat[user], lon[user], data.lat[poi], data.lon[poi])
    assert np.median(biased) < 0.8 * np.median(far.random)
    assert np.median(far.visited) > 0.95 * np.median(far.random)


def test_users_with_one_poi_are_left_out_and_counted() -> None:
    data = visits([(0, 0), (0, 1), (1, 0), (2, 1), (2, 0), (2, 2)], [0, 0, 0], [0, 1, 2])
    told = describe(data)["distances"]
    assert (told["users"], told["users_left_out"], told["visits"]) == (2, 1, 5)
    assert told["homes"] == "mean place of the user's other POIs"


def test_nobody_with_two_pois_has_no_law_and_no_error() -> None:
    told = describe(visits([(0, 0), (1, 1)], [0, 0], [0, 1]))
    far = told["distances"]
    assert (far["users"], far["users_left_out"], far["visits"]) == (0, 2, 0)
    assert far["bands"] == []
    assert told["median_km_from_home"] is None
    assert set(far["visited_km"].values()) == set(far["random_within_km"].values()) == {None}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_repeated_visits_to_one_poi_are_one_visit() -> None:
    """Else her home would be where she checks in daily, and the daily place next to it."""
    once = visits([(0, 0), (0, 1), (0, 2)], [0, 0, 0], [0, 1, 4])
    often = visits([(0, 0)] * 50 + [(0, 1), (0, 2)], [0, 0, 0], [0, 1, 4])
    assert describe(often)["distances"] == describe(once)["distances"]


def test_a_city_is_measured_from_the_homes_it_comes_with() -> None:
    data = resolve("synthetic-city:50x40")
    far = Survey.of(data).distances
    assert data.user_lat is not None
    assert data.user_lon is not None
    user, poi = np.divmod(data.pairs().keys, data.n_pois)
    direct = haversine(data.user_lat[user], data.user_lon[user], data.lat[poi], data.lon[poi])
    np.testing.assert_array_equal(far.visited, direct)
    assert far.given_homes
    assert far.left_out == 0


# Distances by hand


@pytest.fixture
def street() -> CheckIns:
    """POIs at 0, 3, 6 and 45 km on the equator. User a knows three of them, b two."""
    pairs = [(0, 0), (0, 1), (0, 3), (1, 1), (1, 2)]
    return visits(pairs, [0, 0, 0, 0], [km / KM_PER_DEGREE for km in (0, 3, 6, 45)])


def test_distances_made_by_hand(street: CheckIns) -> None:
    # a: from 24 to 0, from 22.5 to 3, from 1.5 to 45; b: from 6 to 3 and from 3 to 6.
    far = Survey.of(street).distances
    np.testing.assert_allclose(far.visited, [24, 19.5, 43.5, 3, 3], rtol=1e-6)
    np.testing.assert_array_equal(far.activity, [3, 3, 3, 2, 2])
    told = describe(street)
    assert told["median_km_from_home"] == pytest.approx(19.5)
    law = told["distances"]
    assert law["visited_within_km"] == {"1": 0.0, "5": 0.4, "10": 0.4, "50": 1.0}
    assert law["visited_km"]["quarter"] == pytest.approx(3)
    assert law["visited_km"]["three_quarters"] == pytest.approx(24)
    assert law["probability"] == 5 / 8
    shares = {band["to_km"]: band["visited"] for band in law["bands"]}
    assert shares == {0.5: 0, 1: 0, 2: 0, 5: 0.4, 10: 0, 20: 0.2, 50: 0.4}


def test_a_band_that_few_random_pois_fell_into_has_no_probability(street: CheckIns) -> None:
    assert {band["probability"] for band in describe(street)["distances"]["bands"]} == {None}


def test_the_bands_add_up_and_agree_with_the_shares_within(street: CheckIns) -> None:
    for data in (street, resolve("synthetic-city"), scattered(40, 30, seed=2)):
        law = describe(data)["distances"]
        for name in ("visited", "random"):
            assert sum(band[name] for band in law["bands"]) == pytest.approx(1)
            for limit in (1, 5, 10, 50):
                near = sum(b[name] for b in law["bands"] if b["to_km"] and b["to_km"] <= limit)
                assert near == pytest.approx(law[f"{name}_within_km"][str(limit)])


def test_a_distance_at_the_end_of_a_band_belongs_to_it() -> None:
    exactly = np.array(BAND_KM)
    assert np.searchsorted(BAND_KM, exactly).tolist() == list(range(len(BAND_KM)))


def test_the_last_band_has_no_end() -> None:
    data = visits([(0, 0), (0, 1)], [0, 0], [0, 170])
    last = describe(data)["distances"]["bands"][-1]
    assert (last["from_km"], last["to_km"], last["visited"]) == (10_000, None, 1.0)


# Chance


def test_random_pois_are_drawn_evenly_from_the_catalogue() -> None:
    """POIs at 0, 1, ... 9 degrees east: the distance tells which one was drawn, from a home at 0.

    Of 200,000 draws .0067 are ten standard deviations of a share of 1/10. Drawn by popularity, the
    share would be a half or nothing: all visits are to POIs 0 and 1.
    """
    users = 100_000
    data = visits([(0, 0)], [0.0] * 10, [float(lon) for lon in range(10)])
    pois = np.tile(np.array([0, 1], dtype=np.int32), users)
    data = CheckIns(
        **{
            **vars(data),
            "users": np.repeat(np.arange(users, dtype=np.int32), 2),
            "pois": pois,
            "user_ids": tuple(map(str, range(users))),
            "counts": np.ones(2 * users, dtype=np.int64),
            "user_lat": np.zeros(users),
            "user_lon": np.zeros(users),
        }
    )
    far = Survey.of(data).distances
    drawn = np.rint(far.random / KM_PER_DEGREE).astype(int)
    assert far.random.size == 2 * users
    assert np.abs(np.bincount(drawn, minlength=10) / drawn.size - 0.1).max() < 0.0067
    popular = np.rint(far.popular / KM_PER_DEGREE).astype(int)
    assert set(popular.tolist()) == {0, 1}
    assert abs(popular.mean() - 0.5) < 0.011  # 10 standard deviations


def test_the_null_of_a_visit_does_not_depend_on_other_users() -> None:
    small, large = (resolve(f"synthetic-city:{users}x40") for users in (20, 30))
    few, many = (Survey.of(data).distances for data in (small, large))
    np.testing.assert_array_equal(few.random, many.random[: few.random.size])


def test_random_distances_are_the_coins_of_seed_0(street: CheckIns) -> None:
    far, again = (Survey.of(street).distances for _ in range(2))
    np.testing.assert_array_equal(far.random, again.random)
    coins = SimulationRng(0).coins("random POI", [0, 0, 0, 1, 1], [0, 1, 3, 1, 2])
    drawn = (coins >> np.uint64(62)).astype(int)  # of four POIs the top two bits are the index
    homes = np.array([24, 22.5, 1.5, 6, 3])
    expected = np.abs(np.array([0, 3, 6, 45])[drawn] - homes)
    np.testing.assert_allclose(far.random, expected, rtol=1e-6, atol=1e-9)


def test_visits_without_a_law_of_distance_look_like_chance() -> None:
    data = scattered(users=500, pois=60, seed=5)
    law = describe(data)["distances"]
    assert law["visited_km"]["median"] == pytest.approx(law["random_km"]["median"], rel=0.06)
    for band in law["bands"]:
        if band["probability"] is not None and band["visited"] > 0.1:
            assert band["probability"] == pytest.approx(law["probability"], rel=0.15)


def test_the_city_s_users_go_where_it_is_near_and_not_only_where_all_go() -> None:
    law = describe(resolve("synthetic-city"))["distances"]
    median = {name: law[f"{name}_km"]["median"] for name in ("visited", "random", "popular")}
    assert median["visited"] < 0.6 * min(median["random"], median["popular"])
    bands = {band["to_km"]: band["probability"] for band in law["bands"]}
    assert bands[2] > 2 * law["probability"]
    assert bands[20] < law["probability"] / 2


def test_the_probability_by_distance_is_that_of_all_pairs_counted() -> None:
    """The estimate from random POIs against every pair of user and POI, at its true distance."""
    data = resolve("synthetic-city")
    assert data.user_lat is not None
    assert data.user_lon is not None
    km = haversine(data.user_lat[:, np.newaxis], data.user_lon[:, np.newaxis], data.lat, data.lon)
    been = np.zeros(km.shape, dtype=np.bool_)
    been[data.users, data.pois] = True
    for band in describe(data)["distances"]["bands"]:
        inside = (km > band["from_km"]) & (km <= (band["to_km"] or np.inf))
        if band["random"] > 0.01:  # a relative error of 1/sqrt(115), and users with few visits
            assert band["probability"] == pytest.approx(been[inside].mean(), rel=0.25)


def test_users_who_visit_much_do_not_pass_for_all_users() -> None:
    """One was everywhere in a town of 390 POIs; 10,000 know two of the ten in a hamlet far away.

    Of the 20,390 draws 390 are hers. Counted as pairs alike, they would make the near ones many
    times as many as they are. About 500 draws of the others are near, so 30 % are six standard
    deviations.
    """
    town, hamlet, others = 390, 10, 10_000
    lon = [*(np.arange(town) * 1e-6), *(1 + np.arange(hamlet) * 1e-6)]
    pairs = [(user, town + poi) for user in range(others) for poi in (0, 1)]
    data = visits([*pairs, *((others, poi) for poi in range(town))], [0.0] * len(lon), lon)
    near, *_, far = describe(data)["distances"]["bands"]
    pairs_near = others * hamlet + town
    assert near["probability"] == pytest.approx((2 * others + town) / pairs_near, rel=0.3)
    assert (far["to_km"], far["visited"], far["probability"]) == (200, 0, 0)


# Popularity


def test_the_share_of_the_most_popular_hundredth() -> None:
    # 150 POIs, so that two of them are the top 1 %: they have 5 and 4 of 157 visits.
    many = (150, 2, 2, 2)
    pairs = [(user, poi) for user in range(4) for poi in range(many[user])]
    pairs.append((4, 0))
    told = describe(visits(pairs, [0.0] * 150, list(np.arange(150) * 1e-3)))
    assert told["distinct_pairs"] == 157
    assert told["share_of_top_1_percent_pois"] == 9 / 157


def test_the_threshold_is_the_default_filter() -> None:
    assert PrepareConfig().min_visitors == ENOUGH_VISITORS


def test_pairs_at_pois_with_enough_visitors() -> None:
    pairs = [*((user, 0) for user in range(10)), *((user, 1) for user in range(9)), (0, 2)]
    told = describe(visits(pairs, [0, 0, 0], [0, 1, 2]))
    assert (told["pois_with_10_visitors"], told["pairs_at_those_pois"]) == (1, 10)
