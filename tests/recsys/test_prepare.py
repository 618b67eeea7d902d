"""From check-ins to labelled pairs: what is kept, how it is split, what is never a negative."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from mpc.core.errors import ParameterError
from recsys.data.checkins import CheckIns
from recsys.data.city import CityConfig, synthetic_city
from recsys.data.geo import haversine, nearest, spherical_mean
from recsys.data.prepare import Pairs, PrepareConfig, Prepared, prepare
from recsys.errors import DataError
from recsys.simulation import SimulationRng

CITY = synthetic_city()
PARTS = ("train", "validation", "test")


def checkins(
    pairs: list[tuple[int, int]],
    n_pois: int,
    *,
    order: list[int] | None = None,
    counts: list[int] | None = None,
) -> CheckIns:
    """Check-ins at POIs a kilometre apart along the equator."""
    users, pois = (np.array(part, np.int32) for part in zip(*pairs, strict=True))
    return CheckIns(
        name="made",
        users=users,
        pois=pois,
        user_ids=tuple(f"user {i}" for i in range(users.max() + 1)),
        poi_ids=tuple(f"poi {i}" for i in range(n_pois)),
        lat=np.zeros(n_pois),
        lon=np.arange(n_pois) / 111.195,
        category=np.full(n_pois, -1, np.int32),
        category_names=(),
        order=None if order is None else np.array(order, np.int64),
        counts=np.ones(users.size, np.int64) if counts is None else np.array(counts, np.int64),
    )


def keys(pairs: Pairs, label: int, n_pois: int) -> list[int]:
    chosen = pairs.labels == label
    return [
        int(u) * n_pois + int(p)
        for u, p in zip(pairs.users[chosen], pairs.pois[chosen], strict=True)
    ]


def everything(prepared: Prepared, label: int) -> list[int]:
    return [key for part in PARTS for key in keys(getattr(prepared, part), label, prepared.n_pois)]


def auc_of_the_user_rate(prepared: Prepared) -> float:
    """AUC of a score that knows one thing: the user's share of positives in training."""
    train, test = prepared.train, prepared.test
    positive = np.bincount(train.users, weights=train.labels > 0, minlength=prepared.n_users)
    rate = positive / np.bincount(train.users, minlength=prepared.n_users)
    return float(roc_auc_score(test.labels, rate[test.users]))


SMALL = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=60).map(
    lambda pairs: checkins(pairs, 9)
)
CONFIGS = st.builds(
    PrepareConfig,
    min_visitors=st.integers(0, 2),
    max_positives=st.none() | st.integers(1, 4),
    test_fraction=st.sampled_from([0.0, 0.2, 0.5, 0.95]),
    validation_fraction=st.sampled_from([0.0, 0.1, 0.9]),
    negatives=st.sampled_from(["uniform", "local"]),
    local_pool=st.integers(1, 12),
    order=st.sampled_from(["sound", "literal"]),
)


@given(SMALL, CONFIGS, st.integers(0, 2**64 - 1))
def test_the_invariants_of_every_preparation(
    data: CheckIns, config: PrepareConfig, seed: int
) -> None:
    visitors = np.bincount(data.pairs().keys % data.n_pois, minlength=data.n_pois)
    if visitors.max() < config.min_visitors:
        with pytest.raises(DataError):
            prepare(data, config, SimulationRng(seed))
        return
    out = prepare(data, config, SimulationRng(seed))
    expected = [i for i in range(data.n_pois) if visitors[i] >= config.min_visitors]
    assert out.poi_ids == tuple(data.poi_ids[i] for i in expected)
    positives, negatives = everything(out, 1), everything(out, -1)
    assert len(set(positives)) == len(positives)
    assert len(set(negatives)) == len(negatives)
    assert set(positives) <= set(out.visited.keys.tolist())
    if config.max_positives is None:
        assert len(positives) == out.visited.keys.size
    assert not set(negatives) & set(out.visited.keys.tolist())
    train_users, _ = out.train.positives()
    assert set(train_users.tolist()) == set(range(out.n_users)), "each user can be trained"
    for part in (out.train, out.validation, out.test):
        assert part.users.dtype == part.pois.dtype == np.int32
        assert part.labels.dtype == np.int8
        assert set(part.labels.tolist()) <= {-1, 1}
        order = part.users.astype(int) * out.n_pois + part.pois
        assert (np.diff(order) >= 0).all()
        if config.order == "sound":
            label = np.zeros(out.n_users, int)
            np.add.at(label, part.users, part.labels)
            assert (label >= 0).all(), "never more negatives than positives"
    again = prepare(data, config, SimulationRng(seed))
    assert all(
        np.array_equal(getattr(getattr(out, part), column), getattr(getattr(again, part), column))
        for part in PARTS
        for column in ("users", "pois", "labels")
    )


