"""Ratings as comma-separated text: a folder of parts, or one file with a header.

train.csv, test.csv              the parts; without the second there is no published test part
ratings.csv                      instead of both, as in MovieLens' latest sets
users.csv, items.csv             optional: all users and items, of which some may have no rating
user_graph.csv, item_graph.csv   optional: edges between them, columns source and target

Each file may be gzipped (train.csv.gz). Columns: user, item, rating and, optionally, timestamp, by
these or MovieLens' names (userId, movieId), in any order and case; others are passed over.

Source: RFC 4180; for ratings.csv the README of MovieLens' latest sets.
"""

import csv
from pathlib import Path

from recsys.data.rating_assembly import Part, Scale, Side, assemble, read_edges, read_ids
from recsys.data.rating_header import format_of
from recsys.data.rating_ids import IdTable
from recsys.data.rating_rows import RowFormat, Rows, read_rows
from recsys.data.rating_text import holds, one_of
from recsys.data.ratings import Ratings
from recsys.errors import DataError


def holds_csv(folder: Path) -> bool:
    """Whether ``folder`` holds ratings under a name that ``load_csv`` looks for."""
    return any(holds(folder, name) for name in ("train.csv", "ratings.csv"))


def load_csv(path: Path, name: str, *, scale: Scale | None = None) -> Ratings:
    """Read a folder or one file as the module describes.

    scale: smallest and largest rating that can be given; None takes those there are.
    Raises DataError, which names file, line, what was expected and the remedy.
    """
    users, items = IdTable(), IdTable()

    def rows(file: Path) -> Rows:
        return read_rows(file, csv_format, users, items)

    if not path.is_dir():
        return assemble(name, [Part(rows(path))], Side(users), Side(items), scale=scale)
    whole, train, test = (one_of(path, f"{part}.csv") for part in ("ratings", "train", "test"))
    if whole is not None and (train is not None or test is not None):
        raise DataError(
            "the folder holds ratings in one file and in parts",
            file=str(path),
            expected="ratings.csv, or train.csv and test.csv",
            remedy="take one of them out, or name the file",
        )
    if whole is None and train is None:
        raise DataError("train.csv is missing", file=str(path), expected="it beside test.csv")
    parts = [Part(rows(file)) for file in (whole, train) if file is not None]
    if test is not None:
        parts.append(Part(rows(test), test=True))
    sides = (_side(path, "user", users), _side(path, "item", items))
    return assemble(name, parts, *sides, scale=scale)


def csv_format(head: str, file: str, line: int) -> RowFormat:
    """The format of a file by its header. DataError where that is no header of ratings."""
    try:
        names = next(csv.reader([head], strict=True), [])
    except csv.Error as error:
        raise DataError(
            f"the header is not valid comma-separated text ({error})", file=file, row=line
        ) from error
    expected = "the columns user, item, rating and perhaps timestamp"
    return format_of(names, file, line, separator=",", expected=expected, quoted=True)


def _side(folder: Path, kind: str, ids: IdTable) -> Side:
    listed, graph = (one_of(folder, f"{kind}{what}.csv") for what in ("s", "_graph"))
    return Side(
        ids,
        listed=None if listed is None else read_ids(listed, kind, ids),
        edges=None if graph is None else read_edges(graph, ids),
    )
