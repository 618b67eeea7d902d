"""Users and items as rows of factors, and their fit to ratings by ridge regression.

A row has d factors and, last, a bias. A rating is the mean, plus the bias of the user, plus that of
the item, plus the product of their factors.

Source: Koren, Bell and Volinsky, "Matrix factorization techniques for recommender systems"
    (Computer 42(8), 2009): equations 4 and 5, and alternating least squares.
Model: plaintext arithmetic, done by whoever holds the ratings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mpc.core.errors import ParameterError
from recsys.data.ratings import Floats, Indices, Triples
from recsys.ratings.config import RatingConfig
from recsys.simulation import SimulationRng

_MOST_ENTRIES = 1 << 22
"""Entries of Gram matrices that are held at once: 32 MiB."""


@dataclass(frozen=True)
class FactorScorer:
    """Scores by ``mean`` (1,), ``users`` and ``items``, both (., d + 1); unknown rows are zero."""

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """None: everything is learned."""
        return {}

    def score(self, arrays: Mapping[str, Floats], users: Indices, items: Indices) -> Floats:
        """See ``RatingScorer.score``."""
        p = np.where((users >= 0)[:, np.newaxis], arrays["users"][users], 0.0)
        q = np.where((items >= 0)[:, np.newaxis], arrays["items"][items], 0.0)
        rated: Floats = arrays["mean"][0] + predicted(p, q)
        return rated


def predicted(p: Floats, q: Floats) -> Floats:
    """Ratings less their mean, by rows of users and of items, both (n, d + 1): float64 (n,)."""
    product: Floats = np.einsum("nd,nd->n", p[:, :-1], q[:, :-1])
    return product + p[:, -1] + q[:, -1]


def centre(train: Triples, center: bool) -> Floats:
    """The mean rating, or 0 where ratings are learned as they are: float64 (1,)."""
    return np.array([train.values.mean() if center else 0.0])


def first_rows(
    purpose: str, rated: Indices, size: int, dim: int, scale: float, sim: SimulationRng
) -> Floats:
    """Rows at the start, (size, dim + 1): normal factors of deviation ``scale``, biases of 0.

    rated: the rows that occur in training, in any order and number. All others are zero, which
    stands for the mean: nothing is known of them.
    """
    rows = np.zeros((size, dim + 1))
    known = np.zeros(size, dtype=np.bool_)
    known[rated] = True
    normal = scale * sim.generator(purpose).standard_normal((size, dim))
    rows[known, :dim] = normal[known]
    return rows


def ridge_penalty(config: RatingConfig, own: float) -> float:
    """The penalty of the configuration, ``own`` if it has none; ParameterError for 0."""
    penalty = own if config.penalty is None else float(config.penalty)
    if not penalty:
        raise ParameterError(
            f"penalty must be positive for {config.model}, got 0: who rated fewer items than rows "
            "have entries is not determined without one"
        )
    return penalty


def rating_matrix(train: Triples, n_users: int, n_items: int) -> "csr_array[np.float64]":
    """The ratings as a sparse matrix, (n_users, n_items), columns rising in each row."""
    # Made from its parts, so that a rating of 0 stays an entry.
    starts = train.starts(n_users)
    return csr_array((train.values, train.items, starts), shape=(n_users, n_items))


def ridge(
    ratings: "csr_array[np.float64]", others: Floats, penalty: float, *, bias: bool = True
) -> Floats:
    """The rows that fit ``ratings`` best, each by itself: (n, d + 1).

    Row r minimises the sum over its ratings of (rating - predicted)^2, plus penalty * |row|^2.

    ratings: (n, m), less their mean; a row without any gets zeros.  others: the rows of the m
    columns, (m, d + 1).  penalty: positive.  bias: False leaves all biases 0.
    """
    width = others.shape[1]
    rows = np.zeros((ratings.shape[0], width))
    step = max(1, _MOST_ENTRIES // width**2)
    for start in range(0, rows.shape[0], step):
        part = ratings[start : start + step]
        grams, right = normal_equations(part, others, bias=bias)
        grams[:, np.arange(width), np.arange(width)] += penalty
        rows[start : start + step] = solve(grams, right)
    return rows


def normal_equations(
    ratings: "csr_array[np.float64]", others: Floats, *, bias: bool = True
) -> tuple[Floats, Floats]:
    """Gram matrices (n, d + 1, d + 1) and right sides (n, d + 1) of ``ridge``, without penalty."""
    width = others.shape[1]
    features = others.copy()
    features[:, -1] = float(bias)
    values = ratings.data - others[ratings.indices, -1]
    right = csr_array((values, ratings.indices, ratings.indptr), shape=ratings.shape) @ features
    # The sum of outer products over a row's ratings is one sparse product for all rows at once.
    first, second = np.triu_indices(width)
    ones = np.ones_like(ratings.data)
    pattern = csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
    upper = pattern @ (features[:, first] * features[:, second])
    grams = np.empty((right.shape[0], width, width))
    grams[:, first, second] = upper
    grams[:, second, first] = upper
    return grams, np.asarray(right)


def solve(matrices: Floats, right: Floats) -> Floats:
    """The solutions (n, w) of n systems (n, w, w) with right sides (n, w)."""
    solution = np.linalg.solve(matrices, right[..., np.newaxis])[..., 0]
    return solution.astype(np.float64, copy=False)
