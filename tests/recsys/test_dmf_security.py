"""DMF's stated leak: a neighbour reads POI and label from each message; from PriRec's sum, neither.

DMF claims no secrecy, so what is tested is that the ledger's warning is true, and that it is no
property of every recommender that talks to neighbours.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from recsys.baselines.dmf import DMFLearner, GradientMessages
from recsys.baselines.mf import BATCH
from recsys.config import TrainConfig
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
            towards = self.points.get(sender, self.start)
            label = -1 if gradient @ towards > 0 else 1
            if gradient.any():
                self.points[sender] = -label * gradient
            told.append((sender, poi, label))
        return told


def trained(epochs: int) -> tuple[DMFLearner, list[list[GradientMessages]], list[Row]]:
    """A learner, its messages by epoch, and the training samples."""
    config = small(model="dmf")
    prepared, _, sim = built(city(), config)
    learner = DMFLearner(prepared, config, sim)
    train = prepared.train
    sent = []
    for epoch in range(epochs):
        order = sim.order("order", train.users, train.pois, epoch)
        parts = range(0, order.size, BATCH)
        sent.append([learner.step(order[start : start + BATCH])[0] for start in parts])
    columns = (train.users.tolist(), train.pois.tolist(), train.labels.tolist())
    return learner, sent, list(zip(*columns, strict=True))


def test_one_message_tells_the_poi_and_whether_she_visited_it() -> None:
    """The first epoch alone, each message by itself, by the public starting vector."""
    learner, (first,), samples = trained(1)
    start = DMFLearner(*built(city(), learner.config)[::2][:1], learner.config, SIM).state  # noqa
    told = [row for messages in first for row in Curious(start).read(messages)]
    assert sorted(told) == samples


def test_every_message_of_every_epoch_tells_it_again() -> None:
    learner, sent, samples = trained(6)
    neighbour = Curious(learner.state["user_factors"][0])
    for messages in sent:
        assert sorted(row for batch in messages for row in neighbour.read(batch)) == samples
