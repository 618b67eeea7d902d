"""Static features: region and category one-hots, and profiles dealt out at random."""

from pathlib import Path

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.data.city import synthetic_city
from recsys.data.features import MAX_LEVELS, load_profiles, one_hots, static_features
from recsys.data.prepare import prepare
from recsys.errors import DataError
from recsys.simulation import SimulationRng

CITY = prepare(synthetic_city())
PROFILES = "user,gender,friends,score\n1,male,3,-0.5\n2,female,0,1.5\n3,male,100,2\n4,,7,0.25\n"


def profiles(root: Path, text: str = PROFILES) -> Path:
    path = root / "profiles.csv"
    path.write_text(text)
    return path


def test_each_poi_has_one_region_and_at_most_one_category() -> None:
    table = static_features(CITY, regions=32)
    assert table.values.shape == (CITY.n_pois, len(table.names))
    assert table.values.dtype == np.float64
    assert len(set(table.names)) == len(table.names)
    assert set(np.unique(table.values)) == {0.0, 1.0}
    region = [name.startswith("region=") for name in table.names]
    assert sum(region) == 32
    assert (table.values[:, region].sum(axis=1) == 1).all()
    sizes = table.values[:, region].sum(axis=0)
    assert sizes.max() - sizes.min() <= 2
    category = table.values[:, np.logical_not(region)]
    assert np.array_equal(category.sum(axis=1), CITY.category >= 0)
    for poi in np.flatnonzero(CITY.category >= 0):
        column = table.names.index(f"category={CITY.category_names[CITY.category[poi]]}")
        assert table.values[poi, column] == 1


def test_features_can_be_left_out() -> None:
    assert static_features(CITY, regions=0, categories=False).values.shape == (CITY.n_pois, 0)
    assert static_features(CITY, regions=4, categories=False).names == tuple(
        f"region={i}" for i in range(4)
    )
    names = static_features(CITY, regions=0).names
    assert all(name.startswith("category=") for name in names)


def test_more_regions_than_places() -> None:
    assert len(static_features(CITY, regions=10_000, categories=False).names) == CITY.n_pois


@pytest.mark.parametrize("regions", [-1, 2.0, True])
def test_a_number_of_regions_that_is_none(regions: int) -> None:
    with pytest.raises(ParameterError, match="regions"):
        static_features(CITY, regions=regions)


def test_an_unknown_category_sets_no_column() -> None:
    assert one_hots(np.array([1, -1, 0], np.int32), 2).tolist() == [[0, 1], [0, 0], [1, 0]]


def test_profiles_are_dealt_out_once_each_and_standardised(tmp_path: Path) -> None:
    table = load_profiles(profiles(tmp_path), 4, SimulationRng(3))
    assert table.names == ("gender=female", "gender=male", "log1p(friends)", "score")
    assert table.values.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-12)
    assert table.values.std(axis=0) == pytest.approx(np.ones(4))
    friends = table.values[:, 2] * np.std(np.log1p([3, 0, 100, 7]))
    assert np.sort(friends - friends.min()) == pytest.approx(np.log1p([0, 3, 7, 100]))
    assert table.note == (
        "user features are those of other people, dealt out at random from profiles.csv"
    )


def test_profiles_follow_the_seed(tmp_path: Path) -> None:
    text = "friends\n" + "".join(f"{i}\n" for i in range(50))
    path = profiles(tmp_path, text)
    first, again, other = (load_profiles(path, 20, SimulationRng(s)).values for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_constant_columns_and_ids_are_no_features(tmp_path: Path) -> None:
    table = load_profiles(profiles(tmp_path, "id,same\n1,5\n2,5\n"), 2, SimulationRng(0))
    assert table.names == ()
    assert table.values.shape == (2, 0)


def test_too_few_profiles(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="4 profiles for 5 users"):
        load_profiles(profiles(tmp_path), 5, SimulationRng(0))


def test_a_column_of_names_is_refused(tmp_path: Path) -> None:
    text = "name\n" + "".join(f"n{i}\n" for i in range(MAX_LEVELS + 1))
    with pytest.raises(DataError, match="17 different texts"):
        load_profiles(profiles(tmp_path, text), 3, SimulationRng(0))
