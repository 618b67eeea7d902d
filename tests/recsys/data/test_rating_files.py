"""Which kind of rating files a path holds, and what the set is called."""

import gzip
from pathlib import Path

import pytest

from recsys.data.rating_files import holds_ratings, load_ratings
from recsys.errors import DataError
from tests.recsys.data.rating_worlds import put, refusal, rows

CSV = "user,item,rating\na,x,3\n"
ATOMIC = "user_id:token\titem_id:token\trating:float\na\tx\t3\n"
DAT = "a::x::3::1\n"
TABS = "a\tx\t3\t1\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", CSV),
        ("r.csv.gz.old", CSV),
        ("r.txt", CSV),
        ("r.inter", ATOMIC),
        ("r.txt", ATOMIC),
        ("r.dat", DAT),
        ("r.txt", DAT),
        ("u.data", TABS),
        ("r.tsv", TABS),
        ("r", TABS),
    ],
)
def test_a_file_is_told_by_its_name_or_its_first_line(tmp_path: Path, name: str, text: str) -> None:
    assert rows(load_ratings(str(put(tmp_path / name, text)))) == [("a", "x", 3)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("r.csv", "r"), ("r.csv.gz", "r"), ("my.films.dat", "my.films"), ("r", "r")],
)
def test_what_a_set_is_called(tmp_path: Path, name: str, expected: str) -> None:
    text = (DAT if name.endswith("dat") else CSV).encode()
    path = put(tmp_path / name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    assert load_ratings(path).name == expected
    assert load_ratings(path, "mine").name == "mine"


def test_a_folder_of_no_or_of_two_kinds(tmp_path: Path) -> None:
    put(tmp_path / "checkins.csv", "user,poi\n")
    assert not holds_ratings(tmp_path)
    assert "there are no ratings; expected one of: u.data" in str(refusal(tmp_path))
    put(tmp_path / "train.csv", CSV)
    assert holds_ratings(tmp_path)
    put(tmp_path / "r.inter", ATOMIC)
    error = refusal(tmp_path)
    assert "the folder holds csv and atomic files" in str(error)
    assert error.remedy == "name the file to read"


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    assert "no such file or folder" in str(refusal(tmp_path / "none"))
    assert not holds_ratings(tmp_path / "none")
    with pytest.raises(DataError, match="no such file or folder"):
        load_ratings("x" * 5_000)


@pytest.mark.parametrize(("name", "text"), [("r.csv", CSV), ("r.inter", ATOMIC)])
def test_splits_by_name_are_movielens_alone(tmp_path: Path, name: str, text: str) -> None:
    error = refusal(put(tmp_path / name, text), split="u1")
    assert "there is no split 'u1'" in str(error)
    assert error.remedy == "leave the split out"


def test_a_file_of_the_wrong_kind_for_its_name(tmp_path: Path) -> None:
    assert "is missing" in str(refusal(put(tmp_path / "r.csv", DAT)))
    assert "not a MATLAB file" in str(refusal(put(tmp_path / "r.mat", CSV)))
    assert "between tabs or '::'" in str(refusal(put(tmp_path / "r.dat", CSV)))
