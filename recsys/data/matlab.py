"""Ratings as a MATLAB matrix, in the layout of the benchmark sets by Monti, Bronstein and Bresson.

M                    users by items, 0 where there is no rating
Otraining, Otest     optional, masks of the same shape: the published split
W_users              optional, users by users: edges where it is not 0
W_movies, W_tracks   optional, items by items, one of them

Each may be dense or sparse, in a file of versions 5 to 7 (``recsys.data.mat5``) or 7.3, which is
HDF5. Row and column numbers from 0 are the ids; empty rows and columns stay.

Source: F. Monti, M. M. Bronstein and X. Bresson, "Geometric Matrix Completion with Recurrent
    Multi-Graph Neural Networks" (NIPS 2017), and the files published with it.
Differs: a rating that is in neither mask is left out and counted in a note. h5py is loaded for
    version 7.3 alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import MissingLibraryError, ParameterError
from recsys.data.mat5 import is_mat5, read_mat5
from recsys.data.matrix import Matrix, from_columns, from_compressed_columns
from recsys.data.rating_assembly import Scale, check_scale, graph_of
from recsys.data.rating_rows import LARGEST
from recsys.data.ratings import Graph, Ratings, Triples
from recsys.errors import DataError

ENDING = ".mat"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"

_MASKS = ("Otraining", "Otest")
_ITEM_GRAPHS = ("W_movies", "W_tracks")
_NAMES = ("M", *_MASKS, "W_users", *_ITEM_GRAPHS)
_EXPECTED = "the matrix M, and perhaps Otraining, Otest, W_users and W_movies"
_USER_BLOCK = 512  # bytes that MATLAB puts before the HDF5 part
_SLAB_BYTES = 1 << 24


def holds_matlab(folder: Path) -> bool:
    """Whether ``folder`` holds a file that ``load_matlab`` looks for."""
    return any(path.suffix == ENDING for path in folder.iterdir())


def load_matlab(path: Path, name: str, *, scale: Scale | None = None) -> Ratings:
    """Read a file as the module describes, or the only such file of a folder.

    scale: smallest and largest rating that can be given; None takes those there are.
    Raises DataError, which names file, variable, what was expected and the remedy, and
    MissingLibraryError for version 7.3 without h5py.
    """
    check_scale(scale)
    file = _only(path) if path.is_dir() else path
    matrices = _read(file)
    try:
        return _ratings(name, matrices, scale)
    except ParameterError as error:
        raise DataError(
            error.message, file=str(file), expected=_EXPECTED, remedy=error.remedy
        ) from error


def _ratings(name: str, matrices: dict[str, Matrix], scale: Scale | None) -> Ratings:
    m = matrices["M"]
    n_users, n_items = m.shape
    _check_values(m, scale)
    test, notes = None, []
    if any(mask in matrices for mask in _MASKS):
        chosen, test = _split(matrices)
        left_out = m.keys.size - int(chosen.sum())
        if left_out:
            notes.append(f"ratings in neither mask are left out: {left_out:,}")
        m = Matrix(m.shape, m.keys[chosen], m.values[chosen])
    if not m.keys.size:
        raise ParameterError("M has no rating, all its entries are 0")
    low, high = scale or (m.values.min(), m.values.max())
    item_graphs = [graph for graph in _ITEM_GRAPHS if graph in matrices]
    if len(item_graphs) > 1:
        raise ParameterError(f"{' and '.join(item_graphs)} are both graphs of the items")
    return Ratings(
        name=name,
        triples=Triples(m.rows, m.columns, m.values),
        test=test,
        user_ids=tuple(map(str, range(n_users))),
        item_ids=tuple(map(str, range(n_items))),
        low=float(low),
        high=float(high),
        user_graph=_graph(matrices, "W_users", n_users),
        item_graph=_graph(matrices, item_graphs[0], n_items) if item_graphs else None,
        notes=tuple(notes),
    )


def _check_values(m: Matrix, scale: Scale | None) -> None:
    low, high = scale or (-LARGEST, LARGEST)
    wrong = np.flatnonzero(~((m.values >= low) & (m.values <= high)))  # true for NaN too
    if wrong.size:
        place = _place(m, int(m.keys[wrong[0]]))
        raise ParameterError(
            f"M is {m.values[wrong[0]]:g} in {place}, outside [{low:g}, {high:g}]",
            remedy="0 is where there is no rating",
        )


def _split(matrices: dict[str, Matrix]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which entries of M are in a mask, and which of those are for test."""
    m = matrices["M"]
    masks = []
    for name in _MASKS:
        if name not in matrices:
            raise ParameterError(f"{name} is missing beside {_MASKS[1 - _MASKS.index(name)]}")
        if matrices[name].shape != m.shape:
            raise ParameterError(f"{name} has shape {matrices[name].shape}, M has {m.shape}")
        masks.append(matrices[name].keys)
        empty = np.setdiff1d(masks[-1], m.keys, assume_unique=True)
        if empty.size:
            raise ParameterError(f"{name} marks {_place(m, int(empty[0]))}, where M has no rating")
    both = np.intersect1d(masks[0], masks[1], assume_unique=True)
    if both.size:
        raise ParameterError(f"{_place(m, int(both[0]))} is in Otraining and in Otest")
    test = np.isin(m.keys, masks[1], assume_unique=True)
    chosen = test | np.isin(m.keys, masks[0], assume_unique=True)
    return chosen, test[chosen]


