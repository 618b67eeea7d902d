"""A synthetic city: check-ins with the regularities that location-based recommenders live on.

Source: what is built in follows M. Ye et al., "Exploiting Geographical Influence for Collaborative
    Point-of-Interest Recommendation" (SIGIR 2011: visits fall with the distance from home) and
    Z. Cheng et al., "Exploring Millions of Footprints in Location Sharing Services" (ICWSM 2011:
    heavy-tailed popularity); that tastes change with the place is the premise of PriRec.
Model: users have homes and POIs have places in districts. A trip picks a category by the taste of
    the user's home and her own, then a point around home, then one of the nearest POIs of that
    category, popular ones more often; some trips ignore distance and follow popularity alone.
Differs: nobody in it exists. The centre is latitude 0, longitude 0, in open sea, so that no
    coordinate points at anyone's house.

Every coin belongs to an index: with the same seed, users that are added change no visit of others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import ndtri

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.checkins import CheckIns
from recsys.data.geo import EARTH_RADIUS_KM
from recsys.data.sampling import below, first_distinct, fractions, rank_in_group
from recsys.simulation import SimulationRng

NAME = "synthetic-city"
CATEGORIES = (
    "restaurant",
    "cafe",
    "shop",
    "bar",
    "supermarket",
    "park",
    "gym",
    "museum",
    "cinema",
    "station",
    "hotel",
    "clinic",
)
MAX_SIZE = 1_000_000
"""Most users, and most POIs, of a city."""

_MEAN_POIS = 28.0
_KM_PER_DEGREE = EARTH_RADIUS_KM * np.pi / 180
# The city grows with its POIs, so that a neighbourhood looks alike at any size.
_POIS_PER_KM2 = 0.75
# Within 2.7 degrees of the equator a degree of longitude keeps its length within 0.2 %.
_MAX_SIDE_KM = 600.0
_POIS_PER_DISTRICT = 40
_DISTRICT_KM = 1.6
_UNKNOWN = 0.1  # POIs without a category
_CATEGORY_SKEW = 0.6  # the c-th category is found c^-0.6 as often as the first
_POPULARITY = 1.2  # standard deviation of the logarithm of a POI's popularity
_TASTE_WAVES = 8
_TASTE_KM = 12.0  # wavelength of the taste field
_TASTE_OF_PLACE = 1.8
_TASTE_OF_USER = 0.3
_TRIP_KM = 1.2
_ANYWHERE = 0.05  # trips that follow popularity alone
_CHOICE = 6  # POIs that a user weighs up at her destination
_ACTIVITY = 0.6  # standard deviation of the logarithm of the number of POIs per user
_AGAIN = 0.3  # probability of one more visit to the same POI
_ROUNDS = 24


@dataclass(frozen=True)
class CityConfig:
    """Size and seed of a city; on one machine the same config always gives the same city.

    users, pois: in [1, 10^6].
    pois_per_user: mean number of distinct POIs that a user visits, in [1, pois]; None for 28, or a
        tenth of the POIs where that is less. The sum over all users comes within a few per cent of
        ``users * pois_per_user`` where that mean is far below ``pois``, and stays below it where
        it is not. Each pair has 1.43 visits on average, so 28 makes 40 check-ins per user.
    seed: in [0, 2^64).
    """

    users: int = 400
    pois: int = 300
    pois_per_user: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        integer("users", self.users, 1, MAX_SIZE)
        integer("pois", self.pois, 1, MAX_SIZE)
        integer("seed", self.seed, 0, 2**64 - 1)
        mean = self.mean_pois
        if not (isinstance(mean, int | float) and 1 <= mean <= self.pois):
            raise ParameterError(
                f"pois_per_user must lie in [1, {self.pois}], the number of POIs, "
                f"got {self.pois_per_user!r}"
            )

    @property
    def mean_pois(self) -> float:
        """``pois_per_user``, or its default at this size."""
        if self.pois_per_user is None:
            return min(_MEAN_POIS, max(1.0, self.pois / 10))
        return self.pois_per_user


FOURSQUARE_SIZE = CityConfig(users=11_824, pois=13_924, pois_per_user=39.09)
"""As many users and POIs, and about as many positive pairs (462,237), as PriRec's Foursquare."""

