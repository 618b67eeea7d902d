"""Cohorts and neighbours: who works with whom, and which groups are too small (O22)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from recsys.data.prepare import Prepared
from recsys.errors import DataError, PrivacyRefusal
from recsys.prirec import PriRec, build_network
from recsys.simulation import SimulationRng
from tests.recsys.worlds import city, everyone, small, world


def rounds_of(data: Prepared, **changes: Any) -> tuple[int, LocalNetwork]:
    model = PriRec(small(mode="protocol", min_cohort=3, neighbours=0, **changes)).fit(data)
    assert model.traffic is not None
    return len(model.history_), model.traffic


@pytest.mark.parametrize("cohort", [32, 128])
def test_o22_fewer_users_than_a_cohort_still_stop_after_their_epochs(cohort: int) -> None:
    """10 users, 32 or 128 in a cohort, 3 epochs: one cohort of 10, one masked vector a round."""
    data = world(everyone(10), users=10, pois=8)
    epochs, traffic = rounds_of(data, epochs=3, cohort=cohort, local_batch=4)
    assert epochs == 3
    assert traffic.traffic["pads.masked"].messages == 3 * 10


def test_o22_a_user_who_is_left_over_is_never_starved() -> None:
    """33 users, 32 in a cohort: all 33 take part in every epoch."""
    data = world(everyone(33), users=33, pois=8)
    epochs, traffic = rounds_of(data, epochs=3, cohort=32, local_batch=4)
    assert epochs == 3
    assert traffic.traffic["pads.masked"].messages == 3 * 33
    model = PriRec(small(mode="float", neighbours=0, cohort=32)).fit(data)
    assert model.files.arrays["w"].any(axis=1).all()


def test_o22_no_users_are_an_error() -> None:
    for users in (0, 3):
        nobody = world([], users=users, pois=3)
        with pytest.raises(DataError, match=f"no pair to train on, of {users} users and 3 POIs"):
            PriRec(small(mode="protocol", neighbours=0)).fit(nobody)


@pytest.mark.parametrize("mode", ["protocol", "simulate"])
@pytest.mark.parametrize("users", [1, 2])
def test_o22_a_cohort_of_one_or_two_is_refused_however_low_the_minimum(
    mode: str, users: int
) -> None:
    config = small(mode=mode, neighbours=0, min_cohort=3)
    with pytest.raises(
        PrivacyRefusal, match=f"a cohort of {users} users is below the minimum of 3"
    ):
        PriRec(config).fit(world(everyone(users), users=users, pois=8))


@pytest.mark.parametrize("cohort", [1, 2, 15])
def test_small_cohorts_are_refused_by_default(cohort: int) -> None:
    with pytest.raises(PrivacyRefusal, match=f"a cohort of {cohort} users is below .* of 16"):
        PriRec(small(mode="protocol", cohort=cohort)).fit(world(everyone(30), users=30, pois=8))


def test_a_lower_minimum_is_taken_at_its_word() -> None:
    config = small(mode="protocol", neighbours=0, cohort=3, min_cohort=3)
    model = PriRec(config).fit(world(everyone(7), users=7, pois=8))
    assert sorted(len(members) for members in model.learner_.cohorts) == [3, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize("neighbours", [1, 2])
def test_one_or_two_neighbours_are_refused_in_protocol_mode(neighbours: int) -> None:
    config = small(neighbours=neighbours)
    with pytest.raises(PrivacyRefusal, match=f"{neighbours} neighbours: a sum of fewer than 3"):
        PriRec(replace(config, mode="protocol")).fit(city())
    for mode in ("simulate", "float"):
        assert PriRec(replace(config, mode=mode)).fit(city()).history_


def test_without_neighbours_no_secure_sum_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("called")

    monkeypatch.setattr("recsys.sums.batch_sum", forbidden)
    model = PriRec(small(mode="protocol", neighbours=0)).fit(city())
    assert model.traffic is not None
    assert {kind for kind in model.traffic.traffic if kind.startswith("secure_sum")} == set()
    assert "secure sums" not in model.learner_.clock.seconds
    with pytest.raises(AssertionError, match="called"):
        PriRec(small(mode="protocol")).fit(city())


def test_more_neighbours_than_others_are_refused() -> None:
    with pytest.raises(ParameterError, match="40 neighbours for each of 40 users"):
        PriRec(small(neighbours=40)).fit(city())


def test_neighbours_are_the_nearest_homes() -> None:
    """Homes on a line: each user's are next to her, the distance decides the weight."""
    rows = [(user, user, 1) for user in range(6)]
    prepared = world(rows, users=6, pois=6)
    graph = build_network(prepared, small(neighbours=2, weights="inverse"), SimulationRng(0))
    assert sorted(graph.neighbours[0].tolist()) == [1, 2]
    assert sorted(graph.neighbours[3].tolist()) == [2, 4]
    near, far = graph.weights[0][np.argsort(graph.neighbours[0])]
    assert near > far


def test_a_user_without_visits_lives_in_the_middle_of_all_pois() -> None:
    prepared = world([(0, 0, 1), (1, 5, 1), (2, 3, 1), (3, 2, 1)], users=5, pois=6)
    graph = build_network(prepared, small(neighbours=2), SimulationRng(0))
    assert sorted(graph.neighbours[4].tolist()) == [2, 3]


def test_random_neighbours_come_from_the_seed_alone() -> None:
    prepared = world(everyone(9), users=9, pois=8)
    config = small(neighbours=4, network="random")
    first, again, other = (
        build_network(prepared, config, SimulationRng(seed)).neighbours for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first != np.arange(9)[:, np.newaxis]).all()