def _place(m: Matrix, key: int) -> str:
    """A place as MATLAB counts, from 1."""
    return f"row {key // m.shape[1] + 1}, column {key % m.shape[1] + 1}"


def _graph(matrices: dict[str, Matrix], name: str, size: int) -> Graph | None:
    if name not in matrices:
        return None
    w = matrices[name]
    if w.shape != (size, size):
        raise ParameterError(f"{name} has shape {w.shape}, where M asks for {(size, size)}")
    return graph_of(w.rows, w.columns)


def _only(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix == ENDING)
    if len(files) != 1:
        raise DataError(
            f"the folder holds {', '.join(path.name for path in files) or 'no .mat file'}",
            file=str(folder),
            expected="one .mat file",
            remedy="name the file to read",
        )
    return files[0]


def _read(path: Path) -> dict[str, Matrix]:
    """The variables of ``_NAMES`` that the file has; M is among them."""
    file = str(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(_USER_BLOCK + len(HDF5_MAGIC))
        if HDF5_MAGIC in (head[: len(HDF5_MAGIC)], head[_USER_BLOCK:]):
            version, (names, found) = "7.3", _read_hdf5(path)
        elif is_mat5(head) and not head.startswith(b"MATLAB 7.3"):
            version, (names, found) = "5", read_mat5(path.read_bytes(), _NAMES)
        else:
            raise _foreign(file, head)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", file=file) from error
    except ParameterError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the MATLAB file cannot be read: {error.message}",
            file=file,
            expected=_EXPECTED,
            remedy="fetch the file again, or save its matrices anew",
        ) from error
    if "M" not in found:
        raise DataError(
            f"the MATLAB file (version {version}) has no variable M, its variables are "
            f"{', '.join(names) or 'none'}",
            file=file,
            expected=_EXPECTED,
        )
    return found


def _foreign(file: str, head: bytes) -> DataError:
    kind, remedy = "this is not a MATLAB file", "fetch the file again"
    if not head:
        kind = "the file is empty"
    elif head.lstrip().startswith(b"<"):
        kind = "this is a web page or XML"
    elif head.startswith(b"MATLAB"):
        kind = "the MATLAB file is cut off in its header"
    else:
        remedy = "save it in MATLAB with save('file.mat', 'M', '-v7') if it is of an older version"
    return DataError(kind, file=file, expected="a MATLAB file of version 5 to 7.3", remedy=remedy)


def _read_hdf5(path: Path) -> tuple[list[str], dict[str, Matrix]]:
    """What ``read_mat5`` gives, of a file of version 7.3."""
    try:
        import h5py  # noqa: PLC0415 - an extra, and needed for this version alone
    except ImportError as error:
        raise MissingLibraryError(
            f"{path}: this is a MATLAB file of version 7.3, which needs the package h5py",
            remedy="pip install 'privrec[gnn]', or save the file in MATLAB with -v7",
        ) from error
    try:
        with h5py.File(path, "r") as file:
            names = [name for name in file if not name.startswith("#")]  # its own bookkeeping
            found = {name: _stored(name, file[name]) for name in _NAMES if name in names}
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"it is cut off or damaged ({error})") from error
    return names, found


def _stored(name: str, node: Any) -> Matrix:
    """A variable of version 7.3: a transposed array, or a group with the parts of a sparse one."""
    kind = node.attrs.get("MATLAB_class", b"double")
    try:
        if hasattr(node, "keys"):
            return _stored_sparse(node)
        if node.attrs.get("MATLAB_empty", 0):
            rows, columns = (int(size) for size in node[()])
            return from_columns((rows, columns), [np.zeros((columns, 0))])
        if node.dtype.kind not in "biuf" or kind in (b"char", b"cell"):
            raise ParameterError(f"this is {kind.decode()}, no matrix of numbers")
        if len(node.shape) != 2:
            raise ParameterError(f"the shape {node.shape[::-1]} is not that of a matrix")
        return from_columns(node.shape[::-1], _slabs(node))
    except ParameterError as error:
        raise ParameterError(f"{name}: {error.message}") from error


def _slabs(node: Any) -> Iterator[NDArray[Any]]:
    columns, rows = node.shape
    step = max(1, _SLAB_BYTES // max(rows * node.dtype.itemsize, 1))
    for first in range(0, columns, step):
        yield node[first : first + step]


def _stored_sparse(node: Any) -> Matrix:
    if "jc" not in node or "MATLAB_sparse" not in node.attrs:
        raise ParameterError("this group is not a sparse matrix with its number of rows")
    starts = node["jc"][()]
    # Without entries MATLAB writes neither rows nor values.
    rows, values = (node[part][()] if part in node else np.empty(0) for part in ("ir", "data"))
    shape = (int(node.attrs["MATLAB_sparse"]), starts.size - 1)
    return from_compressed_columns(shape, starts, rows, values)
