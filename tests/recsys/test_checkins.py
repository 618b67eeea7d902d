"""The loader: which files it reads, and what it says about those it refuses."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from recsys.data.checkins import CheckIns, load_checkins
from recsys.data.table import Table
from recsys.errors import DataError

VISITS = "user,poi,step\na,x,0\na,y,1\nb,x,0\n"
PLACES = "poi,lat,lon,category\nx,1.5,2.5,bar\ny,-3,4,\n"


def folder(root: Path, visits: str = VISITS, places: str | None = PLACES) -> Path:
    (root / "checkins.csv").write_bytes(visits.encode())
    if places is not None:
        (root / "pois.csv").write_bytes(places.encode())
    return root


def single(root: Path, text: str, name: str = "one.csv") -> Path:
    path = root / name
    path.write_bytes(text.encode())
    return path


def refusal(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        load_checkins(path)
    message = str(caught.value)
    assert "\n" not in message, "one sentence, one line"
    assert caught.value.file in message
    if caught.value.row is not None:
        assert f"line {caught.value.row}:" in message
    return caught.value


def test_a_folder_with_places_beside(tmp_path: Path) -> None:
    data = load_checkins(folder(tmp_path))
    assert (data.name, data.user_ids, data.poi_ids) == (tmp_path.name, ("a", "b"), ("x", "y"))
    assert data.users.tolist() == [0, 0, 1]
    assert data.pois.tolist() == [0, 1, 0]
    assert data.users.dtype == data.pois.dtype == data.category.dtype == np.int32
    assert (data.lat.tolist(), data.lon.tolist()) == ([1.5, -3.0], [2.5, 4.0])
    assert (data.category.tolist(), data.category_names) == ([0, -1], ("bar",))
    assert data.order is not None
    assert data.order.tolist() == [0, 1, 0]
    assert data.counts.tolist() == [1, 1, 1]
    assert data.user_lat is None


def test_a_single_file_with_everything(tmp_path: Path) -> None:
    text = "lon,lat,poi,user\n2.5,1.5,x,a\n4,-3,y,b\n2.5,1.5,x,b\n"
    data = load_checkins(single(tmp_path, text))
    assert (data.name, data.poi_ids) == ("one", ("x", "y"))
    assert data.pois.tolist() == [0, 1, 0]
    assert data.order is None
    assert data.category.tolist() == [-1, -1]


def test_gzip_is_read_whatever_the_name(tmp_path: Path) -> None:
    folder(tmp_path)
    plain = load_checkins(tmp_path)
    for name in ("checkins.csv", "pois.csv"):
        text = (tmp_path / name).read_bytes()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text, mtime=0))
        (tmp_path / name).unlink()
    packed = load_checkins(tmp_path)
    assert packed.users.tolist() == plain.users.tolist()
    assert packed.lat.tolist() == plain.lat.tolist()
    (tmp_path / "pois.csv.gz").rename(tmp_path / "pois.csv")
    assert load_checkins(tmp_path).lat.tolist() == plain.lat.tolist()


def test_spreadsheet_habits_are_read(tmp_path: Path) -> None:
    """A byte order mark, CRLF, quoted commas and line ends, blank lines, names in capitals."""
    text = '\ufeffUser, POI ,LAT,Lon\r\n"a, b","x ""y""",1,2\r\n\r\n"two\r\nlines",z,3,4\r\n'
    data = load_checkins(single(tmp_path, text))
    assert data.user_ids == ("a, b", "two\r\nlines")
    assert data.poi_ids == ('x "y"', "z")


def test_o24_ids_come_back_unchanged(tmp_path: Path) -> None:
    """Gaps, 0 as an id, leading zeros and words: an id is a text, its index is ours."""
    text = "user,poi,lat,lon\n0,0,0,0\n6040,10,1,1\n0,3952,2,2\n6040,007,3,3\n0,7,4,4\n"
    data = load_checkins(single(tmp_path, text))
    assert data.user_ids == ("0", "6040")
    assert data.poi_ids == ("0", "10", "3952", "007", "7")
    assert data.n_users == 2
    assert data.users.tolist() == [0, 1, 0, 1, 0]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=20))
