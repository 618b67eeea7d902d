"""The central factorization machine: one linear model and one V, all data in one place.

Source: Rendle, "Factorization Machines with libFM" (2012); the baseline of PriRec's Tables 4, 5.
Model: none. The recommender holds every user's data in the clear; that is what PriRec avoids.
"""

import numpy as np

from recsys.config import TrainConfig
from recsys.data.prepare import Prepared
from recsys.features import Features
from recsys.models import fm
from recsys.prirec import initial_factors
from recsys.recommender import Recommender
from recsys.run import Run
from recsys.scoring import MachineScorer, Scorer
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import State

BATCH = 32


class FMLearner:
    """Mini-batch gradient descent on Eq. 2 over the pooled training pairs."""

    def __init__(
        self, prepared: Prepared, features: Features, config: TrainConfig, sim: SimulationRng
    ) -> None:
        self.config = config
        self.features = features
        self.clock = Stopwatch()
        self._pairs = prepared.train
        self._sim = sim
        self.state = State.start(
            {"w": np.zeros(features.dim + 1), "v": initial_factors(features, config, sim)}
        )
        self.scorer: Scorer = MachineScorer(features)

    def epoch(self, number: int) -> float:
        """One pass in random order; the mean loss in nats."""
        pairs, config = self._pairs, self.config
        w, v = self.state["w"], self.state["v"]
        order = self._sim.order("order", pairs.users, pairs.pois, number)
        total = 0.0
        with self.clock.step("gradients"):
            for start in range(0, order.size, BATCH):
                part = order[start : start + BATCH]
                labels = pairs.labels[part].astype(np.float64)
                x = self.features.samples(pairs.users[part], pairs.pois[part])
                pass_ = fm.forward(x, w, v)
                slopes = fm.slope(pass_.score, labels)
                grad_w = fm.linear_gradient(x, slopes) + 2 * config.penalty_w * part.size * w
                grad_v = fm.factor_gradient(x, slopes, pass_.factor_sums, v)
                grad_v += 2 * config.penalty_v * part.size * v
                w -= config.step_w * grad_w
                v -= config.step_v * grad_v
                total += float(fm.loss(pass_.score, labels).sum())
        return total / max(1, order.size)


class FM(Recommender):
    """``FM(TrainConfig(model="fm")).fit(data)``: the reference without privacy."""

    models = ("fm",)

    def _learner(
        self, prepared: Prepared, features: Features, sim: SimulationRng, run: Run
    ) -> FMLearner:
        return FMLearner(prepared, features, self.config, sim)
