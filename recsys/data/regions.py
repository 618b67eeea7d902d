"""Regions: cells with equally many points, so that dense quarters are told apart finely.

Source: k-d tree cells (J. L. Bentley, "Multidimensional Binary Search Trees Used for Associative
    Searching", 1975). Cuts run through the unit vectors, so the date line and the poles are
    places like any other. No random start, no iteration: the same points give the same cells.
"""

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from recsys.data.geo import check_points, unit_vectors


def equal_regions(
    lat: NDArray[np.float64], lon: NDArray[np.float64], regions: int
) -> NDArray[np.int32]:
    """The cell of each point: int32 (n,), from 0 without gaps.

    lat, lon: float64 (n,), degrees.  regions: at least 1.
    Cells differ in size by a point or two, unless many points share one place: points of one place
    are never cut apart, so there are fewer cells than asked for where there are fewer places.
    Raises ParameterError if ``regions`` or a coordinate is out of range.
    """
    integer("regions", regions, 1, 2**31 - 1)
    check_points(lat, lon)
    points = unit_vectors(lat, lon)
    cell = np.zeros(lat.size, dtype=np.int32)
    todo = [(np.arange(lat.size), regions)]
    done = 0
    while todo:
        members, parts = todo.pop()
        halves = _cut(points, members, parts // 2 / parts) if parts > 1 else None
        if halves is None:
            cell[members] = done
            done += 1
        else:
            lower, upper = halves
            todo += [(upper, parts - parts // 2), (lower, parts // 2)]
    return cell


def _cut(
    points: NDArray[np.float64], members: NDArray[np.intp], share: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Cut across the widest axis, as close to ``share`` of the members as whole places allow."""
    if members.size < 2:
        return None
    here = points[members]
    along = here[:, np.argmax(np.ptp(here, axis=0))]
    order = np.argsort(along, kind="stable")
    cuts = np.flatnonzero(np.diff(along[order])) + 1
    if not cuts.size:
        return None
    cut = cuts[np.argmin(np.abs(cuts - share * members.size))]
    return members[order[:cut]], members[order[cut:]]
