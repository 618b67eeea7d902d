"""Check-ins: who visited which point of interest (POI), and where the POIs lie.

Ids are kept as the text they had in the file. Everything behind the loader works on indices into
``user_ids`` and ``poi_ids``, so ids may have gaps, start at 0 or be words.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.geo import check_coordinates
from recsys.data.table import Table, parsed
from recsys.errors import DataError

ORDER_COLUMNS = ("time", "timestamp", "step")
"""Names of the column that orders a user's check-ins; a file may have one of them."""

_MICROSECONDS = 1_000_000
_LATEST = 9e12  # times 10^6 it still fits into 64 bits
_SAME_PLACE = 1e-5  # degrees, about a metre: sources round the same coordinates differently


@dataclass(frozen=True, eq=False)
class CheckIns:
    """A set of check-ins as arrays; ``n`` rows, one or more visits each.

    name: what the set is called in reports.
    users, pois: int32 (n,), indices into ``user_ids`` and ``poi_ids``.
    user_ids, poi_ids: the external ids, distinct.
    lat, lon: float64 (n_pois,), degrees; latitude in [-90, 90], longitude in [-180, 180].
    category: int32 (n_pois,), index into ``category_names``, -1 where unknown.
    order: int64 (n,) that sorts a user's check-ins in time, or None where the order is unknown.
    counts: int64 (n,), at least 1, visits that the row stands for.
    user_lat, user_lon: float64 (n_users,), known homes; only a synthetic city has them.
    Raises ParameterError if shapes, indices or coordinates do not fit together.
    """

    name: str
    users: NDArray[np.int32]
    pois: NDArray[np.int32]
    user_ids: tuple[str, ...]
    poi_ids: tuple[str, ...]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    category: NDArray[np.int32]
    category_names: tuple[str, ...]
    order: NDArray[np.int64] | None
    counts: NDArray[np.int64]
    user_lat: NDArray[np.float64] | None = None
    user_lon: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        rows, places, people = self.users.shape, (self.n_pois,), (self.n_users,)
        shapes: dict[str, tuple[NDArray[Any] | None, tuple[int, ...]]] = {
            "pois": (self.pois, rows),
            "counts": (self.counts, rows),
            "order": (self.order, rows),
            "lat": (self.lat, places),
            "lon": (self.lon, places),
            "category": (self.category, places),
            "user_lat": (self.user_lat, people),
            "user_lon": (self.user_lon, people),
        }
        for name, (array, shape) in shapes.items():
            if array is not None and (array.shape != shape or array.ndim != 1):
                raise ParameterError(f"{name} must have shape {shape}, got {array.shape}")
        _check_index("users", self.users, 0, self.n_users)
        _check_index("pois", self.pois, 0, self.n_pois)
        _check_index("category", self.category, -1, len(self.category_names))
        for name, whole in (("counts", self.counts), ("order", self.order)):
            if whole is not None and whole.dtype.kind not in "iu":
                raise ParameterError(f"{name} must be integers, got dtype {whole.dtype}")
        for name, ids in (("user_ids", self.user_ids), ("poi_ids", self.poi_ids)):
            if len(set(ids)) < len(ids):
                raise ParameterError(f"{name} must be distinct")
        if self.counts.size and self.counts.min() < 1:
            raise ParameterError(f"counts must be at least 1, got {self.counts.min()}")
        check_coordinates(self.lat, self.lon)
        if (self.user_lat is None) != (self.user_lon is None):
            raise ParameterError("user_lat and user_lon come together or not at all")
        if self.user_lat is not None and self.user_lon is not None:
            check_coordinates(self.user_lat, self.user_lon)

    @property
    def n_users(self) -> int:
        """Users in the set."""
        return len(self.user_ids)

    @property
    def n_pois(self) -> int:
        """POIs in the set, those without any visit included."""
        return len(self.poi_ids)

    def pairs(self) -> "DistinctPairs":
        """Each pair of a user and a POI once, whatever the number of rows and visits."""
        keys = self.users.astype(np.int64) * self.n_pois + self.pois
        distinct, row = np.unique(keys, return_inverse=True)
        visits = np.zeros(distinct.size, dtype=np.int64)
        np.add.at(visits, row, self.counts)
        last = None
        if self.order is not None:
            last = np.full(distinct.size, np.iinfo(np.int64).min)
            np.maximum.at(last, row, self.order)
        return DistinctPairs(distinct, visits, last)


