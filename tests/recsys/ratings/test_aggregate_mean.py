"""The mean rating: exact enough, the same in every way, and of nobody alone."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from recsys.errors import PrivacyRefusal
from recsys.ratings.aggregate_mean import MeanRating
from recsys.run import MemoryRun
from secagg.messages import SERVER, MaskedVector
from tests.recsys.ratings.cohorts import COHORTS, USERS, opened


def mean_of(
    sums: NDArray[Any],
    counts: NDArray[Any],
    network: LocalNetwork | None,
    cohorts: list[NDArray[np.int32]] | None = None,
    least: int = 3,
) -> float:
    return MeanRating(cohorts or COHORTS, least, MemoryRun(), network).of(sums, counts)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, math.pi]))
def test_both_modes_give_the_mean_but_for_2_to_the_minus_25(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 300, USERS)
    counts[3] += 1
    sums = unit * rng.integers(1, 11, USERS) * counts
    found = mean_of(sums, counts, None)
    assert found == mean_of(sums, counts, LocalNetwork())
    exact = sum(map(Fraction, sums), Fraction(0)) / int(counts.sum())
    error = abs(Fraction(found) - exact)
    assert error <= Fraction(1, 2**25) + exact * Fraction(1, 2**52)
    if unit != math.pi:  # half stars lie on the grid, and only the quotient is rounded
        assert found == float(exact)


@pytest.mark.parametrize("aggregate", ["secure", "clear"])
@pytest.mark.parametrize("mode", ["protocol", "simulate"])
def test_every_aggregation_offers_it(aggregate: str, mode: str) -> None:
    counts = np.arange(USERS)
    network = LocalNetwork()
    aggregation = opened(aggregate=aggregate, mode=mode, network=network)
    before = network.traffic["pads.masked"].messages
    assert aggregation.mean(counts * np.float64(3.5), counts) == 3.5
    sent = network.traffic["pads.masked"].messages - before
    assert sent == (USERS if mode == "protocol" else 0)


def test_the_recommender_receives_masked_vectors_and_nothing_else() -> None:
    """Equal sums of equal users look as different as can be, even in the clear aggregation."""
    network = LocalNetwork(record=True)
    counts = np.full(USERS, 7)
    opened(aggregate="clear", mode="protocol", network=network).mean(counts * np.float64(4), counts)
    kinds = {delivery.kind for delivery in network.view(SERVER)}
    assert kinds == {"pads.key", "pads.masked"}
    vectors = [
        MaskedVector.from_bytes(delivery.data).payload
        for delivery in network.view(SERVER)
        if delivery.kind == "pads.masked"
    ]
    halves = {vector[at : at + 8] for vector in vectors for at in (0, 8)}
    assert len(halves) == 2 * USERS


def test_cohorts_too_small_for_a_sum_join_the_next() -> None:
    few = [np.array(part, dtype=np.int32) for part in ([4], [0, 9], [1, 2, 3], [5], [8])]
    counts = np.ones(USERS, dtype=np.int64)
    counts[[6, 7, 10]] = 0
    network = LocalNetwork(record=True)
    assert mean_of(2.0 * counts, counts, network, few) == 2.0
    sessions = [
        MaskedVector.from_bytes(delivery.data)
        for delivery in network.view(SERVER)
        if delivery.kind == "pads.masked"
    ]
    groups: dict[bytes, set[int]] = {}
    for vector in sessions:
        groups.setdefault(vector.session, set()).add(vector.client)
    assert sorted(map(sorted, groups.values())) == [[0, 4, 9], [1, 2, 3, 5, 8]]


@pytest.mark.parametrize("network", [None, LocalNetwork()], ids=["simulate", "protocol"])
def test_too_few_users_are_refused(network: LocalNetwork | None) -> None:
    ones = np.ones(3, dtype=np.int64)
    few = [np.array([0], dtype=np.int32), np.array([2], dtype=np.int32)]
    with pytest.raises(PrivacyRefusal, match="fewer than 3 users"):
        mean_of(ones * 1.0, ones * [1, 0, 1], network, few)


@pytest.mark.parametrize("network", [None, LocalNetwork()], ids=["simulate", "protocol"])
def test_what_has_no_mean_is_refused(network: LocalNetwork | None) -> None:
    zeros, ones = np.zeros(USERS, dtype=np.int64), np.ones(USERS, dtype=np.int64)
    with pytest.raises(ParameterError, match="there is no rating"):
        mean_of(zeros * 1.0, zeros, network)
    outside = [COHORTS[0]]
    with pytest.raises(ParameterError, match="6 users have ratings, but belong to no cohort"):
        mean_of(ones * 1.0, ones, network, outside)
    for wrong in (math.nan, math.inf, -math.inf, 2.0**39):
        sums = ones * 1.0
        sums[4] = wrong
        with pytest.raises(ParameterError, match="a user's sum of ratings is not finite, or"):
            mean_of(sums, ones, network)
