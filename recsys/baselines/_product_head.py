"""The rating head that three networks share: mean + user bias + item bias + product of two rows.

Source: Koren, Bell and Volinsky, "Matrix factorization techniques for recommender systems"
    (Computer 42(8), 2009), equation 4.
Differs: the biases start from their own best fit, and are penalised as in that.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recsys.baselines import biases
from recsys.baselines._network_learner import NetworkLearner, Rows, Schedule, parameters
from recsys.baselines._torch import NO_DROPOUT, Dropout, Latest, Values
from recsys.data.ratings import Floats, Indices, RatingParts
from recsys.models.graphs import Pairs, pair_products, row_products
from recsys.models.rating_factors import centre
from recsys.ratings.config import RatingConfig
from recsys.simulation import SimulationRng
from recsys.training import Arrays


class ProductNetwork(ABC):
    """Computes a row for each user and each item.

    tables: what it was made from, as ``RatingScorer.tables``.
    """

    tables: dict[str, NDArray[Any]]

    @abstractmethod
    def represent(self, values: Values, drop: Dropout) -> tuple[Tensor, Tensor]:
        """Rows of all users and all items, (., d); zeros where nothing is known."""

    @abstractmethod
    def penalty(
        self, values: Values, rows: tuple[Tensor, Tensor], shares: tuple[Tensor, Tensor]
    ) -> Tensor:
        """What ``RatingConfig.penalty`` weighs.

        rows: what ``represent`` gave.  shares: of each user and each item in a batch's ratings.
        """


class ProductScorer:
    """Scores by arrays ``mean`` (1,), ``user_bias``, ``item_bias`` and those of the network."""

    def __init__(self, network: ProductNetwork) -> None:
        self._network = network
        self._rows = Latest(self._represent)

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """Those of the network."""
        return self._network.tables

    def score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """See ``RatingScorer.score``."""
        left, right = (rows.numpy() for rows in self._rows(parameters(arrays)))
        rated: Floats = arrays["mean"][0] + row_products(left, right, Pairs(users, items))
        return rated

    def _represent(self, values: Values) -> tuple[Tensor, Tensor]:
        """Rows with their biases, and last one for whom index -1 stands: no bias, no row."""
        both = _with_biases(values, *self._network.represent(values, NO_DROPOUT))
        left, right = (torch.cat([rows, torch.zeros_like(rows[:1])]).double() for rows in both)
        left[-1, -1] = right[-1, -2] = 1.0
        return left, right


def _with_biases(values: Values, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Two more columns, so that a product of rows holds both biases."""
    b, c = values["user_bias"][:, None], values["item_bias"][:, None]
    left = torch.cat([users, b, torch.ones_like(b)], dim=1)
    return left, torch.cat([items, torch.ones_like(c), c], dim=1)


class ProductLearner(NetworkLearner):
    """Mean squared error, ``penalty`` times that of the network, and the penalty of the biases.

    trained: the network's own parameters.  start: ``first_biases``.  notes: for a report.
    """

    def __init__(
        self,
        parts: RatingParts,
        config: RatingConfig,
        sim: SimulationRng,
        network: ProductNetwork,
        schedule: Schedule,
        *,
        trained: Arrays,
        start: Arrays,
        notes: tuple[str, ...] = (),
    ) -> None:
        learned = ("user_bias", "item_bias") if config.bias else ()
        super().__init__(
            parts,
            config,
            sim,
            ProductScorer(network),
            schedule,
            trained={**trained, **{name: start[name] for name in learned}},
            fixed={name: start[name] for name in start if name not in learned},
        )
        self.notes = notes
        self._network = network
        self._labels = torch.from_numpy((parts.train.values - start["mean"]).astype(np.float32))

    def objective(self, values: Values, rows: Rows, drop: Dropout) -> tuple[Tensor, float]:
        """See ``NetworkLearner.objective``."""
        users, items = self._train.users[rows], self._train.items[rows]
        made = self._network.represent(values, drop)
        predicted = pair_products(*_with_biases(values, *made), Pairs(users, items))
        squared = (self._labels[torch.from_numpy(rows)] - predicted).square()
        shares = _shares(users, made[0]), _shares(items, made[1])
        both = values["user_bias"].square().sum() + values["item_bias"].square().sum()
        objective = squared.mean() + self._penalty * self._network.penalty(values, made, shares)
        total = float(squared.detach().to(torch.float64).sum())
        return objective + biases.PENALTY * both / len(self._train), total


def _shares(index: Indices, like: Tensor) -> Tensor:
    return like.new_tensor(np.bincount(index, minlength=len(like)) / index.size)


def first_biases(parts: RatingParts, config: RatingConfig) -> Arrays:
    """``mean``, ``user_bias`` and ``item_bias`` before training, as the settings ask for them.

    Biases are zero without ``bias``, and at first also without ``center``.
    """
    if config.bias and config.center:
        fit = biases.BiasLearner(parts, "bias", biases.PENALTY)
        fit.epoch(0)
        return {name: fit.state[name] for name in ("mean", "user_bias", "item_bias")}
    users, items = np.zeros(parts.n_users), np.zeros(parts.n_items)
    return {"mean": centre(parts.train, config.center), "user_bias": users, "item_bias": items}


def rating_tables(parts: RatingParts) -> dict[str, NDArray[Any]]:
    """The training ratings as tables: ``users``, ``items``, ``values`` and ``sizes``."""
    train = parts.train
    sizes = np.array([parts.n_users, parts.n_items])
    return {"users": train.users, "items": train.items, "values": train.values, "sizes": sizes}
