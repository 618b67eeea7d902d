"""Rows that fit ratings and are smooth along a graph: conjugate gradients for all rows at once.

Source: Rao, Yu, Ravikumar and Dhillon, "Collaborative filtering with graph information: consistency
    and scalable methods" (NIPS 2015). Preconditioned conjugate gradients: Golub and Van Loan,
    "Matrix computations" (4th edition, 2013), section 11.5.
Error: the residual is at most 1e-8 of the right side, or what 100 steps leave.
Differs: the Laplacian is the normalised one, so that who has many neighbours is not pulled harder
    than others. Gram matrices are formed, since they also make the preconditioner.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array

from recsys.data.ratings import Floats, Graph

_STEPS = 100
_TOLERANCE = 1e-8


def laplacian(graph: Graph, size: int) -> "csr_array[np.float64]":
    """I - D^(-1/2) A D^(-1/2), (size, size), with empty rows for who has no neighbour.

    Loops are left out, and an edge counts once however often it is listed.
    """
    proper = graph.source != graph.target
    ends = np.stack([graph.source[proper], graph.target[proper]])
    source, target = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1)
    degree = np.bincount(source, minlength=size)
    linked = np.flatnonzero(degree)
    weights = -1 / np.sqrt(degree[source] * degree[target])
    rows, columns = np.append(source, linked), np.append(target, linked)
    values = np.append(weights, np.ones(linked.size))
    return csr_array(coo_array((values, (rows, columns)), shape=(size, size)))


def smooth_ridge(
    grams: Floats, right: Floats, smooth: "csr_array[np.float64]", start: Floats
) -> Floats:
    """The rows x (n, w) with grams[r] x[r] + (smooth x)[r] = right[r] for every r.

    grams: (n, w, w), each symmetric and positive definite.  right: (n, w).
    smooth: (n, n), symmetric and positive semidefinite.  start: a first guess, (n, w).
    """

    def product(rows: Floats) -> Floats:
        tied: Floats = np.einsum("nij,nj->ni", grams, rows) + smooth @ rows
        return tied

    width = right.shape[1]
    own = grams.copy()
    own[:, np.arange(width), np.arange(width)] += smooth.diagonal()[:, np.newaxis]
    inverse = np.linalg.inv(own)
    x = start.copy()
    rest = right - product(x)
    direction, before = np.zeros_like(x), np.inf
    least = _TOLERANCE**2 * float((right * right).sum())
    for _ in range(_STEPS):
        if float((rest * rest).sum()) <= least:
            break
        preconditioned = np.einsum("nij,nj->ni", inverse, rest)
        now = float((rest * preconditioned).sum())
        direction = preconditioned + now / before * direction
        image = product(direction)
        step = now / float((direction * image).sum())
        x += step * direction
        rest -= step * image
        before = now
    return x
