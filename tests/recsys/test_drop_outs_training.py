"""Trainings whose cohorts run the full protocol, with drop-outs: PriRec and FedGNN."""

from typing import Any

import numpy as np
import pytest

import recsys.prirec
from mpc.core.local import LocalNetwork
from mpc.core.ring import RingArray
from recsys.data.synthetic_ratings import SyntheticRatingsConfig, synthetic_ratings
from recsys.drop_outs import DropOuts
from recsys.errors import PrivacyRefusal
from recsys.fedgnn import FedGNN
from recsys.pads import CohortPads
from recsys.prirec import PriRec, PriRecLearner
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import RoundSum
from recsys.report.ledger import build_ledger
from recsys.report.rating_ledger import build_rating_ledger
from recsys.rounds import CohortRounds
from recsys.simulation import SimulationRng
from recsys.sums import FloatSums, SimulatedSums
from secagg.full.run import LocalRound
from tests.recsys.ratings.cohorts import COHORTS, USERS, gradients, opened
from tests.recsys.test_sums import COHORTS as FEW
from tests.recsys.test_sums import COINS, FIXED, QUANTIZERS
from tests.recsys.worlds import city, small

FULL: dict[str, Any] = {"secagg": "full", "min_cohort": 3}
DROP: dict[str, Any] = {**FULL, "drop_rate": 0.2}


# PriRec


def digest(**changes: Any) -> str:
    return PriRec(small(local_batch=8, **changes)).fit(city(20, 15, 6)).model_digest


def test_protocol_and_simulation_reach_the_same_model_with_the_same_drop_outs() -> None:
    assert digest(mode="protocol", **DROP) == digest(mode="simulate", **DROP)


def test_without_drop_outs_the_full_protocol_and_pads_reach_the_same_model() -> None:
    pads = digest(mode="protocol")
    assert digest(mode="protocol", **FULL) == pads
    assert digest(mode="simulate", **FULL) == pads
    assert digest(mode="simulate", **DROP) != pads


def test_the_simulation_never_runs_the_protocol_and_the_protocol_no_pads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(CohortRounds, "__init__", forbidden)
        digest(mode="simulate", **DROP)
    with monkeypatch.context() as patch:
        patch.setattr(CohortPads, "__init__", forbidden)
        digest(mode="protocol", **DROP)


def test_one_bit_of_one_masked_vector_changes_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = digest(mode="protocol", **DROP), 0
    original = LocalRound._input

    def flipped(parties: Any, client: int) -> RingArray:
        nonlocal calls
        calls += 1
        x = original(parties, client).copy()
        x[0] ^= np.uint32(calls == 5) << np.uint32(16)
        return x

    monkeypatch.setattr(LocalRound, "_input", flipped)
    assert digest(mode="protocol", **DROP) != honest
    assert calls > 5


def test_sums_of_gradients_leave_out_who_drops_out() -> None:
    drop_outs = DropOuts(FEW, 0.3, SimulationRng(3))
    x = np.random.default_rng(0).normal(size=(4, 5))
    (gone,) = drop_outs.gone(1, 2)
    staying = np.delete(x, gone, axis=0)
    exact = FloatSums(drop_outs).aggregate(1, 2, x, COINS.rows("rounding", FEW[1], 2))
    assert exact == pytest.approx(staying.sum(axis=0), abs=1e-12)
    sums = SimulatedSums(FIXED, QUANTIZERS, drop_outs)
    rounded = sums.aggregate(1, 2, x, COINS.rows("rounding", FEW[1], 2))
    assert np.all(np.abs(rounded - exact) < 3 * 2.0**-16)
    assert drop_outs.gone(0, 2).size == 0  # 0.3 of three


def test_a_run_counts_what_drop_outs_did_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    network = LocalNetwork()
    monkeypatch.setattr(recsys.prirec, "LocalNetwork", lambda: network)
    model = PriRec(small(mode="protocol", local_batch=8, **DROP)).fit(city(20, 15, 6))
    assert isinstance(model.learner_, PriRecLearner)
    rounds = len(model.history_) * model.learner_.batches.rounds
    traffic = network.traffic
    assert traffic["SharedKeys"].messages == rounds * 20
    assert traffic["MaskedInput"].messages == traffic["UnmaskShares"].messages == rounds * 16
    assert "pads.masked" not in traffic


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_a_drop_rate_that_leaves_too_few_is_refused(mode: str) -> None:
    with pytest.raises(PrivacyRefusal, match="of a cohort of 20 users 12 stay"):
        digest(mode=mode, **{**DROP, "drop_rate": 0.4})


def test_the_ledger_says_who_may_collude_how_many_drop_out_and_that_keys_are_new() -> None:
    def told(**changes: Any) -> tuple[str, str]:
        ledger = build_ledger(PriRec(small(mode="simulate", **changes)).fit(city(20, 15, 6)))
        (release,) = [r for r in ledger.releases if r.what.startswith("sum of a cohort")]
        return release.adversary, release.note

    adversary, note = told()
    assert adversary.endswith("18 of 20 members collude with the recommender; no drop-outs")
    assert note == "Cohorts are fixed, so that memberships cannot be subtracted."
    adversary, note = told(**FULL)
    assert "at most 12 of 20 members collude with the recommender" in adversary
    assert adversary.endswith("up to 6 may drop out of a round")
    assert note.endswith(
        "Every round has keys of its own: what opens one for drop-outs opens no other."
    )
    _, note = told(**DROP)
    assert "In each round 0.2 of every cohort, others each time, dropped out" in note
    assert "who is missing in a sum is seen" in note


# Ratings