KOUBEI_SIZE = CityConfig(users=85_466, pois=118_598, pois_per_user=1.456)
"""As many users and POIs, and about as many positive pairs (497,838 / 4), as PriRec's Koubei."""


def synthetic_city(config: CityConfig | None = None) -> CheckIns:
    """Build the city of ``config``, the default one if None.

    Users are named u0, u1, ... and POIs p0, p1, ...; ``order`` is a row's place in its user's
    history, and ``user_lat``, ``user_lon`` are the true homes.
    """
    config = config or CityConfig()
    sim = SimulationRng(config.seed)
    side = min(_MAX_SIDE_KM, float(np.sqrt(config.pois / _POIS_PER_KM2)))
    districts = _places(sim, "districts", -(-config.pois // _POIS_PER_DISTRICT), side)
    places = _in_districts(sim, "pois", config.pois, districts)
    homes = _in_districts(sim, "homes", config.users, districts)
    poi = np.arange(config.pois)
    category = _pick(
        np.cumsum(np.arange(1, len(CATEGORIES) + 1) ** -_CATEGORY_SKEW)[np.newaxis],
        fractions(sim.coins("poi category", poi)),
    )
    weight = np.exp(_POPULARITY * ndtri(fractions(sim.coins("poi popularity", poi))))
    tastes = _tastes(sim, homes, np.bincount(category, minlength=len(CATEGORIES)) > 0)
    trips = _Trips(sim, homes=homes, tastes=tastes, places=places, category=category, weight=weight)
    keys = trips.visited(_activity(sim, config), config.pois)
    users, pois = keys // config.pois, keys % config.pois
    again = fractions(sim.coins("visits", users, pois))
    known = fractions(sim.coins("category known", poi)) >= _UNKNOWN
    return CheckIns(
        name=NAME,
        users=users.astype(np.int32),
        pois=pois.astype(np.int32),
        user_ids=tuple(f"u{i}" for i in range(config.users)),
        poi_ids=tuple(f"p{i}" for i in range(config.pois)),
        lat=places[:, 1] / _KM_PER_DEGREE,
        lon=places[:, 0] / _KM_PER_DEGREE,
        category=np.where(known, category, -1).astype(np.int32),
        category_names=CATEGORIES,
        order=rank_in_group(users),
        counts=1 + np.floor(np.log(again) / np.log(_AGAIN)).astype(np.int64),
        user_lat=homes[:, 1] / _KM_PER_DEGREE,
        user_lon=homes[:, 0] / _KM_PER_DEGREE,
    )


def _places(sim: SimulationRng, purpose: str, n: int, side: float) -> NDArray[np.float64]:
    """Uniform points of a square around the origin, km, shape (n, 2)."""
    coins = sim.coins(purpose, np.arange(n)[:, np.newaxis], np.arange(2))
    return side * (fractions(coins) - 0.5)


def _in_districts(
    sim: SimulationRng, purpose: str, n: int, districts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points around randomly chosen district centres, km, shape (n, 2)."""
    index = np.arange(n)
    chosen = below(sim.coins(f"district of {purpose}", index), len(districts))
    step = ndtri(fractions(sim.coins(purpose, index[:, np.newaxis], np.arange(2))))
    return districts[chosen] + _DISTRICT_KM * step


def _tastes(
    sim: SimulationRng, homes: NDArray[np.float64], found: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Running sums of each user's odds of the categories: those of her home times her own.

    found: bool (categories,), those that some POI has; the others have odds of 0.
    """
    n, c = len(homes), len(CATEGORIES)
    wave, which = np.arange(_TASTE_WAVES)[:, np.newaxis], np.arange(c)
    angle, phase = (
        2 * np.pi * fractions(sim.coins(f"taste {name}", wave, which))
        for name in ("angle", "phase")
    )
    field = np.zeros((n, c))
    for m in range(_TASTE_WAVES):
        direction = np.stack([np.cos(angle[m]), np.sin(angle[m])])
        field += np.cos(2 * np.pi / _TASTE_KM * (homes @ direction) + phase[m])
    own = ndtri(fractions(sim.coins("own taste", np.arange(n)[:, np.newaxis], which)))
    frequent = -_CATEGORY_SKEW * np.log(which + 1)
    # A sum of cosines has variance 1/2 each, so the field is brought to unit variance.
    log_odds = frequent + _TASTE_OF_PLACE * np.sqrt(2 / _TASTE_WAVES) * field + _TASTE_OF_USER * own
    return np.cumsum(np.exp(log_odds) * found, axis=1)


def _activity(sim: SimulationRng, config: CityConfig) -> NDArray[np.int64]:
    """How many distinct POIs each user visits: log-normal around the mean, at least 1."""
    spread = ndtri(fractions(sim.coins("activity", np.arange(config.users))))
    beyond_first = (config.mean_pois - 1) * np.exp(_ACTIVITY * spread - _ACTIVITY**2 / 2)
    # The fraction is rounded by a coin, which keeps the mean where it is below 1.
    coin = fractions(sim.coins("activity rounding", np.arange(config.users)))
    many: NDArray[np.int64] = 1 + np.floor(beyond_first + coin).astype(np.int64)
    return np.minimum(many, config.pois)


def _pick(cumulative: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Column drawn in proportion to the odds whose running sums are the rows of ``cumulative``."""
    column: NDArray[np.int64] = np.argmax(
        cumulative > (x * cumulative[:, -1])[:, np.newaxis], axis=1
    )
    return column


class _Trips:
    """Where trips lead. Points are km east and north of the centre, shape (n, 2)."""

    def __init__(
        self,
        sim: SimulationRng,
        *,
        homes: NDArray[np.float64],
        tastes: NDArray[np.float64],
        places: NDArray[np.float64],
        category: NDArray[np.int64],
        weight: NDArray[np.float64],
    ) -> None:
        self._sim = sim
        self._homes = homes
        self._tastes = tastes
        self._weight = weight
        self._members = [np.flatnonzero(category == c) for c in range(len(CATEGORIES))]
        self._trees = [cKDTree(places[member]) if member.size else None for member in self._members]
        self._cumulative = [np.cumsum(weight[member]) for member in self._members]

    def visited(self, many: NDArray[np.int64], n_pois: int) -> NDArray[np.int64]:
        """Sorted-by-user keys ``user * n_pois + poi``: each user's first ``many`` distinct POIs.

        Whoever has not found enough after the last round has seen what she can reach.
        """
        keys = np.empty(0, dtype=np.int64)
        made = np.zeros(many.size, dtype=np.int64)
        for widening in range(_ROUNDS):
            missing = many - np.bincount(keys // n_pois, minlength=many.size)
            trips = np.where(missing > 0, missing + missing // 2 + 2, 0)
            if not trips.any():
                break
            user = np.repeat(np.arange(many.size), trips)
            number = rank_in_group(user) + made[user]
            poi = self._lead(user, number, _TRIP_KM * 1.25**widening)
            keys = first_distinct(np.concatenate([keys, user * n_pois + poi]), n_pois, many)
            made += trips
        return keys

    def _lead(
        self, user: NDArray[np.int64], number: NDArray[np.int64], reach: float
    ) -> NDArray[np.int64]:
        """The POI that trip ``number`` of ``user`` leads to."""
        coins = self._sim.coins("trip", user[:, np.newaxis], number[:, np.newaxis], np.arange(5))
        category = _pick(self._tastes[user], fractions(coins[:, 0]))
        anywhere = fractions(coins[:, 1]) < _ANYWHERE
        angle = 2 * np.pi * fractions(coins[:, 2])
        radius = -reach * np.log(fractions(coins[:, 3]))  # exponential with mean ``reach``
        step = radius[:, np.newaxis] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        target = self._homes[user] + step
        choice = fractions(coins[:, 4])
        poi = np.empty(user.size, dtype=np.int64)
        for c, (member, tree) in enumerate(zip(self._members, self._trees, strict=True)):
            if tree is None:
                continue
            far = np.flatnonzero((category == c) & anywhere)
            at = choice[far] * self._cumulative[c][-1]
            poi[far] = member[np.searchsorted(self._cumulative[c], at, side="right")]
            near = np.flatnonzero((category == c) & ~anywhere)
            k = min(_CHOICE, member.size)
            candidates = member[tree.query(target[near], k=np.arange(1, k + 1))[1]]
            odds = np.cumsum(self._weight[candidates], axis=1)
            picked = _pick(odds, choice[near])
            poi[near] = candidates[np.arange(near.size), picked]
        return poi
