"""Decentralized matrix factorization: the pairs that a user holds vectors for, and their scores.

Source: Chen, Liu, Zhao, Zhou, Li, "Privacy Preserving Point-of-Interest Recommendation Using
    Decentralized Matrix Factorization" (AAAI 2018, arXiv 2003.05610).
    score = u_i . (p_j^i + q_j^i) for user i and POI j, with her factors u_i, her copy p_j^i of the
    POI's global factors and her own local factors q_j^i.
Error: floating point only.

A user who never trained on a POI, and was never sent a gradient of it, still has what she began
with: p_j^i is the POI's public starting vector and q_j^i is zero. Only other pairs take memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.models.mf import product

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]


def pair_keys(users: NDArray[np.int32], pois: NDArray[np.int32], n_pois: int) -> Keys:
    """``user * n_pois + poi`` for index arrays that broadcast against each other."""
    keys: Keys = users.astype(np.int64) * n_pois + pois
    return keys


def look_up(table: Keys, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The row of each key in a sorted table, and whether it is there; row 0 where it is not."""
    if not table.size:
        return np.zeros(keys.shape, dtype=np.intp), np.zeros(keys.shape, dtype=np.bool_)
    rows = np.minimum(np.searchsorted(table, keys), table.size - 1)
    found = table[rows] == keys
    return np.where(found, rows, 0), found


@dataclass(frozen=True)
class NeighbourScorer:
    """Arrays ``user_factors``, ``global_factors``, ``local_factors`` and ``poi_start``.

    touched: sorted keys of the pairs whose p_j^i ever changes, a row of ``global_factors`` each.
    own: those whose q_j^i does, the user's training pairs, a row of ``local_factors`` each.
    An unknown user and an unknown POI have a score of 0, as likely as not: nobody holds factors
    of them.  Raises ParameterError for tables that are not sorted keys.
    """

    touched: Keys
    own: Keys

    def __post_init__(self) -> None:
        for name, table in self.tables.items():
            if table.dtype != np.int64 or table.ndim != 1 or (np.diff(table) <= 0).any():
                raise ParameterError(
                    f"table {name} must hold int64 keys in rising order, got {table.dtype} of "
                    f"shape {table.shape}"
                )

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """Which pairs have rows; users hold them, for they tell where a user was."""
        return {"touched": self.touched, "own": self.own}

    def score(
        self, arrays: Mapping[str, Floats], users: NDArray[np.int32], pois: NDArray[np.int32]
    ) -> Floats:
        """The logit of a visit for index pairs, users and pois int32 (n,): float64 (n,)."""
        item = arrays["poi_start"][pois]
        keys = pair_keys(users, pois, arrays["poi_start"].shape[0])
        rows, found = look_up(self.touched, keys)
        item[found] = arrays["global_factors"][rows[found]]
        rows, found = look_up(self.own, keys)
        item[found] += arrays["local_factors"][rows[found]]
        scores = product(arrays["user_factors"][users], item)
        return np.where((users >= 0) & (pois >= 0), scores, 0.0)
