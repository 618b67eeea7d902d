"""Real check-ins, where PRIVREC_DATA names a folder that holds them.

Their numbers are the publishers' and an independent count of the files with awk, sort and uniq.
Those of the synthetic city are its own: they change only if the city does.
"""

import os
from pathlib import Path

import pytest

from recsys.data.catalogue import ROOT_VARIABLE, list_sets, resolve
from recsys.data.describe import describe
from recsys.data.prepare import PrepareConfig, prepare

# users, POIs, rows, distinct pairs, POIs with 10 visitors
RAW = {
    "synthetic-city": (400, 300, 11_544, 11_544, 266),
    "foursquare-tokyo": (2_173, 7_038, 311_124, 102_518, 2_184),
    "foursquare-california": (2_551, 13_474, 124_933, 124_933, 3_377),
    "gowalla": (5_628, 31_803, 378_968, 378_968, 11_394),
}
BOUNDS = {"foursquare-california": (32.5, -124.5, 42.1, -114.1)}
# users, POIs, distinct pairs after the filter
FILTERED = {
    "synthetic-city": (400, 266, 11_352),
    "foursquare-tokyo": (2_172, 2_184, 78_582),
    "foursquare-california": (2_546, 3_152, 65_055),
    "gowalla": (5_625, 11_394, 269_804),
}


def present(name: str) -> bool:
    return name in {known.name for known in list_sets()}


def cases(names: list[str]) -> list[object]:
    """The sets that are here, the slow one marked."""
    return [
        pytest.param(name, marks=pytest.mark.deep if name == "gowalla" else ())
        for name in names
        if present(name)
    ]


@pytest.mark.parametrize("name", cases(list(RAW)))
def test_published_statistics(name: str) -> None:
    told = describe(resolve(name))
    columns = ("users", "pois", "rows", "distinct_pairs", "pois_with_10_visitors")
    assert tuple(told[column] for column in columns) == RAW[name]


@pytest.mark.parametrize("name", cases(list(FILTERED)))
def test_sizes_after_the_filter(name: str) -> None:
    out = prepare(resolve(name), PrepareConfig(bounds=BOUNDS.get(name)))
    assert (out.n_users, out.n_pois, out.visited.keys.size) == FILTERED[name]


@pytest.mark.parametrize("name", cases(list(RAW)))
def test_external_ids_are_those_of_the_file(name: str) -> None:
    data = resolve(name)
    assert all(isinstance(ident, str) for ident in data.user_ids + data.poi_ids)
    root = os.environ.get(ROOT_VARIABLE)
    if root is not None and (Path(root) / name).is_dir():
        # These files number users and POIs from 0, in order of appearance of the users.
        assert data.user_ids == tuple(map(str, range(data.n_users)))
        assert set(data.poi_ids) == set(map(str, range(data.n_pois)))
