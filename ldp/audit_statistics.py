"""Exact confidence limits for a probability, and the lower bound on epsilon that follows from two.

Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
    the binomial" (Biometrika 26, 1934); the bound of Jagielski, Ullman and Oprea, "Auditing
    differentially private machine learning: how private is private SGD?" (NeurIPS 2020).
Model: independent reports, and an event that was fixed before they were looked at.
Error: a limit is wrong with probability at most ``error``, whatever the true probability. The
    inverse of the incomplete beta function is scipy's, right to about 1e-13.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.errors import MissingLibraryError, ParameterError

Floats = NDArray[np.float64]


def lower_limit(count: ArrayLike, n: int, error: float) -> Floats:
    """The p for which ``count`` of ``n`` or more would have probability ``error``; 0 for none.

    count: integers in [0, n], any shape.  Returns float64 of that shape.
    Raises ParameterError for other counts, and MissingLibraryError without scipy.
    """
    hits = _counts(count, n, error)
    found = _special().betaincinv(np.maximum(hits, 1), n - hits + 1, error)
    return np.where(hits == 0, 0.0, found)


def upper_limit(count: ArrayLike, n: int, error: float) -> Floats:
    """The p for which ``count`` of ``n`` or fewer would have probability ``error``; 1 for all."""
    hits = _counts(count, n, error)
    found = _special().betainccinv(hits + 1, np.maximum(n - hits, 1), error)
    return np.where(hits == n, 1.0, found)


def epsilon_bound(
    count: ArrayLike, other: ArrayLike, n: int, error: float, delta: float = 0.0
) -> Floats:
    """ln((p - delta) / q) from a lower limit p and an upper limit q; -inf where p <= delta.

    count, other: how often an event happened in ``n`` reports of one input and of another.
    error: of each limit, so the bound exceeds the true epsilon with probability at most 2 error.
    """
    likely = lower_limit(count, n, error) - delta
    rare = upper_limit(other, n, error)
    shown = np.full(np.broadcast_shapes(likely.shape, rare.shape), -np.inf)
    np.log(likely / rare, out=shown, where=np.broadcast_to(likely > 0, shown.shape))
    return shown


def largest_bound(n: int, error: float, delta: float = 0.0) -> float:
    """What ``epsilon_bound`` gives for an event that always happens, and never for the other."""
    return float(epsilon_bound(n, 0, n, error, delta))


def _counts(count: ArrayLike, n: int, error: float) -> Floats:
    hits = np.asarray(count)
    if hits.dtype.kind not in "iu" or (hits.size and not 0 <= hits.min() <= hits.max() <= n):
        raise ParameterError(f"a count of {n} reports must be an integer in [0, {n}]")
    if n < 1 or not 0 < error < 1 or not math.isfinite(error):
        raise ParameterError(f"a limit needs a report and an error in (0, 1), got {n}, {error!r}")
    return hits.astype(np.float64)


def _special() -> Any:
    """The functions that the limits are made of."""
    try:
        from scipy import special  # noqa: PLC0415 - takes longer to load than all of ldp
    except ImportError as error:
        raise MissingLibraryError(
            "an audit needs the package scipy", remedy="pip install 'privrec[recsys]'"
        ) from error
    return special
