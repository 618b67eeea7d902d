"""FedGNN: a federated graph network that predicts ratings.

Source: Wu, Wu, Cao, Huang, Xie, "FedGNN: Federated graph neural network for privacy-preserving
    recommendation" (arXiv:2102.04925), Algorithm 1.
Model: semi-honest. With ``aggregate = "secure"`` at most c - 2 of the c members of a cohort collude
    with the recommender, and nobody drops out; with ``secagg = "full"`` two thirds of them at most,
    less one, and the others may drop out (``recsys.rounds``). With ``clear`` he sees every upload.
Leaks: to the recommender the sum of each cohort's gradients in every round, or each upload (see
    ``recsys.ratings.aggregate``); to everybody the items' embeddings, the shared weights and the
    mean rating after every round. Neighbours: ``recsys.ratings.expansion``. A user's ratings, own
    embedding, bias, and neighbours' embeddings stay on her device.
Error: gradients are rounded to 2^-frac_bits without bias, and cut at ``clip`` or ``bound``.
Differs: one mini-batch is all of a user's ratings, and every user takes part once in an epoch. With
    ``user_fit = "solve"`` the user's embedding is no parameter (``recsys.models.star_model``). The
    server may use Adam, whose step does not depend on the scale of the sum; steps shrink from epoch
    to epoch, the faster the more rounds there are in one (``DECAY_ROUNDS``). Neighbours join before
    the first epoch after T, not in the middle of one.

No cryptography here: sums come from ``recsys.ratings.aggregate``, neighbours from
``recsys.ratings.expansion``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpc.core.local import LocalNetwork
from recsys.baselines._torch import one_thread
from recsys.batches import draw_cohorts
from recsys.data.ratings import Floats, RatingParts, Ratings, Triples
from recsys.models.adam import adam_step
from recsys.models.star_devices import Devices, Dropout, unflat
from recsys.models.star_model import (
    RIDGE,
    RIDGE_WEIGHTS,
    ClientGradients,
    Inputs,
    StarModel,
    client_gradients,
)
from recsys.models.star_networks import NEIGHBOUR_WEIGHTS
from recsys.models.star_scorer import StarScorer
from recsys.ratings.aggregate import Aggregation, open_aggregation
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion import Neighbourhood, find_neighbours
from recsys.ratings.gradients import RoundSum
from recsys.ratings.model import RatingModel
from recsys.ratings.pseudo import PseudoItems, pseudo_keys
from recsys.ratings.scoring import RatingScorer
from recsys.run import Run
from recsys.simulation import SimulationRng
from recsys.stopwatch import Stopwatch
from recsys.training import Arrays, Progress, State


@dataclass(frozen=True)
class Own:
    """What a network takes where the configuration has None, tuned on validation."""

    learning_rate: float
    penalty: float
    bias_penalty: float


OWN = {
    "gcn": Own(0.01, 140.0, 20.0),
    "gat": Own(0.01, 140.0, 20.0),
    "ggnn": Own(0.01, 220.0, 20.0),
}

WEIGHT_PENALTY = 1.0
"""As ``penalty``, of the network's weights."""

DECAY_ROUNDS = 8
"""Rounds in which ``decay`` counts once where an epoch has more: more users are more steps."""