def test_o24_any_text_is_an_id(ids: list[str]) -> None:
    rows = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in ids]
    text = "user,poi,lat,lon\n" + "".join(f"{row},{row},0,0\n" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _: text.encode("utf-8"))
        patch.setattr("recsys.data.checkins.is_there", lambda _: True)
        data = load_checkins(Path("ids.csv"))
    assert data.user_ids == data.poi_ids == tuple(dict.fromkeys(ids))
    assert [data.user_ids[i] for i in data.users] == ids


def test_pois_without_a_visit_are_kept(tmp_path: Path) -> None:
    data = load_checkins(folder(tmp_path, places=PLACES + "z,0,0,park\n"))
    assert data.poi_ids == ("x", "y", "z")
    assert data.category_names[data.category[2]] == "park"


def test_the_poi_file_counts_where_both_have_coordinates(tmp_path: Path) -> None:
    data = load_checkins(folder(tmp_path, "user,poi,lat,lon\na,x,50,50\n"))
    assert data.lat[0] == 1.5


def test_a_poi_file_may_hold_the_categories_alone(tmp_path: Path) -> None:
    data = load_checkins(folder(tmp_path, "user,poi,lat,lon\na,x,5,6\n", "poi,category\nx,bar\n"))
    assert (data.lat[0], data.category_names[data.category[0]]) == (5.0, "bar")


def test_the_most_frequent_category_wins_then_the_one_named_first(tmp_path: Path) -> None:
    rows = ["x,cafe", "x,bar", "x,bar", "y,park", "y,bar", "z,", "z,zoo"]
    text = "user,lat,lon,poi,category\n" + "".join(f"a,0,0,{row}\n" for row in rows)
    data = load_checkins(single(tmp_path, text))
    assert [data.category_names[i] for i in data.category] == ["bar", "bar", "zoo"]


@pytest.mark.parametrize("column", ["time", "timestamp", "step"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["3", "-1", "20"], [3, -1, 20]),
        (["1.5", "2", "-0.25"], [1_500_000, 2_000_000, -250_000]),
        (
            ["1970-01-01T00:00:01Z", "1970-01-01 00:00:02.5", "1970-01-01T01:00:00+01:00"],
            [1_000_000, 2_500_000, 0],
        ),
        (["1970-01-02", "1969-12-31", "1970-01-01"], [86_400_000_000, -86_400_000_000, 0]),
    ],
)
def test_the_order_comes_from_numbers_or_iso_times(
    tmp_path: Path, column: str, values: list[str], expected: list[int]
) -> None:
    rows = "".join(f"a,x,0,0,{value}\n" for value in values)
    data = load_checkins(single(tmp_path, f"user,poi,lat,lon,{column}\n{rows}"))
    assert data.order is not None
    assert data.order.dtype == np.int64
    assert data.order.tolist() == expected


def test_empty_optional_columns_count_as_absent(tmp_path: Path) -> None:
    data = load_checkins(
        single(tmp_path, "user,poi,lat,lon,time,timestamp,count\na,x,0,0,,7,\nb,x,0,0,,8,\n")
    )
    assert data.order is not None
    assert data.order.tolist() == [7, 8]
    assert data.counts.tolist() == [1, 1]


def test_distinct_pairs_add_up_rows_and_counts(tmp_path: Path) -> None:
    text = "user,poi,lat,lon,count,step\na,x,0,0,2,5\na,x,0,0,3,1\nb,x,0,0,1,9\n"
    pairs = load_checkins(single(tmp_path, text)).pairs()
    assert pairs.keys.tolist() == [0, 1]
    assert pairs.visits.tolist() == [5, 1]
    assert pairs.last is not None
    assert pairs.last.tolist() == [5, 9]


