"""Accuracy of a ranking, and the digest that names a model.

Source: Fawcett, "An introduction to ROC analysis" (2006); scikit-learn's ``roc_auc_score``.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

Floats = NDArray[np.float64]


def pooled_auc(labels: NDArray[np.int8], scores: Floats) -> float | None:
    """Area under the curve over all pairs together; None unless both labels occur."""
    if np.unique(labels).size < 2:
        return None
    return float(roc_auc_score(labels, scores))


def user_auc(users: NDArray[np.int32], labels: NDArray[np.int8], scores: Floats) -> float | None:
    """Mean of the users' own AUCs, over users who have both labels; None if there is none.

    By the rank sum of each user's positives (Mann-Whitney), ties counted as one half.
    """
    if not users.size:
        return None
    order = np.lexsort((scores, users))
    user, score, positive = users[order], scores[order], labels[order] > 0
    first = np.append(True, user[1:] != user[:-1])
    # Runs of equal (user, score) share the mean of the ranks that they take up.
    runs = np.flatnonzero(first | np.append(True, score[1:] != score[:-1]))
    sizes = np.diff(runs, append=user.size)
    rank = np.repeat(runs + (sizes + 1) / 2, sizes)
    index = np.cumsum(first) - 1
    rank -= np.flatnonzero(first)[index]  # from 1 for each user
    ones = np.bincount(index, weights=positive)
    zeros = np.bincount(index) - ones
    surplus = np.bincount(index, weights=rank * positive) - ones * (ones + 1) / 2
    both = (ones > 0) & (zeros > 0)
    return float(np.mean(surplus[both] / (ones * zeros)[both])) if both.any() else None


def model_digest(arrays: dict[str, NDArray[np.float64]]) -> str:
    """SHA-256 over names, shapes and little-endian bytes of the model arrays, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
