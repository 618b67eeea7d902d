"""MovieLens files as they are published, with every split that belongs to them."""

import gzip
from pathlib import Path

import pytest

from recsys.data import movielens
from recsys.data.movielens import SPLITS
from recsys.data.rating_files import load_ratings
from recsys.data.rating_ids import IdTable
from recsys.data.rating_rows import read_rows
from recsys.errors import DataError
from tests.recsys.data.rating_worlds import Row, held_out, put, refusal, rows

RATINGS: list[Row] = [("1", "5", 3), ("1", "20", 4), ("2", "5", 1), ("10", "7", 5)]
TIMES = [881250949, 891717742, 878887116, 880606923]


def dat(rows: list[Row], separator: str) -> str:
    times = dict(zip(RATINGS, TIMES, strict=True))
    return "".join(
        separator.join((user, item, f"{value:g}", str(times[user, item, value]))) + "\n"
        for user, item, value in rows
    )


def pair(folder: Path, name: str, test: list[Row], separator: str = "\t") -> None:
    train = [row for row in RATINGS if row not in test]
    for end, part in zip(SPLITS[name], (train, test), strict=True):
        put(folder / f"{name}.{end}", dat(part, separator))


def test_100k_without_its_splits(tmp_path: Path) -> None:
    put(tmp_path / "u.data", dat(RATINGS[::-1], "\t"))
    put(tmp_path / "u.item", "1|Toy Story (1995)|caf\xe9\n".encode("latin-1"))
    data = load_ratings(tmp_path)
    assert rows(data) == RATINGS
    assert data.test is None
    assert data.user_ids == ("1", "2", "10"), "numbers by size"
    assert data.item_ids == ("5", "7", "20")
    assert rows(load_ratings(tmp_path / "u.data")) == RATINGS


@pytest.mark.parametrize("name", SPLITS)
def test_every_split_by_its_name_or_one_of_its_files(tmp_path: Path, name: str) -> None:
    separator = "\t" if name[0] == "u" else "::"
    for at, split in enumerate(SPLITS):
        pair(tmp_path, split, [RATINGS[at % 4]], separator)
    test = [RATINGS[list(SPLITS).index(name) % 4]]
    data = load_ratings(tmp_path, split=name)
    assert (rows(data), held_out(data)) == (RATINGS, test)
    assert (data.name, data.notes) == (f"{tmp_path.name}-{name}", ())
    for end in SPLITS[name]:
        assert held_out(load_ratings(tmp_path / f"{name}.{end}")) == test


def test_a_folder_gives_its_first_split_and_says_so(tmp_path: Path) -> None:
    put(tmp_path / "u.data", dat(RATINGS, "\t"))
    pair(tmp_path, "ua", RATINGS[:1])
    assert load_ratings(tmp_path).notes == ("the test part is that of split ua",)
    pair(tmp_path, "u1", RATINGS[1:2])
    pair(tmp_path, "u2", RATINGS[2:3])
    put(tmp_path / "u3.base", dat(RATINGS, "\t"))
    data = load_ratings(tmp_path)
    assert held_out(data) == RATINGS[1:2]
    assert data.notes == ("the test part is that of split u1, of u1, u2, ua",)


def test_1m_and_10m(tmp_path: Path) -> None:
    """Half stars, and ten times as many ratings, are all that the second has of its own."""
    put(tmp_path / "ratings.dat", "2::122::5::838985046\n1::185::0.5::838983525\n1::1::4.5::1\n")
    put(tmp_path / "movies.dat", "1::Toy Story (1995)::Animation\n")
    data = load_ratings(tmp_path)
    assert rows(data) == [("1", "1", 4.5), ("1", "185", 0.5), ("2", "122", 5)]
    assert (data.low, data.high, data.test) == (0.5, 5, None)
    pair(tmp_path, "ra", RATINGS[:2], "::")
    assert held_out(load_ratings(tmp_path)) == RATINGS[:2]