@dataclass(frozen=True, eq=False)
class DistinctPairs:
    """Who visited which POI, how often and when last.

    keys: int64 (n,), ``user * n_pois + poi``, ascending.
    visits: int64 (n,), at least 1.
    last: int64 (n,), the order of the last visit, or None where no order is known.
    """

    keys: NDArray[np.int64]
    visits: NDArray[np.int64]
    last: NDArray[np.int64] | None


def load_checkins(path: Path | str) -> CheckIns:
    """Read check-ins from a folder or from one file.

    A folder holds ``checkins.csv`` or ``checkins.csv.gz`` and, optionally, ``pois.csv[.gz]``; a
    single file holds the coordinates itself.
    Required columns: user, poi, and lat, lon (degrees) in the POI file or beside the check-ins;
    where both have them, the POI file counts. Optional: category (of a POI; the most frequent one
    where the rows differ), count (visits of the row), and one of time, timestamp or step (ISO 8601,
    UTC where no zone is given, or numbers). An empty category is unknown; an optional column that
    is empty in all rows counts as absent.
    Raises DataError, which names file, line, value, range and remedy.
    """
    visits, places = _open(Path(path))
    listed = visits if places is None or not {"lat", "lon"} & set(places.columns) else places
    visits.require("user", "poi")
    if places is not None:
        places.require("poi")
    if places is None and not {"lat", "lon"} & set(visits.columns):
        raise visits.error(
            "columns 'lat' and 'lon' are missing, and there is no POI file",
            remedy="add them, or put checkins.csv and pois.csv into one folder and name that",
        )
    listed.require("poi", "lat", "lon")
    if not visits.n_rows:
        raise visits.error("there are no check-ins, only a header", expected="one row per check-in")
    user_ids, users = visits.ids("user")
    poi_ids, of_row = listed.ids("poi")
    lat, lon = _coordinates(listed, of_row, poi_ids)
    category, names = _categories(visits, places, poi_ids)
    return CheckIns(
        name=_name(Path(path)),
        users=users,
        pois=of_row if listed is visits else _lookup(visits, poi_ids, listed.file),
        user_ids=user_ids,
        poi_ids=poi_ids,
        lat=lat,
        lon=lon,
        category=category,
        category_names=names,
        order=_order(visits),
        counts=_counts(visits),
    )


def holds_checkins(folder: Path) -> bool:
    """Whether ``folder`` has a check-in file under the name that ``load_checkins`` looks for."""
    return any(is_there(candidate) for candidate in _candidates(folder, "checkins"))


