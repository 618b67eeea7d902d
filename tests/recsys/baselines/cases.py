"""A small set that factors explain better than biases, and the baselines that are tried on it."""

from functools import cache
from typing import Any

import numpy as np

from recsys.baselines.biases import Biases
from recsys.baselines.fcf import FCF, FCFLearner
from recsys.baselines.fedmf import FedMF
from recsys.baselines.grals import GRALS
from recsys.baselines.pmf import PMF
from recsys.baselines.svdpp import SVDpp
from recsys.data.ratings import Graph, Ratings, Triples
from recsys.ratings.config import RatingConfig
from recsys.ratings.model import RatingModel
from recsys.ratings.search import START

USERS, ITEMS = 80, 50
COLD_USER, COLD_ITEM = USERS - 1, ITEMS - 1
"""Who has no rating at all, and what has none outside of the test part."""

CASES: dict[str, tuple[type[RatingModel], dict[str, Any]]] = {
    "pmf": (PMF, {"epochs": 120, "learning_rate": 0.05, "patience": 40}),
    "svdpp": (SVDpp, {"epochs": 80, "penalty": 0.05}),
    "grals": (GRALS, {"dim": 2, "penalty": 2.0, "epochs": 12}),
    "fcf": (FCF, {"dim": 2, "penalty": 2.0, "epochs": 40, "learning_rate": 0.03}),
    "fedmf": (FedMF, {"dim": 2, "penalty": 2.0, "epochs": 40, "learning_rate": 0.03}),
}
"""The models with factors, and what they learn the set by."""

ITERATIVE = tuple(name for name in CASES if name != "svdpp")


def config(name: str, **changes: Any) -> RatingConfig:
    """Settings of a case: the model's own, then those of ``CASES``, then ``changes``."""
    settings = {"seed": 0, "mode": "simulate", "cohort": 20, **START.get(name, {})}
    return RatingConfig(**{**settings, **CASES.get(name, (None, {}))[1], "model": name, **changes})


def federated(trained: RatingModel) -> FCFLearner:
    """The learner of a trained FCF or FedMF."""
    learner = trained.learner_
    assert isinstance(learner, FCFLearner)
    return learner


def model(name: str, **changes: Any) -> RatingModel:
    """The untrained model of a case."""
    cls = CASES[name][0] if name in CASES else Biases
    return cls(config(name, **changes))


@cache
def low_rank() -> Ratings:
    """Half of the pairs rated: mean + biases + two factors + a little noise; a fifth is tested on.

    The last user has no rating, and all ratings of the last item are in the test part.
    """
    rng = np.random.default_rng(7)
    of_users, of_items = rng.normal(size=(USERS, 2)), rng.normal(size=(ITEMS, 2))
    biases = 0.4 * rng.normal(size=USERS)[:, np.newaxis] + 0.4 * rng.normal(size=ITEMS)
    noise = 0.2 * rng.normal(size=(USERS, ITEMS))
    table = np.clip(3.5 + biases + 0.7 * of_users @ of_items.T + noise, 0.5, 6.5)
    rated = rng.random((USERS, ITEMS)) < 0.5
    rated[COLD_USER] = False
    users, items = np.nonzero(rated)
    test = (rng.random(users.size) < 0.2) | (items == COLD_ITEM)
    return Ratings(
        name="low-rank",
        triples=Triples(users.astype(np.int32), items.astype(np.int32), table[rated]),
        test=test,
        user_ids=tuple(f"u{user}" for user in range(USERS)),
        item_ids=tuple(f"i{item}" for item in range(ITEMS)),
        low=0.5,
        high=6.5,
    )


def graph(edges: list[tuple[int, int]]) -> Graph:
    """A graph by hand, edges as they stand."""
    source, target = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    return Graph(source, target)
