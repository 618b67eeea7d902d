"""MovieLens ratings as GroupLens publishes them, with the splits that belong to them.

100K      u.data, between tabs, and the pairs u1.base, u1.test to u5, ua, ub
1M, 10M   ratings.dat, between ``::``, and the pairs r1.train, r1.test to r5, ra, rb, which the
          script split_ratings.sh of the 10M set makes
latest    ratings.csv: see ``recsys.data.rating_csv``

Each line: user, item, rating, time. A folder gives its first split in the order of ``SPLITS``, any
other by its name. Each file may be gzipped.

Source: F. M. Harper and J. A. Konstan, "The MovieLens Datasets: History and Context" (ACM
    Transactions on Interactive Intelligent Systems 5, 4, 2015), and the README files of the sets.
Differs: films without a rating are no items here, since the lists of films are not read.
"""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recsys.data.rating_assembly import Part, Scale, Side, assemble
from recsys.data.rating_ids import IdTable
from recsys.data.rating_rows import RowFormat, Rows, read_rows
from recsys.data.rating_text import holds, one_of
from recsys.data.ratings import Ratings
from recsys.errors import DataError

SPLITS = {
    **dict.fromkeys(("u1", "u2", "u3", "u4", "u5", "ua", "ub"), ("base", "test")),
    **dict.fromkeys(("r1", "r2", "r3", "r4", "r5", "ra", "rb"), ("train", "test")),
}
"""Names of the splits, each with the endings of its two files."""

_WHOLE = ("u.data", "ratings.dat")
_SEPARATORS = ("::", "\t")

_ML_100K = 100_000
_U1_TEST = 20_000
_ORIGINAL_ORDER = "7b9fcf0529d4bd3c2b985f4dc95195b08ec723b341a2c7d1f4c50341e8a13fd7"


def holds_movielens(folder: Path) -> bool:
    """Whether ``folder`` holds a file that ``load_movielens`` looks for."""
    return bool(_splits(folder)) or any(holds(folder, name) for name in _WHOLE)


def split_of(path: Path) -> str | None:
    """The split that a file is a part of by its name, or None."""
    name, _, ending = path.name.removesuffix(".gz").rpartition(".")
    return name if ending in SPLITS.get(name, ()) else None


def load_movielens(
    path: Path, name: str, *, split: str | None = None, scale: Scale | None = None
) -> Ratings:
    """Read a folder, one of its splits, or one file; the file of a split brings its partner.

    split: of ``SPLITS``; None takes the first there is.
    scale: smallest and largest rating that can be given; None takes those there are.
    Raises DataError, which names file, line, what was expected and the remedy.
    """
    users, items = IdTable(), IdTable()
    folder = path if path.is_dir() else path.parent
    chosen, notes = (split, []) if split is not None else _first_split(path)
    if chosen is not None:
        halves = [read_rows(file, dat_format, users, items) for file in _pair(folder, chosen)]
        parts = [Part(halves[0]), Part(halves[1], test=True)]
    else:
        rows = read_rows(_whole(path), dat_format, users, items)
        test = original_u1(rows)
        parts = [Part(rows) if test is None else Part(rows, test)]
        if test is not None:
            notes = ["the test part is u1, the first 20,000 rows of MovieLens 100K"]
    return assemble(name, parts, Side(users), Side(items), scale=scale, notes=notes)


def dat_format(head: str, file: str, line: int) -> RowFormat:
    """The format of a file without a header, by its first line."""
    separator = next((mark for mark in _SEPARATORS if mark in head), None)
    width = head.count(separator) + 1 if separator else 1
    if separator is None or width not in (3, 4):
        raise DataError(
            f"the line has {width} field{'s' if width > 1 else ''}",
            file=file,
            row=line,
            expected="user, item, rating and perhaps a time, between tabs or '::'",
            remedy="name a .csv file with a header if that is what it is",
        )
    words = ("USER", "ITEM", "RATING", "TIME")[:width]
    expected = separator.join(words) if separator == "::" else f"{', '.join(words)} between tabs"
    return RowFormat(separator, width, 0, 1, 2, 3 if width == 4 else None, expected)


def original_u1(rows: Rows) -> NDArray[np.bool_] | None:
    """The test part u1 of MovieLens 100K where these are its rows in their original order.

    Its u1.test is the first 20,000 rows of u.data; any other order says nothing of the split.
    """
    if len(rows) != _ML_100K or rows.times is None:
        return None
    if rows_digest(rows) != _ORIGINAL_ORDER:
        return None
    return np.arange(_ML_100K) < _U1_TEST


def rows_digest(rows: Rows) -> str:
    """SHA-256 over users, items, ratings and times as float64, column by column, in file order."""
    digest = hashlib.sha256()
    for column in (rows.users, rows.items, rows.values, rows.times):
        if column is not None:
            digest.update(column.astype("<f8").tobytes())
    return digest.hexdigest()


def _splits(folder: Path) -> list[str]:
    """The splits of which ``folder`` has both files."""
    return [
        name for name, ends in SPLITS.items() if all(holds(folder, f"{name}.{end}") for end in ends)
    ]


def _listed(folder: Path) -> str:
    return ", ".join(_splits(folder)) or "none"


def _first_split(path: Path) -> tuple[str | None, list[str]]:
    if not path.is_dir():
        return split_of(path), []
    found = _splits(path)
    if not found:
        return None, []
    others = f", of {', '.join(found)}" if len(found) > 1 else ""
    return found[0], [f"the test part is that of split {found[0]}{others}"]


def _pair(folder: Path, split: str) -> list[Path]:
    found = []
    for end in SPLITS.get(split, ()):
        file = one_of(folder, f"{split}.{end}")
        if file is None:
            raise DataError(
                f"{split}.{end} is missing",
                file=str(folder),
                expected=f"both files of a split; whole are: {_listed(folder)}",
            )
        found.append(file)
    if not found:
        raise DataError(
            f"there is no split {split!r}",
            file=str(folder),
            expected=f"one of those whose two files are here: {_listed(folder)}",
        )
    return found


def _whole(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = [file for name in _WHOLE if (file := one_of(path, name)) is not None]
    if len(found) != 1:
        raise DataError(
            f"the folder holds {' and '.join(file.name for file in found) or 'no ratings'}",
            file=str(path),
            expected=f"one of {' and '.join(_WHOLE)}",
            remedy="name the file to read",
        )
    return found[0]
