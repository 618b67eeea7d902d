"""MATLAB matrices: the four ways to save one are one, and a bad file is named for what it is."""

import contextlib
import struct
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import loadmat
from scipy.sparse import csc_matrix

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.data import matlab
from recsys.data.mat5 import read_mat5
from recsys.data.rating_files import load_ratings
from recsys.data.ratings import Ratings
from tests.recsys.data.matlab_files import HEADER_73, version_5, version_73
from tests.recsys.data.rating_worlds import held_out, put, refusal, rows

M = np.array([[5, 0, 3], [0, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=np.float64)
TRAIN = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=np.bool_)
TEST = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=np.bool_)
W_USERS = np.array([[0, 1, 0, 0], [1, 0, 0, 0.5], [0, 0, 2, 0], [0, 0.5, 0, 0]])
W_MOVIES = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=np.float64)
ALL = {"M": M, "Otraining": TRAIN, "Otest": TEST, "W_users": W_USERS, "W_movies": W_MOVIES}

Save = Callable[[dict[str, Any]], bytes]


def sparse(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: csc_matrix(value) for name, value in variables.items()}


def packed(variables: dict[str, Any]) -> bytes:
    return version_5(variables, compressed=True)


WAYS: dict[str, Save] = {
    "5 dense": version_5,
    "5 sparse": lambda variables: version_5(sparse(variables)),
    "5 dense, compressed": packed,
    "5 sparse, compressed": lambda variables: packed(sparse(variables)),
    "7.3 dense": version_73,
    "7.3 sparse": lambda variables: version_73(sparse(variables)),
}
ways = pytest.mark.parametrize("save", WAYS.values(), ids=WAYS)


def load(tmp_path: Path, data: bytes) -> Ratings:
    return load_ratings(put(tmp_path / "m.mat", data))


@ways
def test_o27_every_way_is_the_same_matrix(tmp_path: Path, save: Save) -> None:
    data = load(tmp_path, save({"M": M}))
    assert (data.name, data.n_users, data.n_items) == ("m", 4, 3)
    assert rows(data) == [("0", "0", 5), ("0", "2", 3), ("2", "1", 2)]
    assert data.user_ids == ("0", "1", "2", "3"), "the last row is empty and stays"
    assert (data.low, data.high, data.test, data.notes) == (2, 5, None, ())
    assert data.triples.users.dtype == data.triples.items.dtype == np.int32
    assert data.triples.values.dtype == np.float64


@ways
def test_masks_and_graphs(tmp_path: Path, save: Save) -> None:
    data = load(tmp_path, save(ALL))
    assert held_out(data) == [("0", "2", 3)]
    assert len(data.triples) == 3
    assert data.user_graph is not None
    assert data.user_graph.source.tolist() == [0, 1, 2]
    assert data.user_graph.target.tolist() == [1, 3, 2]
    assert data.item_graph is not None
    assert (data.item_graph.source.tolist(), data.item_graph.target.tolist()) == ([0], [2])


@ways
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int32])
def test_any_type_of_number(tmp_path: Path, save: Save, dtype: type[np.generic]) -> None:
    assert rows(load(tmp_path, save({"M": M.astype(dtype)}))) == [
        ("0", "0", 5),
        ("0", "2", 3),
        ("2", "1", 2),
    ]


@ways
def test_a_mask_without_entries_is_a_mask(tmp_path: Path, save: Save) -> None:
    data = load(tmp_path, save({**ALL, "Otraining": M > 0, "Otest": np.zeros_like(TEST)}))
    assert data.test is not None
    assert not data.test.any()


def test_wide_arrays_are_read_slab_by_slab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rows(load(tmp_path, version_73({"M": M})))
    monkeypatch.setattr(matlab, "_SLAB_BYTES", 1)
    assert rows(load(tmp_path, version_73({"M": M}))) == expected


def test_yahoo_has_tracks_and_a_scale_of_100(tmp_path: Path) -> None:
    data = load(tmp_path, version_73({"M": M * 20, "W_tracks": W_MOVIES}))
    assert (data.low, data.high) == (40, 100)
    assert data.item_graph is not None
    assert load_ratings(tmp_path / "m.mat", scale=(1, 100)).low == 1


def test_a_rating_in_neither_mask_is_left_out_and_counted(tmp_path: Path) -> None:
    data = load(tmp_path, version_5({**ALL, "Otest": np.zeros_like(TEST)}))
    assert rows(data) == [("0", "0", 5), ("2", "1", 2)]
    assert data.notes == ("ratings in neither mask are left out: 1",)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"Otest": TRAIN}, "row 1, column 1 is in Otraining and in Otest"),
        ({"Otest": ~TRAIN}, "Otest marks row 1, column 2, where M has no rating"),
        ({"Otest": TEST.T}, "Otest has shape (3, 4), M has (4, 3)"),
        ({"W_users": W_MOVIES}, "W_users has shape (3, 3), where M asks for (4, 4)"),
        ({"M": M * np.nan}, "M is nan in row 1, column 1"),
        ({"M": np.full((4, 3), -np.inf)}, "M is -inf in row 1, column 1"),
        ({"M": M * 1e9}, "M is 5e+09 in row 1, column 1"),
        ({"M": M * 0}, "where M has no rating"),
        ({"W_tracks": W_MOVIES}, "W_movies and W_tracks are both graphs"),
        ({"M": np.ones((2, 2, 2))}, "M: the shape (2, 2, 2) is not that of a matrix"),
    ],
)
@pytest.mark.parametrize("save", [version_5, version_73])
def test_matrices_that_do_not_fit(
    tmp_path: Path, save: Save, change: dict[str, Any], part: str
) -> None:
    error = refusal(put(tmp_path / "m.mat", save(ALL | change)))
    assert part in str(error)
    assert "expected the matrix M" in str(error)