def test_the_order_of_preparation_on_the_city() -> None:
    pairs = CITY.pairs()
    visitors = np.bincount(pairs.keys % CITY.n_pois, minlength=CITY.n_pois)
    out = prepare(CITY)
    assert out.n_pois == (visitors >= 10).sum()
    kept = int(visitors[visitors >= 10].sum())
    assert len(everything(out, 1)) == kept
    assert out.notes[0] == (
        f"{CITY.n_pois - out.n_pois} of {CITY.n_pois} POIs with fewer than 10 visitors are left "
        f"out, and with them {pairs.keys.size - kept} of {pairs.keys.size} distinct pairs"
    )
    per_user = np.bincount(out.visited.keys // out.n_pois)
    tested = np.bincount(out.test.positives()[0], minlength=out.n_users)
    assert tested.tolist() == np.floor(per_user * 0.2 + 0.5).tolist()
    learned = kept - tested.sum()
    assert out.validation.positives()[0].size == int(0.1 * learned + 0.5)
    positions = [CITY.poi_ids.index(name) for name in out.poi_ids]
    assert np.array_equal(out.lat, CITY.lat[positions])
    assert np.array_equal(out.category, CITY.category[positions])


def test_max_positives_keeps_that_many_of_each_user() -> None:
    out = prepare(CITY, PrepareConfig(max_positives=5))
    users = np.array(everything(out, 1)) // out.n_pois
    per_user = np.bincount(out.visited.keys // out.n_pois)
    assert np.bincount(users).tolist() == np.minimum(per_user, 5).tolist()
    other = prepare(CITY, PrepareConfig(max_positives=5), SimulationRng(1))
    assert set(everything(out, 1)) != set(everything(other, 1))


def test_one_negative_for_each_positive_inside_each_part() -> None:
    out = prepare(CITY, PrepareConfig(max_positives=20))
    for part in (out.train, out.validation, out.test):
        balance = np.zeros(out.n_users, int)
        np.add.at(balance, part.users, part.labels)
        assert len(part) > 0
        assert not balance.any()
    assert not any("no negative" in note for note in out.notes)


def test_a_score_of_the_user_alone_is_worth_nothing_in_the_sound_order() -> None:
    """Exactly 1/2, and below it in the paper's order, whose Table 4 shows AUCs below 1/2."""
    for negatives in ("uniform", "local"):
        sound = PrepareConfig(negatives=negatives, max_positives=30)
        assert auc_of_the_user_rate(prepare(CITY, sound)) == pytest.approx(0.5, abs=1e-12)
        literal = dataclasses.replace(sound, order="literal")
        assert auc_of_the_user_rate(prepare(CITY, literal)) < 0.45


def test_repeated_records_are_for_the_literal_order_only() -> None:
    config = PrepareConfig(order="literal", repeated_records=True)
    out = prepare(CITY, config)
    assert len(everything(out, 1)) == out.visited.visits.sum()
    assert set(keys(out.train, 1, out.n_pois)) & set(keys(out.test, 1, out.n_pois))
    assert any("a pair may be in train and test" in note for note in out.notes)
    with pytest.raises(ParameterError, match="repeated_records"):
        PrepareConfig(repeated_records=True)


def test_repeated_records_get_local_negatives_of_their_own() -> None:
    data = checkins([(0, 4)], 9, counts=[3])
    config = PrepareConfig(
        min_visitors=0, order="literal", repeated_records=True, negatives="local", local_pool=4
    )
    out = prepare(data, config)
    assert everything(out, 1) == [4, 4, 4]
    negatives = everything(out, -1)
    assert len(set(negatives)) == 3
    assert set(negatives) <= {2, 3, 5, 6}


def test_local_negatives_lie_in_the_pool_of_a_positive() -> None:
    config = PrepareConfig(negatives="local", local_pool=15, max_positives=3)
    out = prepare(CITY, config)
    around = nearest(out.lat, out.lon, 15)[0]
    for part in (out.train, out.test):
        users, pois = part.positives()
        for user, poi in zip(
            part.users[part.labels < 0].tolist(), part.pois[part.labels < 0].tolist(), strict=True
        ):
            assert poi in around[pois[users == user]]
    uniform = prepare(CITY, dataclasses.replace(config, negatives="uniform"))

    def distance(prepared: Prepared) -> float:
        trained, places = prepared.train.positives()
        lat, lon = spherical_mean(
            trained, prepared.lat[places], prepared.lon[places], prepared.n_users
        )
        away = prepared.test.labels < 0
        users, pois = prepared.test.users[away], prepared.test.pois[away]
        km = haversine(lat[users], lon[users], prepared.lat[pois], prepared.lon[pois])
        return float(np.median(km))

    assert distance(out) < 0.75 * distance(uniform)


@pytest.mark.parametrize("negatives", ["uniform", "local"])
def test_o23_who_visited_everything_gets_no_negative(negatives: Any) -> None:
    """User 0 visited all five POIs, user 1 three, user 2 one: it ends, and the notes say so."""
    pairs = [(0, i) for i in range(5)] + [(1, i) for i in range(3)] + [(2, 0)]
    config = PrepareConfig(min_visitors=0, negatives=negatives, test_fraction=0.4)
    out = prepare(checkins(pairs, 5), config)
    of_user = np.bincount(np.array(everything(out, -1)) // 5, minlength=3)
    assert of_user.tolist() == [0, 2, 1]
    assert sorted(key for key in everything(out, -1) if key // 5 == 1) == [5 + 3, 5 + 4]
    assert any(note.startswith("6 of 9 positives have no negative") for note in out.notes)
    # What there is goes to the test part first, where a missing negative would bend the AUC.
    test_users = out.test.users[out.test.labels < 0]
    assert (test_users == 1).sum() == 1


def test_o26_every_user_keeps_a_positive_for_training() -> None:
    """Also where the test part would take all; users without a positive are dropped by name."""
    pairs = [(0, 0), (1, 0), (1, 1), (2, 2), (3, 1)]
    data = checkins(pairs, 9)
    out = prepare(data, PrepareConfig(min_visitors=2, test_fraction=0.9, validation_fraction=0.9))
    assert out.user_ids == ("user 0", "user 1", "user 3")
    assert "1 of 4 users have no positive pair left" in out.notes
    assert set(out.train.positives()[0].tolist()) == {0, 1, 2}
    assert "2 of 3 users have no pair in the test part" in out.notes


def test_o26_training_on_everything() -> None:
    out = prepare(CITY, PrepareConfig(test_fraction=0, validation_fraction=0))
    assert len(out.test) == len(out.validation) == 0
    assert not any("test part" in note for note in out.notes)


def test_o24_external_ids_survive_the_filter() -> None:
    data = dataclasses.replace(
        checkins([(0, 0), (1, 0), (1, 1), (0, 2), (1, 2)], 3),
        user_ids=("0", "6040"),
        poi_ids=("0", "10", "3952"),
    )
    out = prepare(data, PrepareConfig(min_visitors=2))
    assert (out.user_ids, out.poi_ids) == (("0", "6040"), ("0", "3952"))
    everyone = prepare(data, PrepareConfig(min_visitors=0))
    assert everyone.poi_ids == data.poi_ids
    assert 0 in np.array(everything(everyone, 1)) % 3, "index 0 is an item like any other"


def test_two_users_are_enough_to_prepare() -> None:
    out = prepare(checkins([(0, 0), (1, 0), (1, 1)], 4), PrepareConfig(min_visitors=1))
    assert (out.n_users, out.n_pois) == (2, 2)


def test_nothing_left_says_what_was_required() -> None:
    with pytest.raises(DataError, match=r"has 2 visitors and 10 are required \(lower min_visitors"):
        prepare(checkins([(0, 0), (1, 0), (1, 1)], 4))
    empty = dataclasses.replace(
        checkins([(0, 0)], 1),
        users=np.empty(0, np.int32),
        pois=np.empty(0, np.int32),
        counts=np.empty(0, np.int64),
        poi_ids=(),
        lat=np.empty(0),
        lon=np.empty(0),
        category=np.empty(0, np.int32),
    )
    with pytest.raises(DataError, match="most visited of 0 POIs has 0 visitors"):
        prepare(empty, PrepareConfig(min_visitors=0))


def test_bounds_from_a_file_are_a_tuple_again() -> None:
    assert PrepareConfig(bounds=[0, 0, 1, 1]) == PrepareConfig(bounds=(0, 0, 1, 1))  # type: ignore[arg-type]


def test_bounds_leave_out_what_lies_outside() -> None:
    data = checkins([(0, i) for i in range(9)], 9)
    shifted = dataclasses.replace(data, lon=np.linspace(176, 184, 9) - 360 * (np.arange(9) > 4))
    kept = prepare(shifted, PrepareConfig(min_visitors=0, bounds=(-1, 178.5, 1, -178.5)))
    assert kept.poi_ids == ("poi 3", "poi 4", "poi 5")
    assert "or outside the bounds" in kept.notes[0]
    north = prepare(data, PrepareConfig(min_visitors=0, bounds=(0, -1, 90, 0.02)))
    assert north.poi_ids == ("poi 0", "poi 1", "poi 2")
    with pytest.raises(DataError, match="widen the bounds"):
        prepare(data, PrepareConfig(min_visitors=0, bounds=(5, 5, 6, 6)))


@pytest.mark.parametrize("negatives", ["uniform", "local"])
def test_coins_belong_to_users(negatives: Any) -> None:
    """Users who join change neither the split nor the negatives of those who were there.

    The joining users fill more than one chunk of local draws.
    """
    config = PrepareConfig(min_visitors=0, validation_fraction=0, negatives=negatives)
    few, many = (prepare(synthetic_city(CityConfig(users=users)), config) for users in (200, 1_800))
    assert few.poi_ids == many.poi_ids
    for part in PARTS:
        for label in (1, -1):
            small = keys(getattr(few, part), label, few.n_pois)
            large = keys(getattr(many, part), label, many.n_pois)
            assert small == [key for key in large if key < 200 * many.n_pois]


def test_another_seed_is_another_split() -> None:
    first, second = (prepare(CITY, sim=SimulationRng(seed)) for seed in (0, 1))
    assert keys(first.test, 1, first.n_pois) != keys(second.test, 1, second.n_pois)


def test_returning_and_recent_visits() -> None:
    pairs = [(0, i) for i in range(5)] + [(0, 1), (0, 3), (1, 0), (1, 2)]
    data = checkins(pairs, 6, order=[10, 11, 12, 13, 14, 20, 9, 1, 2])
    config = PrepareConfig(min_visitors=0, validation_fraction=0, test_fraction=0)
    out = prepare(data, config)
    assert keys(out.returning, 1, out.n_pois) == [1, 3]
    # Last visits of user 0 to POIs 0..4 are at 10, 20, 12, 13, 14, of user 1 to 0, 2 at 1, 2.
    assert keys(out.recent, 1, out.n_pois) == [1, 3, 4, out.n_pois + 2]


@pytest.mark.parametrize("max_positives", [None, 5])
def test_reports_know_all_that_is_not_held_out_and_nothing_that_is(
    max_positives: int | None,
) -> None:
    out = prepare(CITY, PrepareConfig(max_positives=max_positives))
    known = set(out.visited.keys.tolist())
    held_out = {key for part in (out.validation, out.test) for key in keys(part, 1, out.n_pois)}
    reported = set(keys(out.visitors, 1, out.n_pois))
    assert held_out
    assert reported == known - held_out
    # What ``max_positives`` keeps out of training is reported none the less.
    set_aside = reported - set(keys(out.train, 1, out.n_pois))
    assert bool(set_aside) is (max_positives is not None)
    assert set(keys(out.returning, 1, out.n_pois)) < reported
    assert set(keys(out.recent, 1, out.n_pois)) < reported


def test_a_pair_that_is_in_training_too_is_reported() -> None:
    config = PrepareConfig(order="literal", repeated_records=True)
    out = prepare(CITY, config)
    trained, tested = set(keys(out.train, 1, out.n_pois)), set(keys(out.test, 1, out.n_pois))
    reported = set(keys(out.visitors, 1, out.n_pois))
    assert trained & tested
    assert reported >= trained
    assert not reported & (tested - trained)


def test_recent_visits_need_an_order() -> None:
    out = prepare(checkins([(0, 0)], 2), PrepareConfig(min_visitors=0))
    with pytest.raises(DataError, match="time, timestamp, step"):
        _ = out.recent


@pytest.mark.parametrize(
    "settings",
    [
        {"min_visitors": -1},
        {"min_visitors": 1.5},
        {"min_visitors": True},
        {"max_positives": 0},
        {"local_pool": 0},
        {"test_fraction": 1.0},
        {"test_fraction": -0.1},
        {"test_fraction": float("nan")},
        {"test_fraction": "0.2"},
        {"validation_fraction": 1},
        {"negatives": "nearby"},
        {"order": "paper"},
        {"bounds": (10, 0, 0, 10)},
        {"bounds": (0, 0, 91, 10)},
        {"bounds": (0, 0, 9, 190)},
        {"bounds": (0, 0, 9)},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        PrepareConfig(**settings)