HEAD = "user,poi,lat,lon\n"
WRONG_ROWS = [
    (HEAD + "a,x,0,0\na,y,120,0\n", 3, ["lat", "'120'", "[-90, 90]", "swapped"]),
    (HEAD + "a,x,-90.001,0\n", 2, ["lat", "[-90, 90]"]),
    (HEAD + "a,x,NaN,0\n", 2, ["lat", "'NaN'", "[-90, 90]"]),
    (HEAD + "a,x,inf,0\n", 2, ["lat", "'inf'"]),
    (HEAD + "a,x,0,190\n", 2, ["lon", "'190'", "[-180, 180]", "subtract 360"]),
    (HEAD + "a,x,0,\n", 2, ["lon is empty"]),
    (HEAD + "a,x,north,0\n", 2, ["lat", "'north'"]),
    (HEAD + "a,x,0,0\n\n\nb,x,0.1,0\n", 5, ["'x'", "0.1", "on line 2", "one place"]),
    (HEAD + "a,x,0,0\n,x,0,0\n", 3, ["'user' is empty"]),
    (HEAD + "a,,0,0\n", 2, ["'poi' is empty"]),
    (HEAD + "a,x,0\n", 2, ["3 fields", "4 as in the header"]),
    (HEAD + "a,x,35,5,139,5\n", 2, ["6 fields", '"quotes"']),
    (HEAD + 'a,"x,0,0\nb,y,0,0\n', 3, ["valid comma-separated"]),
    ("user,poi,lat,lon,count\na,x,0,0,1\na,x,0,0,-1\n", 3, ["count", "'-1'", "[1, "]),
    ("user,poi,lat,lon,count\na,x,0,0,0\n", 2, ["count", "'0'"]),
    ("user,poi,lat,lon,count\na,x,0,0,1.5\n", 2, ["count", "'1.5'", "whole number"]),
    ("user,poi,lat,lon,count\na,x,0,0,1\na,x,0,0,\n", 3, ["count is empty"]),
    ("user,poi,lat,lon,time\na,x,0,0,5\na,x,0,0,\n", 3, ["time is empty"]),
    ("user,poi,lat,lon,time\na,x,0,0,noon\n", 2, ["'noon'", "ISO 8601"]),
    ("user,poi,lat,lon,time\na,x,0,0,2012-04-03\na,x,0,0,7\n", 3, ["'7'", "as in other rows"]),
    ("user,poi,lat,lon,time\na,x,0,0,7\na,x,0,0,2012-04-03\n", 3, ["'2012-04-03'", "one kind"]),
    ("user,poi,lat,lon,time\na,x,0,0,1e30\n", 2, ["'1e30'"]),
    ("user,poi,lat,lon,lat\na,x,0,0,0\n", 1, ["'lat' appears twice"]),
    ("user,poi,lat\na,x,0\n", 1, ["'lon' is missing", "'user', 'poi', 'lat'"]),
    ("poi,lat,lon\nx,0,0\n", 1, ["'user' is missing"]),
    ("user;poi;lat;lon\na;x;0;0\n", 1, ["'user' is missing", "with commas"]),
]


@pytest.mark.parametrize(("text", "line", "parts"), WRONG_ROWS)
def test_o25_a_wrong_row_is_named(tmp_path: Path, text: str, line: int, parts: list[str]) -> None:
    error = refusal(single(tmp_path, text))
    assert error.row == line
    for part in parts:
        assert part in str(error)


def test_the_line_is_counted_as_an_editor_does(tmp_path: Path) -> None:
    """Blank lines and line ends inside quotes count, so the line can be jumped to."""
    error = refusal(single(tmp_path, HEAD + '"a\n\nb",x,0,0\n\nc,y,99,0\n'))
    assert error.row == 6


NO_TABLES = [
    (b"", "empty", "empty"),
    (b"\xef\xbb\xbf", "empty", "not gzip data"),
    (b"\n\n", "empty", "not gzip data"),
    (HEAD.encode(), "no check-ins", "not gzip data"),
    (b"<!DOCTYPE html><html>", "web page", "web page"),
    (b"\n  <?xml version='1.0'?>", "web page", "web page"),
    (HEAD.encode() + b"\xff\xfe,x,0,0\n", "not UTF-8", "not gzip data"),
    (gzip.compress(b"", mtime=0), "empty", "empty"),
    (gzip.compress(b"<html>", mtime=0), "web page", "web page"),
    (gzip.compress(HEAD.encode() * 99, mtime=0)[:-9], "cut off", "cut off"),
    (gzip.compress(HEAD.encode(), mtime=0)[:-8] + bytes(8), "damaged", "damaged"),
    (b"\x1f\x8b", "cut off", "cut off"),
]


