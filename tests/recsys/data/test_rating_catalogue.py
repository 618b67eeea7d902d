"""Rating sets by name."""

from pathlib import Path

import pytest

from recsys.data.catalogue import ROOT_VARIABLE
from recsys.data.rating_catalogue import find_ratings, list_rating_sets, resolve
from recsys.data.synthetic_ratings import SyntheticRatingsConfig
from recsys.errors import DataError
from tests.recsys.data.rating_worlds import put, rows

CSV = "user,item,rating\na,x,3\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the sets "films" and "books", and things that are none."""
    root = tmp_path / "root"
    for name in ("films", "books", "town"):
        (root / name).mkdir(parents=True)
    for split, user in (("u1", "1"), ("u3", "3")):
        put(root / "films" / f"{split}.base", f"{user}\t7\t5\t0\n9\t9\t2\t0\n")
        put(root / "films" / f"{split}.test", "8\t8\t4\t0\n")
    put(root / "books" / "train.csv", CSV)
    put(root / "books" / "train.csv.gz", CSV)  # one too many: listed, refused when it is read
    put(root / "town" / "checkins.csv", "user,poi,lat,lon\na,x,0,0\n")
    put(root / "README.md", "read me\n")
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    return root


def test_the_sets_below_the_root_are_listed_by_name(root: Path) -> None:
    sets = list_rating_sets()
    assert [found.name for found in sets] == ["synthetic-ratings", "books", "films"]
    assert sets[0].synthetic == SyntheticRatingsConfig()
    assert sets[2].path == root / "films"


def test_without_a_root_there_is_the_built_in_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "/no/such/folder"):
        monkeypatch.setenv(ROOT_VARIABLE, value)
        assert [found.name for found in list_rating_sets()] == ["synthetic-ratings"]


def test_a_name_is_a_path_before_it_is_a_set(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve("films").user_ids == ("1", "8", "9")
    assert find_ratings("films").path == root / "films"
    assert rows(resolve(str(put(tmp_path / "mine.csv", CSV)))) == [("a", "x", 3)]
    here = tmp_path / "here"
    (here / "films").mkdir(parents=True)
    monkeypatch.chdir(here)
    assert find_ratings("films").path == Path("films")
    with pytest.raises(DataError, match="there are no ratings"):
        resolve("films")  # the empty folder at hand, not the full one elsewhere


def test_a_split_follows_a_colon(root: Path, tmp_path: Path) -> None:
    found = find_ratings("films:u3")
    assert (found.path, found.split) == (root / "films", "u3")
    data = resolve("films:u3")
    assert (data.name, data.user_ids) == ("films-u3", ("3", "8", "9"))
    assert resolve(f"{root / 'films'}:u1").user_ids == ("1", "8", "9")
    with pytest.raises(DataError, match=r"ua\.base is missing"):
        resolve("films:ua")
    (tmp_path / "a:u1.csv").write_text(CSV)
    assert find_ratings(str(tmp_path / "a:u1.csv")).split is None


def test_a_name_that_leads_nowhere_is_never_replaced(root: Path) -> None:
    for name in ("ml-25m", "ml-25m:u1"):
        with pytest.raises(DataError) as caught:
            resolve(name)
        message = str(caught.value)
        assert f"looked at 'ml-25m', '{root / 'ml-25m'}'" in message
        assert "the known sets are synthetic-ratings, books, films" in message
    for name in ("", ":", ":u1", "films:", "films:u9", "Synthetic-Ratings", "x" * 5_000):
        with pytest.raises(DataError, match="there is no rating set"):
            resolve(name)


def test_without_a_root_the_remedy_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    with pytest.raises(DataError, match="set PRIVREC_DATA"):
        resolve("films")


def test_check_ins_are_no_ratings(root: Path) -> None:
    with pytest.raises(DataError, match="there are no ratings"):
        resolve("town")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("synthetic-ratings", SyntheticRatingsConfig()),
        ("synthetic-ratings:50x80", SyntheticRatingsConfig(users=50, items=80)),
        ("synthetic-ratings,seed=7", SyntheticRatingsConfig(seed=7)),
        (
            "synthetic-ratings:60x40,per_user=4.5,seed=1",
            SyntheticRatingsConfig(users=60, items=40, per_user=4.5, seed=1),
        ),
    ],
)
def test_synthetic_sets_of_any_size_have_names(name: str, config: SyntheticRatingsConfig) -> None:
    assert find_ratings(name).synthetic == config
    assert resolve(name).n_users == config.users


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("synthetic-ratings:50", "does not describe a rating set"),
        ("synthetic-ratings:50x60x70", "does not describe a rating set"),
        ("synthetic-ratings:axb", "does not describe a rating set"),
        ("synthetic-ratings,stars=1", "the form synthetic-ratings"),
        ("synthetic-ratings,seed=x", "does not describe a rating set"),
        ("synthetic-ratings:0x10", "users must lie in"),
        ("synthetic-ratings:10x10,per_user=11", "per_user must lie in"),
    ],
)
def test_synthetic_sets_that_cannot_be(name: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        find_ratings(name)
