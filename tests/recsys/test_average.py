"""Average visits by 1BitMean: unbiased, capped, memoized, nothing about held-out visits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import recsys.dynamic
from ldp.one_bit_mean import OneBitMean
from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError
from mpc.core.rng import ONE
from recsys.data.checkins import DistinctPairs
from recsys.data.prepare import PrepareConfig, Prepared, prepare
from recsys.dynamic import CoinSource, PoiEstimates, collect, collect_average, share_budget
from recsys.features import assemble
from recsys.prirec import PriRec
from recsys.simulation import SimulationRng
from tests.recsys.worlds import (
    KnownKeysRun,
    Row,
    built,
    city,
    everyone,
    pairs,
    seeded_coins,
    small,
    without_seed,
    world,
)
from tests.support.stats import normal_half_width

Words = NDArray[np.uint64]
Visits = tuple[int, int, int]
"""(user, POI, how often)"""

TRUTHFUL = RandomizedResponse(ONE - 1)
QUARTER = ONE // 4
ROUNDING = ", rounding"


def seeded(seed: int) -> CoinSource:
    return lambda *asked: seeded_coins(SimulationRng(seed), *asked)


def history(rows: Sequence[Visits], pois: int) -> DistinctPairs:
    ordered = sorted(rows)
    keys = [user * pois + poi for user, poi, _ in ordered]
    visits = [often for *_, often in ordered]
    return DistinctPairs(np.array(keys, dtype=np.int64), np.array(visits, dtype=np.int64), None)


def told(rows: Sequence[Visits], users: int, pois: int, cap: int, **given_: Any) -> PoiEstimates:
    options: dict[str, Any] = {"coin": TRUTHFUL, "coins": seeded(0), **given_}
    return collect_average("average", history(rows, pois), (users, pois), cap, **options)


def means(rows: Sequence[Visits], users: int, pois: int, cap: int) -> list[float]:
    sums = [sum(min(often, cap) for _, at, often in rows if at == poi) for poi in range(pois)]
    return [total / users for total in sums]


visits = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 12)),
    unique_by=lambda row: row[:2],
)


# The estimate


@given(visits)
def test_without_noise_and_at_the_ends_of_the_range_it_is_the_average(rows: list[Visits]) -> None:
    """Who came as often as the cap or never is not rounded, and this coin does not lie."""
    often = [(user, poi, 3 * times) for user, poi, times in rows]
    assert told(often, 7, 5, 3).estimate == pytest.approx(means(often, 7, 5, 3), abs=1e-9)


def test_the_average_is_exactly_unbiased() -> None:
    """All quarters for both coins of two users, at two POIs: cap 4 and keep 3/4 make odds exact.

    User 1 came 9 times to POI 0, which counts as 4.
    """
    rows = [(0, 0, 1), (1, 0, 9), (0, 1, 3)]
    assert average_over_all_coins(rows, range(4)) == [5 / 2, 3 / 2]
    # A twin that rounds to the nearer end has no chance in it, and is off.
    assert average_over_all_coins(rows, [2]) != [5 / 2, 3 / 2]


def average_over_all_coins(rows: Sequence[Visits], rounding: Sequence[int]) -> list[float]:
    sums, count = np.zeros(2), 0
    for quarters in product(product(rounding, range(4)), repeat=2):
        words = np.array(quarters, dtype=np.uint64) * np.uint64(QUARTER)

        def coins(family: str, *_: object, words: Words = words) -> Words:
            column = words[:, 0] if family.endswith(ROUNDING) else words[:, 1]
            return np.broadcast_to(column[:, np.newaxis], (2, 2))

        sums += told(rows, 2, 2, 4, coin=RandomizedResponse(3 * QUARTER), coins=coins).estimate
        count += 1
    return [float(total / count) for total in sums]


def test_the_noise_of_an_average_has_the_stated_standard_error() -> None:
    """200 users, 500 POIs with 1, 2 and 9 visits, cap 4; 16 collections: 8,000 estimates.

    Bounds on their mean and on their mean square, false-alarm rate 1e-9 each. The twins, noise a
    tenth too small, negative estimates cut off and no cap, are rejected. The stated error is the
    largest by the estimates, so it is not below the truth, nor above that of the worst values.
    """
    often = {0: 1, 7: 2, 90: 9}
    rows = [((poi + j) % 200, poi, times) for poi in range(500) for j, times in often.items()]
    coin = share_budget(1.0, 1)
    found = [told(rows, 200, 500, 4, coin=coin, coins=seeded(s)) for s in range(16)]
    mechanism = OneBitMean(0.0, 4.0, coin)
    x = np.array([1, 2, 4] + [0] * 197)
    exact = float(np.sqrt(mechanism.variance_of(x).sum())) / 200
    for one in found:
        assert exact <= one.standard_error <= np.sqrt(mechanism.worst_variance / 200)
    assert found[0].standard_error < 1.15 * exact
    noise = np.concatenate([one.estimate for one in found]) - 7 / 200

    def unbiased(noise: NDArray[np.float64]) -> bool:
        return bool(abs(noise.mean()) < normal_half_width(exact / np.sqrt(noise.size)))

    def spread_as_stated(noise: NDArray[np.float64]) -> bool:
        off = np.mean((noise / exact) ** 2) - 1
        return bool(abs(off) < normal_half_width(np.sqrt(2 / noise.size)))

    assert noise.size == 8000
    assert unbiased(noise)
    assert spread_as_stated(noise)
    assert not spread_as_stated(0.9 * noise)
    assert not unbiased(np.maximum(noise, -7 / 200))
    assert not unbiased(noise + 7 / 200 - 12 / 200)


def test_with_a_cap_of_1_it_is_the_number_of_visitors_over_the_users() -> None:
    rows = [(user, poi, 1 + user) for user in range(20) for poi in range(0, 5, 2)]
    coin = share_budget(1.0, 1)

    def same(family: str, *asked: Any) -> Words:
        return seeded(0)("any", *asked)

    ones: list[Row] = [(user, poi, 1) for user, poi, _ in rows]
    counted = collect("visitors", pairs(ones), (20, 5), coin, same)
    averaged = told(rows, 20, 5, 1, coin=coin, coins=same)
    assert averaged.estimate == pytest.approx(counted.estimate / 20, abs=1e-12)
    assert averaged.epsilon == counted.epsilon


def test_visits_beyond_the_cap_change_no_report() -> None:
    rows = [(user, poi, 1 + (user + poi) % 9) for user in range(30) for poi in range(5)]
    options: dict[str, Any] = {"coin": share_budget(1.0, 1), "coins": seeded(3)}
    capped = [(user, poi, min(often, 4)) for user, poi, often in rows]
    beyond = [(user, poi, often if often < 4 else 10**6) for user, poi, often in rows]
    found = [told(some, 30, 5, 4, **options).estimate for some in (rows, capped, beyond)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    fewer = [(user, poi, 1) for user, poi, _ in rows]
    assert not np.array_equal(found[0], told(fewer, 30, 5, 4, **options).estimate)


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_below_1_is_refused(cap: int) -> None:
    with pytest.raises(ParameterError):
        told([(0, 0, 1)], 1, 1, cap)


# What a report tells


def law(x: int, cap: int, coins: Callable[[str, int, int], int]) -> Fraction:
    """The chance of a one from a user with ``x`` visits: all quarters of two words, keep 3/4."""
    ones = 0
    for first, second in product(range(4), repeat=2):

        def source(family: str, *_: object, words: tuple[int, int] = (first, second)) -> Words:
            return np.array([[coins(family, *words) * QUARTER]], dtype=np.uint64)

        rows = [(0, 0, x)] if x else []
        estimate = told(rows, 1, 1, cap, coin=RandomizedResponse(3 * QUARTER), coins=source)
        ones += bool(estimate.estimate[0] > cap / 2)
    return Fraction(ones, 16)


def worst_ratio(coins: Callable[[str, int, int], int]) -> Fraction | None:
    """Of any two numbers of visits over both reports; None where one of them is impossible."""
    laws = [law(x, 4, coins) for x in range(6)]
    if min(laws) == 0 or max(laws) == 1:
        return None
    return max(max(laws) / min(laws), (1 - min(laws)) / (1 - max(laws)))


def test_no_number_of_visits_changes_the_odds_of_a_report_by_more_than_the_coin_does() -> None:
    def two(family: str, first: int, second: int) -> int:
        return first if family.endswith(ROUNDING) else second

    assert worst_ratio(two) == 3
    assert [law(x, 4, two) for x in range(6)] == [Fraction(n, 8) for n in (2, 3, 4, 5, 6, 6)]
    # A twin with one coin for both: with three visits of four every report is a one.
    assert worst_ratio(lambda family, first, second: first) is None


def test_another_cap_is_another_question() -> None:
    """The same coins under two caps would tell who was there: her rounded bits may differ."""

    def families(cap: int) -> set[str]:
        seen = set()

        def watched(family: str, *asked: Any) -> Words:
            seen.add(family)
            return seeded(0)(family, *asked)

        told([(0, 0, 1)], 2, 2, cap, coins=watched)
        return seen

    assert len(families(3)) == 2
    assert not families(3) & families(4)
    assert "visitors" not in families(3)


@given(visits, st.integers(1, 40))
def test_blocks_of_users_make_no_difference(rows: list[Visits], words: int) -> None:
    options: dict[str, Any] = {"coin": share_budget(1.0, 1), "coins": seeded(1)}
    whole = told(rows, 7, 5, 4, **options).estimate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recsys.dynamic, "_BLOCK_WORDS", words)
        assert np.array_equal(told(rows, 7, 5, 4, **options).estimate, whole)


def test_every_user_answers_for_every_poi_once() -> None:
    """Also who never visited anything: silence would tell."""
    asked: dict[str, list[tuple[int, int]]] = {}

    def watched(family: str, rows: NDArray[np.uint32], pois: NDArray[np.uint32]) -> Words:
        asked.setdefault(family, []).extend(product(rows.tolist(), pois.tolist()))
        return seeded(0)(family, rows, pois)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recsys.dynamic, "_BLOCK_WORDS", 10)
        told([(2, 1, 3)], 7, 5, 4, coins=watched)
    assert len(asked) == 2
    for questions in asked.values():
        assert sorted(questions) == list(product(range(7), range(5)))


def test_a_report_takes_one_bit_for_each_poi() -> None:
    for pois, size in ((1, 1), (8, 1), (9, 2), (2184, 273)):
        one = told([(0, 0, 2)], 1, pois, 5)
        assert one.bytes_per_user == size
        assert (one.name, one.unit, one.cap) == ("average", "visits per user", 5)


# In a training


def of_model(model: PriRec) -> PoiEstimates:
    (only,) = model.features_.counts
    return only


def test_it_is_the_only_dynamic_feature_and_holds_the_whole_budget() -> None:
    _, features, _ = built(city(), small(dynamic="average", visit_cap=3, epsilon=0.7))
    (average,) = features.counts
    assert features.names[-1] == "dynamic:average"
    assert average.cap == 3
    assert 0.7 - 1e-9 <= average.epsilon <= 0.7
    assert features.poi[:, -1].std() == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 10.0, 44.0])
def test_o09_extreme_budgets_give_finite_features(epsilon: float) -> None:
    for cap in (1, 2**31 - 1):
        config = small(dynamic="average", epsilon=epsilon, visit_cap=cap)
        _, features, _ = built(city(), config)
        assert np.isfinite(features.poi).all()


def test_asking_again_repeats_the_same_reports() -> None:
    """The same memo keys, another experiment seed, another mode: the same answers."""
    config = without_seed(small(dynamic="average"))
    first = PriRec(config).fit(city(), run=KnownKeysRun(seed=1))
    again = PriRec(config).fit(first.prepared_, run=KnownKeysRun(seed=2))
    real = PriRec(replace(config, mode="protocol")).fit(first.prepared_, run=KnownKeysRun())
    # The twins have other keys, given or fresh ones.
    other = PriRec(config).fit(first.prepared_, run=KnownKeysRun(secret=1))
    fresh = PriRec(config).fit(first.prepared_)
    seen = [of_model(model).estimate.tobytes() for model in (first, again, real, other, fresh)]
    assert seen[0] == seen[1] == seen[2]
    assert len(set(seen)) == 3


def test_a_resumed_run_ends_with_the_same_model() -> None:
    config = without_seed(small(dynamic="average", epochs=3))
    run = KnownKeysRun()
    whole = PriRec(config).fit(city(), run=run)
    resumed = PriRec(config).fit(city(), run=KnownKeysRun(start=run.snapshots[0]))
    assert resumed.model_digest == whole.model_digest
    # The twin starts from the same snapshot and has lost its keys.
    careless = PriRec(config).fit(city(), run=KnownKeysRun(secret=1, start=run.snapshots[0]))
    assert careless.model_digest != whole.model_digest


def test_both_modes_train_the_same_model() -> None:
    found = {
        PriRec(small(dynamic="average", mode=mode)).fit(city()).model_digest
        for mode in ("protocol", "simulate")
    }
    assert len(found) == 1
    assert PriRec(small()).fit(city()).model_digest not in found


# Held-out visits


def reported(prepared: Prepared) -> NDArray[np.float64]:
    config = small(dynamic="average", epsilon=4.0)
    return assemble(prepared, config, SimulationRng(0), seeded(0)).poi


def test_held_out_visits_are_never_reported() -> None:
    """Other test and validation parts, the same training part: not one report differs."""
    train = everyone(30)
    free = [(user, (user + 5) % 8, 1) for user in range(30)]
    held_out: list[dict[str, list[Row]]] = [
        {"test": free},
        {"validation": free},
        {"test": free[:15], "validation": free[15:]},
    ]
    first = reported(world(train, users=30, pois=8))
    for part in held_out:
        prepared = world(train, users=30, pois=8, **part)
        assert np.array_equal(reported(prepared), first)
        # However often they went there.
        more = replace(prepared.visited, visits=9 * np.ones_like(prepared.visited.visits))
        trained = world(train, users=30, pois=8)
        same = replace(trained.visited, visits=9 * np.ones_like(trained.visited.visits))
        assert np.array_equal(
            reported(replace(prepared, visited=more)), reported(replace(trained, visited=same))
        )
    # The twin, where the same visits are in training, is seen.
    assert not np.array_equal(reported(world(train + free, users=30, pois=8)), first)


def test_a_held_out_record_of_a_pair_in_training_is_not_counted() -> None:
    """Repeated records: of each pair the visits that train are reported, and no others."""
    config = PrepareConfig(order="literal", repeated_records=True)
    out = prepare(city(), config)
    trained, places = out.train.positives()
    keys, records = np.unique(trained.astype(np.int64) * out.n_pois + places, return_counts=True)
    assert np.array_equal(out.history.keys, keys)
    assert np.array_equal(out.history.visits, records)
    # The twin that takes all known visits of such a pair tells of the held-out ones.
    known = out.visited.visits[np.isin(out.visited.keys, keys)]
    assert (known > records).any()


def test_visits_that_max_positives_sets_aside_are_counted() -> None:
    out = prepare(city(), PrepareConfig(max_positives=3))
    known = dict(zip(out.visited.keys.tolist(), out.visited.visits.tolist(), strict=True))
    kept = dict(zip(out.history.keys.tolist(), out.history.visits.tolist(), strict=True))
    assert len(kept) > len(out.train.positives()[0])
    assert all(known[key] == often for key, often in kept.items())
    assert max(kept.values()) > 1
