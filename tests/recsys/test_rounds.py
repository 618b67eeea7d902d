"""Cohorts over the full protocol: the sum of those who stay, new keys each time, and refusals."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, StateError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from recsys.errors import PrivacyRefusal
from recsys.rounds import CohortRounds, check_drop_outs, colluding, threshold, upload_bytes
from secagg.full.messages import AdvertiseKeys, MaskedInput, SharedKeys, UnmaskShares
from secagg.messages import SERVER

RING = Ring(20)
DIM = 7
COHORTS = [
    np.array([2, 3, 5, 8, 13, 21], dtype=np.int32),
    np.array([0, 1, 4, 6, 7, 9, 10, 11, 12], dtype=np.int32),
]


def opened(network: LocalNetwork | None = None, least: int = 3) -> CohortRounds:
    return CohortRounds(COHORTS, DIM, RING, min_cohort=least, network=network or LocalNetwork())


def vectors(cohort: int) -> RingArray:
    return RING.random((COHORTS[cohort].size, DIM), SYSTEM_RNG)


@pytest.mark.parametrize("cohort", [0, 1])
def test_the_sum_is_that_of_the_members_who_stay(cohort: int) -> None:
    rounds = opened()
    for round_, gone in enumerate([[], [0], [2], [COHORTS[cohort].size - 1]]):
        x, positions = vectors(cohort), np.array(gone, dtype=np.intp)
        total = rounds.run_round(cohort, round_, x, positions)
        assert np.array_equal(total, RING.sum(np.delete(x, positions, axis=0), axis=0))


def test_only_the_vectors_of_those_who_stay_are_asked_for() -> None:
    x, asked = vectors(1), list[int]()

    def vector(at: int) -> RingArray:
        asked.append(at)
        row: RingArray = x[at]
        return row

    opened().run(1, 0, vector, np.array([3, 4], dtype=np.intp))
    assert asked == [0, 1, 2, 5, 6, 7, 8]


def test_every_round_of_a_cohort_is_told_before_it_begins() -> None:
    told = list[str]()
    rounds = CohortRounds(
        COHORTS, DIM, RING, min_cohort=3, network=LocalNetwork(), tell=told.append
    )
    rounds.run(1, 4, lambda at: vectors(1)[at])
    assert told == ["round 5: cohort 2 of 2"]


def test_every_round_has_keys_of_its_own_and_a_round_is_served_once() -> None:
    network = LocalNetwork(record=True)
    rounds = opened(network)
    for round_ in (0, 4):
        rounds.run_round(0, round_, vectors(0))
    with pytest.raises(StateError, match="has served round 4 or a later one"):
        rounds.run_round(0, 4, vectors(0))
    advertised = [
        AdvertiseKeys.from_bytes(delivery.data)
        for delivery in network.view(SERVER)
        if delivery.kind == AdvertiseKeys.__name__
    ]
    publics = {public for message in advertised for public in (message.channel, message.mask)}
    assert len(publics) == 2 * 2 * COHORTS[0].size


def test_no_message_holds_a_vector() -> None:
    network = LocalNetwork(record=True)
    x = vectors(1)
    opened(network).run_round(1, 0, x, np.array([1], dtype=np.intp))
    parties = (SERVER, *COHORTS[1].tolist())
    everything = b"|".join(d.data for party in parties for d in network.view(party))
    assert len(everything) > 10_000
    assert not any(RING.to_bytes(row) in everything for row in x)


def test_what_a_member_sends_has_the_stated_size() -> None:
    network = LocalNetwork()
    opened(network).run_round(1, 0, vectors(1))
    sent = (AdvertiseKeys, SharedKeys, MaskedInput, UnmaskShares)
    total = sum(network.traffic[kind.__name__].bytes for kind in sent)
    sizes = [members.size for members in COHORTS]
    assert total == COHORTS[1].size * upload_bytes(sizes, DIM, RING)


def test_too_few_members_give_no_sum() -> None:
    rounds = opened()
    with pytest.raises(AbortError, match="4 of 5 needed"):
        rounds.run_round(0, 0, vectors(0), np.array([1, 2], dtype=np.intp))
    assert rounds.run_round(0, 1, vectors(0), np.array([1], dtype=np.intp)).shape == (DIM,)
    with pytest.raises(AbortError, match="8 of 9 needed"):
        opened(least=9).run_round(1, 0, vectors(1), np.array([1], dtype=np.intp))


@pytest.mark.parametrize(
    ("members", "needed", "colluders"), [(3, 3, 1), (16, 11, 9), (128, 86, 84)]
)
def test_more_than_two_thirds_are_needed_and_two_of_them_may_be_honest_alone(
    members: int, needed: int, colluders: int
) -> None:
    assert threshold(members) == needed
    assert colluding(members) == colluders


def test_a_drop_rate_that_leaves_too_few_is_refused_before_the_training() -> None:
    check_drop_outs([16, 128], 0.31, 3)
    with pytest.raises(
        PrivacyRefusal,
        match=r"of a cohort of 16 users 10 stay with a drop rate of 0\.38, and a sum needs 11",
    ):
        check_drop_outs([16, 128], 0.38, 3)
    with pytest.raises(
        PrivacyRefusal, match=r"18 stay with a drop rate of 0\.1, and a sum needs 19"
    ):
        check_drop_outs([20], 0.1, 19)


def test_positions_are_those_of_the_cohort_not_ids() -> None:
    x: NDArray[np.uint32] = np.zeros((COHORTS[0].size, DIM), dtype=np.uint32)
    x[:, 0] = 1 << np.arange(COHORTS[0].size)
    total = opened().run_round(0, 0, x, np.array([4], dtype=np.intp))
    assert total[0] == 0b101111