def summed(mode: str, **changes: Any) -> list[RoundSum]:
    aggregation = opened(mode=mode, **{**DROP, **changes})
    sums = []
    for round_ in range(3):
        aggregation.begin(round_, 3)
        for cohort, members in enumerate(COHORTS):
            sums.append(aggregation.sum(cohort, round_, gradients(members, round_)))
    return sums


def test_rating_sums_are_the_same_and_count_those_who_stay() -> None:
    real, simulated = summed("protocol"), summed("simulate")
    for one, other in zip(real, simulated, strict=True):
        assert one.clients == other.clients
        assert np.array_equal(one.items, other.items)
        assert np.array_equal(one.weights, other.weights)
    assert [one.clients for one in real] == [4, 5] * 3
    assert [one.clients for one in summed("simulate", drop_rate=0.0)] == [5, 6] * 3


def test_rating_sums_leave_out_who_drops_out() -> None:
    (gone,) = DropOuts(COHORTS, 0.2, SimulationRng(6)).gone(0, 0)
    given = gradients(COHORTS[0], 0)
    staying = given.without(COHORTS[0][[gone]])
    assert staying.members.size == given.members.size - (COHORTS[0][gone] in given.members)
    all_there = opened(mode="simulate").sum(0, 0, staying)
    assert np.array_equal(summed("simulate")[0].items, all_there.items)
    assert np.array_equal(summed("simulate")[0].weights, all_there.weights)


def test_clients_without_some_users_keep_their_rows() -> None:
    given = gradients(COHORTS[1], 4)
    fewer = given.without(np.array([5, 8], dtype=np.int32))
    assert not np.isin(fewer.members, [5, 8]).any()
    kept = np.isin(given.members, fewer.members)
    assert np.array_equal(fewer.weights, given.weights[kept])
    for at, member in enumerate(fewer.members):
        (before,) = np.flatnonzero(given.members == member)
        rows = slice(given.starts[before], given.starts[before + 1])
        now = slice(fewer.starts[at], fewer.starts[at + 1])
        assert np.array_equal(fewer.items[now], given.items[rows])
        assert np.array_equal(fewer.rows[now], given.rows[rows])
    assert fewer.starts[-1] == fewer.items.size
    assert given.without(np.array([99], dtype=np.int32)) is given


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_noise_of_a_sum_is_that_of_those_who_stay(mode: str) -> None:
    """Scale 100 in steps: a variance of 2 * 100^2 for each of four, and not for each of five.

    The variance of 10,800 draws has a deviation of 1.6 %; seven of these are allowed.
    """
    changes: dict[str, Any] = {"clip": 1.0, "laplace": 100 * 2.0**-16, "frac_bits": 16}
    nothing = gradients(COHORTS[0][:0])
    noise = [
        opened(mode=mode, width=300, weights=0, **DROP, **{**changes, "seed": seed})
        .sum(0, 0, _widened(nothing, 300))
        .items
        for seed in range(4)
    ]
    steps = np.concatenate([part.reshape(-1) for part in noise]) * 2.0**16
    assert steps.size == 4 * 9 * 300
    assert np.var(steps) == pytest.approx(4 * 2 * 100**2, rel=0.11)


def _widened(given: Any, width: int) -> Any:
    return type(given)(
        given.members, given.starts, given.items, np.zeros((0, width)), np.zeros((0, 0))
    )


def test_the_mean_of_all_ratings_is_the_same_over_the_full_protocol() -> None:
    sums, counts = np.arange(USERS, dtype=np.float64), np.arange(1, USERS + 1)
    network = LocalNetwork()
    real = opened(mode="protocol", network=network, **DROP).mean(sums, counts)
    assert real == opened(mode="simulate").mean(sums, counts) == sums.sum() / counts.sum()
    assert network.traffic["MaskedInput"].messages == USERS  # nobody is missing here


def test_what_a_client_sends_is_stated_exactly_also_where_it_is_simulated() -> None:
    network = LocalNetwork()
    aggregation = opened(mode="protocol", network=network, **FULL)
    stated = aggregation.upload_bytes(1)
    aggregation.sum(1, 0, gradients(COHORTS[1]))
    kinds = ("AdvertiseKeys", "SharedKeys", "MaskedInput", "UnmaskShares")
    assert sum(network.traffic[kind].bytes for kind in kinds) == COHORTS[1].size * stated
    assert opened(mode="simulate", **DROP).upload_bytes(1) == stated


def fedgnn(**changes: Any) -> FedGNN:
    ratings = synthetic_ratings(SyntheticRatingsConfig(users=24, items=12, per_user=6))
    settings: dict[str, Any] = {"epochs": 2, "cohort": 12, "dim": 3, "seed": 0, "min_cohort": 3}
    return FedGNN(RatingConfig(**{**settings, **changes})).fit(ratings)


def test_fedgnn_reaches_the_same_model_with_the_same_drop_outs() -> None:
    real, simulated = fedgnn(mode="protocol", **DROP), fedgnn(mode="simulate", **DROP)
    assert real.model_digest == simulated.model_digest
    assert fedgnn(mode="simulate").model_digest == fedgnn(mode="protocol", **FULL).model_digest
    assert fedgnn(mode="simulate").model_digest != real.model_digest


def test_the_rating_ledger_tells_of_drop_outs() -> None:
    ledger = build_rating_ledger(fedgnn(mode="simulate", **DROP))
    (release,) = [r for r in ledger.releases if r.what.startswith("sum of a cohort's gradients")]
    assert "at most 7 of 12 members collude" in release.adversary
    assert "up to 3 may drop out of a round" in release.adversary
    assert "In each round 0.2 of every cohort" in release.note
