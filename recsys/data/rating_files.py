"""Rating files of every kind that is known here, told apart by their names or their first line."""

from collections.abc import Callable
from pathlib import Path

from recsys.data.atomic import ENDING as ATOMIC_ENDING
from recsys.data.atomic import holds_atomic, load_atomic
from recsys.data.checkins import is_there
from recsys.data.matlab import ENDING as MATLAB_ENDING
from recsys.data.matlab import holds_matlab, load_matlab
from recsys.data.movielens import holds_movielens, load_movielens, split_of
from recsys.data.rating_assembly import Scale
from recsys.data.rating_csv import holds_csv, load_csv
from recsys.data.rating_text import first_line
from recsys.data.ratings import Ratings
from recsys.errors import DataError

_KINDS: dict[str, tuple[Callable[[Path], bool], str]] = {
    "MovieLens": (holds_movielens, "u.data, ratings.dat or a pair such as u1.base and u1.test"),
    "csv": (holds_csv, "train.csv, ratings.csv"),
    "atomic": (holds_atomic, "NAME.inter"),
    "MATLAB": (holds_matlab, "NAME.mat"),
}


def load_ratings(
    path: Path | str,
    name: str | None = None,
    *,
    split: str | None = None,
    scale: Scale | None = None,
) -> Ratings:
    """Read a rating data set from a folder or a file.

    path: MovieLens files (``recsys.data.movielens``), comma-separated text
        (``recsys.data.rating_csv``), RecBole's atomic files (``recsys.data.atomic``) or a MATLAB
        matrix (``recsys.data.matlab``).
    name: what the set is called in reports, by default as the folder or file.
    split: a published split by its name, such as u3, where a MovieLens folder has several.
    scale: the smallest and the largest rating that can be given, by default those there are.
    Raises DataError, which names file, line, value, what was expected and the remedy, and
    MissingLibraryError for MATLAB 7.3 without h5py.
    """
    path = Path(path)
    if not is_there(path):
        raise DataError("no such file or folder", file=str(path))
    kind = _kind_of_folder(path) if path.is_dir() else _kind_of_file(path)
    name = name or name_of(path, split)
    if kind == "MovieLens":
        return load_movielens(path, name, split=split, scale=scale)
    if split is not None:
        raise DataError(
            f"there is no split {split!r}: {kind} files have no splits by name",
            file=str(path),
            remedy="leave the split out",
        )
    load = {"csv": load_csv, "atomic": load_atomic, "MATLAB": load_matlab}[kind]
    return load(path, name, scale=scale)


def holds_ratings(folder: Path) -> bool:
    """Whether ``folder`` holds rating files that ``load_ratings`` looks for."""
    return folder.is_dir() and any(holds(folder) for holds, _ in _KINDS.values())


def name_of(path: Path, split: str | None = None) -> str:
    """What a set is called after its folder or file, and its split where one was asked for."""
    whole = path.resolve()
    name = whole.name
    if not path.is_dir():
        name = name.removesuffix(".gz")
        name = name.rpartition(".")[0] or name
    return name if split is None else f"{name}-{split}"


def _kind_of_folder(folder: Path) -> str:
    found = [kind for kind, (holds, _) in _KINDS.items() if holds(folder)]
    if len(found) != 1:
        files = "; ".join(files for _, files in _KINDS.values())
        raise DataError(
            f"the folder holds {' and '.join(found)} files" if found else "there are no ratings",
            file=str(folder),
            expected=f"one of: {files}",
            remedy="name the file to read" if found else "",
        )
    return found[0]


def _kind_of_file(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    for ending, kind in ((MATLAB_ENDING, "MATLAB"), (ATOMIC_ENDING, "atomic"), (".csv", "csv")):
        if name.endswith(ending):
            return kind
    if split_of(path) is not None or name.endswith((".data", ".dat")):
        return "MovieLens"
    head = first_line(path)
    if "::" in head or ("\t" in head and ":" not in head):
        return "MovieLens"
    return "atomic" if "\t" in head else "csv"
