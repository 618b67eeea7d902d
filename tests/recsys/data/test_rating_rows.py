"""Reading rows: one meaning for both ways, in blocks of any size, and refusals with their lines."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data import rating_rows, rating_text
from recsys.data.movielens import dat_format
from recsys.data.rating_csv import csv_format
from recsys.data.rating_ids import IdTable
from recsys.data.rating_rows import Form, Rows, read_rows
from recsys.errors import DataError
from tests.recsys.data.rating_worlds import put

HEADER = "user,item,rating,timestamp\n"

cell = st.one_of(
    st.sampled_from(["1", "2", "10", "3.5", ".5", "4.", "007", "-1", "1e1", "x", "", "1_0", "nan"]),
    st.text("019.", min_size=1, max_size=17),
)
line = st.one_of(
    st.lists(cell, min_size=4, max_size=4).map(",".join),
    st.sampled_from(
        ["", "1,2,3", "1,2,3,4,5", '"a,b",2,3,4', '"two\nlines",2,3,4', '"', "1,2,3,\r"]
    ),
)
clean = st.integers(1, 99).map(lambda n: f"{n},{n + 1},{n / 2},{n * 10}")


def read(text: str | bytes, form: Form = csv_format, name: str = "r.csv") -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        return read_rows(put(Path(folder) / name, text), form, IdTable(), IdTable())


def told(text: str, form: Form = csv_format) -> object:
    """All that a file says, or how it is refused."""
    try:
        rows = read(text, form)
    except DataError as error:
        return str(error).partition("r.csv")[2]
    assert rows.times is None or rows.times.size == len(rows)
    times = np.empty(0) if rows.times is None else rows.times
    lines = [rows.line(row) for row in range(len(rows))]
    columns = (rows.users, rows.items, rows.values, times)
    return [[repr(float(x)) for x in column] for column in columns], lines


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rating_text, "BLOCK_BYTES", 7)


@given(st.lists(st.one_of(clean, line), max_size=8), st.booleans())
def test_the_fast_way_says_what_the_slow_one_does(lines: list[str], end: bool) -> None:
    text = HEADER + "\n".join(lines) + "\n" * end
    fast = told(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rating_rows._Reader, "_fast", lambda *_: None)
        assert told(text) == fast


@given(st.lists(st.one_of(clean, line), max_size=8), st.integers(1, 40))
def test_blocks_of_any_size_say_the_same(lines: list[str], size: int) -> None:
    text = HEADER + "\n".join(lines)
    whole = told(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rating_text, "BLOCK_BYTES", size)
        assert told(text) == whole


def test_clean_lines_never_take_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is what makes millions of ratings load in seconds."""

    def fail(*_: object) -> None:
        raise AssertionError("a clean block was read line by line")

    monkeypatch.setattr(rating_rows._Reader, "_slow", fail)
    monkeypatch.setattr(rating_text, "BLOCK_BYTES", 1000)
    text = "".join(f"{n}::{n % 7}::{n % 10 / 2}::{838985046 + n}\n" for n in range(2000))
    for end in ("\n", "\r\n"):
        rows = read(text.replace("\n", end), dat_format)
        assert rows.users.tolist() == list(range(2000))
        assert set(rows.values.tolist()) == {n / 2 for n in range(10)}
        assert rows.line(1999) == 2000


def test_a_text_that_is_no_plain_number_takes_the_slow_way_and_means_the_same() -> None:
    rows = read("user,item,rating\n007,a,+3.5\n1e1,b,1e0\n")
    assert rows.values.tolist() == [3.5, 1.0]
    assert (rows.users < 0).all()


@pytest.mark.parametrize("pack", [bytes, lambda data: gzip.compress(data, mtime=0)])
def test_byte_order_marks_line_ends_and_gzip(pack: object) -> None:
    plain = read(HEADER + "1,2,3.5,4\n5,6,0.5,8\n")
    marked = f"\ufeff{HEADER}1,2,3.5,4\n5,6,0.5,8".replace("\n", "\r\n").encode()
    other = read(pack(marked))  # type: ignore[operator]
    for name in ("users", "items", "values", "times"):
        assert getattr(other, name).tolist() == getattr(plain, name).tolist()


def test_times_are_numbers_iso_or_unknown() -> None:
    rows = read(HEADER + "1,1,1,5.5\n1,2,1,1970-01-01T00:01:00Z\n1,3,1,\n1,4,1,1970-01-02\n")
    assert rows.times is not None
    assert rows.times[[0, 1, 3]].tolist() == [5.5, 60.0, 86_400.0]
    assert np.isnan(rows.times[2])


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("before", ["", "1,1,1,1\n", "\n\n", '"q",1,1,1\n', '"q\nr",1,1,1\n\n'])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("1,2,3", "the row has 3 fields; expected 4 fields as in the header"),
        ("1", "the row has 1 field; expected 4"),
        ("1,2,3,4,5", "the row has 5 fields"),
        ("1,2,good,4", "the rating is 'good'; expected a number in"),
        ("1,2,,4", "the rating is empty"),
        ("1,2,nan,4", "the rating is 'nan'"),
        ("1,2,inf,4", "the rating is 'inf'"),
        ("1,2,2000000000,4", "the rating is '2000000000'"),
        ("1,2,1_0,4", "the rating is '1_0'"),
        (",2,3,4", "the user is empty"),
        ("1,,3,4", "the item is empty"),
        ("1,2,3,noon", "the timestamp is 'noon'; expected a number, or an ISO 8601 time"),
    ],
)
def test_a_malformed_line_is_named(before: str, bad: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read(f"{HEADER}{before}{bad}\n7,7,7,7\n")
    assert problem in str(caught.value)
    assert caught.value.row == 2 + before.count("\n")
    assert caught.value.expected
    assert caught.value.remedy


def test_quotes_that_do_not_close_are_named() -> None:
    with pytest.raises(DataError, match=r"line 4: the line is not valid comma-separated text"):
        read('user,item,rating\n1,2,3\n1,"2,3\n1,2,3\n')


@pytest.mark.parametrize(
    ("data", "name", "part"),
    [
        (b"", "r.csv", "the file is empty"),
        (b"\n<!DOCTYPE html><html>", "r.csv", "this is a web page or XML"),
        (b"PK\x03\x04rest", "r.csv", "this is a zip archive"),
        ("user,item,rating\n1,2,3\n".encode("utf-16"), "r.csv", "not UTF-8 text"),
        (b"user,item,rating\n1,2,3\n\xe9,2,3\n", "r.csv", "line 3: the line is not UTF-8 text"),
        (b"user,item,rating\n1,2,3\n", "r.csv.gz", "rename it to r.csv"),
        (gzip.compress(HEADER.encode() * 99, mtime=0)[:40], "r.csv.gz", "cut off or damaged"),
        (gzip.compress(b"", mtime=0), "r.csv.gz", "the file is empty"),
    ],
)
def test_files_of_another_kind(data: bytes, name: str, part: str) -> None:
    with pytest.raises(DataError) as caught:
        read(data, name=name)
    assert part in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_rows(Path("no/such/file.csv"), csv_format, IdTable(), IdTable())
