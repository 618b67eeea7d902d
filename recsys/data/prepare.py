"""From check-ins to labelled pairs for training, validation and test.

Source: PriRec, section 4.1 (filter, 1:1 negatives, 80/20 split).
Differs: the paper draws negatives for all positives of a user and splits afterwards. Then a user
    with many positives in training has few left in the test part, and her rate of positives alone
    predicts the test labels, backwards. The sound order splits first and draws negatives inside
    each part, so that a score that knows only the user has an AUC of exactly 1/2. ``literal``
    keeps the paper's order for comparison.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.checkins import ORDER_COLUMNS, CheckIns, DistinctPairs
from recsys.data.geo import check_coordinates
from recsys.data.negatives import Drawn, NegativeSampler
from recsys.data.sampling import rank_in_group
from recsys.data.split import TEST, TRAIN, VALIDATION, RowCoins, Rows, keep_some, split
from recsys.errors import DataError
from recsys.simulation import SimulationRng


@dataclass(frozen=True)
class PrepareConfig:
    """How check-ins become labelled pairs.

    bounds: (south, west, north, east) in degrees, POIs outside are left out, or None for all; west
        above east spans the date line.
    min_visitors: POIs with fewer distinct visitors are left out; at least 0.
    max_positives: random positives kept of each user, at least 1, or None for all.
    test_fraction: share of each user's positives for the test part, in [0, 1), rounded to whole
        pairs, halves up; at least one positive of each user stays in training.
    validation_fraction: share of all training positives for the validation part, in [0, 1).
    negatives: "uniform" over all POIs, or "local" from the ``local_pool`` nearest to the positive.
    order: "sound" splits first, "literal" draws negatives first, as the paper does.
    repeated_records: with "literal", each visit is a record of its own, as in the paper, so that
        one pair may stand in training and in test.
    """

    bounds: tuple[float, float, float, float] | None = None
    min_visitors: int = 10
    max_positives: int | None = None
    test_fraction: float = 0.2
    validation_fraction: float = 0.1
    negatives: Literal["uniform", "local"] = "uniform"
    local_pool: int = 100
    order: Literal["sound", "literal"] = "sound"
    repeated_records: bool = False

    def __post_init__(self) -> None:
        for name, count, least in (
            ("min_visitors", self.min_visitors, 0),
            ("max_positives", 1 if self.max_positives is None else self.max_positives, 1),
            ("local_pool", self.local_pool, 1),
        ):
            integer(name, count, least, 2**31 - 1)
        for name, share in (
            ("test_fraction", self.test_fraction),
            ("validation_fraction", self.validation_fraction),
        ):
            if not (isinstance(share, int | float) and 0 <= share < 1):
                raise ParameterError(f"{name} must lie in [0, 1), got {share!r}")
        for name, choice, choices in (
            ("negatives", self.negatives, ("uniform", "local")),
            ("order", self.order, ("sound", "literal")),
        ):
            if choice not in choices:
                raise ParameterError(f"{name} must be one of {choices}, got {choice!r}")
        if self.bounds is not None:
            _check_bounds(self.bounds)
            # A configuration that was read from a file brings a list.
            object.__setattr__(self, "bounds", tuple(self.bounds))
        if self.repeated_records and self.order != "literal":
            raise ParameterError(
                "repeated_records puts the same pair into training and test",
                remedy="it exists for comparison with the paper only: set order='literal'",
            )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Labelled pairs, sorted by user, then POI.

    users, pois: int32 (n,), indices.  labels: int8 (n,), +1 visited, -1 not.
    """

    users: NDArray[np.int32]
    pois: NDArray[np.int32]
    labels: NDArray[np.int8]

    def __len__(self) -> int:
        return self.users.size

    def positives(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Users and POIs of the pairs that are visits."""
        visited = self.labels > 0
        return self.users[visited], self.pois[visited]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Labelled pairs in three parts, and the users and POIs that are left.

    user_ids, poi_ids: external ids, the position being the index.
    lat, lon: float64 (n_pois,), degrees.
    category: int32 (n_pois,), index into ``category_names``, -1 where unknown.
    visited: all known visits between these users and POIs, those of the test part included, with
        keys ``user * n_pois + poi``.
    notes: one sentence for each thing that was left out or fell short.
    """

    name: str
    train: Pairs
    validation: Pairs
    test: Pairs
    user_ids: tuple[str, ...]
    poi_ids: tuple[str, ...]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    category: NDArray[np.int32]
    category_names: tuple[str, ...]
    visited: DistinctPairs
    notes: tuple[str, ...]

    @property
    def n_users(self) -> int:
        """Users that are left."""
        return len(self.user_ids)

    @property
    def n_pois(self) -> int:
        """POIs that are left."""
        return len(self.poi_ids)

    @cached_property
    def history(self) -> DistinctPairs:
        """Every known visit that is not held out: what a user may report about.

        Visits that ``max_positives`` kept out of training belong to it, since they are in no part;
        positives of the validation and test parts do not, unless they are in training too. Of such
        a pair, which only repeated records make, the held-out visits are not counted.
        """
        parts = [self._keys(self.validation), self._keys(self.test)]
        held_out, times = np.unique(np.concatenate(parts), return_counts=True)
        in_training = np.isin(held_out, self._keys(self.train))
        keep = ~np.isin(self.visited.keys, held_out[~in_training])
        keys, visits = self.visited.keys[keep], self.visited.visits[keep]
        visits[np.searchsorted(keys, held_out[in_training])] -= times[in_training]
        last = None if self.visited.last is None else self.visited.last[keep]
        return DistinctPairs(keys, visits, last)

    @property
    def visitors(self) -> Pairs:
        """The history as positive pairs."""
        return self._positive_pairs(self.history.keys)

    @property
    def returning(self) -> Pairs:
        """The pairs of the history that were visited at least twice."""
        return self._positive_pairs(self.history.keys[self.history.visits >= 2])

    @property
    def recent(self) -> Pairs:
        """The later half, rounded up, of each user's history, by last visit.

        Raises DataError if the order of the check-ins is not known.
        """
        keys, last = self.history.keys, self.history.last
        if last is None:
            raise DataError(
                f"{self.name}: the order of the check-ins is not known",
                expected=f"a column named {', '.join(ORDER_COLUMNS)}",
                remedy="use the visitor count as the only dynamic feature",
            )
        user = keys // self.n_pois
        latest_first = np.lexsort((-last, user))
        half = (np.bincount(user, minlength=self.n_users) + 1) // 2
        chosen = rank_in_group(user) < half[user]  # the users stay in place, as they are sorted
        return self._positive_pairs(np.sort(keys[latest_first[chosen]]))

    def _keys(self, pairs: Pairs) -> NDArray[np.int64]:
        users, pois = pairs.positives()
        return users.astype(np.int64) * self.n_pois + pois

    def _positive_pairs(self, keys: NDArray[np.int64]) -> Pairs:
        users, pois = (part.astype(np.int32) for part in np.divmod(keys, self.n_pois))
        return Pairs(users, pois, np.ones(keys.size, dtype=np.int8))


def prepare(
    data: CheckIns, config: PrepareConfig | None = None, sim: SimulationRng | None = None
) -> Prepared:
    """Distinct pairs, POI filter, ``max_positives``, split and negatives, in this order.

    sim: the coins of the run, by default those of seed 0. Coins belong to users and POIs by their
        index in ``data``: another filter or another number of users changes nobody's coins.
    A negative is never a POI that its user is known to have visited, in any part or none. A user
    who visited nearly everything gets fewer negatives, the test part first; the notes say so.
    Raises DataError if no pair is left.
    """
    config = config or PrepareConfig()
    pairs = data.pairs()
    user, poi = np.divmod(pairs.keys, max(data.n_pois, 1))
    visitors = np.bincount(poi, minlength=data.n_pois)
    inside = _inside(data, config)
    kept_pois = inside & (visitors >= config.min_visitors)
    kept = kept_pois[poi]
    if not kept.any():
        raise DataError(
            f"{data.name}: no check-ins are left, the most visited of {inside.sum()} POIs has "
            f"{visitors[inside].max(initial=0)} visitors and {config.min_visitors} are required",
            remedy="lower min_visitors, widen the bounds or bring more check-ins",
        )
    user_coins, user = np.unique(user[kept], return_inverse=True)
    poi_coins = np.flatnonzero(kept_pois)
    poi = np.searchsorted(poi_coins, poi[kept])
    visited = DistinctPairs(
        keys=user * poi_coins.size + poi,  # ascending, as both indices keep their order
        visits=pairs.visits[kept],
        last=None if pairs.last is None else pairs.last[kept],
    )
    coins = RowCoins(sim or SimulationRng(0), user_coins, poi_coins)
    lat, lon = data.lat[poi_coins], data.lon[poi_coins]
    notes = [*_left_out(data, config, kept_pois, kept, user_coins.size)]
    rows = Rows(user, poi, np.zeros_like(user), np.ones(user.size, dtype=np.bool_))
    visits = visited.visits
    if config.max_positives is not None:
        chosen = keep_some(rows, config.max_positives, coins)
        rows, visits = rows.at(chosen), visits[chosen]
        notes.append(
            f"{chosen.size} of {user.size} distinct pairs are kept, at most "
            f"{config.max_positives} of each user"
        )
    if config.repeated_records:
        rows = rows.repeat(visits)
        notes.append("repeated visits are records of their own: a pair may be in train and test")
    sampler = NegativeSampler(coins, lat, lon, visited.keys)
    rows, part, short = _labelled(rows, config, sampler)
    if config.order == "literal":
        notes.append("negatives were drawn before the split: users' rates betray test labels")
    if short:
        nearby = " nearby" if config.negatives == "local" else ""
        notes.append(
            f"{short} of {rows.positive.sum()} positives have no negative: their users visited "
            f"nearly every POI{nearby}"
        )
    untested = user_coins.size - np.unique(rows.user[part == TEST]).size
    if untested and config.test_fraction:
        notes.append(f"{untested} of {user_coins.size} users have no pair in the test part")
    return Prepared(
        name=data.name,
        train=_pairs(rows, part == TRAIN),
        validation=_pairs(rows, part == VALIDATION),
        test=_pairs(rows, part == TEST),
        user_ids=tuple(data.user_ids[i] for i in user_coins),
        poi_ids=tuple(data.poi_ids[i] for i in poi_coins),
        lat=lat,
        lon=lon,
        category=data.category[poi_coins],
        category_names=data.category_names,
        visited=visited,
        notes=tuple(notes),
    )


def _check_bounds(bounds: Sequence[float]) -> None:
    if len(bounds) != 4:
        raise ParameterError(f"bounds are (south, west, north, east), got {len(bounds)} numbers")
    south, west, north, east = bounds
    check_coordinates([south, north], [west, east])
    if south > north:
        raise ParameterError(f"bounds run from south to north, got {south:g} to {north:g}")


def _inside(data: CheckIns, config: PrepareConfig) -> NDArray[np.bool_]:
    if config.bounds is None:
        return np.ones(data.n_pois, dtype=np.bool_)
    south, west, north, east = config.bounds
    over, under = data.lon >= west, data.lon <= east
    inside: NDArray[np.bool_] = (
        (data.lat >= south) & (data.lat <= north) & (over & under if west <= east else over | under)
    )
    return inside


def _left_out(
    data: CheckIns,
    config: PrepareConfig,
    kept_pois: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    users: int,
) -> Iterator[str]:
    if not kept_pois.all():
        where = " or outside the bounds" if config.bounds else ""
        yield (
            f"{data.n_pois - kept_pois.sum()} of {data.n_pois} POIs with fewer than "
            f"{config.min_visitors} visitors{where} are left out, and with them "
            f"{kept.size - kept.sum()} of {kept.size} distinct pairs"
        )
    if users < data.n_users:
        yield f"{data.n_users - users} of {data.n_users} users have no positive pair left"


def _labelled(
    rows: Rows, config: PrepareConfig, sampler: NegativeSampler
) -> tuple[Rows, NDArray[np.int64], int]:
    """Positives and negatives, the part of each, and the number of positives without a negative."""

    def negatives(positives: Rows) -> Drawn:
        if config.negatives == "local":
            return sampler.local(positives, config.local_pool)
        return sampler.uniform(positives)

    fractions = config.test_fraction, config.validation_fraction
    if config.order == "literal":
        of, poi = negatives(rows)
        labelled = rows.with_negatives(of, poi)
        part = split(labelled, *fractions, sampler.coins)
    else:
        part = split(rows, *fractions, sampler.coins)
        served = np.lexsort((part, rows.user))
        rows, part = rows.at(served), part[served]
        of, poi = negatives(rows)
        labelled, part = rows.with_negatives(of, poi), np.concatenate([part, part[of]])
    return labelled, part, rows.user.size - of.size


def _pairs(rows: Rows, chosen: NDArray[np.bool_]) -> Pairs:
    index = np.flatnonzero(chosen)
    index = index[np.lexsort((rows.poi[index], rows.user[index]))]
    return Pairs(
        users=rows.user[index].astype(np.int32),
        pois=rows.poi[index].astype(np.int32),
        labels=np.where(rows.positive[index], 1, -1).astype(np.int8),
    )