def test_gzip_and_line_ends(tmp_path: Path) -> None:
    text = ("\ufeff" + dat(RATINGS, "::").replace("\n", "\r\n")).encode()
    put(tmp_path / "ratings.dat.gz", gzip.compress(text, mtime=0))
    assert rows(load_ratings(tmp_path)) == RATINGS


def test_files_without_times(tmp_path: Path) -> None:
    data = load_ratings(put(tmp_path / "r.dat", "a::x::3\nb::x::4\n"))
    assert rows(data) == [("a", "x", 3), ("b", "x", 4)]


def test_u1_is_found_in_the_original_order_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule on a small scale; the real set's digest is checked where the set is."""
    monkeypatch.setattr(movielens, "_ML_100K", 4)
    monkeypatch.setattr(movielens, "_U1_TEST", 1)
    path = put(tmp_path / "u.data", dat(RATINGS, "\t"))
    assert load_ratings(path).test is None
    found = movielens.rows_digest(read_rows(path, movielens.dat_format, IdTable(), IdTable()))
    monkeypatch.setattr(movielens, "_ORIGINAL_ORDER", found)
    data = load_ratings(path)
    assert held_out(data) == RATINGS[:1]
    assert data.notes == ("the test part is u1, the first 20,000 rows of MovieLens 100K",)
    for other in (RATINGS[::-1], [*RATINGS[:3], ("10", "7", 4.0)]):
        text = "\n".join(f"{u}\t{i}\t{v:g}\t{t}" for (u, i, v), t in zip(other, TIMES, strict=True))
        assert load_ratings(put(tmp_path / "u.data", text)).test is None


@pytest.mark.parametrize(
    ("text", "row", "part"),
    [
        ("1::2::3::4\n1::3::x::4\n", 2, "the rating is 'x'"),
        ("1::2::3::4\n1::3::4\n", 2, "the row has 3 fields; expected USER::ITEM::RATING::TIME"),
        ("1::2::3::4\n1:3:3:4\n", 2, "the row has 1 field"),
        ("1::2::3::4\n\n\n1::::3::4\n", 4, "the item is empty"),
        ("1::2\n", 1, "the line has 2 fields; expected user, item, rating"),
        ("1 2 3 4\n", 1, "the line has 1 field"),
        ("1::2::3::4\n1::2::3::4,5\n", 2, "the timestamp is '4,5'"),
        ("<html>\n", None, "this is a web page"),
        ("\n", None, "empty lines alone"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, row: int | None, part: str) -> None:
    error = refusal(put(tmp_path / "ratings.dat", text))
    assert error.row == row
    assert part in str(error)
    assert error.expected


def test_splits_that_are_not_there(tmp_path: Path) -> None:
    pair(tmp_path, "u2", RATINGS[:1])
    assert "no split 'u9'; expected one of those whose two files are here: u2" in str(
        refusal(tmp_path, split="u9")
    )
    assert "u3.base is missing; expected both files of a split; whole are: u2" in str(
        refusal(tmp_path, split="u3")
    )
    put(tmp_path / "u1.test", dat(RATINGS[:1], "\t"))
    with pytest.raises(DataError, match=r"u1\.base is missing"):
        load_ratings(tmp_path / "u1.test")


def test_a_pair_that_is_in_both_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "u1.base", dat(RATINGS, "\t"))
    put(tmp_path / "u1.test", dat(RATINGS[1:2], "\t"))
    error = refusal(tmp_path)
    assert (error.file, error.row) == (str(tmp_path / "u1.test"), 1)
    assert "one for training and one for test" in str(error)


def test_a_folder_of_two_sets_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "u.data", dat(RATINGS, "\t"))
    put(tmp_path / "ratings.dat", dat(RATINGS, "::"))
    assert "the folder holds u.data and ratings.dat" in str(refusal(tmp_path))
