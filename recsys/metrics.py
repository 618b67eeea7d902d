"""Accuracy of a ranking, and the digest that names a model.

Source: Fawcett, "An introduction to ROC analysis" (2006); scikit-learn's ``roc_auc_score``.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
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
    order = np.argsort(users, kind="stable")
    bounds = np.flatnonzero(np.diff(users[order])) + 1
    areas = []
    for part in np.split(order, bounds):
        positive = labels[part] > 0
        ones = int(positive.sum())
        zeros = part.size - ones
        if ones and zeros:
            ranks = rankdata(scores[part])
            areas.append((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))
    return float(np.mean(areas)) if areas else None


def model_digest(arrays: dict[str, NDArray[np.float64]]) -> str:
    """SHA-256 over names, shapes and little-endian bytes of the model arrays, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f8")
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
