"""Distances, homes and neighbours, with the places where naive geometry breaks."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.geo import (
    EARTH_RADIUS_KM,
    haversine,
    nearest,
    random_neighbours,
    spherical_mean,
)
from recsys.data.regions import equal_regions
from recsys.simulation import SimulationRng

Floats = NDArray[np.float64]

# The coarse grid makes equal places and equal distances frequent.
PLACES = st.lists(
    st.tuples(
        st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 0.0, 1.0, 90.0])),
        st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, 0.0, 1.0, 179.0, 180.0])),
    ),
    min_size=2,
    max_size=30,
)


def by_brute_force(lat: Floats, lon: Floats, n: int) -> list[list[int]]:
    """Sort all others by distance, a micrometre being equal, then by index."""
    rows = []
    for i in range(lat.size):
        km = np.round(haversine(lat[i], lon[i], lat, lon), 9)
        rows.append([j for j in np.lexsort((np.arange(lat.size), km)).tolist() if j != i][:n])
    return rows


@pytest.mark.parametrize(
    ("here", "there", "km", "within"),
    [
        ((0, 179.9), (0, -179.9), 22.239, 5e-4),
        ((0, 0), (0, 180), 20015.114, 5e-4),
        ((90, 0), (90, 135), 0.0, 1e-6),
        ((35.7, 139.7), (35.7, 139.7), 0.0, 0.0),
        ((60.20727, 24.85584), (60.20749, 24.85745), 0.09225, 5e-6),
        ((24.85584, 60.20727), (24.85745, 60.20749), 0.1804, 5e-5),
        ((0, 180), (0, -180), 0.0, 1e-9),
        ((-90, 0), (90, 77), np.pi * EARTH_RADIUS_KM, 1e-9),
    ],
)
def test_o25_distances(
    here: tuple[float, float], there: tuple[float, float], km: float, within: float
) -> None:
    assert haversine(*here, *there) == pytest.approx(km, abs=within)
    assert haversine(*there, *here) == pytest.approx(km, abs=within)


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_o25_antipodes_are_no_nan(lat: float, lon: float) -> None:
    opposite = lon - 180 if lon > 0 else lon + 180
    assert haversine(lat, lon, -lat, opposite) == pytest.approx(20015.1144, abs=1e-3)


def test_o25_date_line() -> None:
    lat, lon = np.zeros(3), np.array([179.9, -179.9, 179.0])
    neighbours, km = nearest(lat, lon, 2)
    assert neighbours[0].tolist() == [1, 2]
    assert km[0] == pytest.approx([22.239, 100.075], abs=1e-3)


@pytest.mark.parametrize(
    ("lat", "lon", "part"),
    [
        (120.0, 0.0, "swapped"),
        (0.0, 190.0, "subtract 360"),
        (np.nan, 0.0, "nan"),
        (0.0, np.inf, "inf"),
    ],
)
def test_o25_coordinates_out_of_range_are_refused(lat: float, lon: float, part: str) -> None:
    with pytest.raises(ParameterError, match=part):
        haversine(lat, lon, 0, 0)
    with pytest.raises(ParameterError, match="position 1"):
        nearest(np.array([0.0, lat]), np.array([0.0, lon]), 1)
    with pytest.raises(ParameterError, match="position 1"):
        equal_regions(np.array([0.0, lat]), np.array([0.0, lon]), 2)


def test_o25_home_across_the_date_line_and_at_a_pole() -> None:
    users = np.array([0, 0, 1, 1, 1, 2], np.int32)
    lat = np.array([10.0, 10.0, 80.0, 80.0, 80.0, -33.0])
    lon = np.array([179.0, -179.0, 0.0, 120.0, -120.0, 151.0])
    home_lat, home_lon = spherical_mean(users, lat, lon, 3)
    assert abs(home_lon[0]) == pytest.approx(180)
    assert home_lat[0] == pytest.approx(10.0015, abs=1e-4)  # the great circle runs further north
    assert home_lat[1] == pytest.approx(90)
    assert (home_lat[2], home_lon[2]) == pytest.approx((-33, 151))


def test_a_mean_of_antipodes_is_the_first_visit() -> None:
    lat, lon = np.array([20.0, -20.0]), np.array([30.0, -150.0])
    home = spherical_mean(np.zeros(2, np.int32), lat, lon, 1)
    assert (home[0][0], home[1][0]) == pytest.approx((20, 30))


def test_a_group_without_a_point_has_no_mean() -> None:
    with pytest.raises(ParameterError, match="1 of 3 groups have no point to average"):
        spherical_mean(np.array([0, 2], np.int32), np.zeros(2), np.zeros(2), 3)
    with pytest.raises(ParameterError, match="lie in"):
        spherical_mean(np.array([0, 3], np.int32), np.zeros(2), np.zeros(2), 3)


@given(PLACES, st.data())
def test_nearest_equals_brute_force(places: list[tuple[float, float]], data: st.DataObject) -> None:
    lat, lon = (np.array(part, dtype=np.float64) for part in zip(*places, strict=True))
    n = data.draw(st.integers(0, lat.size - 1))
    neighbours, km = nearest(lat, lon, n)
    assert neighbours.dtype == np.int32
    assert neighbours.shape == km.shape == (lat.size, n)
    # Near an antipode the haversine loses metres, so that ranks are compared by distance there.
    for i, row in enumerate(by_brute_force(lat, lon, n)):
        expected = haversine(lat[i], lon[i], lat[row], lon[row])
        near = expected < 19_000
        assert neighbours[i][near].tolist() == np.array(row, dtype=int)[near].tolist()
        assert km[i] == pytest.approx(expected, abs=0.2)
    assert not (neighbours == np.arange(lat.size)[:, np.newaxis]).any()


def test_nearest_equals_brute_force_in_a_town() -> None:
    coins = SimulationRng(0).generator("town")
    lat, lon = coins.normal(35.7, 0.05, 500), coins.normal(139.7, 0.05, 500)
    assert nearest(lat, lon, 10)[0].tolist() == by_brute_force(lat, lon, 10)


def test_equal_distances_go_by_index() -> None:
    lat, lon = np.array([0.0, 0.0, 1.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0, -1.0, 0.0])
    assert nearest(lat, lon, 3)[0][0].tolist() == [1, 2, 3]


def test_thousands_at_one_place_need_little_memory() -> None:
    """All in one place: every pair is at distance 0, yet no list of all pairs is made."""
    people = 20_000
    tracemalloc.start()
    neighbours, km = nearest(np.zeros(people), np.full(people, 9.0), 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert neighbours[:5].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2]]
    assert not km.any()
    assert peak < people * 2_000


@pytest.mark.parametrize("n", [-1, 4, 10])
def test_too_few_users_for_n_neighbours(n: int) -> None:
    with pytest.raises(ParameterError, match=r"must lie in \[0, 3\]"):
        nearest(np.zeros(4), np.zeros(4), n)
    with pytest.raises(ParameterError, match=r"must lie in \[0, 3\]"):
        random_neighbours(4, n, SimulationRng(0))


@given(st.integers(1, 40), st.data())
def test_random_neighbours_are_distinct_others(users: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, users - 1))
    sim = SimulationRng(data.draw(st.integers(0, 2**64 - 1)))
    neighbours = random_neighbours(users, n, sim)
    assert neighbours.shape == (users, n)
    assert neighbours.dtype == np.int32
    for i, row in enumerate(neighbours.tolist()):
        assert len({*row, i}) == n + 1
        assert all(0 <= j < users for j in row)
    assert np.array_equal(neighbours, random_neighbours(users, n, sim))


def test_random_neighbours_need_no_square_of_memory() -> None:
    tracemalloc.start()
    random_neighbours(30_000, 10, SimulationRng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000**2 / 8  # a bit for each pair


@given(PLACES, st.integers(1, 12))
def test_regions_partition_the_places(places: list[tuple[float, float]], regions: int) -> None:
    lat, lon = (np.array(part, dtype=np.float64) for part in zip(*places, strict=True))
    cell = equal_regions(lat, lon, regions)
    assert sorted(set(cell.tolist())) == list(range(cell.max() + 1))
    assert cell.max() < regions
    of_place: dict[tuple[float, float], int] = {}
    for place, number in zip(places, cell.tolist(), strict=True):
        assert of_place.setdefault(place, number) == number, "one place was cut apart"


@pytest.mark.parametrize("regions", [1, 2, 7, 32])
def test_regions_hold_equally_many_points(regions: int) -> None:
    coins = SimulationRng(2).generator("points")
    sizes = np.bincount(
        equal_regions(coins.uniform(-60, 60, 900), coins.uniform(-180, 180, 900), regions)
    )
    assert sizes.size == regions
    assert sizes.max() - sizes.min() <= 2


def test_regions_see_no_seam_at_the_date_line() -> None:
    lat = np.zeros(4)
    cell = equal_regions(lat, np.array([179.9, -179.9, 10.0, 10.2]), 2)
    assert cell[0] == cell[1] != cell[2] == cell[3]
