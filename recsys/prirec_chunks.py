"""One round of PriRec's cohorts, in chunks that any process can work on.

Source: PriRec (Chen et al., 2020), Algorithm 2, lines 9 to 13.
Model: a local computation of each member (``recsys.prirec_step``). A chunk is told V and the linear
    models of its own members, and says by how much these move and what the members send.
Error: none beside double precision. Other chunks may round the last bits of a gradient otherwise,
    so the configuration says how large they are.
"""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from recsys.batches import UserBatches
from recsys.config import TrainConfig
from recsys.features import Features
from recsys.models.fm import Floats
from recsys.prirec_step import local_gradients
from recsys.simulation import SimulationRng
from recsys.sums import Adder, PartSum

_PROBED = 8
"""Users whose gradients a probe looks at."""


@dataclass(frozen=True, eq=False)
class PriRecShared:
    """What a worker keeps for the whole training: features, everybody's samples, and the settings.

    sim: the run's experiment coins.
    adder: adds up a chunk's gradients where they were made; None where the sum needs each of them.
    """

    config: TrainConfig
    features: Features = field(repr=False)
    batches: UserBatches = field(repr=False)
    sim: SimulationRng
    adder: Adder | None

    def probe(self) -> bytes:
        """See ``recsys.engine.Shared``: some users' gradients by made-up parameters."""
        members = np.arange(self.batches.counts.size, dtype=np.int32)[:_PROBED]
        dim, factors = self.features.dim, self.config.factors
        own, v = _made_up(members.size, dim + 1), _made_up(dim, factors)
        chunk = PriRecChunk(members, members[:0], own, epoch=0, round=0, aggregation=0, cohort=0)
        part = prirec_round(replace(self, adder=None), v, chunk)
        return hashlib.sha256(part.w.tobytes() + part.uploads.tobytes()).digest()


@dataclass(frozen=True, eq=False)
class PriRecChunk:
    """Some members of a cohort in a round.

    members: int32 (c,), rising.  absent: those of them who drop out of the sum.
    own: (c, D + 1), their linear models.  round: of the epoch.  aggregation: of the training.
    """

    members: NDArray[np.int32]
    absent: NDArray[np.int32]
    own: Floats = field(repr=False)
    epoch: int
    round: int
    aggregation: int
    cohort: int


@dataclass(frozen=True, eq=False)
class PriRecPart:
    """What came of a chunk.

    w: (c, D + 1), gradients of the linear models.  loss: of the real samples, summed, in nats.
    uploads: (c, D K), what each member sends of V's; no rows where ``added`` is their sum.
    """

    w: Floats = field(repr=False)
    loss: float
    uploads: Floats = field(repr=False)
    added: PartSum | None = field(default=None, repr=False)


def prirec_round(shared: PriRecShared, v: Floats, chunk: PriRecChunk) -> PriRecPart:
    """The round of a chunk's members. v: (D, K), as all pulled it."""
    members, batches = chunk.members, shared.batches
    batches.shuffle(chunk.epoch)  # once in a worker and epoch
    batch = batches.take(members, chunk.round)
    step = local_gradients(shared.features, members, batch, chunk.own, v, shared.config)
    loss, uploads = float(step.losses.sum()), step.v.reshape(members.size, -1)
    if shared.adder is None:
        return PriRecPart(step.w, loss, uploads)
    coins = shared.sim.rows("rounding", members, chunk.aggregation)
    gone = np.flatnonzero(np.isin(members, chunk.absent))
    added = shared.adder.add(chunk.cohort, uploads, coins, gone)
    return PriRecPart(step.w, loss, uploads[:0], added)


def _made_up(*shape: int) -> Floats:
    return 0.1 * np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape)