@pytest.mark.parametrize(("content", "plain", "packed"), NO_TABLES)
def test_files_that_are_no_tables(tmp_path: Path, content: bytes, plain: str, packed: str) -> None:
    for name, part in (("one.csv", plain), ("one.csv.gz", packed)):
        (tmp_path / name).write_bytes(content)
        assert part in str(refusal(tmp_path / name))


@pytest.mark.parametrize("name", ["absent", "x" * 5_000, "nul\0", "one.csv/inside"])
def test_a_path_that_leads_nowhere(tmp_path: Path, name: str) -> None:
    single(tmp_path, HEAD)
    assert "no such file" in str(refusal(tmp_path / name))


def test_a_folder_without_checkins(tmp_path: Path) -> None:
    assert "expected checkins.csv or checkins.csv.gz" in str(refusal(tmp_path))


def test_a_folder_with_the_same_table_twice(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "pois.csv.gz").write_bytes(gzip.compress(PLACES.encode()))
    assert "both pois.csv and pois.csv.gz" in str(refusal(tmp_path))


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "checkins.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        Table(tmp_path / "checkins.csv")


def test_a_poi_without_coordinates(tmp_path: Path) -> None:
    error = refusal(folder(tmp_path, VISITS + "b,z,1\n"))
    assert error.row == 5
    assert "POI 'z' has no coordinates" in str(error)
    assert "pois.csv" in error.remedy


def test_no_coordinates_at_all(tmp_path: Path) -> None:
    assert "no POI file" in str(refusal(folder(tmp_path, places=None)))
    error = refusal(folder(tmp_path, places="poi,category\nx,bar\n"))
    assert "'lat' is missing" in str(error)


def test_two_orders(tmp_path: Path) -> None:
    text = "user,poi,lat,lon,time,step\na,x,0,0,1,2\n"
    assert "'time' and 'step'" in str(refusal(single(tmp_path, text)))


def test_conflicts_in_the_poi_file(tmp_path: Path) -> None:
    assert refusal(folder(tmp_path, places=PLACES + "x,1.6,2.5,bar\n")).row == 4
    same = load_checkins(folder(tmp_path, places=PLACES + "x,1.500001,2.5,bar\n"))
    assert same.lat.tolist() == [1.5, -3.0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("users", np.array([0, 1, 2], np.int32)),
        ("users", np.array([0, -1, 0], np.int32)),
        ("users", np.array([0.0, 1.0, 0.0])),
        ("pois", np.array([0, 1], np.int32)),
        ("pois", np.array([0, 1, 2], np.int32)),
        ("lat", np.array([0.0, 91.0])),
        ("lat", np.array([0.0, np.nan])),
        ("lon", np.array([0.0, 181.0])),
        ("lon", np.array([0.0])),
        ("category", np.array([0, 1], np.int32)),
        ("category", np.array([-2, 0], np.int32)),
        ("counts", np.array([1, 0, 1])),
        ("counts", np.ones(3)),
        ("order", np.array([1, 2])),
        ("order", np.zeros(3)),
        ("user_ids", ("a", "a")),
        ("user_lat", np.array([0.0, 0.0])),
    ],
)
def test_arrays_that_do_not_fit_together(field: str, value: object) -> None:
    good: dict[str, object] = {
        "name": "arrays",
        "users": np.array([0, 1, 0], np.int32),
        "pois": np.array([0, 1, 1], np.int32),
        "user_ids": ("a", "b"),
        "poi_ids": ("x", "y"),
        "lat": np.zeros(2),
        "lon": np.zeros(2),
        "category": np.array([0, -1], np.int32),
        "category_names": ("bar",),
        "order": None,
        "counts": np.ones(3, np.int64),
    }
    assert CheckIns(**good).n_users == 2  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        CheckIns(**{**good, field: value})  # type: ignore[arg-type]
