"""Rows of rating files put together to one data set: indices, order, repeated pairs, range.

A pair of user and item has one rating. Where times are known, the latest of several counts, of
equal times the one on the later line. Without times, repeated pairs are refused: neither line is
the right one by itself. So is a pair in both training and test, whose test rating would be known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.rating_ids import Codes, IdTable
from recsys.data.rating_rows import LARGEST, Rows
from recsys.data.ratings import Graph, Indices, Ratings, Triples
from recsys.data.table import Table
from recsys.errors import DataError

Scale = tuple[float, float]
"""The smallest and the largest rating that can be given."""


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a file, and which of them are test ratings: all, none or a mask (n,)."""

    rows: Rows
    test: bool | NDArray[np.bool_] = False


@dataclass(frozen=True, eq=False)
class Side:
    """The users of a set, or its items.

    ids: what gave them their codes.  listed: codes of those who belong to it, rated or not.
    edges: codes (2, m) of the ends of each edge of their graph, or None.
    """

    ids: IdTable
    listed: Codes | None = None
    edges: Codes | None = None


def read_edges(path: Path, ids: IdTable) -> Codes:
    """Read a graph from a csv file with the columns source and target: codes (2, m)."""
    table = Table(path)
    table.require("source", "target")
    return np.stack([_ids_of(table, name, ids) for name in ("source", "target")])


def read_ids(path: Path, column: str, ids: IdTable) -> Codes:
    """Read one column of ids of a csv file: codes (n,)."""
    table = Table(path)
    table.require(column)
    return _ids_of(table, column, ids)


def graph_of(source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]]) -> Graph:
    """An undirected graph from the ends of its edges, each in any direction, once or more often."""
    ends = np.sort(np.stack([source, target]).astype(np.int64), axis=0)
    keys = np.unique((ends[0] << 32) | ends[1])
    return Graph((keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32))


def check_scale(scale: Scale | None) -> None:
    """Refuse all but None and two numbers, the first below the second. ParameterError."""
    if scale is None:
        return
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in scale)
    # Stated as what is allowed, so that NaN falls out too.
    if not (len(scale) == 2 and numbers and -LARGEST <= scale[0] < scale[1] <= LARGEST):
        raise ParameterError(
            f"scale must be two numbers in [-{LARGEST:g}, {LARGEST:g}], the first below the "
            f"second, got {scale!r}"
        )


def assemble(
    name: str,
    parts: Sequence[Part],
    users: Side,
    items: Side,
    *,
    scale: Scale | None = None,
    notes: Sequence[str] = (),
) -> Ratings:
    """The data set of ``parts``, whose ids got their codes from ``users`` and ``items``.

    scale: None takes the smallest and the largest rating there is.
    Raises DataError for a set without ratings, ratings outside ``scale`` and repeated pairs.
    """
    _check_values(name, parts, scale)
    user_ids, user, user_graph = _indexed(users, [part.rows.users for part in parts])
    item_ids, item, item_graph = _indexed(items, [part.rows.items for part in parts])
    keys = user.astype(np.int64)
    keys *= len(item_ids)
    keys += item
    # The later of two equal keys comes later, as in the files.
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    again = np.flatnonzero(keys[1:] == keys[:-1])
    if again.size:
        order, keys = _latest(parts, order, keys)
        notes = [*notes, f"ratings that a later one of the same pair replaces: {again.size:,}"]
    values = np.concatenate([part.rows.values for part in parts])[order]
    low, high = scale or (values.min(), values.max())
    return Ratings(
        name=name,
        triples=Triples(user[order], item[order], values),
        test=_test(parts)[order] if any(part.test is not False for part in parts) else None,
        user_ids=user_ids,
        item_ids=item_ids,
        low=float(low),
        high=float(high),
        user_graph=user_graph,
        item_graph=item_graph,
        notes=tuple(notes),
    )


def _ids_of(table: Table, column: str, ids: IdTable) -> NDArray[np.int64]:
    values = table.columns[column]
    if "" in values:
        raise table.error(f"{column} is empty", row=values.index(""), expected="an id")
    return ids.codes(values)


def _check_values(name: str, parts: Sequence[Part], scale: Scale | None) -> None:
    check_scale(scale)
    if not any(len(part.rows) for part in parts):
        file = parts[0].rows.file if parts else ""
        raise DataError(f"{name} has no rating", file=file, expected="one line for each rating")
    if scale is None:
        return
    for part in parts:
        values = part.rows.values
        outside = np.flatnonzero((values < scale[0]) | (values > scale[1]))
        if outside.size:
            raise DataError(
                f"the rating is {values[outside[0]]:g}",
                file=part.rows.file,
                row=part.rows.line(int(outside[0])),
                expected=f"a number in [{scale[0]:g}, {scale[1]:g}], the scale that was given",
                remedy="correct the line, or give another scale",
            )


def _indexed(side: Side, columns: Sequence[Codes]) -> tuple[tuple[str, ...], Indices, Graph | None]:
    """All ids, the indices of ``columns`` one behind the other, and the graph."""
    more = [] if side.edges is None else [side.edges[0], side.edges[1]]
    listed = [] if side.listed is None else [side.listed]
    ids, found = side.ids.indexed([*columns, *listed, *more])
    graph = graph_of(found[-2], found[-1]) if more else None
    return ids, np.concatenate(found[: len(columns)]), graph


def _test(parts: Sequence[Part]) -> NDArray[np.bool_]:
    return np.concatenate([np.broadcast_to(part.test, len(part.rows)) for part in parts])


def _latest(
    parts: Sequence[Part], order: NDArray[np.intp], keys: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """``order`` and sorted ``keys`` with the latest row of each key alone.

    Raises DataError where a pair is in both training and test, or where a time is unknown.
    """
    same = keys[1:] == keys[:-1]
    repeated = np.concatenate([same, [False]]) | np.concatenate([[False], same])
    test = _test(parts)[order]
    across = np.flatnonzero(same & (test[1:] != test[:-1]))
    if across.size:
        raise _repeat(parts, order[across[0]], order[across[0] + 1], leak=True)
    times = np.concatenate(
        [np.full(len(p.rows), np.nan) if p.rows.times is None else p.rows.times for p in parts]
    )[order]
    unknown = np.flatnonzero(same & np.isnan(times[1:] + times[:-1]))
    if unknown.size:
        raise _repeat(parts, order[unknown[0]], order[unknown[0] + 1], leak=False)
    rows = order[repeated]
    order = order.copy()
    order[repeated] = rows[np.lexsort((rows, times[repeated], keys[repeated]))]
    last = np.concatenate([~same, [True]])
    return order[last], keys[last]


def _repeat(parts: Sequence[Part], first: np.intp, second: np.intp, *, leak: bool) -> DataError:
    (rows, at), (other, before) = _place(parts, int(second)), _place(parts, int(first))
    where = f"line {other.line(before)}"
    if other is not rows:
        where = f"{other.file}, {where}"
    problem = f"the same user rates the same item as on {where}"
    if leak:
        problem += ", one for training and one for test"
    return DataError(
        problem,
        file=rows.file,
        row=rows.line(at),
        expected="each pair of user and item once",
        remedy="keep one of the two lines"
        + ("" if leak else ", or give both a timestamp, of which the latest counts"),
    )


def _place(parts: Sequence[Part], row: int) -> tuple[Rows, int]:
    """The rows that ``row`` of all parts lies in, and its number in them."""
    for part in parts:
        if row < len(part.rows):
            return part.rows, row
        row -= len(part.rows)
    raise IndexError(row)
