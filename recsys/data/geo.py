"""Places on the globe: distances, homes, and who lives near whom.

Source: haversine formula (R. W. Sinnott, "Virtues of the Haversine", Sky and Telescope 68, 1984);
    mean Earth radius R1 of the IUGG (H. Moritz, "Geodetic Reference System 1980").
Leaks: whoever computes the neighbours learns all homes, and the neighbour graph tells who lives
    near whom. ``random_neighbours`` needs neither.
Error: a sphere differs from the ellipsoid by up to 0.6 % in distance.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from mpc.core.errors import ParameterError
from recsys.data.sampling import draw_distinct, rank_in_group
from recsys.simulation import SimulationRng

EARTH_RADIUS_KM = 6371.0088

_SAME_KM = 9  # decimals: distances within a micrometre count as equal
_SLACK = 1e-12  # in chords of the unit sphere, six micrometres: above that and rounding errors


def check_coordinates(lat: ArrayLike, lon: ArrayLike) -> None:
    """Raise ParameterError unless latitudes lie in [-90, 90] and longitudes in [-180, 180]."""
    for name, part, bound, remedy in (
        ("latitude", lat, 90, "latitude and longitude may be swapped"),
        ("longitude", lon, 180, "subtract 360 from longitudes above 180"),
    ):
        values = np.asarray(part, dtype=np.float64).reshape(-1)
        wrong = np.flatnonzero(~(np.abs(values) <= bound))  # true for NaN too
        if wrong.size:
            raise ParameterError(
                f"{name} must lie in [-{bound}, {bound}], got {values[wrong[0]]:g} "
                f"at position {wrong[0]}",
                remedy=remedy,
            )


def check_points(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> None:
    """Raise ParameterError unless ``lat`` and ``lon`` are coordinates of shape (n,) each."""
    if lat.shape != lon.shape or lat.ndim != 1:
        raise ParameterError(f"lat and lon must have shape (n,), got {lat.shape} and {lon.shape}")
    check_coordinates(lat, lon)


def haversine(
    lat1: ArrayLike, lon1: ArrayLike, lat2: ArrayLike, lon2: ArrayLike
) -> NDArray[np.float64]:
    """Great-circle distance in km; degrees in, any shapes that broadcast.

    Raises ParameterError if a coordinate is out of range or NaN.
    """
    check_coordinates(lat1, lon1)
    check_coordinates(lat2, lon2)
    return _haversine(*(np.asarray(part, dtype=np.float64) for part in (lat1, lon1, lat2, lon2)))


def unit_vectors(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points on the unit sphere, float64 (n, 3); no seam at the date line, no hole at a pole."""
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


