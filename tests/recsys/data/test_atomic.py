"""RecBole's atomic files."""

from pathlib import Path

import pytest

from recsys.data.rating_files import load_ratings
from tests.recsys.data.rating_worlds import held_out, put, refusal, rows

HEAD = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"


def test_one_file_and_its_folder(tmp_path: Path) -> None:
    text = HEAD + "2\tb c\t3.5\t881250949.0\n1\ta\t4\t1.5e9\n"
    path = put(tmp_path / "films.inter", text)
    put(tmp_path / "films.item", "item_id:token\ttitle:token_seq\na\tA\n")
    for place in (path, tmp_path):
        data = load_ratings(place)
        assert rows(data) == [("1", "a", 4), ("2", "b c", 3.5)]
        assert data.test is None


def test_other_columns_are_passed_over(tmp_path: Path) -> None:
    text = 'review:token_seq\trating:float\titem_id:token\tuser_id:token\n"so\t3\tx\ta\n'
    assert rows(load_ratings(put(tmp_path / "r.inter", text))) == [("a", "x", 3)]


def test_the_parts_of_a_benchmark(tmp_path: Path) -> None:
    for part, user in (("train", "a"), ("valid", "b"), ("test", "c")):
        put(tmp_path / f"films.{part}.inter", f"{HEAD}{user}\tx\t3\t1\n")
    data = load_ratings(tmp_path)
    assert [row[0] for row in rows(data)] == ["a", "b", "c"]
    assert held_out(data) == [("c", "x", 3)]
    assert data.notes == ("the published validation part is counted as training",)
    (tmp_path / "films.valid.inter").unlink()
    assert load_ratings(tmp_path).notes == ()
    (tmp_path / "films.test.inter").rename(tmp_path / "books.test.inter")
    assert "name the file to read" in str(refusal(tmp_path))


@pytest.mark.parametrize(
    ("text", "row", "part"),
    [
        (
            "user_id:token\titem_id:token\ttimestamp:float\n1\t2\t3\n",
            1,
            "column 'rating' is missing",
        ),
        ("user_id\titem_id\trating\n1\t2\t3\n", 1, "the column 'user_id' has no type"),
        ("user_id:token,item_id:token,rating:float\n", 1, "separate the fields with tabs"),
        (HEAD + "1\t2\t3\n", 2, "the row has 3 fields; expected 4 fields as in the header"),
        (HEAD + "1\t2\tgood\t3\n", 2, "the rating is 'good'"),
        (HEAD, None, "has no rating"),
        ("", None, "the file is empty"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, row: int | None, part: str) -> None:
    error = refusal(put(tmp_path / "r.inter", text))
    assert error.row == row
    assert part in str(error)
