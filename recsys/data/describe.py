"""Statistics of a set of check-ins, before any preparation.

A visit is here a pair of a user and a POI, however often she was there: what a recommender learns.

Source: PriRec (Chen et al., 2020), Figure 4: users tend to choose POIs nearby.
Leaks: exact figures of raw data, without noise or threshold; for whoever holds the data.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recsys.data.checkins import CheckIns
from recsys.data.geo import haversine, unit_vectors
from recsys.data.sampling import below
from recsys.simulation import SimulationRng

ENOUGH_VISITORS = 10
"""The default of ``PrepareConfig.min_visitors``: POIs with fewer are not recommended."""

WITHIN_KM = (1, 5, 10, 50)

BAND_KM = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Upper ends of the distance bands; what is farther belongs to a last one."""

_QUANTILES = {"min": 0.0, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "max": 1.0}
_KM_QUANTILES = {
    "tenth": 0.1,
    "quarter": 0.25,
    "median": 0.5,
    "three_quarters": 0.75,
    "nine_tenths": 0.9,
}
_FEW_DRAWS = 30  # below that a band's probability is off by a fifth or more
_TOP = 100  # one in a hundred POIs

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Distances:
    """Kilometres from home to where users went, and to where chance would have sent them.

    visited: float64 (n,), from home to the POI of each visit. The home is the set's own where it
        has homes, as a synthetic city does; else the mean place of the user's *other* POIs, since
        a mean that holds the visit itself lies nearer to it than she lives.
    random: float64 (n,), from the same homes to POIs drawn uniformly from the catalogue.
    popular: float64 (n,), likewise to POIs drawn in proportion to their visitors: what remains of
        ``visited`` beside it is not the popularity of places in the middle.
    activity: int64 (n,), how many POIs the user of each visit has.
    users: how many users these are.  left_out: users with one POI, whose home nothing else tells.
    given_homes: whether the homes are the set's own.
    """

    visited: _Floats
    random: _Floats
    popular: _Floats
    activity: _Ints
    users: int
    left_out: int
    given_homes: bool


