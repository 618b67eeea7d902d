"""Local batches and cohorts: nobody's sample is lost, repeated or starved."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, StateError
from recsys.batches import UserBatches, draw_cohorts
from recsys.data.prepare import Pairs
from recsys.simulation import SimulationRng
from tests.recsys.worlds import Row, pairs

SIM = SimulationRng(3)

samples = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 9), st.sampled_from([1, -1])),
    unique_by=lambda row: row[:2],
    max_size=30,
)


def served(batches: UserBatches, users: int) -> list[Row]:
    """All real samples of an epoch, in the order in which rounds serve them."""
    everyone = np.arange(users, dtype=np.int32)
    rows = []
    for round_ in range(batches.rounds):
        batch = batches.take(everyone, round_)
        for user, at in np.argwhere(batch.labels != 0):
            rows.append((int(user), int(batch.pois[user, at]), int(batch.labels[user, at])))
    return rows


some_rounds = st.none() | st.integers(0, 8)


@given(samples, st.integers(1, 5), some_rounds, st.integers(0, 3))
def test_every_sample_is_served_exactly_once_in_an_epoch(
    rows: list[Row], local_batch: int, rounds: int | None, epoch: int
) -> None:
    batches = UserBatches(pairs(rows), 6, local_batch, SIM, rounds)
    batches.shuffle(epoch)
    assert Counter(served(batches, 6)) == Counter(rows)


@given(samples, st.integers(1, 5), st.integers(1, 8))
def test_rounds_are_the_mean_the_busiest_user_s_or_as_asked(
    rows: list[Row], local_batch: int, asked: int
) -> None:
    most = max(Counter(user for user, _, _ in rows).values(), default=0)
    mean = -(-len(rows) // 6)
    for rounds, right in ((None, -(-mean // local_batch)), (0, -(-most // local_batch))):
        assert UserBatches(pairs(rows), 6, local_batch, SIM, rounds).rounds == right
    assert UserBatches(pairs(rows), 6, local_batch, SIM, asked).rounds == asked


@given(samples.filter(bool), st.integers(1, 4))
def test_no_batch_is_larger_where_rounds_are_those_of_the_busiest(
    rows: list[Row], local_batch: int
) -> None:
    batches = UserBatches(pairs(rows), 6, local_batch, SIM, rounds=0)
    batches.shuffle(0)
    everyone = np.arange(6, dtype=np.int32)
    assert batches.take(everyone, 0).pois.shape == (6, local_batch)


def test_who_has_more_samples_takes_larger_batches_in_as_many_rounds() -> None:
    rows = [(0, poi, 1) for poi in range(10)] + [(1, 0, 1), (1, 1, 1)]
    batches = UserBatches(pairs(rows), 2, 2, SIM)
    batches.shuffle(0)
    both = np.arange(2, dtype=np.int32)
    assert batches.rounds == 3
    counts = [batches.take(both, round_).counts.tolist() for round_ in range(3)]
    assert counts == [[4, 2], [4, 0], [2, 0]]


@given(samples.filter(bool), st.integers(1, 4), some_rounds)
def test_padding_has_label_0_and_is_not_counted(
    rows: list[Row], local_batch: int, rounds: int | None
) -> None:
    batches = UserBatches(pairs(rows), 6, local_batch, SIM, rounds)
    batches.shuffle(0)
    members = np.array([5, 0, 3], dtype=np.int32)
    for round_ in range(batches.rounds):
        batch = batches.take(members, round_)
        assert batch.pois.shape == batch.labels.shape
        assert batch.pois.shape[0] == 3
        assert batch.pois.shape[1] >= local_batch
        assert batch.counts.tolist() == (batch.labels != 0).sum(axis=1).tolist()
        active = set(batches.active(round_).tolist())
        assert [int(user) in active for user in members] == (batch.counts > 0).tolist()


@given(samples, st.integers(0, 5))
def test_the_order_depends_on_user_poi_and_epoch_alone(rows: list[Row], epoch: int) -> None:
    def order(of: list[Row]) -> list[int]:
        batches = UserBatches(pairs(of), 6, 2, SIM)
        batches.shuffle(epoch)
        return [poi for user, poi, _ in served(batches, 6) if user == 2]

    alone = [row for row in rows if row[0] == 2]
    assert order(rows) == order(alone)
    fewer = alone[1:]
    kept = {poi for _, poi, _ in fewer}
    assert order(fewer) == [poi for poi in order(alone) if poi in kept]
    # The label says nothing about the place in line.
    assert order([(user, poi, -label) for user, poi, label in alone]) == order(alone)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    rows = [(0, poi, 1) for poi in range(12)]
    seen = set()
    for seed, epoch in ((1, 0), (1, 1), (2, 0)):
        batches = UserBatches(pairs(rows), 1, 3, SimulationRng(seed))
        batches.shuffle(epoch)
        seen.add(tuple(served(batches, 1)))
    assert len(seen) == 3


def test_users_without_samples_take_part_with_nothing() -> None:
    """O26: no training data, no division by nothing."""
    batches = UserBatches(pairs([(1, 4, 1), (1, 5, -1)]), 3, 4, SIM)
    batches.shuffle(0)
    batch = batches.take(np.array([0, 2], dtype=np.int32), 0)
    assert not batch.labels.any()
    assert batch.counts.tolist() == [0, 0]


def test_no_samples_at_all_make_no_rounds() -> None:
    batches = UserBatches(pairs([]), 3, 4, SIM)
    batches.shuffle(0)
    assert batches.rounds == 0


def test_take_before_shuffle_is_refused() -> None:
    batches = UserBatches(pairs([(0, 1, 1)]), 1, 1, SIM)
    with pytest.raises(StateError, match="take called before shuffle"):
        batches.take(np.zeros(1, dtype=np.int32), 0)


def test_a_negative_number_of_rounds_is_refused() -> None:
    with pytest.raises(ParameterError, match="rounds must be at least 0, got -1"):
        UserBatches(pairs([(0, 1, 1)]), 1, 1, SIM, rounds=-1)


def test_a_local_batch_of_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="local_batch must be at least 1, got 0"):
        UserBatches(Pairs(*(np.zeros(0, dtype=np.int32),) * 2, np.zeros(0, np.int8)), 1, 0, SIM)


@given(st.integers(1, 300), st.integers(1, 64))
def test_cohorts_partition_the_users_evenly(users: int, size: int) -> None:
    cohorts = draw_cohorts(users, size, SIM)
    assert sorted(np.concatenate(cohorts).tolist()) == list(range(users))
    sizes = [len(members) for members in cohorts]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(size, users)
    for members in cohorts:
        assert (np.diff(members) > 0).all()
        assert members.dtype == np.int32


@pytest.mark.parametrize(
    ("users", "size", "sizes"),
    [(10, 128, [10]), (10, 32, [10]), (33, 32, [33]), (64, 32, [32, 32]), (65, 32, [33, 32])],
)
def test_o22_whoever_is_left_over_joins_a_cohort(users: int, size: int, sizes: list[int]) -> None:
    assert [len(members) for members in draw_cohorts(users, size, SIM)] == sizes


def test_cohorts_are_drawn_at_random_by_the_seed() -> None:
    first, again, other = (
        [members.tolist() for members in draw_cohorts(60, 20, SimulationRng(seed))]
        for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first[0] != list(range(20))


def test_o22_nobody_makes_no_cohort() -> None:
    with pytest.raises(ParameterError, match="there must be at least 1 user, got 0"):
        draw_cohorts(0, 32, SIM)
    with pytest.raises(ParameterError, match="cohort must be at least 1, got 0"):
        draw_cohorts(5, 0, SIM)