def test_one_mask_alone_is_refused(tmp_path: Path) -> None:
    error = refusal(put(tmp_path / "m.mat", version_5({"M": M, "Otest": TEST})))
    assert "Otraining is missing beside Otest" in str(error)


def test_ratings_outside_a_scale_that_is_given(tmp_path: Path) -> None:
    error = refusal(put(tmp_path / "m.mat", version_5({"M": M})), scale=(1, 4))
    assert "M is 5 in row 1, column 1, outside [1, 4]" in str(error)


@pytest.mark.parametrize("save", [version_5, version_73])
def test_o27_a_missing_matrix(tmp_path: Path, save: Save) -> None:
    error = refusal(put(tmp_path / "m.mat", save({"X": M, "Y": M})))
    assert "has no variable M, its variables are X, Y; expected the matrix M" in str(error)


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"", "the file is empty"),
        (b"<!DOCTYPE html>\n<title>Sign in</title>", "this is a web page or XML"),
        (b"user,item,rating\n1,2,3\n" * 30, "this is not a MATLAB file"),
        (HEADER_73, "the MATLAB file is cut off in its header"),
        (bytes(2000), "this is not a MATLAB file"),
    ],
)
def test_o27_files_of_another_kind(tmp_path: Path, head: bytes, part: str) -> None:
    error = refusal(put(tmp_path / "m.mat", head))
    assert part in str(error)
    assert "expected a MATLAB file of version 5 to 7.3" in str(error)
    assert error.remedy


@ways
def test_o27_a_truncated_file_of_any_length(tmp_path: Path, save: Save) -> None:
    """Never another exception, never fewer ratings."""
    whole = save({"M": M})
    for size in range(0, len(whole), 1 if len(whole) < 1000 else 61):
        error = refusal(put(tmp_path / "m.mat", whole[:size]))
        assert error.expected


@pytest.mark.parametrize("name", ["5 dense", "5 sparse", "5 sparse, compressed"])
@given(st.data())
def test_damaged_files_of_version_5_are_refused_or_read(name: str, data: st.DataObject) -> None:
    whole = bytearray(WAYS[name]({"M": M}))
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=3)):
        whole[at] = data.draw(st.integers(0, 255))
    try:
        _, found = read_mat5(bytes(whole), ("M",))
    except ParameterError:
        return
    for matrix in found.values():
        assert matrix.keys.size == matrix.values.size <= 12
        assert (np.diff(matrix.keys) > 0).all()


@given(st.binary(max_size=200))
def test_arbitrary_bytes_behind_the_header(tail: bytes) -> None:
    head = version_5({})[:128]
    with contextlib.suppress(ParameterError):
        read_mat5(head + tail, ("M",))


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("text", "M: this is text"),
        ({"a": 1.0}, "M: this is a structure"),
        (np.array([[1.0, "x"]], dtype=object), "M: this is a cell array"),
        (M * 1j, "M: the numbers are complex"),
    ],
)
def test_variables_that_are_no_matrix(tmp_path: Path, value: object, part: str) -> None:
    assert part in str(refusal(put(tmp_path / "m.mat", version_5({"M": value}))))


def test_other_variables_may_be_anything(tmp_path: Path) -> None:
    variables = {"note": "text", "about": {"a": 1.0}, "M": M, "z": M * 1j}
    assert len(load(tmp_path, version_5(variables)).triples) == 3


def test_big_endian_files(tmp_path: Path) -> None:
    """scipy writes none, but it reads them, and so agrees on what this one holds."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack(">II", kind, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0")

    body = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 4, 3))
    body += element(1, b"M") + element(9, M.T.astype(">f8").tobytes())
    data = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + element(14, body)
    assert np.array_equal(loadmat(BytesIO(data))["M"], M)  # type: ignore[arg-type]
    assert rows(load(tmp_path, data)) == [("0", "0", 5), ("0", "2", 3), ("2", "1", 2)]


def test_a_sparse_matrix_without_its_number_of_rows_is_refused(tmp_path: Path) -> None:
    """To guess it from the last entry is what loses empty rows."""
    path = put(tmp_path / "m.mat", version_73(sparse({"M": M})))
    with h5py.File(path, "a") as file:
        del file["M"].attrs["MATLAB_sparse"]
    assert "M: this group is not a sparse matrix with its number of rows" in str(refusal(path))


@pytest.mark.parametrize("part", ["ir", "jc"])
def test_a_sparse_matrix_whose_parts_do_not_fit_is_refused(tmp_path: Path, part: str) -> None:
    path = put(tmp_path / "m.mat", version_73(sparse({"M": M})))
    with h5py.File(path, "a") as file:
        file["M"][part][0] = 4
    assert part in str(refusal(path))


def test_version_73_alone_needs_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = version_73({"M": M})
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert len(load(tmp_path, version_5({"M": M})).triples) == 3
    with pytest.raises(MissingLibraryError, match=r"needs the package h5py .*privrec\[gnn\]"):
        load(tmp_path, new)


def test_a_folder_of_one_file(tmp_path: Path) -> None:
    put(tmp_path / "training_test_dataset.mat", version_5(ALL))
    assert load_ratings(tmp_path).name == tmp_path.name
    put(tmp_path / "split_2.mat", version_5(ALL))
    error = refusal(tmp_path)
    assert "the folder holds split_2.mat, training_test_dataset.mat" in str(error)
