"""Edge weights of the user network: the S_if of PriRec's Eq. 8, by name.

Source: PriRec (Chen et al., 2020), section 3.4; Yuan, Ling, Yin, "On the convergence of
    decentralized gradient descent" (2016) for why rows must sum to one.
Differs: the paper sets S_if = 1 for every neighbour. That matrix has spectral radius N, so the
    linear models grow N-fold with each mix and diverge; it is the weight ``literal`` here, on
    request only. The default keeps half of the own model and spreads the rest evenly.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError

WEIGHTS = ("half", "mean", "neighbours", "inverse", "exponential", "literal")
BY_DISTANCE = ("inverse", "exponential")
"""Those of ``WEIGHTS`` that need to know how far away a neighbour lives."""


@dataclass(frozen=True)
class UserNetwork:
    """Who mixes with whom. It is public: senders need the weights before they encode.

    neighbours: int32 (users, N), user indices.  weights: float64 (users, N).
    own: float64 (users,), the weight of the own model, which never leaves the device.
    """

    neighbours: NDArray[np.int32]
    weights: NDArray[np.float64]
    own: NDArray[np.float64]

    @property
    def size(self) -> int:
        """N, the number of neighbours of every user."""
        return int(self.neighbours.shape[1])

    @property
    def amplifies(self) -> bool:
        """Whether a mix can make weights larger than any that went in: a row sums to above one."""
        return bool((self.weights.sum(axis=1) + self.own > 1 + 1e-9).any())


def weigh(
    neighbours: NDArray[np.int32],
    distances_km: NDArray[np.float64],
    kind: str = "half",
    own_weight: float = 0.5,
) -> UserNetwork:
    """Give each edge its weight; each row sums to one, with the own weight, but for ``literal``.

    neighbours: int32 (users, N).  distances_km: float64 (users, N), finite, at least 0; two users
    may share a home.  own_weight: in [0, 1], of the kinds that say so.
    kind: ``half`` (``own_weight`` for oneself, the rest evenly over the neighbours), ``mean``
    (evenly over oneself and the neighbours), ``neighbours`` (evenly, nothing for oneself),
    ``inverse`` and ``exponential`` (as ``half``, the rest by 1 / (1 + km) or by exp(-km / scale)
    with scale the median distance), ``literal`` (the paper's S_if = 1, which diverges).
    Without neighbours every user keeps her own model.
    Raises ParameterError for anything else.
    """
    if kind not in WEIGHTS:
        raise ParameterError(
            f"weights must be one of {', '.join(WEIGHTS)}, got {kind!r}",
            remedy="'half' is the default",
        )
    if not 0.0 <= own_weight <= 1.0:
        raise ParameterError(f"own_weight must lie in [0, 1], got {own_weight}")
    # Stated as what is allowed, so that NaN falls out too.
    near = np.all((distances_km >= 0) & (distances_km < np.inf))
    if distances_km.shape != neighbours.shape or not near:
        raise ParameterError(
            f"distances_km must be finite, at least 0 and of shape {neighbours.shape}, got shape "
            f"{distances_km.shape}"
        )
    users, size = neighbours.shape
    if size == 0:
        return UserNetwork(neighbours, np.zeros((users, 0)), np.ones(users))
    own = {"mean": 1.0 / (size + 1), "neighbours": 0.0, "literal": 0.0}.get(kind, own_weight)
    weights = np.ones((users, size)) if kind == "literal" else _spread(distances_km, kind, 1 - own)
    return UserNetwork(neighbours, weights, np.full(users, own))


def _spread(distances: NDArray[np.float64], kind: str, total: float) -> NDArray[np.float64]:
    raw = np.ones_like(distances)
    if kind == "inverse":
        raw = 1.0 / (1.0 + distances)
    elif kind == "exponential":
        # The nearest neighbour is the reference, so that far rows do not underflow to nothing.
        scale = max(float(np.median(distances)), 1e-9)
        raw = np.exp((distances.min(axis=1, keepdims=True) - distances) / scale)
    spread: NDArray[np.float64] = total * raw / raw.sum(axis=1, keepdims=True)
    return spread