def spherical_mean(
    groups: NDArray[np.integer],
    lat: NDArray[np.float64],
    lon: NDArray[np.float64],
    n_groups: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean place of each group of points, such as the home among a user's visits.

    groups: int (n,), in [0, n_groups).  lat, lon: float64 (n,), degrees.
    Returns latitudes and longitudes, float64 (n_groups,) each: the direction of the mean of the
    unit vectors. Where that is the centre of the globe, as between antipodes, the group's first
    point stands in.
    Raises ParameterError if a group has no point, or if shapes, groups or coordinates are wrong.
    """
    check_points(lat, lon)
    if groups.shape != lat.shape or (
        groups.size and not 0 <= groups.min() <= groups.max() < n_groups
    ):
        raise ParameterError(
            f"groups must have shape {lat.shape} and lie in [0, {n_groups}), got shape "
            f"{groups.shape} up to {groups.max(initial=0)}"
        )
    sizes = np.bincount(groups, minlength=n_groups)
    if not sizes.all():
        empty = np.flatnonzero(sizes == 0)
        raise ParameterError(
            f"{empty.size} of {n_groups} groups have no point to average, the first is {empty[0]}",
            remedy="leave them out: a user without a visit has no home",
        )
    points = unit_vectors(lat, lon)
    total = np.stack(
        [np.bincount(groups, weights=axis, minlength=n_groups) for axis in points.T], axis=-1
    )
    lost = np.linalg.norm(total, axis=1) < 1e-9 * sizes
    first = np.unique(groups, return_index=True)[1]
    total[lost] = points[first[lost]]
    return (
        np.degrees(np.arctan2(total[:, 2], np.hypot(total[:, 0], total[:, 1]))),
        np.degrees(np.arctan2(total[:, 1], total[:, 0])),
    )


def nearest(
    lat: NDArray[np.float64], lon: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The ``n`` nearest others of each point, by great circle; equal distances go by index.

    lat, lon: float64 (m,), degrees.  Distances within a micrometre count as equal.
    Returns neighbours, int32 (m, n), and distances in km, float64 (m, n), nearest first.
    Raises ParameterError unless 0 <= n < m, or if a coordinate is out of range or NaN.
    """
    check_points(lat, lon)
    _check_enough(lat.size, n)
    neighbours = np.empty((lat.size, n), dtype=np.int32)
    distances = np.empty((lat.size, n), dtype=np.float64)
    if n == 0:
        return neighbours, distances
    points = unit_vectors(lat, lon)
    kept = _first_at_each_place(lat, lon, n + 1)
    tree = cKDTree(points[kept])
    open_ = np.arange(lat.size)
    k = n + 2
    while open_.size:
        k = min(k, kept.size)
        chord, found = (np.asarray(part) for part in tree.query(points[open_], k=k))
        others = kept[found]
        # Oneself may be among the first n + 1, so entry n is the n-th other or beyond it.
        done = (chord[:, -1] > chord[:, n] + _SLACK) | (k == kept.size)
        here, others = open_[done], others[done]
        km = _haversine(lat[here, np.newaxis], lon[here, np.newaxis], lat[others], lon[others])
        rank = np.where(others == here[:, np.newaxis], np.inf, np.round(km, _SAME_KM))
        best = np.lexsort((others, rank), axis=1)[:, :n]
        neighbours[here] = np.take_along_axis(others, best, axis=1)
        distances[here] = np.take_along_axis(km, best, axis=1)
        open_ = open_[~done]
        k *= 2
    return neighbours, distances


def random_neighbours(n_users: int, n: int, sim: SimulationRng) -> NDArray[np.int32]:
    """``n`` distinct random others for each user: int32 (n_users, n).

    Raises ParameterError unless 0 <= n < n_users.
    """
    _check_enough(n_users, n)
    rows = np.arange(n_users, dtype=np.int64)
    # Draw among the others: values from one's own index on stand for the next user.
    _, values = draw_distinct(
        sim,
        "random neighbours",
        rows,
        np.full(n_users, n, dtype=np.int64),
        size=max(n_users - 1, 1),
        excluded=np.empty(0, dtype=np.int64),
    )
    others = values.reshape(n_users, n)
    return (others + (others >= rows[:, np.newaxis])).astype(np.int32)


def _check_enough(users: int, n: int) -> None:
    if not 0 <= n < users:
        raise ParameterError(
            f"{n} neighbours for each of {users} users, the number must lie in [0, {users - 1}]",
            remedy="ask for fewer neighbours or bring more users",
        )


def _haversine(
    lat1: NDArray[np.float64],
    lon1: NDArray[np.float64],
    lat2: NDArray[np.float64],
    lon2: NDArray[np.float64],
) -> NDArray[np.float64]:
    phi1, phi2 = np.radians(lat1), np.radians(lat2)
    across = np.cos(phi1) * np.cos(phi2) * np.sin(np.radians(lon2 - lon1) / 2) ** 2
    half_chord = np.sqrt(np.sin((phi2 - phi1) / 2) ** 2 + across)
    km: NDArray[np.float64] = 2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(half_chord, 1))
    return km


def _first_at_each_place(
    lat: NDArray[np.float64], lon: NDArray[np.float64], limit: int
) -> NDArray[np.int64]:
    """Indices of at most ``limit`` points of each place: more of them are nobody's neighbours.

    Without this, thousands of users who share one home would all have to be compared.
    """
    place = np.unique(np.stack([lat, lon]), axis=1, return_inverse=True)[1].reshape(-1)
    by_place = np.argsort(place, kind="stable")
    kept = by_place[rank_in_group(place[by_place]) < limit]
    return np.sort(kept).astype(np.int64)
