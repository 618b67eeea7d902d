"""DMF's stated leak: a neighbour reads POI and label from each message; from PriRec's sum, neither.

DMF claims no secrecy, so what is tested is that the ledger's warning is true, and that it is not
true of every recommender that talks to neighbours.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from recsys.baselines.dmf import DMFLearner, GradientMessages
from recsys.baselines.mf import BATCH
from recsys.prirec import PriRecLearner
from recsys.run import MemoryRun
from recsys.sums import Mix
from tests.recsys.worlds import Row, built, city, small, world

Floats = NDArray[np.float64]


@dataclass
class Curious:
    """A neighbour who keeps, for each sender, which way her factors point.

    start: the public vector that all users begin with.  Each message is the sender's factors times
    a number whose sign is the label's, reversed; the factors move little between two messages.
    """

    start: Floats
    points: dict[int, Floats] = field(default_factory=dict)

    def read(self, messages: GradientMessages) -> list[Row]:
        """(sender, POI, label) of every message."""
        told = []
        for sender, poi, gradient in zip(
            messages.senders.tolist(), messages.pois.tolist(), messages.gradients, strict=True
        ):
            label = -1 if gradient @ self.points.get(sender, self.start) > 0 else 1
            self.points[sender] = -label * gradient
            told.append((sender, poi, label))
        return told


class Watched:
    """A training of a small city, with all that its users send."""

    def __init__(self, epochs: int) -> None:
        config = small(model="dmf")
        prepared, _, sim = built(city(), config)
        learner = DMFLearner(prepared, config, sim)
        self.start = learner.state["user_factors"][0].copy()
        train = prepared.train
        columns = (train.users.tolist(), train.pois.tolist(), train.labels.tolist())
        self.samples: list[Row] = list(zip(*columns, strict=True))
        self.epochs: list[list[GradientMessages]] = []
        for epoch in range(epochs):
            order = sim.order("order", train.users, train.pois, epoch)
            parts = [order[at : at + BATCH] for at in range(0, order.size, BATCH)]
            self.epochs.append([learner.step(part)[0] for part in parts])


def test_one_message_tells_the_poi_and_whether_she_visited_it() -> None:
    """In the first epoch each message does so by itself, with the public start alone."""
    watched = Watched(epochs=1)
    told = []
    for batch in watched.epochs[0]:
        for at in range(batch.senders.size):
            one = slice(at, at + 1)
            alone = GradientMessages(batch.senders[one], batch.pois[one], batch.gradients[one])
            told += Curious(watched.start).read(alone)
    assert sorted(told) == watched.samples


def test_the_messages_of_every_later_epoch_tell_it_again() -> None:
    watched = Watched(epochs=6)
    neighbour = Curious(watched.start)
    for messages in watched.epochs:
        assert sorted(row for batch in messages for row in neighbour.read(batch)) == watched.samples


def test_messages_that_lost_their_sign_tell_no_label() -> None:
    """The reader is no oracle: the same messages with a random sign each leave her guessing."""
    watched = Watched(epochs=1)
    rng = np.random.default_rng(0)
    told = []
    for batch in watched.epochs[0]:
        signs = rng.choice([-1.0, 1.0], batch.senders.size)
        blurred = batch.gradients * signs[:, np.newaxis]
        told += Curious(watched.start).read(
            GradientMessages(batch.senders, batch.pois, blurred),
        )
    labels = {(user, poi): label for user, poi, label in watched.samples}
    right = np.mean([labels[user, poi] == label for user, poi, label in told])
    assert 0.4 < right < 0.6


# What PriRec sends in its place

USERS, POIS, RECEIVER = 5, 6, 4
VISITS = [(user, (user + shift) % POIS, 1 - 2 * shift) for user in range(USERS) for shift in (0, 1)]


def exchanged(rows: list[Row], one: int, other: int) -> list[Row]:
    """The world in which two users lived each other's lives."""
    names = {one: other, other: one}
    return [(names.get(user, user), poi, label) for user, poi, label in rows]


def received_sums(rows: list[Row], mode: str) -> Floats:
    """What each user's secure sum gives her after an epoch of training: (users, D + 1)."""
    # All others are neighbours, so that the network is the same in every world.
    config = small(mode=mode, neighbours=USERS - 1, features="static", min_cohort=3, regions=3)
    prepared = world(rows, users=USERS, pois=POIS)
    _, features, sim = built(city(), config)
    public = np.random.default_rng(0).random((POIS, 3))
    features = type(features)(np.zeros((USERS, 0)), public, ("a", "b", "c"), ())
    learner = PriRecLearner(prepared, features, config, sim, MemoryRun())
    assert learner.batches.rounds == 1
    learner.epoch(0)
    graph = learner.network
    everyone = np.arange(USERS, dtype=np.int32)
    return learner.sums.mix(learner.state["w"], Mix(everyone, graph.neighbours, graph.weights))


@pytest.mark.parametrize("mode", ["simulate", "protocol"])
def test_a_sum_of_prirec_does_not_tell_which_neighbour_visited_what(mode: str) -> None:
    """Neighbours 0 and 1 exchange their data: the receiver's sum is the same to the last bit."""
    before, after = (received_sums(rows, mode) for rows in (VISITS, exchanged(VISITS, 0, 1)))
    assert np.array_equal(before[RECEIVER], after[RECEIVER])
    # The sums of the two themselves do change: the worlds differ where it can be seen.
    assert not np.array_equal(before[0], after[0])


def test_the_messages_of_dmf_do_tell_which_neighbour_visited_what() -> None:
    """In the same two worlds, by the same receiver."""
    for rows in (VISITS, exchanged(VISITS, 0, 1)):
        config = small(model="dmf", neighbours=USERS - 1)
        _, _, sim = built(city(), config)
        learner = DMFLearner(world(rows, users=USERS, pois=POIS), config, sim)
        assert RECEIVER in learner.network.neighbours[0]
        reader = Curious(learner.state["user_factors"][0].copy())
        messages, _ = learner.step(np.arange(len(rows)))
        assert sorted(reader.read(messages)) == sorted(rows)
