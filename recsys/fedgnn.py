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

from mpc.core.local import LocalNetwork
from recsys.baselines._torch import one_thread
from recsys.batches import draw_cohorts
from recsys.data.ratings import Floats, RatingParts, Ratings, Triples
from recsys.engine import Engine, LocalEngine, split, start_on
from recsys.models.adam import adam_step
from recsys.models.star_devices import Devices, Dropout, unflat
from recsys.models.star_model import RIDGE, RIDGE_WEIGHTS, StarModel
from recsys.models.star_networks import NEIGHBOUR_WEIGHTS, Shapes
from recsys.models.star_round import PUBLIC, StarChunk, StarPart, StarShared, star_round
from recsys.models.star_scorer import StarScorer
from recsys.ratings.aggregate import Aggregation, open_aggregation
from recsys.ratings.aggregate_part import adder_of
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion import Neighbourhood, find_neighbours
from recsys.ratings.gradients import RoundSum, joined
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

_MOMENTS = ("first moment", "second moment")

WEIGHT_PENALTY = 1.0
"""As ``penalty``, of the network's weights."""

DECAY_ROUNDS = 8
"""Rounds in which ``decay`` counts once where an epoch has more: more users are more steps."""


class FedGNNLearner:
    """Algorithm 1 for all users in one process.

    What ``state.private`` names is held by the users, row by row; the rest by the recommender.
    """

    def __init__(
        self,
        parts: RatingParts,
        config: RatingConfig,
        sim: SimulationRng,
        run: Run,
        engine: Engine | None = None,
    ) -> None:
        self.config = config
        self.clock = Stopwatch()
        self.traffic = LocalNetwork()
        self.neighbourhood: Neighbourhood | None = None
        self._sim, self._run = sim, run
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
        own = first_of_users(config, parts.n_users, sim)
        shared = first_shared(config, parts.n_items, weights, sim)
        self.state = State.start({"mean": np.array([mean]), **shared, **own}, private=own)
        self._engine = engine or LocalEngine()
        # A sum is short, and worth forming where what it adds up would have to travel.
        adder = adder_of(self.aggregation, self.pseudo) if self._engine.remote else None
        lasting = StarShared(config, self.devices, self._dropout, adder)
        start_on(self._engine, lasting, self.clock)

    def epoch(self, number: int) -> float:
        """Every user once, in cohorts; the mean squared error of the ratings as they were met."""
        config = self.config
        with self.clock.step("aggregation"):
            self.aggregation.begin(number, config.epochs)
        if config.neighbours != "none" and number == config.expand_after:
            self._expand()  # lines 15-17
        if config.aggregate == "clear":
            self.cohorts = self._draw(number)
        order = self._sim.order("order of cohorts", np.arange(len(self.cohorts)), number)
        total = 0.0
        for place, cohort in enumerate(order):
            with self.clock.step("gradients"):
                parts = self._on_devices(int(cohort), number)  # lines 5 and 8
                total += sum(part.squares for part in parts)
            with self.clock.step("aggregation"):
                summed = self._sum(int(cohort), number, parts)  # lines 6-14
            with self.clock.step("server"):
                self._server_step(summed, number, number * len(order) + place + 1)
        return total / len(self.devices.ratings)

    def _on_devices(self, cohort: int, number: int) -> list[StarPart]:
        """The members' work, chunk by chunk; what never leaves the devices moves there."""
        members, state = self.cohorts[cohort], self.state
        public = {name: state[name] for name in PUBLIC}
        absent = self.aggregation.absent(cohort, number) if self._engine.remote else members[:0]
        chunks = []
        for part in split(members, self.config.chunk):
            who = members[part]
            own = {name: state[name][who] for name in sorted(state.private)}
            chunks.append(StarChunk(who, np.intersect1d(absent, who), number, own))
        parts = self._engine.map(star_round, public, chunks)
        for chunk, done in zip(chunks, parts, strict=True):
            for name, rows in done.moved.items():
                state[name][chunk.members] = rows
        return parts

    def _sum(self, cohort: int, number: int, parts: list[StarPart]) -> RoundSum:
        added = [part.added for part in parts if part.added is not None]
        if added:
            return self.aggregation.combine(cohort, number, added)
        uploads = [part.uploads for part in parts if part.uploads is not None]
        return self.aggregation.sum(cohort, number, joined(uploads))

    def _server_step(self, summed: RoundSum, number: int, step: int) -> None:
        users, rounds = self.devices.active.size, len(self.cohorts)
        server_step(
            self.config, self._shapes, self.state.arrays, summed, users, rounds, number, step
        )

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


