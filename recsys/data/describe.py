"""Statistics of a set of check-ins, before any preparation."""

from typing import Any

import numpy as np

from recsys.data.checkins import CheckIns
from recsys.data.geo import haversine, spherical_mean

_QUANTILES = {"min": 0.0, "quarter": 0.25, "median": 0.5, "three_quarters": 0.75, "max": 1.0}
_ENOUGH_VISITORS = 10


def describe(data: CheckIns) -> dict[str, Any]:
    """Sizes, skew, coverage and distances, as plain numbers that JSON takes.

    A home is the set's own where it has homes, as a synthetic city does, else the mean place of
    all the user's POIs. Quantities without a value, as in an empty set, are None.
    """
    pairs = data.pairs()
    user, poi = np.divmod(pairs.keys, max(data.n_pois, 1))
    visitors = np.bincount(poi, minlength=data.n_pois)
    known = data.category >= 0
    return {
        "name": data.name,
        "users": data.n_users,
        "pois": data.n_pois,
        "rows": int(data.users.size),
        "check_ins": int(data.counts.sum()),
        "distinct_pairs": int(pairs.keys.size),
        "pois_per_user": _ratio(pairs.keys.size, data.n_users),
        "visitors_per_poi": {
            name: float(np.quantile(visitors, share)) if visitors.size else None
            for name, share in _QUANTILES.items()
        },
        "mean_visitors_per_poi": _ratio(pairs.keys.size, data.n_pois),
        "pois_with_10_visitors": int((visitors >= _ENOUGH_VISITORS).sum()),
        "pairs_at_those_pois": int((visitors >= _ENOUGH_VISITORS)[poi].sum()),
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
        "median_km_from_home": _median_km(data, user, poi),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _median_km(data: CheckIns, user: Any, poi: Any) -> float | None:
    if not user.size:
        return None
    who, place = np.unique(user, return_inverse=True)
    if data.user_lat is not None and data.user_lon is not None:
        lat, lon = data.user_lat[who], data.user_lon[who]
    else:
        lat, lon = spherical_mean(place, data.lat[poi], data.lon[poi], who.size)
    return float(np.median(haversine(lat[place], lon[place], data.lat[poi], data.lon[poi])))
