"""Data sets by name, and what is said about them."""

import json
from pathlib import Path

import pytest

from recsys.data.catalogue import ROOT_VARIABLE, find, list_sets, resolve
from recsys.data.city import CityConfig
from recsys.data.describe import describe
from recsys.errors import DataError
from tests.recsys.test_checkins import folder, single


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the sets "harbour" and "hills", and things that are none."""
    root = tmp_path / "root"
    for name in ("hills", "harbour", "ratings"):
        (root / name).mkdir(parents=True)
    folder(root / "hills")
    folder(root / "harbour")
    (root / "ratings" / "train.csv").write_text("user,item,rating\n")
    (root / "README.md").write_text("read me\n")
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    return root


def test_the_sets_below_the_root_are_listed_by_name(root: Path) -> None:
    sets = list_sets()
    assert [found.name for found in sets] == ["synthetic-city", "harbour", "hills"]
    assert sets[0].city == CityConfig()
    assert sets[1].path == root / "harbour"


def test_without_a_root_there_is_the_city(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    assert [found.name for found in list_sets()] == ["synthetic-city"]
    monkeypatch.setenv(ROOT_VARIABLE, "/no/such/folder")
    assert [found.name for found in list_sets()] == ["synthetic-city"]


def test_a_name_is_a_path_before_it_is_a_set(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve("hills").name == "hills"
    assert find("hills").path == root / "hills"
    assert resolve(str(root / "hills" / ".." / "harbour")).name == "harbour"
    assert resolve(str(single(tmp_path, "user,poi,lat,lon\na,x,0,0\n", "mine.csv"))).name == "mine"
    here = tmp_path / "here"
    (here / "hills").mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find("hills").path == Path("hills")
    with pytest.raises(DataError, match="holds no check-ins"):
        resolve("hills")  # the empty folder at hand, not the full one elsewhere


def test_a_name_that_leads_nowhere_is_never_replaced(root: Path) -> None:
    with pytest.raises(DataError) as caught:
        resolve("foursquare-paris")
    message = str(caught.value)
    assert f"looked at 'foursquare-paris', '{root / 'foursquare-paris'}'" in message
    assert "the known sets are synthetic-city, harbour, hills" in message
    for name in ("", "synthetic", "Synthetic-City", "x" * 5_000):
        with pytest.raises(DataError, match="there is no data set"):
            resolve(name)


def test_without_a_root_the_remedy_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    with pytest.raises(DataError, match="set PRIVREC_DATA"):
        resolve("hills")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("synthetic-city", CityConfig()),
        ("synthetic-city:50x80", CityConfig(users=50, pois=80)),
        ("synthetic-city,seed=7", CityConfig(seed=7)),
        (
            "synthetic-city:50x80,pois_per_user=2.5,seed=7",
            CityConfig(users=50, pois=80, pois_per_user=2.5, seed=7),
        ),
    ],
)
def test_cities_of_any_size_have_names(name: str, config: CityConfig) -> None:
    assert find(name).city == config
    assert resolve(name).n_users == config.users


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("synthetic-city:50", "does not describe a city"),
        ("synthetic-city:50x60x70", "does not describe a city"),
        ("synthetic-city:axb", "does not describe a city"),
        ("synthetic-city,mayor=1", "the form synthetic-city"),
        ("synthetic-city,seed=x", "does not describe a city"),
        ("synthetic-city:0x10", "users must lie in"),
        ("synthetic-city:10x10,pois_per_user=11", "pois_per_user must lie in"),
    ],
)
def test_cities_that_cannot_be(name: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        find(name)


def test_a_description(tmp_path: Path) -> None:
    text = "user,poi,step,count\na,x,0,3\na,y,1,1\nb,x,0,1\nb,x,4,1\n"
    data = resolve(str(folder(tmp_path, text, "poi,lat,lon,category\nx,0,0,bar\ny,0,1,\nz,2,3,\n")))
    told = describe(data)
    assert json.loads(json.dumps(told)) == told
    expected = {
        "users": 2,
        "pois": 3,
        "rows": 4,
        "check_ins": 6,
        "distinct_pairs": 3,
        "pois_per_user": 1.5,
        "mean_visitors_per_poi": 1.0,
        "pois_with_10_visitors": 0,
        "pairs_at_those_pois": 0,
        "categories": 1,
        "pois_with_category": 1,
        "check_ins_with_category": 5 / 6,
        "ordered": True,
        "south": 0.0,
        "north": 2.0,
        "west": 0.0,
        "east": 3.0,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["visitors_per_poi"] == {
        "min": 0.0,
        "quarter": 0.5,
        "median": 1.0,
        "three_quarters": 1.5,
        "max": 2.0,
    }
    # Without x user a lives at y, and at x without y; user b has no home without x.
    assert told["median_km_from_home"] == pytest.approx(111.195, abs=1e-3)


def test_a_description_of_the_city_uses_its_homes() -> None:
    told = describe(resolve("synthetic-city"))
    assert (told["users"], told["pois"]) == (400, 300)
    assert 1 < told["median_km_from_home"] < 6
