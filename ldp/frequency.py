"""Frequency oracles: how often each of k values occurs, from one randomized report of each user.

All but dBitFlip are "pure" in the sense of the source: a report supports a set of values; it
supports the user's own value with probability p and any other with probability q. The estimate is
Eq. (1) of the source, and everything about its error follows from p and q.

Source: Wang, Blocki, Li and Jha, "Locally differentially private protocols for frequency
    estimation" (USENIX Security 2017), section 3, definition 1, Eq. (1) and theorem 2.
Error: the estimate is unbiased. Its variance, given the data, is
    (count p(1-p) + (n - count) q(1-q)) / (p-q)^2.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp.mechanism import Estimate, Mechanism
from mpc.core.checks import integer
from mpc.core.errors import ParameterError

MAX_VALUES = 1 << 32
"""Domains larger than this would not fit any estimate into memory."""


class FrequencyOracle(Mechanism, Protocol):
    """A mechanism on values 0..k-1 whose estimate is the count of each value, shape (k,)."""

    @property
    def k(self) -> int:
        """Number of values."""

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""


@dataclass(frozen=True)
class Support:
    """p and q of a pure oracle, exactly; p > q."""

    p: Fraction
    q: Fraction

    def estimate(self, supported: NDArray[np.integer[Any]], n: int) -> Estimate:
        """Eq. (1) from the number of reports, of ``n``, that support each value; any shape."""
        n = integer("n", n, 1, 2**53 - 1)
        counts = np.asarray(supported)
        # n q is split off exactly as far as doubles allow: what is left over is a small correction.
        whole = int(n * self.q)
        rest = float(n * self.q - whole)
        value = ((counts.astype(np.int64) - whole) - rest) / self._gap
        return Estimate(
            value=np.asarray(value, dtype=np.float64),
            variance=self.variance_of(np.clip(value, 0, n), n),
            worst=np.full(counts.shape, self._worst * n),
            n=n,
        )

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""
        holders = np.asarray(count, dtype=np.float64)
        return holders * self.holder + (n - holders) * self.other

    @cached_property
    def _gap(self) -> float:
        return float(self.p - self.q)

    @cached_property
    def holder(self) -> float:
        """Variance that the report of a user who holds the value adds to its estimate."""
        return float(self.p * (1 - self.p) / (self.p - self.q) ** 2)

    @cached_property
    def other(self) -> float:
        """Variance that the report of any other user adds."""
        return float(self.q * (1 - self.q) / (self.p - self.q) ** 2)

    @property
    def _worst(self) -> float:
        return max(self.holder, self.other)


def checked_values(x: NDArray[Any], k: int, name: str = "x") -> NDArray[np.integer[Any]]:
    """``x`` as a one-dimensional integer array of values in [0, k); ParameterError otherwise."""
    values = np.asarray(x)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise ParameterError(
            f"{name} must hold integers on one axis, a value for each user, got {values.dtype} "
            f"{values.shape}"
        )
    if values.size and not (int(values.min()) >= 0 and int(values.max()) < k):
        # The place alone: what stands there may be a secret.
        first = int(np.flatnonzero((values < 0) | (values >= k))[0])
        raise ParameterError(
            f"{name} must lie in [0, {k}), entry {first} does not",
            remedy="number the values from 0",
        )
    return values


def checked_reports(count: int) -> int:
    """The number of reports behind an estimate: at least one."""
    if not count:
        raise ParameterError("an estimate needs at least one report")
    return count


def smallest_dtype(bound: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned dtype that holds 0..bound-1."""
    return np.dtype(np.min_scalar_type(max(bound - 1, 0)))