def is_there(path: Path) -> bool:
    """Whether ``path`` can be reached; False too for what is no path, such as too long a name."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def _candidates(folder: Path, stem: str) -> tuple[Path, Path]:
    return folder / f"{stem}.csv", folder / f"{stem}.csv.gz"


def _open(path: Path) -> tuple[Table, Table | None]:
    if not is_there(path):
        raise DataError("no such file or folder", file=str(path))
    if not path.is_dir():
        return Table(path), None
    tables: list[Table] = []
    for stem in ("checkins", "pois"):
        found = [candidate for candidate in _candidates(path, stem) if is_there(candidate)]
        if len(found) == 2:
            raise DataError(
                f"holds both {found[0].name} and {found[1].name}",
                file=str(path),
                remedy="keep one of them",
            )
        tables += [Table(file) for file in found]
        if not tables:
            raise DataError(
                "the folder holds no check-ins",
                file=str(path),
                expected="checkins.csv or checkins.csv.gz",
            )
    return tables[0], tables[1] if len(tables) == 2 else None


def _name(path: Path) -> str:
    name = path.resolve().name
    return name if path.is_dir() else name.removesuffix(".gz").removesuffix(".csv")


def _check_index(name: str, index: NDArray[np.int32], low: int, end: int) -> None:
    if index.dtype.kind not in "iu":
        raise ParameterError(f"{name} must be integers, got dtype {index.dtype}")
    if index.size and not (low <= index.min() and index.max() < end):
        raise ParameterError(
            f"{name} must lie in [{low}, {end}), got {index.min()} to {index.max()}"
        )


def _coordinates(
    table: Table, of_row: NDArray[np.int32], poi_ids: tuple[str, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = np.unique(of_row, return_index=True)[1]
    found = []
    for name, bound, remedy in (
        ("lat", 90.0, "lat and lon may be swapped"),
        ("lon", 180.0, "subtract 360 from longitudes above 180"),
    ):
        values = table.numbers(name, -bound, bound, remedy)
        here = values[first]
        apart = np.flatnonzero(np.abs(values - here[of_row]) > _SAME_PLACE)
        if apart.size:
            row = int(apart[0])
            poi = of_row[row]
            raise table.error(
                f"POI {poi_ids[poi]!r} has {name} {values[row]:g}, and {here[poi]:g} on line "
                f"{table.line(int(first[poi]))}",
                row=row,
                remedy="one POI has one place: correct it or give the places different ids",
            )
        found.append(here)
    return found[0], found[1]


def _lookup(visits: Table, poi_ids: tuple[str, ...], listed_in: str) -> NDArray[np.int32]:
    index = {poi: i for i, poi in enumerate(poi_ids)}
    pois = np.array([index.get(poi, -1) for poi in visits.columns["poi"]], dtype=np.int32)
    unknown = np.flatnonzero(pois < 0)
    if unknown.size:
        row = int(unknown[0])
        raise visits.error(
            f"POI {visits.columns['poi'][row]!r} has no coordinates",
            row=row,
            remedy=f"add it to {listed_in} or leave its check-ins out",
        )
    return pois


def _categories(
    visits: Table, places: Table | None, poi_ids: tuple[str, ...]
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The most frequent category of each POI; ties go to the one that the file names first."""
    category = np.full(len(poi_ids), -1, dtype=np.int32)
    table = places if places is not None and "category" in places.columns else visits
    if "category" not in table.columns:
        return category, ()
    index = {poi: i for i, poi in enumerate(poi_ids)}
    names: dict[str, int] = {}
    found = [
        (index[poi], names.setdefault(name, len(names)))
        for poi, name in zip(table.columns["poi"], table.columns["category"], strict=True)
        if name and poi in index
    ]
    if found:
        pairs, count = np.unique(np.array(found, dtype=np.int64), axis=0, return_counts=True)
        best_last = np.lexsort((-pairs[:, 1], count))
        category[pairs[best_last, 0]] = pairs[best_last, 1]  # the last assignment stays
    return category, tuple(names)


def _counts(table: Table) -> NDArray[np.int64]:
    if not table.filled("count"):
        return np.ones(table.n_rows, dtype=np.int64)
    counts = table.numbers("count", 1, 2**53, "leave rows without a visit out")
    broken = np.flatnonzero(counts % 1)
    if broken.size:
        row = int(broken[0])
        raise table.error(
            f"count is {table.columns['count'][row]!r}", row=row, expected="a whole number"
        )
    return counts.astype(np.int64)


def _order(table: Table) -> NDArray[np.int64] | None:
    """Whole numbers as they are, other numbers times 10^6, ISO times as microseconds since 1970."""
    there = [name for name in ORDER_COLUMNS if table.filled(name)]
    if len(there) > 1:
        raise table.error(
            f"columns {there[0]!r} and {there[1]!r} both give an order", remedy="keep one of them"
        )
    if not there:
        return None
    values = table.columns[there[0]]
    try:
        return np.array([int(text) for text in values], dtype=np.int64)
    except (ValueError, OverflowError):
        pass  # not whole numbers
    numbers = parsed(values)
    if np.isnan(numbers[0]):
        return np.array([_microseconds(table, there[0], row) for row in range(len(values))])
    table.numbers(there[0], -_LATEST, _LATEST, "give one kind of time in all rows")
    return np.rint(numbers * _MICROSECONDS).astype(np.int64)


def _microseconds(table: Table, name: str, row: int) -> int:
    text = table.columns[name][row]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise table.error(
            f"{name} is {text!r}",
            row=row,
            expected="a number or an ISO 8601 time such as 2012-04-03T18:00:09Z, as in other rows",
        ) from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return (since.days * 86_400 + since.seconds) * _MICROSECONDS + since.microseconds
