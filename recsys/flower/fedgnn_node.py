"""A node of FedGNN: what it computes for its users, and what of it leaves.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1, lines 7 to 12.
Model: as ``recsys.flower.fedgnn``.
Leaks: what ``Found`` holds goes into a secure sum over nodes, and nothing else leaves. Ratings, a
    user's embedding, bias and key stay; so does the number of clipped entries.
Differs: several users may share a node, and trust it. Which of its users compute gradients in a
    batch is fixed for the training, as cohorts are in ``recsys.fedgnn``, but drawn by each node
    among its own users, so that every round has some of every node with enough of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from recsys.data.rating_split import split_ratings
from recsys.data.ratings import Triples
from recsys.engine import split
from recsys.errors import DivergenceError, PrivacyRefusal
from recsys.fedgnn import first_of_users, merged
from recsys.flower.fedgnn_settings import FedGNNSettings
from recsys.flower.fedgnn_task import (
    ERRORS,
    HELD_OUT,
    HELD_OUT_ERRORS,
    RATINGS,
    TOTAL,
    USERS,
    Catalogue,
    Task,
)
from recsys.flower.node_memory import NodeMemory
from recsys.flower.node_ratings import read_ratings
from recsys.models.star_devices import Dropout
from recsys.models.star_model import StarModel
from recsys.models.star_round import client_round
from recsys.models.star_scorer import StarScorer
from recsys.ratings.aggregate_base import UploadPlan
from recsys.ratings.aggregate_device import DeviceSum
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Encoding
from recsys.ratings.files import RatingFiles, write_rating_model
from recsys.ratings.pseudo import PseudoItems, pseudo_keys
from recsys.simulation import SimulationRng
from recsys.training import Arrays

LOSS = "privrec-epsilon"
"""The key of ``node_config`` for the largest loss about a coordinate that a node consents to."""

_CANDIDATE, _BEST = "candidate.", "best."
_MODEL = "model"

_RING = Ring(64)
"""A node adds up in machine integers; the ring is that of the sum over nodes."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a node puts into the sum: arrays as those that it was sent, and figures by name.

    clipped: entries that a bound changed; for this node's own log alone.
    """

    arrays: Arrays = field(repr=False)
    figures: dict[str, float] = field(repr=False)
    clipped: int


def layout_of(config: RatingConfig, n_items: int) -> Layout:
    """How a vector of gradients lies: rows of all items, then the weights."""
    shapes = StarModel.of(config).shapes()
    n_weights = sum(int(np.prod(shape)) for shape in shapes.values())
    return Layout(n_items, config.dim + 1, n_weights)


def encoding_of(config: RatingConfig, users: int) -> Encoding:
    """How the gradients of so many users become integers.

    Raises ParameterError where a sum of theirs could leave 64 bits.
    """
    return Encoding.of(config, users, _RING)


class FedGNNNode:
    """One node in one round.

    node_config, memory: the node's own.  Raises DataError and ParameterError for ratings that are
    not there or do not fit, PrivacyRefusal for a seed where the ratings are the node's own.
    """

    def __init__(
        self,
        settings: FedGNNSettings,
        task: Task,
        catalogue: Catalogue,
        node_config: Mapping[str, object],
        memory: NodeMemory,
    ) -> None:
        self._task, self._catalogue, self._memory = task, catalogue, memory
        self.config = config = settings.train
        held = read_ratings(
            settings.data, node_config, catalogue.items, catalogue.low, catalogue.high
        )
        if held.own and config.seed is not None:
            raise PrivacyRefusal(
                "a seed tells every coin of a node, also those that protect its users",
                remedy="leave seed out of a deployment",
            )
        self._check_noise(node_config.get(LOSS))
        self.left_out = held.left_out
        seeded = config.seed is not None
        seed = memory.run.experiment_seed() if config.seed is None else config.seed
        self._sim = SimulationRng(seed)
        self.parts = split_ratings(held.ratings, config.split, self._sim)
        self._keys = pseudo_keys(self.parts.n_users, self._sim, memory.run, seeded=seeded)
        self.model = StarModel.of(config)
        self.scorer = StarScorer(self.model, self.parts.train, self.parts.n_users)
        self._check_size()

    def answer(self, arrays: Arrays) -> Found:
        """What the task asks for, by the recommender's ``arrays``; moves what the users hold.

        Raises DivergenceError for a number that is no longer finite.
        """
        task, own, held = self._task, self._own(), self._memory.arrays
        state = {"mean": np.array([task.mean]), "weights": np.zeros(0), **arrays, **own}
        figures = dict.fromkeys((USERS, RATINGS, TOTAL, ERRORS, HELD_OUT, HELD_OUT_ERRORS), 0.0)
        if task.held_out != "none":
            figures |= self._held_out(state)
        if task.held_out == "validation" and own:
            held |= {_CANDIDATE + name: array.copy() for name, array in own.items()}
            held[_CANDIDATE + _MODEL] = np.array([float(task.model)])
        if task.finish:
            self._write(state)
        members = self.scorer.devices.active
        if task.batch >= 0:
            members = batch_members(members, task.batch, task.batches, self._sim)
        if task.counts or task.batch >= 0:
            figures[USERS] = float(members.size)
            figures[RATINGS] = float(self.scorer.devices.sizes[members].sum())
        if task.counts:
            figures[TOTAL] = float(self.parts.train.values.sum())
        vector, clipped = np.zeros(self._layout.size, dtype=np.int64), 0
        if task.batch >= 0 and members.size:
            vector, clipped, figures[ERRORS] = self._gradients(members, state)
            held |= own
        rows, weights = self._layout.split(vector / 2.0**self.config.frac_bits)
        both = {"items": rows, "weights": weights}
        return Found({name: both[name] for name in arrays}, figures, clipped)

    @property
    def _layout(self) -> Layout:
        return layout_of(self.config, self.parts.n_items)

    @cached_property
    def _sum(self) -> DeviceSum:
        config, parts = self.config, self.parts
        plan = UploadPlan(
            config=config,
            layout=self._layout,
            encoding=encoding_of(config, self._task.node_users),
            sim=self._sim,
            keys=self._keys,
        )
        pseudo = None
        if config.pseudo:
            shape = parts.n_users, parts.n_items, config.pseudo
            pseudo = PseudoItems(parts.train, *shape, self._keys, config.pseudo_items)
        return DeviceSum(plan, pseudo)

    def _gradients(
        self, members: NDArray[np.int32], state: Arrays
    ) -> tuple[NDArray[np.int64], int, float]:
        config, epoch = self.config, self._task.epoch
        dropout = None
        if config.dropout:
            dropout = Dropout(config.dropout, self.parts.n_items, self._sim)
        vector, clipped, squares = self._layout.nothing(), 0, 0.0
        for part in split(members, config.chunk):
            upload, errors = client_round(
                config, self.scorer.devices, members[part], state, dropout, epoch
            )
            added, cut = self._sum.of(upload, epoch)
            vector += added
            clipped += cut
            squares += errors
        most = self._catalogue.most(self._task.node_users, self._task.node_ratings)
        return vector, clipped, min(squares, most[ERRORS])

    def _held_out(self, state: Arrays) -> dict[str, float]:
        test, parts = self._task.held_out == "test", self.parts
        pairs = parts.test if test else parts.validation
        scorer = self._final_scorer if test else self.scorer
        scores = scorer.score(state, pairs.users, pairs.items)
        if not np.isfinite(scores).all():
            raise DivergenceError("a predicted rating is no longer finite")
        low, high = self._catalogue.low, self._catalogue.high
        errors = pairs.values - np.clip(scores, low, high)
        return {HELD_OUT: float(len(pairs)), HELD_OUT_ERRORS: float(np.square(errors).sum())}

    @cached_property
    def _final_scorer(self) -> StarScorer:
        """As ``FedGNN.fit`` leaves it: devices may solve with the validation ratings too."""
        parts, config = self.parts, self.config
        if not (config.full_star and config.user_fit == "solve"):
            return self.scorer
        return StarScorer(self.model, merged(parts.train, parts.validation), parts.n_users)

    def _own(self) -> Arrays:
        """The users' arrays for this task: the present ones, or the best ones at the end.

        Users move on while the recommender judges a model, so what they held then is set aside.
        """
        held, task = self._memory.arrays, self._task
        first = first_of_users(self.config, self.parts.n_users, self._sim)
        own = {name: held.get(name, array) for name, array in first.items()}
        if any(own[name].shape != array.shape for name, array in first.items()):
            raise ParameterError(
                "this node's folder belongs to another training, with other users or sizes",
                remedy="name another folder, or empty it",
            )
        if task.best and held.get(_CANDIDATE + _MODEL, np.zeros(1))[0] == task.best:
            held |= {_BEST + name: held[_CANDIDATE + name] for name in first}
        if task.finish:
            own = {name: held.get(_BEST + name, array) for name, array in own.items()}
        return own

    def _write(self, state: Arrays) -> None:
        """The node's own model in its folder, for its users alone."""
        folder = self._memory.folder
        if folder is None:
            return
        parts, config = self.parts, self.config
        star = self._final_scorer.devices.ratings
        users = np.unique(star.users)
        place = np.full(parts.n_users, -1, dtype=np.int32)
        place[users] = np.arange(users.size, dtype=np.int32)
        tables = StarScorer(self.model, _of(star, place), users.size).tables
        private = first_of_users(config, 0, self._sim)
        arrays = {name: array[users] if name in private else array for name, array in state.items()}
        files = RatingFiles(
            arrays=arrays,
            private=frozenset(private),
            tables=tables,
            train=_of(parts.train, place),
            user_ids=[parts.user_ids[user] for user in users],
            item_ids=parts.item_ids,
            low=parts.low,
            high=parts.high,
        )
        write_rating_model(folder, files, config)

    def _check_noise(self, most: object) -> None:
        """Refuse less noise than this node insists on, whatever the run's settings say."""
        if most is None:
            return
        if not isinstance(most, int | float) or isinstance(most, bool) or not most > 0:
            raise ParameterError(f"{LOSS} must be a positive number, got {most!r}")
        mechanism = encoding_of(self.config, 1).mechanism
        if mechanism is None or mechanism.epsilon > most:
            told = "no noise" if mechanism is None else f"epsilon {mechanism.epsilon:.4g}"
            raise PrivacyRefusal(
                f"the run has {told} for a coordinate, this node insists on at most {most:g}",
                remedy="change the settings clip and laplace of the run",
            )

    def _check_size(self) -> None:
        """Refuse what is beyond the announced bounds: it would be cut, or show itself."""
        task, parts = self._task, self.parts
        rated = len(parts.train) + len(parts.validation) + len(parts.test)
        for name, found, most in (
            ("users", self.scorer.devices.active.size, task.node_users),
            ("ratings", rated, task.node_ratings),
        ):
            if found > most:
                raise ParameterError(
                    f"this node has more {name} than the {most} that were announced",
                    remedy=f"raise the setting node-{name}",
                )


def batch_members(
    active: NDArray[np.int32], batch: int, batches: int, sim: SimulationRng
) -> NDArray[np.int32]:
    """Which of a node's users compute gradients in a batch, rising; over all batches everybody.

    A node with fewer users than batches has none in some; which, its coins decide.
    """
    if batches == 1 or not active.size:
        return active
    order = sim.order("batch of a user", active)
    first = int(sim.coins("first batch of a node", int(active[0])))
    part = np.array_split(active[order], batches)[(batch + first) % batches]
    return np.sort(part)


def _of(triples: Triples, place: NDArray[np.int32]) -> Triples:
    """The rows of the users with a place, under it."""
    chosen = place[triples.users] >= 0
    kept = triples.part(chosen)
    return Triples(place[kept.users], kept.items, kept.values)
