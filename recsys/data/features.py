"""Static features: what is known about users and POIs without looking at any visit.

Source: PriRec, section 3.1.2: users' private features X^i, POIs' public static features X^j.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from recsys.data.prepare import Prepared
from recsys.data.regions import equal_regions
from recsys.data.table import Table, parsed
from recsys.errors import DataError
from recsys.simulation import SimulationRng

MAX_LEVELS = 16
"""A text column with more values than this is an id or a name, not a feature."""

_IDS = frozenset({"user", "id"})


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """One row of numbers for each user or POI.

    values: float64 (n_rows, d).  names: d column names, distinct.
    note: what a reader of a result must know about these features, or "".
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    note: str = ""


def static_features(
    prepared: Prepared, *, regions: int = 32, categories: bool = True
) -> FeatureTable:
    """The POIs' static features: region and category, as one-hots; (n_pois, d).

    regions: number of regions of equally many POIs, 0 for none.
    categories: a column for each category that occurs; a POI of unknown category has none set.
    """
    integer("regions", regions, 0, 2**31 - 1)
    columns = [np.zeros((prepared.n_pois, 0))]
    names: list[str] = []
    if regions:
        cell = equal_regions(prepared.lat, prepared.lon, regions)
        columns.append(one_hots(cell, int(cell.max()) + 1))
        names += [f"region={number}" for number in range(columns[-1].shape[1])]
    if categories:
        occurring = np.unique(prepared.category[prepared.category >= 0])
        every = one_hots(prepared.category, len(prepared.category_names))
        columns.append(every[:, occurring])
        names += [f"category={prepared.category_names[number]}" for number in occurring]
    return FeatureTable(np.concatenate(columns, axis=1), tuple(names))


def one_hots(index: NDArray[np.int32], n: int) -> NDArray[np.float64]:
    """float64 (index.size, n): a 1 in the column that ``index`` names, none where it is -1."""
    out = np.zeros((index.size, n))
    known = np.flatnonzero(index >= 0)
    out[known, index[known]] = 1
    return out


def load_profiles(path: Path | str, n_users: int, sim: SimulationRng) -> FeatureTable:
    """User features from a table that names no users: rows go to users at random, each row once.

    path: csv or csv.gz. Columns of numbers are taken as they are, whole numbers from 0 up by their
        log1p, as counts have heavy tails; a text column gives one column for each value but the
        first in the alphabet, empty texts being a value. Columns named user or id are passed over.
    Every column then has mean 0 and standard deviation 1 over the ``n_users`` chosen rows; one
    that is constant there is left out.
    Raises DataError if there are fewer rows than users, or a text column with too many values.
    """
    integer("n_users", n_users, 1, 2**31 - 1)
    table = Table(Path(path))
    if table.n_rows < n_users:
        raise DataError(
            f"{table.n_rows} profiles for {n_users} users",
            file=table.file,
            remedy="give a larger table or leave user features out",
        )
    chosen = sim.order("profiles", np.arange(table.n_rows))[:n_users]
    names, columns = [], []
    for name, texts in table.columns.items():
        if name in _IDS:
            continue
        for label, values in _numeric(table, name, texts):
            here = values[chosen]
            spread = here.std()
            if spread > 0:
                names.append(label)
                columns.append((here - here.mean()) / spread)
    return FeatureTable(
        np.stack(columns, axis=1) if columns else np.zeros((n_users, 0)),
        tuple(names),
        f"user features are those of other people, dealt out at random from {Path(path).name}",
    )


def _numeric(table: Table, name: str, texts: list[str]) -> list[tuple[str, NDArray[np.float64]]]:
    values = parsed(texts)
    if np.isfinite(values).all():
        counts = bool((values >= 0).all() and (values % 1 == 0).all())
        return [(f"log1p({name})", np.log1p(values))] if counts else [(name, values)]
    levels, level = np.unique(np.array(texts), return_inverse=True)
    if levels.size > MAX_LEVELS:
        raise table.error(
            f"column {name!r} holds {levels.size} different texts",
            expected=f"numbers, or at most {MAX_LEVELS} different texts",
            remedy="fill or remove the rows without a number, or drop the column",
        )
    return [
        (f"{name}={text}", (level == number).astype(np.float64))
        for number, text in enumerate(levels)
        if number > 0
    ]