class FedGNN(RatingModel):
    """``FedGNN(RatingConfig(...)).fit(ratings)``: the protocol of the paper, or its simulation."""

    models = ("fedgnn",)
    scales_out = True

    def _learner(self, parts: RatingParts, sim: SimulationRng, run: Run) -> FedGNNLearner:
        return FedGNNLearner(parts, self.config, sim, run, self._engine)

    def _stored_scorer(self, tables: Mapping[str, NDArray[Any]]) -> StarScorer:
        return StarScorer.stored(StarModel.of(self.config), tables)

    def fit(
        self,
        data: Ratings | RatingParts,
        *,
        run: Run | None = None,
        progress: Progress | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """See ``RatingModel.fit``. With ``full_star`` devices then solve with all their ratings."""
        super().fit(data, run=run, progress=progress, engine=engine)
        if self.config.full_star and self.config.user_fit == "solve":
            parts = self.parts_
            star = merged(parts.train, parts.validation)
            scorer = StarScorer(StarModel.of(self.config), star, parts.n_users)
            self._scorer = scorer
            self._files = replace(self.files, tables=scorer.tables)
        return self


def server_step(
    config: RatingConfig,
    shapes: Shapes,
    arrays: Arrays,
    summed: RoundSum,
    users: int,
    rounds: int,
    number: int,
    step: int,
) -> None:
    """Lines 19 and 20: the mean gradient, with the penalty, by Adam or by a plain step; in place.

    shapes: of the shared weights.  users: all who take part in an epoch.  rounds: of an epoch.
    number: of the epoch, from 0.  step: of the round, from 1.
    """
    own = OWN[config.gnn]
    penalty = own.penalty if config.penalty is None else config.penalty
    bias_penalty = own.bias_penalty if config.bias_penalty is None else config.bias_penalty
    penalties = np.append(np.full(config.dim, penalty), bias_penalty)
    rate = own.learning_rate if config.learning_rate is None else config.learning_rate
    rate *= config.decay ** (number * max(1.0, rounds / DECAY_ROUNDS))
    for name, total, decay in (
        ("items", summed.items, penalties),
        ("weights", summed.weights, weight_penalties(shapes)),
    ):
        values = arrays[name]
        gradient = total / summed.clients + decay / users * values
        if config.optimizer == "sgd":
            values -= rate * gradient
        else:
            first, second = (arrays[f"{moment} of {name}"] for moment in _MOMENTS)
            adam_step(values, gradient, first, second, rate=rate, step=step)


def weight_penalties(shapes: Shapes) -> Floats:
    """The penalty of each shared weight, (w,)."""
    penalties = np.full(sum(int(np.prod(shape)) for shape in shapes.values()), WEIGHT_PENALTY)
    for name, part in unflat(penalties, shapes).items():
        if name == RIDGE_WEIGHTS:
            part[:] = 0.0
    return penalties


def first_shared(config: RatingConfig, n_items: int, weights: Floats, sim: SimulationRng) -> Arrays:
    """What the server holds at the start besides the mean: items, weights and their moments."""
    shared = {"items": _first(config, "items", n_items, sim), "weights": weights}
    return shared | {
        f"{moment} of {name}": np.zeros_like(array)
        for moment in _MOMENTS
        for name, array in shared.items()
    }


def first_of_users(config: RatingConfig, users: int, sim: SimulationRng) -> Arrays:
    """What so many users hold at the start, and nobody else."""
    own: Arrays = {}
    if config.user_fit == "steps":
        own["users"] = _first(config, "users", users, sim)
    if config.neighbours != "none":
        own["neighbours"] = np.zeros((users, config.most_neighbours, config.dim))
        own["neighbour_counts"] = np.zeros(users)
    return own


def _first(config: RatingConfig, purpose: str, size: int, sim: SimulationRng) -> Floats:
    """Rows at the start: normal embeddings, and biases of 0."""
    rows = np.zeros((size, config.dim + 1))
    normal = sim.generator(purpose).standard_normal((size, config.dim))
    rows[:, :-1] = config.init_scale * normal
    return rows


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
