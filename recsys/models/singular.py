"""Rows of factors from the largest singular vectors of a sparse matrix.

Source: Halko, Martinsson and Tropp, "Finding structure with randomness" (SIAM Review 53(2), 2011),
    algorithms 4.4 and 5.1: orthogonal iteration from random vectors.
Error: what 15 iterations with ten vectors to spare leave; the vectors of singular values that lie
    close together may be mixed with each other.
"""

import numpy as np
import torch
from scipy.sparse import csr_array

from recsys.data.ratings import Floats
from recsys.simulation import SimulationRng

_SPARE = 10
_SWEEPS = 15


def singular_rows(
    matrix: "csr_array[np.float64]", rank: int, sim: SimulationRng
) -> tuple[Floats, Floats]:
    """Rows (n, rank) and columns (m, rank) of ``matrix`` (n, m), whose products come near it.

    Each vector has the root of its singular value for its length; columns of zeros stand for those
    that are missing. The result depends on the number of threads that PyTorch computes on.
    """
    width = min(rank + _SPARE, *matrix.shape)
    right = torch.from_numpy(sim.generator("factors").standard_normal((matrix.shape[1], width)))
    for _ in range(_SWEEPS):
        right = torch.linalg.qr(torch.from_numpy(matrix.T @ (matrix @ right.numpy())))[0]
    left = torch.from_numpy(matrix @ right.numpy())
    u, s, vh = torch.linalg.svd(left, full_matrices=False)
    root = s[:rank].sqrt()
    rows, columns = u[:, :rank] * root, right @ vh.T[:, :rank] * root
    missing = ((0, 0), (0, max(0, rank - width)))
    return np.pad(rows.numpy(), missing), np.pad(columns.numpy(), missing)