@dataclass(frozen=True, eq=False)
class Survey:
    """What the statistics of a set are made of.

    user, poi: int64 (n,), the visits by user.
    activity: int64 (n_users,), POIs of each user.  visitors: int64 (n_pois,), users of each POI.
    """

    data: CheckIns
    user: _Ints
    poi: _Ints
    activity: _Ints
    visitors: _Ints
    distances: Distances

    @classmethod
    def of(cls, data: CheckIns) -> Self:
        """Count and measure; random POIs are coins of ``SimulationRng(0)``, one for each visit."""
        user, poi = np.divmod(data.pairs().keys, max(data.n_pois, 1))
        activity = np.bincount(user, minlength=data.n_users)
        visitors = np.bincount(poi, minlength=data.n_pois)
        return cls(data, user, poi, activity, visitors, _distances(data, user, poi, activity))

    def facts(self) -> dict[str, Any]:
        """Sizes, skew, coverage and distances, as plain numbers that JSON takes.

        Shares are in [0, 1]. Quantities without a value, as in an empty set, are None; so is the
        probability of a visit in a band that too few random POIs fell into.
        """
        data, visitors = self.data, self.visitors
        known = data.category >= 0
        enough = visitors >= ENOUGH_VISITORS
        top = np.sort(visitors)[::-1][: -(-data.n_pois // _TOP)]
        far = self.distances
        return {
            "name": data.name,
            "users": data.n_users,
            "pois": data.n_pois,
            "rows": int(data.users.size),
            "check_ins": int(data.counts.sum()),
            "distinct_pairs": int(self.poi.size),
            "pois_per_user": _ratio(self.poi.size, data.n_users),
            "visitors_per_poi": _quantiles(visitors, _QUANTILES),
            "mean_visitors_per_poi": _ratio(self.poi.size, data.n_pois),
            "pois_with_10_visitors": int(enough.sum()),
            "pairs_at_those_pois": int(visitors[enough].sum()),
            "categories": len(data.category_names),
            "pois_with_category": int(known.sum()),
            "check_ins_with_category": _ratio(
                int(data.counts[known[data.pois]].sum()), int(data.counts.sum())
            ),
            "ordered": data.order is not None,
            "south": float(data.lat.min()) if data.n_pois else None,
            "north": float(data.lat.max()) if data.n_pois else None,
            "west": float(data.lon.min()) if data.n_pois else None,
            "east": float(data.lon.max()) if data.n_pois else None,
            "share_of_top_1_percent_pois": _ratio(int(top.sum()), self.poi.size),
            "median_km_from_home": _quantiles(far.visited, _KM_QUANTILES)["median"],
            "distances": {
                "homes": "given" if far.given_homes else "mean place of the user's other POIs",
                "visits": int(far.visited.size),
                "users": far.users,
                "users_left_out": far.left_out,
                "probability": _ratio(far.visited.size, far.users * data.n_pois),
                "visited_km": _quantiles(far.visited, _KM_QUANTILES),
                "random_km": _quantiles(far.random, _KM_QUANTILES),
                "popular_km": _quantiles(far.popular, _KM_QUANTILES),
                "visited_within_km": _within(far.visited),
                "random_within_km": _within(far.random),
                "popular_within_km": _within(far.popular),
                "bands": _bands(far, data.n_pois),
            },
        }


def describe(data: CheckIns) -> dict[str, Any]:
    """The facts of a set: see ``Survey.facts``."""
    return Survey.of(data).facts()


def leave_one_out_homes(
    groups: NDArray[np.integer], lat: _Floats, lon: _Floats, n_groups: int
) -> tuple[_Floats, _Floats]:
    """For each point, the mean place of the *other* points of its group.

    groups: int (n,), in [0, n_groups), each with two points or more.
    lat, lon: float64 (n,), degrees.
    Returns latitudes and longitudes, float64 (n,) each: what ``spherical_mean`` gives without the
    point, to within rounding. Where the others cancel out, as antipodes do, their first stands in.
    """
    points = unit_vectors(lat, lon)
    total = np.stack(
        [np.bincount(groups, weights=axis, minlength=n_groups) for axis in points.T], axis=-1
    )
    rest = total[groups] - points
    others = np.bincount(groups, minlength=n_groups)[groups] - 1
    lost = np.flatnonzero(np.linalg.norm(rest, axis=1) < 1e-9 * others)
    order = np.argsort(groups, kind="stable")
    start = np.searchsorted(groups[order], groups[lost])
    first, second = order[start], order[start + 1]
    rest[lost] = points[np.where(first == lost, second, first)]
    return (
        np.degrees(np.arctan2(rest[:, 2], np.hypot(rest[:, 0], rest[:, 1]))),
        np.degrees(np.arctan2(rest[:, 1], rest[:, 0])),
    )


def _distances(data: CheckIns, user: _Ints, poi: _Ints, activity: _Ints) -> Distances:
    all_pois, left_out = poi, 0
    given = data.user_lat is not None
    if data.user_lat is not None and data.user_lon is not None:
        lat, lon = data.user_lat[user], data.user_lon[user]
    else:
        kept = activity[user] > 1
        left_out = int((activity == 1).sum())
        user, poi = user[kept], poi[kept]
        lat, lon = leave_one_out_homes(user, data.lat[poi], data.lon[poi], data.n_users)
    sim = SimulationRng(0)
    uniform = below(sim.coins("random POI", user, poi), max(data.n_pois, 1))
    visit = below(sim.coins("random visit", user, poi), max(all_pois.size, 1))
    visited, random, popular = (
        haversine(lat, lon, data.lat[place], data.lon[place])
        for place in (poi, uniform, all_pois[visit])
    )
    users = int(np.unique(user).size)
    return Distances(visited, random, popular, activity[user], users, left_out, given)


def _bands(far: Distances, n_pois: int) -> list[dict[str, float | None]]:
    """Shares of visits and of random POIs by distance, and how probable a visit is at it."""
    lows, highs = (0.0, *BAND_KM), (*BAND_KM, None)
    visits, draws = (
        np.bincount(np.searchsorted(BAND_KM, km), minlength=len(highs))
        for km in (far.visited, far.random)
    )
    # A user with a visits has a draws for her n_pois pairs, so each stands for n_pois / a of them.
    pairs = n_pois * np.bincount(
        np.searchsorted(BAND_KM, far.random), weights=1 / far.activity, minlength=len(highs)
    )
    used = np.flatnonzero(visits + draws)
    return [
        {
            "from_km": lows[band],
            "to_km": highs[band],
            "visited": _ratio(int(visits[band]), far.visited.size),
            "random": _ratio(int(draws[band]), far.visited.size),
            "probability": (
                min(1.0, float(visits[band] / pairs[band])) if draws[band] >= _FEW_DRAWS else None
            ),
        }
        for band in range(used[-1] + 1 if used.size else 0)
    ]


def _within(km: _Floats) -> dict[str, float | None]:
    return {str(limit): _ratio(int((km <= limit).sum()), km.size) for limit in WITHIN_KM}


def _quantiles(values: NDArray[Any], shares: dict[str, float]) -> dict[str, float | None]:
    return {
        name: float(np.quantile(values, share)) if values.size else None
        for name, share in shares.items()
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
