"""Ratings in RecBole's atomic files: tab-separated, with typed column names.

NAME.inter                                             all ratings
NAME.train.inter, NAME.valid.inter, NAME.test.inter    the parts of a benchmark, the second optional

The header names user_id:token, item_id:token, rating:float and, optionally, timestamp:float, in any
order; other columns are passed over, and so are the files on users and items.

Source: RecBole 1.2.1 (W. X. Zhao et al., CIKM 2021), its documentation of atomic files.
Differs: a file without ratings, of clicks for example, is refused. MovieLens 100K in its original
    order has the test part u1, its first 20,000 rows.
"""

from pathlib import Path

from recsys.data.movielens import original_u1
from recsys.data.rating_assembly import Part, Scale, Side, assemble
from recsys.data.rating_header import format_of
from recsys.data.rating_ids import IdTable
from recsys.data.rating_rows import RowFormat, read_rows
from recsys.data.ratings import Ratings
from recsys.errors import DataError

ENDING = ".inter"
_PARTS = ("train", "valid", "test")


def holds_atomic(folder: Path) -> bool:
    """Whether ``folder`` holds a file that ``load_atomic`` looks for."""
    return bool(_files(folder))


def load_atomic(path: Path, name: str, *, scale: Scale | None = None) -> Ratings:
    """Read a folder or one file as the module describes.

    scale: smallest and largest rating that can be given; None takes those there are.
    Raises DataError, which names file, line, what was expected and the remedy.
    """
    users, items = IdTable(), IdTable()
    files = _chosen(path) if path.is_dir() else {"": path}
    rows = {part: read_rows(file, atomic_format, users, items) for part, file in files.items()}
    parts = [Part(found, test=part == "test") for part, found in rows.items()]
    notes = []
    if "valid" in rows:
        notes.append("the published validation part is counted as training")
    if "" in rows and (test := original_u1(rows[""])) is not None:
        parts = [Part(rows[""], test)]
        notes.append("the test part is u1, the first 20,000 rows of MovieLens 100K")
    return assemble(name, parts, Side(users), Side(items), scale=scale, notes=notes)


def atomic_format(head: str, file: str, line: int) -> RowFormat:
    """The format of a file by its header. DataError where that is no header of ratings."""
    names = head.split("\t")
    expected = "user_id:token, item_id:token, rating:float and perhaps timestamp:float, with tabs"
    if len(names) == 1:
        raise DataError(
            f"the header is one column, {head!r}",
            file=file,
            row=line,
            expected=expected,
            remedy="separate the fields with tabs",
        )
    untyped = [name for name in names if ":" not in name]
    if untyped:
        raise DataError(
            f"the column {untyped[0]!r} has no type", file=file, row=line, expected=expected
        )
    plain = [name.partition(":")[0] for name in names]
    return format_of(plain, file, line, separator="\t", expected=expected)


def _files(folder: Path) -> list[Path]:
    endings = (ENDING, f"{ENDING}.gz")
    return sorted(path for path in folder.iterdir() if path.name.endswith(endings))


def _chosen(folder: Path) -> dict[str, Path]:
    """The files to read by part, "" being the whole."""
    files = _files(folder)
    if len(files) == 1:
        return {"": files[0]}
    named = [path.name.removesuffix(".gz").removesuffix(ENDING) for path in files]
    parts = {name.rpartition(".")[2]: path for name, path in zip(named, files, strict=True)}
    stems = {name.rpartition(".")[0] for name in named}
    fits = len(stems) == 1 and len(parts) == len(files) and set(parts) <= set(_PARTS)
    if not (fits and {"train", "test"} <= set(parts)):
        raise DataError(
            f"the folder holds {', '.join(path.name for path in files) or 'no .inter file'}",
            file=str(folder),
            expected="one .inter file, or NAME.train.inter and NAME.test.inter",
            remedy="name the file to read",
        )
    return {part: parts[part] for part in _PARTS if part in parts}
