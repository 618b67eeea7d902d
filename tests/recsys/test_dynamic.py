"""Dynamic features: unbiased counts, memoized coins, one budget, nothing about held-out visits."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import recsys.dynamic
from ldp.accounting import compose
from ldp.randomized_response import RandomizedResponse
from recsys.data.prepare import Prepared
from recsys.dynamic import CoinSource, PoiEstimates, as_feature, collect, share_budget
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
TRUTHFUL = RandomizedResponse(2**64 - 1)
QUARTER = 2**62


def seeded(seed: int) -> CoinSource:
    return lambda *asked: seeded_coins(SimulationRng(seed), *asked)


def estimates(rows: list[Row], users: int, pois: int, **options: Any) -> NDArray[np.float64]:
    given_: dict[str, Any] = {"mechanism": TRUTHFUL, "coins": seeded(0), **options}
    return collect("visitors", pairs(rows), (users, pois), **given_).estimate


visits = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.sampled_from([1, -1])),
    unique_by=lambda row: row[:2],
    min_size=1,
)


@given(visits)
def test_without_noise_the_estimate_is_the_number_of_visitors(rows: list[Row]) -> None:
    counted = estimates(rows, 7, 5)
    true = [sum(1 for _, at, label in rows if at == poi and label > 0) for poi in range(5)]
    assert counted == pytest.approx(true, abs=1e-9)


def test_the_estimate_is_exactly_unbiased() -> None:
    """All 4^3 coins of three users who visited one POI of two: keep 3/4, so odds are exact."""
    mechanism = RandomizedResponse(3 * QUARTER)
    rows = [(0, 0, 1), (1, 0, 1)]
    found = []
    for quarters in product(range(4), repeat=3):
        coins = np.array(quarters, dtype=np.uint64)[:, np.newaxis] * np.uint64(QUARTER)
        spread = np.broadcast_to(coins, (3, 2))
        found.append(
            collect(
                "visitors", pairs(rows), (3, 2), mechanism, lambda *_, spread=spread: spread
            ).estimate
        )
    assert np.mean(found, axis=0).tolist() == [2.0, 0.0]
    # A twin that leaves the noise in, the reported ones themselves, is biased.
    assert np.mean(np.array(found) / 2 + 3 / 4, axis=0).tolist() != [2.0, 0.0]


def test_o07_noise_has_the_stated_standard_error() -> None:
    """200 users, 500 POIs with 3 visitors each, 16 collections: 8,000 independent estimates.

    Bounds on their mean and on their mean square, false-alarm rate 1e-9 each. The twins, noise a
    tenth too small and negative counts cut off, are rejected.
    """
    rows = [(user % 200, poi, 1) for poi in range(500) for user in (poi, poi + 7, poi + 90)]
    mechanism = share_budget(1.0, 1)
    found = [collect("visitors", pairs(rows), (200, 500), mechanism, seeded(s)) for s in range(16)]
    error = found[0].standard_error
    assert error == pytest.approx(np.sqrt(200) * np.e**0.5 / (np.e - 1))
    noise = np.concatenate([counts.estimate for counts in found]) - 3

    def unbiased(noise: NDArray[np.float64]) -> bool:
        return bool(abs(noise.mean()) < normal_half_width(error / np.sqrt(noise.size)))

    def spread_as_stated(noise: NDArray[np.float64]) -> bool:
        # A square of a standard normal has variance 2; that of a binomial has less.
        off = np.mean((noise / error) ** 2) - 1
        return bool(abs(off) < normal_half_width(np.sqrt(2 / noise.size)))

    assert noise.size == 8000
    assert unbiased(noise)
    assert spread_as_stated(noise)
    assert not spread_as_stated(0.9 * noise)
    assert not unbiased(np.maximum(noise, -3))


@given(visits, st.integers(1, 40))
def test_blocks_of_users_make_no_difference(rows: list[Row], words: int) -> None:
    options: dict[str, Any] = {"mechanism": share_budget(1.0, 1), "coins": seeded(1)}
    whole = estimates(rows, 7, 5, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recsys.dynamic, "_BLOCK_WORDS", words)
        assert np.array_equal(estimates(rows, 7, 5, **options), whole)


def test_every_user_answers_for_every_poi_once() -> None:
    """Also who never visited anything: silence would tell."""
    asked: list[tuple[int, int]] = []

    def watched(family: str, rows: NDArray[np.uint32], pois: NDArray[np.uint32]) -> Words:
        asked.extend(product(rows.tolist(), pois.tolist()))
        return seeded(0)(family, rows, pois)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recsys.dynamic, "_BLOCK_WORDS", 10)
        collect("visitors", pairs([(2, 1, 1)]), (7, 5), TRUTHFUL, watched)
    assert sorted(asked) == list(product(range(7), range(5)))


def test_a_report_takes_one_bit_for_each_poi() -> None:
    for pois, size in ((1, 1), (8, 1), (9, 2), (2184, 273)):
        counts = collect("visitors", pairs([(0, 0, 1)]), (1, pois), TRUTHFUL, seeded(0))
        assert counts.bytes_per_user == size


# One budget


@given(st.floats(1e-3, 16), st.integers(1, 5))
def test_features_share_the_budget_and_leave_nothing_over(epsilon: float, questions: int) -> None:
    each = share_budget(epsilon, questions).epsilon
    assert epsilon - 1e-8 <= compose([each] * questions) <= epsilon


def test_a_share_that_rounds_up_would_exceed_the_budget() -> None:
    """The twin that divides as doubles do: three thirds of .64 are more than .64."""
    each = RandomizedResponse.from_epsilon(0.64 / 3).epsilon
    assert compose([each] * 3) > 0.64 >= compose([share_budget(0.64, 3).epsilon] * 3)


def test_three_features_cost_what_one_costs() -> None:
    found = {}
    for dynamic in ("visitors", "three"):
        _, features, _ = built(city(), small(dynamic=dynamic))
        found[dynamic] = features.counts
    assert [count.name for count in found["visitors"]] == ["visitors"]
    assert [count.name for count in found["three"]] == ["visitors", "returning", "recent"]
    for counts in found.values():
        assert compose(count.epsilon for count in counts) == pytest.approx(1.0, abs=1e-9)
        assert compose(count.epsilon for count in counts) <= 1.0
    assert found["three"][0].standard_error > 2.9 * found["visitors"][0].standard_error


def test_families_of_questions_have_coins_of_their_own() -> None:
    rows = [(user, poi, 1) for user in range(20) for poi in range(0, 5, 2)]
    mechanism = share_budget(1.0, 3)
    first, other = (
        collect(name, pairs(rows), (20, 5), mechanism, seeded(0)).estimate
        for name in ("visitors", "returning")
    )
    assert not np.array_equal(first, other)


# Memo


def counts_of(model: PriRec) -> NDArray[np.float64]:
    return np.stack([count.estimate for count in model.features_.counts])


def test_asking_again_repeats_the_same_reports() -> None:
    """The same memo keys, another experiment seed, another mode: the same answers."""
    config = without_seed(small(dynamic="three"))
    first = PriRec(config).fit(city(), run=KnownKeysRun(seed=1))
    again = PriRec(config).fit(first.prepared_, run=KnownKeysRun(seed=2))
    real = PriRec(replace(config, mode="protocol")).fit(first.prepared_, run=KnownKeysRun())
    assert np.array_equal(counts_of(first), counts_of(again))
    assert np.array_equal(counts_of(first), counts_of(real))


def test_other_keys_give_other_reports() -> None:
    config = without_seed(small())
    first = PriRec(config).fit(city(), run=KnownKeysRun())
    other = PriRec(config).fit(first.prepared_, run=KnownKeysRun(secret=1))
    fresh = PriRec(config).fit(first.prepared_)
    again = PriRec(config).fit(first.prepared_)
    seen = [counts_of(model).tobytes() for model in (first, other, fresh, again)]
    assert len(set(seen)) == 4


def test_seeded_coins_are_equal_in_all_modes() -> None:
    found = [
        counts_of(PriRec(small(mode=mode)).fit(city()))
        for mode in ("protocol", "simulate", "float")
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], counts_of(PriRec(small(seed=1)).fit(city())))


# Held-out visits


def poi_features(prepared: Prepared) -> NDArray[np.float64]:
    config = small(dynamic="visitors", epsilon=4.0)
    return assemble(prepared, config, SimulationRng(0), seeded(0)).poi


def test_held_out_visits_are_never_reported() -> None:
    """Other test and validation parts, the same training part: not one report differs."""
    train = everyone(30)
    free = [(user, (user + 5) % 8, 1) for user in range(30)]
    held_out: list[Callable[[list[Row]], dict[str, list[Row]]]] = [
        lambda rows: {"test": rows},
        lambda rows: {"validation": rows},
        lambda rows: {"test": rows[:15], "validation": rows[15:]},
    ]
    reports = [poi_features(world(train, users=30, pois=8))]
    reports += [poi_features(world(train, users=30, pois=8, **part(free))) for part in held_out]
    for other in reports[1:]:
        assert np.array_equal(reports[0], other)
    # The twin, where the same visits are in training, is seen.
    leaked = poi_features(world(train + free, users=30, pois=8))
    assert not np.array_equal(reports[0], leaked)


def test_no_positive_of_a_real_split_is_reported_unless_it_is_in_training() -> None:
    prepared, _, _ = built(city(), small(prepare=replace(small().prepare, validation_fraction=0.2)))
    reported = set(zip(*(part.tolist() for part in prepared.visitors.positives()), strict=True))
    for part in (prepared.test, prepared.validation):
        held_out = set(zip(*(ids.tolist() for ids in part.positives()), strict=True))
        assert held_out
        assert not held_out & reported


# The feature


def counts(estimate: list[float], error: float = 2.0) -> PoiEstimates:
    return PoiEstimates("visitors", "visitors", None, np.array(estimate), error, 1.0, 1)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=20), st.floats(1e-6, 1e4))
@example([0.0, 2.0**-52], 1.0)
@example([-400.0, -401.0], 1.0)
def test_a_feature_is_standardised_and_keeps_the_order(values: list[float], error: float) -> None:
    feature = as_feature(counts(values, error))
    assert np.isfinite(feature).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(feature[order]) >= 0).all()
    if feature.std() > 0:
        assert abs(feature.mean()) < 1e-6
        assert feature.std() == pytest.approx(1)


def test_o15_a_feature_without_any_spread_is_zero() -> None:
    """O15's kind: no division by a spread of nothing."""
    for value in (3.0, -7.5, 0.1, 1e4):
        for pois in (1, 3, 7, 1000):
            assert not as_feature(counts([value] * pois)).any()


def test_counts_are_clipped_softly_on_the_scale_of_their_noise() -> None:
    """Above the noise differences count in full, below zero they fade."""
    feature = as_feature(counts([-20.0, -10.0, 0.0, 10.0, 20.0, 30.0], error=1.0))
    steps = np.diff(feature) / (feature[-1] - feature[-2])
    assert steps[:2] == pytest.approx([0, np.log(2) / 10], abs=1e-4)
    assert steps[3:] == pytest.approx([1, 1], abs=1e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 10.0, 44.0])
def test_o09_extreme_budgets_give_finite_features(epsilon: float) -> None:
    _, features, _ = built(city(), small(epsilon=epsilon))
    assert np.isfinite(features.poi).all()
    assert features.poi[:, -1].std() == pytest.approx(1)