class FedGNNLearner:
    """Algorithm 1 for all users in one process.

    What ``state.private`` names is held by the users, row by row; the rest by the recommender.
    """

    def __init__(
        self, parts: RatingParts, config: RatingConfig, sim: SimulationRng, run: Run
    ) -> None:
        self.config = config
        self.clock = Stopwatch()
        self.traffic = LocalNetwork()
        self.neighbourhood: Neighbourhood | None = None
        self._sim, self._run = sim, run
        self._own = OWN[config.gnn]
        self.model = StarModel.of(config)
        scorer = StarScorer(self.model, parts.train, parts.n_users)
        self.scorer: RatingScorer = scorer
        # Who rated nothing has no star, and no device that takes part.
        self.devices: Devices = scorer.devices
        self.cohorts = self._draw(0)
        self._dropout = Dropout(config.dropout, parts.n_items, sim) if config.dropout else None
        self._shapes = self.model.shapes()
        weights = initial_weights(self._shapes, sim)
        self.pseudo = self._pseudo_items(parts)
        with self.clock.step("key agreement"):
            self.aggregation = self._aggregation(parts, weights.size)
            mean = self._mean() if config.center else 0.0
        shared = {"items": self._first("items", parts.n_items), "weights": weights}
        moments = {
            f"{m} of {name}": np.zeros_like(a) for m in _MOMENTS for name, a in shared.items()
        }
        own = self._first_of_users(parts.n_users)
        self.state = State.start(
            {"mean": np.array([mean]), **shared, **moments, **own}, private=own
        )

    def epoch(self, number: int) -> float:
        """Every user once, in cohorts; the mean squared error of the ratings as they were met."""
        config, state = self.config, self.state
        with self.clock.step("aggregation"):
            self.aggregation.begin(number, config.epochs)
        if config.neighbours != "none" and number == config.expand_after:
            self._expand()  # lines 15-17
        if config.aggregate == "clear":
            self.cohorts = self._draw(number)
        order = self._sim.order("order of cohorts", np.arange(len(self.cohorts)), number)
        total = 0.0
        for place, cohort in enumerate(order):
            members = self.cohorts[cohort]  # line 5
            with self.clock.step("gradients"), one_thread():
                inputs = self.devices.inputs(members, state.arrays, self._dropout, number)
                found = client_gradients(
                    self.model,
                    inputs,
                    absolute=config.loss == "absolute",
                    mean=config.reduction == "mean",
                )
                upload = self.devices.upload(members, found)
                self._local_step(members, inputs, found)
                total += float(found.errors.square().sum())
            with self.clock.step("aggregation"):
                summed = self.aggregation.sum(int(cohort), number, upload)  # lines 6-14
            with self.clock.step("server"):
                self._server_step(summed, number, number * len(order) + place + 1)
        return total / len(self.devices.ratings)

    def _local_step(
        self, members: NDArray[np.int32], inputs: Inputs, found: ClientGradients
    ) -> None:
        """What never leaves the devices moves there."""
        config, arrays = self.config, self.state.arrays
        rates = local_rates(config, self.model, inputs)
        if "users" in arrays:
            biases = found.user_biases if config.bias else torch.zeros_like(found.user_biases)
            if config.reduction == "sum":
                # A sum of many errors would carry the bias beyond their mean.
                biases = biases / inputs.rated.sizes
            steps = torch.cat([rates * found.users, config.user_rate * biases.unsqueeze(1)], dim=1)
            arrays["users"][members] -= steps.numpy()
        if config.neighbours == "trainable":
            given = arrays["neighbours"][members]
            there = np.arange(given.shape[1]) < arrays["neighbour_counts"][members, np.newaxis]
            given[there] -= (rates[inputs.met.owners] * found.neighbours).numpy()
            arrays["neighbours"][members] = given

    def _server_step(self, summed: RoundSum, number: int, step: int) -> None:
        """Lines 19 and 20: the mean gradient, with the penalty, by Adam or by a plain step."""
        config, own = self.config, self._own
        users = self.devices.active.size
        penalty = own.penalty if config.penalty is None else config.penalty
        bias_penalty = own.bias_penalty if config.bias_penalty is None else config.bias_penalty
        penalties = np.append(np.full(config.dim, penalty), bias_penalty)
        rate = own.learning_rate if config.learning_rate is None else config.learning_rate
        rate *= config.decay ** (number * max(1.0, len(self.cohorts) / DECAY_ROUNDS))
        for name, total, decay in (
            ("items", summed.items, penalties),
            ("weights", summed.weights, self._weight_penalties),
        ):
            values = self.state[name]
            gradient = total / summed.clients + decay / users * values
            if config.optimizer == "sgd":
                values -= rate * gradient
            else:
                first, second = (self.state[f"{moment} of {name}"] for moment in _MOMENTS)
                adam_step(values, gradient, first, second, rate=rate, step=step)

    @property
    def _weight_penalties(self) -> Floats:
        size = self.state["weights"].size
        penalties = np.full(size, WEIGHT_PENALTY)
        for name, part in unflat(penalties, self._shapes).items():
            if name == RIDGE_WEIGHTS:
                part[:] = 0.0
        return penalties

    def _expand(self) -> None:
        """Algorithm 2: everybody gets her neighbours' embeddings, as they are now."""
        arrays = self.state.arrays
        with self.clock.step("graph expansion"):
            train = self.devices.ratings
            found = find_neighbours(
                self.config, train, self._embeddings(), self._sim, self._run, self.traffic
            )
            counts = np.diff(found.starts)
            there = np.arange(self.config.most_neighbours) < counts[:, np.newaxis]
            arrays["neighbours"][there] = found.embeddings
            arrays["neighbour_counts"][:] = counts
            self.neighbourhood = found

    def _embeddings(self) -> Floats:
        """What stands for each user, (users, d); zeros for who rated nothing."""
        arrays, dim = self.state.arrays, self.config.dim
        if "users" in arrays:
            return np.ascontiguousarray(arrays["users"][:, :dim])
        own = np.zeros((self.devices.users, dim))
        for members in self.cohorts:
            with one_thread(), torch.no_grad():
                inputs = self.devices.inputs(members, arrays)
                own[members] = self.model.represent(inputs).vectors.numpy()
        return own

    def _draw(self, epoch: int) -> list[NDArray[np.int32]]:
        """Cohorts of the active users: for ``secure`` those of epoch 0 throughout."""
        active, config = self.devices.active, self.config
        if config.aggregate == "secure":
            parts = draw_cohorts(active.size, config.cohort, self._sim)
        else:
            order = self._sim.order("cohort of an epoch", active, epoch)
            parts = np.array_split(order, max(1, active.size // config.cohort))
        return [np.sort(active[part]) for part in parts]

    def _mean(self) -> float:
        ratings, users = self.devices.ratings, self.devices.users
        sums = np.bincount(ratings.users, weights=ratings.values, minlength=users)
        return self.aggregation.mean(sums.astype(np.float64), self.devices.sizes)

    def _first(self, purpose: str, size: int) -> Floats:
        """Rows at the start: normal embeddings, and biases of 0."""
        rows = np.zeros((size, self.config.dim + 1))
        normal = self._sim.generator(purpose).standard_normal((size, self.config.dim))
        rows[:, :-1] = self.config.init_scale * normal
        return rows

    def _first_of_users(self, users: int) -> Arrays:
        config = self.config
        own: Arrays = {}
        if config.user_fit == "steps":
            own["users"] = self._first("users", users)
        if config.neighbours != "none":
            own["neighbours"] = np.zeros((users, config.most_neighbours, config.dim))
            own["neighbour_counts"] = np.zeros(users)
        return own

    def _pseudo_items(self, parts: RatingParts) -> PseudoItems | None:
        config = self.config
        self._keys = None
        if config.pseudo or config.laplace is not None:
            seeded = config.seed is not None
            self._keys = pseudo_keys(parts.n_users, self._sim, self._run, seeded=seeded)
        if not config.pseudo or self._keys is None:
            return None
        shape = parts.n_users, parts.n_items, config.pseudo
        return PseudoItems(parts.train, *shape, self._keys, config.pseudo_items)

    def _aggregation(self, parts: RatingParts, n_weights: int) -> Aggregation:
        shape = parts.n_items, self.config.dim + 1, n_weights
        return open_aggregation(
            self.config,
            self.cohorts,
            *shape,
            self._sim,
            self._run,
            self.traffic,
            self.pseudo,
            self._keys,
        )


_MOMENTS = ("first moment", "second moment")


class FedGNN(RatingModel):
    """``FedGNN(RatingConfig(...)).fit(ratings)``: the protocol of the paper, or its simulation."""

    models = ("fedgnn",)

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> FedGNNLearner:
        return FedGNNLearner(parts, self.config, sim, run)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> StarScorer:
        return StarScorer.stored(StarModel.of(self.config), tables)

    def fit(
        self,
        data: Ratings | RatingParts,
        *,
        run: Run | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """See ``RatingModel.fit``. With ``full_star`` devices then solve with all their ratings."""
        super().fit(data, run=run, progress=progress)
        if self.config.full_star and self.config.user_fit == "solve":
            parts = self.parts_
            star = merged(parts.train, parts.validation)
            scorer = StarScorer(StarModel.of(self.config), star, parts.n_users)
            self._scorer = scorer
            self._files = replace(self.files, tables=scorer.tables)
        return self


def local_rates(config: RatingConfig, model: StarModel, inputs: Inputs) -> Tensor:
    """Each client's step for her embedding, (c, 1): ``user_rate``, or less where that is unsafe.

    A step beyond the inverse of its curvature may raise a squared loss; the curvature of a product
    with vectors is at most the sum of their squares.
    """
    rates = torch.full_like(inputs.user_biases, config.user_rate)
    if config.loss == "squared":
        with torch.no_grad():
            curvature = inputs.rated.sum(model.rated(inputs).square().sum(1))
        if config.reduction == "mean":
            curvature = curvature / inputs.rated.sizes
        rates = torch.minimum(rates, 1 / curvature.clamp(min=1e-9))
    return rates.unsqueeze(1)


def merged(one: Triples, other: Triples) -> Triples:
    """Both parts as one, sorted; no pair is in both."""
    users = np.concatenate([one.users, other.users])
    items = np.concatenate([one.items, other.items])
    values = np.concatenate([one.values, other.values])
    order = np.lexsort((items, users))
    return Triples(users[order], items[order], values[order])


def initial_weights(shapes: Mapping[str, tuple[int, ...]], sim: SimulationRng) -> Floats:
    """All shared weights at the start as one vector (w,), the same on every device (line 2).

    Matrices are normal with variance 1 / (rows + columns) * 2; neighbours' are zero, and gates open
    halfway.
    """
    flat = np.zeros(sum(int(np.prod(shape)) for shape in shapes.values()))
    for name, weights in unflat(flat, shapes).items():
        if name == RIDGE_WEIGHTS:
            weights[:] = np.log(RIDGE[: weights.size] if weights.size > 1 else RIDGE[:1])
        elif name not in (NEIGHBOUR_WEIGHTS, "gate_biases"):
            scale = np.sqrt(2 / (weights.shape[0] + weights.shape[-1]))
            weights[...] = scale * sim.generator(f"weights {name}").standard_normal(weights.shape)
    return flat
