"""Ratings as comma-separated text, and what holds for every format of rows: repeats and range."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from recsys.data.rating_files import load_ratings
from tests.recsys.data.rating_worlds import held_out, put, refusal, rows

TRAIN = "user,item,rating\nb,x,4\na,y,3.5\na,x,5\n"
TEST = "user,item,rating\nb,y,1\n"


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        put(root / f"{name}.csv", text)
    return root


def test_a_folder_of_parts(tmp_path: Path) -> None:
    data = load_ratings(folder(tmp_path, train=TRAIN, test=TEST))
    assert data.name == tmp_path.name
    assert rows(data) == [("a", "x", 5), ("a", "y", 3.5), ("b", "x", 4), ("b", "y", 1)]
    assert held_out(data) == [("b", "y", 1)]
    assert (data.low, data.high) == (1, 5)
    assert (data.user_ids, data.item_ids, data.notes) == (("a", "b"), ("x", "y"), ())
    assert data.triples.users.dtype == data.triples.items.dtype == np.int32
    assert data.triples.values.dtype == np.float64
    assert data.user_graph is data.item_graph is None


def test_one_file_has_no_test_part(tmp_path: Path) -> None:
    data = load_ratings(put(tmp_path / "mine.csv", TRAIN), "my ratings")
    assert (data.name, data.test, len(data.triples)) == ("my ratings", None, 3)
    assert load_ratings(tmp_path / "mine.csv").name == "mine"
    assert load_ratings(folder(tmp_path, train=TRAIN)).test is None


@pytest.mark.parametrize("name", ["ratings.csv", "ratings.csv.gz"])
def test_the_latest_movielens_sets(tmp_path: Path, name: str) -> None:
    text = b"userId,movieId,rating,timestamp\n2,10,0.5,964982703\n1,9,4.0,964981247\n"
    put(tmp_path / name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    put(tmp_path / "movies.csv", "movieId,title,genres\n9,A,B\n")
    put(tmp_path / "tags.csv", "userId,movieId,tag,timestamp\n")
    data = load_ratings(tmp_path)
    assert rows(data) == [("1", "9", 4.0), ("2", "10", 0.5)]
    assert data.test is None


def test_columns_in_any_order_and_case_among_others(tmp_path: Path) -> None:
    text = 'note,Rating, ITEM_ID ,User\n"so, so",3,x,a\n,4,y,a\n'
    assert rows(load_ratings(put(tmp_path / "r.csv", text))) == [("a", "x", 3), ("a", "y", 4)]


def test_the_order_of_the_rows_does_not_count(tmp_path: Path) -> None:
    lines = [f"{user},{item},{(user * item) % 5}" for user in range(20) for item in range(user + 1)]
    sets = [
        load_ratings(put(tmp_path / "r.csv", "user,item,rating\n" + "\n".join(part)))
        for part in (lines, lines[::-1])
    ]
    assert rows(sets[0]) == rows(sets[1])
    keys = sets[0].triples.users * 100 + sets[0].triples.items
    assert (np.diff(keys) > 0).all(), "by user, then item"


def test_users_and_items_without_a_rating(tmp_path: Path) -> None:
    """They come with the lists and the graphs; graphs are undirected, each edge once."""
    data = load_ratings(
        folder(
            tmp_path,
            train=TRAIN,
            users="user,age\nc,30\na,20\n",
            items="title,item\nZ,z\n",
            user_graph="source,target\nb,a\na,b\nd,c\na,a\n",
            item_graph="source,target\nx,y\n",
        )
    )
    assert data.user_ids == ("a", "b", "c", "d")
    assert data.item_ids == ("x", "y", "z")
    assert data.user_graph is not None
    assert data.user_graph.source.tolist() == [0, 0, 2]
    assert data.user_graph.target.tolist() == [0, 1, 3]
    assert data.item_graph is not None
    assert (data.item_graph.source.tolist(), data.item_graph.target.tolist()) == ([0], [1])


def test_o21_values_are_never_made_whole(tmp_path: Path) -> None:
    """Ratings up to 100 and half stars stay what they are, and so do their ranges."""
    text = "user,item,rating\na,x,1\na,y,99\nb,x,100\n"
    data = load_ratings(put(tmp_path / "yahoo.csv", text))
    assert data.triples.values.tolist() == [1, 99, 100]
    assert (data.low, data.high) == (1, 100)
    assert (data.triples.values / data.high).tolist() == [0.01, 0.99, 1.0]
    constant = np.sqrt(np.mean((data.triples.values - 50) ** 2))
    assert constant == pytest.approx(49.34, abs=0.01)
    stars = load_ratings(put(tmp_path / "stars.csv", "user,item,rating\na,x,0.5\na,y,3.5\nb,x,5\n"))
    assert stars.triples.values.tolist() == [0.5, 3.5, 5.0]
    assert stars.triples.values.dtype == np.float64
    assert (stars.low, stars.high) == (0.5, 5.0)


def test_a_scale_that_is_given_bounds_the_ratings(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "user,item,rating\n1,2,3\n\n1,3,6\n")
    data = load_ratings(path, scale=(0, 10))
    assert (data.low, data.high) == (0.0, 10.0)
    error = refusal(path, scale=(1, 5))
    assert error.row == 4
    assert "the rating is 6; expected a number in [1, 5]" in str(error)


@pytest.mark.parametrize(
    "scale", [(5, 1), (1, 1), (float("nan"), 5), (1, float("inf")), (1, "5"), (1, 3, 5)]
)
def test_scales_that_cannot_be(tmp_path: Path, scale: object) -> None:
    with pytest.raises(ParameterError, match="scale must be two numbers"):
        load_ratings(put(tmp_path / "r.csv", TRAIN), scale=scale)  # type: ignore[arg-type]


def test_a_repeated_pair_without_times_is_refused(tmp_path: Path) -> None:
    error = refusal(put(tmp_path / "r.csv", TRAIN + "\nc,x,1\nb,x,4\n"))
    assert error.row == 7
    assert "the same user rates the same item as on line 2;" in str(error)
    assert "timestamp" in error.remedy


def test_of_repeated_pairs_with_times_the_latest_counts(tmp_path: Path) -> None:
    text = (
        "user,item,rating,timestamp\n"
        "a,x,1,30\n"
        "b,x,2,10\n"
        "a,x,3,50\n"
        "a,x,4,40\n"
        "b,x,5,10\n"  # as late as the line above: the later line counts
        "c,x,2,1\n"
    )
    data = load_ratings(put(tmp_path / "r.csv", text))
    assert rows(data) == [("a", "x", 3), ("b", "x", 5), ("c", "x", 2)]
    assert data.notes == ("ratings that a later one of the same pair replaces: 3",)


@pytest.mark.parametrize("times", [("", "5"), ("5", ""), ("", "")])
def test_a_repeated_pair_of_which_a_time_is_unknown_is_refused(
    tmp_path: Path, times: tuple[str, str]
) -> None:
    text = "user,item,rating,timestamp\nb,y,1,1\n" + "".join(f"a,x,1,{time}\n" for time in times)
    error = refusal(put(tmp_path / "r.csv", text))
    assert error.row == 4
    assert "as on line 3;" in str(error)


def test_a_pair_in_both_parts_is_refused_whatever_the_times(tmp_path: Path) -> None:
    head = "user,item,rating,timestamp\n"
    folder(tmp_path, train=f"{head}a,y,2,1\na,x,3,1\n", test=f"{head}b,x,1,1\na,x,3,9\n")
    error = refusal(tmp_path)
    assert (error.file, error.row) == (str(tmp_path / "test.csv"), 3)
    assert f"as on {tmp_path / 'train.csv'}, line 3, one for training and one for test" in str(
        error
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("user,item,rating\n", "has no rating"),
        ("\n\n", "empty lines alone"),
        ("1,2,3\n1,3,4\n", "line 1: the column 'user' is missing, the columns are '1', '2', '3'"),
        ("user,film,rating\n1,2,3\n", "the column 'item' is missing"),
        ("user;item;rating\n1;2;3\n", "separate the fields with commas"),
        ("\n\nuser,item,stars\n", "line 3: the column 'rating' is missing"),
        ("user,userId,item,rating\n", "the columns 'user' and 'userId' both name the user"),
        ('"user,item,rating\n', "the header is not valid comma-separated text"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, text: str, part: str) -> None:
    error = refusal(put(tmp_path / "r.csv", text))
    assert part in str(error)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    folder(tmp_path, test=TEST, ratings=TRAIN)
    assert "in one file and in parts" in str(refusal(tmp_path))
    (tmp_path / "ratings.csv").rename(tmp_path / "train.csv")
    assert rows(load_ratings(tmp_path))
    put(tmp_path / "train.csv.gz", gzip.compress(TRAIN.encode(), mtime=0))
    assert "holds both train.csv and train.csv.gz" in str(refusal(tmp_path))


def test_a_graph_with_an_empty_end_is_refused(tmp_path: Path) -> None:
    error = refusal(folder(tmp_path, train=TRAIN, user_graph="source,target\na,b\na,\n"))
    assert (error.file, error.row) == (str(tmp_path / "user_graph.csv"), 3)
    assert "target is empty" in str(error)
    folder(tmp_path, user_graph="from,to\na,b\n")
    assert "column 'source' is missing" in str(refusal(tmp_path))
