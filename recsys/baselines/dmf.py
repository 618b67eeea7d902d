"""DMF: decentralized matrix factorization, where neighbours exchange gradients in the clear.

Source: Chen, Liu, Zhao, Zhou, Li, "Privacy Preserving Point-of-Interest Recommendation Using
    Decentralized Matrix Factorization" (AAAI 2018, arXiv 2003.05610); a row of PriRec's Table 3,
    which gives its leakage as "gradient". PriRec (Chen et al., 2020), Eq. 2, for the loss.
Model: none. No party collects the check-ins, but nothing hides what is sent.
Leaks: for each training sample, in each epoch, the sender's neighbours receive the POI and a
    gradient of its global factors. The POI names a place; the gradient tells visits from
    negatives: but for its penalty it is the sender's factors u_i times the slope of the loss, whose
    sign is the label's, reversed, and u_i starts from a public vector and moves little from one
    message to the next.
Differs: labels are -1 or +1 and the loss is logistic, as in all models here. The paper picks
    receivers by a random walk over the users, possibly of several hops; here a user sends along
    the edges of our network, one hop, since one network serves all rows of a comparison, and every
    receiver takes the full step. Mini-batches instead of single samples. All users start from one
    public vector, and all copies of a POI's global factors from another: a neighbour's gradient
    helps only where her factors point the same way, and with normal starts of their own the AUC on
    real check-ins stays at chance. Local factors start from zero, so that pairs which nobody
    trains need no memory.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mpc.core.local import LocalNetwork
from recsys.baselines.mf import BATCH, initial_rows
from recsys.config import TrainConfig
from recsys.data.prepare import Prepared
from recsys.features import Features
from recsys.models import dmf, fm, mf
from recsys.models.rows import RowSums
from recsys.prirec import build_network
from recsys.recommender import Recommender
from recsys.run import Run
from recsys.scoring import Scorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

GRADIENTS = "dmf.gradients"
"""The kind under which the messages are counted."""


@dataclass(frozen=True)
class GradientMessages:
    """What each neighbour of ``senders[n]`` receives, in plaintext.

    senders, pois: int32 (n,).  gradients: float64 (n, K), of the sender's loss by her p_j^i.
    """

    senders: NDArray[np.int32]
    pois: NDArray[np.int32]
    gradients: fm.Floats = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of one message: four for the POI, eight for each entry of the gradient."""
        return 4 + 8 * int(self.gradients.shape[1])


class DMFLearner:
    """Gradient descent by all users in one process.

    Row i of ``state["user_factors"]`` is held by user i alone, and so are the rows of
    ``global_factors`` and ``local_factors`` whose keys in ``scorer.tables`` are hers.
    """

    def __init__(self, prepared: Prepared, config: TrainConfig, sim: SimulationRng) -> None:
        self.config = config
        self.clock = Stopwatch()
        self.traffic = LocalNetwork()
        self.network = build_network(prepared, config, sim)
        self._pairs = pairs = prepared.train
        self._sim = sim
        # Who takes a step on each sample: its user first, then her neighbours.
        takers = np.column_stack([pairs.users, self.network.neighbours[pairs.users]])
        keys = dmf.pair_keys(takers, pairs.pois[:, np.newaxis], prepared.n_pois)
        touched, rows = np.unique(keys, return_inverse=True)
        own, own_rows = np.unique(keys[:, 0], return_inverse=True)
        self._global_rows = rows.reshape(keys.shape)
        self._local_rows = own_rows
        user = initial_rows("user factors", 1, config, sim)
        start = initial_rows("POI factors", prepared.n_pois, config, sim)
        self.state = State.start(
            {
                "user_factors": np.repeat(user, prepared.n_users, axis=0),
                "global_factors": start[touched % prepared.n_pois],
                "local_factors": np.zeros((own.size, config.factors)),
                "poi_start": start,
            },
            private=("user_factors", "global_factors", "local_factors"),
        )
        self.scorer: Scorer = dmf.NeighbourScorer(touched, own)

    def epoch(self, number: int) -> float:
        """One pass over the samples of all users in random order; the mean loss in nats."""
        pairs = self._pairs
        order = self._sim.order("order", pairs.users, pairs.pois, number)
        total = 0.0
        for start in range(0, order.size, BATCH):
            messages, loss = self.step(order[start : start + BATCH])
            sent = messages.senders.size * self.network.size
            self.traffic.count(GRADIENTS, sent, sent * messages.size)
            total += loss
        return total / max(1, order.size)

    def step(self, part: NDArray[np.intp]) -> tuple[GradientMessages, float]:
        """Train on the samples ``part`` at once, from the parameters as they are.

        Returns what was sent, and the sum of the losses in nats before the step.
        """
        config, state = self.config, self.state
        with self.clock.step("gradients"):
            users, pois = self._pairs.users[part], self._pairs.pois[part]
            labels = self._pairs.labels[part].astype(np.float64)
            rows, own_rows = self._global_rows[part], self._local_rows[part]
            u = state["user_factors"][users]
            p, q = state["global_factors"][rows[:, 0]], state["local_factors"][own_rows]
            scores = mf.product(u, p + q)
            slopes = fm.slope(scores, labels)
            of_user = mf.factor_gradient(slopes, p + q, u, config.penalty_v)
            of_local = mf.factor_gradient(slopes, u, q, config.penalty_v)
            sent = mf.factor_gradient(slopes, u, p, config.penalty_v)
            RowSums(users).add(state["user_factors"], -config.step_v * of_user)
            RowSums(own_rows).add(state["local_factors"], -config.step_v * of_local)
            # The sender's own step is the one that her neighbours take on their copies.
            steps = np.repeat(-config.step_v * sent, rows.shape[1], axis=0)
            RowSums(rows.reshape(-1)).add(state["global_factors"], steps)
        return GradientMessages(users, pois, sent), float(fm.loss(scores, labels).sum())


class DMF(Recommender):
    """``DMF(TrainConfig(model="dmf")).fit(data)``: decentralized, but not private."""

    models = ("dmf",)

    def _learner(
        self, prepared: Prepared, features: Features, sim: SimulationRng, run: Run
    ) -> DMFLearner:
        return DMFLearner(prepared, self.config, sim)
