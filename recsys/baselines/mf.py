"""Central matrix factorization: users and POIs by their ids alone, all data in one place.

Source: see recsys.models.mf; the baseline of PriRec's Table 3.
Model: none. The recommender holds every user's data in the clear; that is what PriRec avoids.
Differs: a sample brings its penalty with it, so that a user or POI is pulled to zero as often as
    it occurs; ``penalty_w`` weighs on the biases, ``penalty_v`` on the factors.
"""

import numpy as np
from numpy.typing import NDArray

from recsys.config import TrainConfig
from recsys.data.prepare import Prepared
from recsys.features import Features
from recsys.models import fm, mf
from recsys.models.rows import RowSums
from recsys.recommender import Recommender
from recsys.run import Run
from recsys.scoring import Scorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

BATCH = 32


class MFLearner:
    """Mini-batch gradient descent on Eq. 2 over the pooled training pairs."""

    def __init__(self, prepared: Prepared, config: TrainConfig, sim: SimulationRng) -> None:
        self.config = config
        self.clock = Stopwatch()
        self._pairs = prepared.train
        self._sim = sim
        users, pois = prepared.n_users, prepared.n_pois
        self.state = State.start(
            {
                "bias": np.zeros(1),
                "user_bias": np.zeros(users),
                "poi_bias": np.zeros(pois),
                "user_factors": initial_rows("user factors", users, config, sim),
                "poi_factors": initial_rows("POI factors", pois, config, sim),
            }
        )
        self.scorer: Scorer = mf.BiasedScorer()

    def epoch(self, number: int) -> float:
        """One pass in random order; the mean loss in nats."""
        pairs = self._pairs
        order = self._sim.order("order", pairs.users, pairs.pois, number)
        total = 0.0
        with self.clock.step("gradients"):
            for start in range(0, order.size, BATCH):
                total += self._step(order[start : start + BATCH])
        return total / max(1, order.size)

    def _step(self, part: NDArray[np.intp]) -> float:
        """All gradients of a batch from the parameters at its start; the sum of its losses."""
        pairs, config, state = self._pairs, self.config, self.state
        users, pois = pairs.users[part], pairs.pois[part]
        labels = pairs.labels[part].astype(np.float64)
        b, b_i, c_j = state["bias"], state["user_bias"], state["poi_bias"]
        u, v = state["user_factors"][users], state["poi_factors"][pois]
        scores = b[0] + b_i[users] + c_j[pois] + mf.product(u, v)
        slopes = fm.slope(scores, labels)
        shrink = 2 * config.penalty_w
        user_bias, poi_bias = slopes + shrink * b_i[users], slopes + shrink * c_j[pois]
        of_users, of_pois = RowSums(users), RowSums(pois)
        b -= config.step_w * (slopes.sum() + shrink * part.size * b)
        of_users.add(b_i, -config.step_w * user_bias)
        of_pois.add(c_j, -config.step_w * poi_bias)
        user_step = mf.factor_gradient(slopes, v, u, config.penalty_v)
        poi_step = mf.factor_gradient(slopes, u, v, config.penalty_v)
        of_users.add(state["user_factors"], -config.step_v * user_step)
        of_pois.add(state["poi_factors"], -config.step_v * poi_step)
        return float(fm.loss(scores, labels).sum())


class MF(Recommender):
    """``MF(TrainConfig(model="mf")).fit(data)``: visits alone, without privacy."""

    models = ("mf",)

    def _learner(
        self, prepared: Prepared, features: Features, sim: SimulationRng, run: Run
    ) -> MFLearner:
        return MFLearner(prepared, self.config, sim)


def initial_rows(what: str, rows: int, config: TrainConfig, sim: SimulationRng) -> fm.Floats:
    """Factors at the start, (rows, K): normal with standard deviation ``init_scale``.

    what: the purpose of the coins, another for each array.
    """
    generator = sim.generator(what)
    return config.init_scale * generator.standard_normal((rows, config.factors))
