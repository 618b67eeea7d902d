"""Subset selection: report a set of values of fixed size, likelier one that holds the own value.

Source: Ye and Barg, "Optimal schemes for discrete distribution estimation under locally
    differential privacy" (IEEE Transactions on Information Theory 64, 2018; arXiv:1702.00610);
    Wang, Huang, Wang, Nie, Xu, Yang, Li and Qiao, "Mutual information optimally local private
    discrete distribution estimation" (arXiv:1607.08025, 2016), the "k-subset mechanism". Size 1 is
    k-ary randomized response.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported.
Error: exact. The report holds the own value with probability keep / 2^64, on the safe side of the
    requested epsilon; given that it does, or does not, all sets of the size are equally likely
    (``complete`` says why). The estimate is unbiased.
Differs: the sets are drawn by coins that are then corrected, instead of one value after another;
    the law is the same. ``perturb`` draws fresh coins at each call: m reports about one value
    cost m * epsilon.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.bit_reports import checked_bits, checked_shape, column_sums, row_sums
from ldp.frequency import MAX_VALUES, Support, checked_reports, checked_values, smallest_dtype
from ldp.mechanism import Estimate, checked_epsilon
from ldp.thresholds import MIN_EPSILON, largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

# Reports are completed and checked so many bits at a time: larger pieces cost memory, smaller ones
# share the cost of a round among fewer reports.
_PIECE_BITS = 1 << 21


@dataclass(frozen=True)
class SubsetSelection:
    """Report ``size`` of ``k`` values, the own one among them with probability keep / 2^64.

    k: in [2, 2^32].  size: in [1, k / 2]; a larger one would only cost variance.
    keep: integer with size / k < keep / 2^64 < 1, so that the own value is the likeliest reported.
    """

    k: int
    size: int
    keep: int

    def __post_init__(self) -> None:
        k = integer("k", self.k, 2, MAX_VALUES)
        size = integer("size", self.size, 1, k // 2)
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "size", size)
        low = ONE * size // k + 1
        object.__setattr__(self, "keep", integer("keep", self.keep, low, ONE - 1))

    @classmethod
    def from_epsilon(cls, k: int, epsilon: float, size: int | None = None) -> "SubsetSelection":
        """The most truthful reports of this size whose privacy loss is at most ``epsilon``.

        They have the largest keep with keep (k - size) / ((2^64 - keep) size) <= e^epsilon.
        epsilon: in nats, finite, at least 2^-60; the loss stays where keep is 2^64 - 1.
        size: by default the best for values that few users hold, within a few of the sources'
        k / (e^epsilon + 1).
        Raises ParameterError for anything else, and where no coin of 64 bits is truthful enough to
        tell k values apart at so small an epsilon.
        """
        k = integer("k", k, 2, MAX_VALUES)
        size = default_size(k, epsilon) if size is None else integer("size", size, 1, k // 2)
        keep = largest_threshold(epsilon, Fraction(k - size, size))
        if keep * k <= ONE * size:
            raise ParameterError(
                f"no coin in steps of 2^-64 tells {k} values apart at epsilon {epsilon!r}",
                remedy="ask for a larger epsilon, or a smaller domain",
            )
        return cls(k, size, keep)

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below the exact one."""
        return loss(Fraction(self.keep * (self.k - self.size), (ONE - self.keep) * self.size))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user, with its whole report."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: k, or fewer where a list of the values is shorter."""
        return min(self.k, self.size * self._index_bits)

    @property
    def _index_bits(self) -> int:
        return (self.k - 1).bit_length()

    @property
    def _as_lists(self) -> bool:
        return self.size * self._index_bits < self.k

    @cached_property
    def support(self) -> Support:
        """A report supports the values that it holds."""
        p = Fraction(self.keep, ONE)
        return Support(p, (self.size - p) / (self.k - 1))

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        """Randomize each entry of ``x`` with coins of its own.

        x: integers in [0, k), shape (n,).  Returns bool (n, k), ``size`` ones in each row.  Raises
        ParameterError for anything else, naming the first entry at fault.
        """
        values = checked_values(x, self.k).astype(smallest_dtype(self.k))
        share = first_share(self.k, self.size)
        out = rng.bernoulli(share << 56, (values.size, self.k))
        step = max(1, _PIECE_BITS // self.k)
        for start in range(0, values.size, step):
            rows = slice(start, start + step)
            complete(values[rows], self.size, self.keep, out[rows], rng)
        return out

    def estimate(self, reports: NDArray[np.bool_]) -> Estimate:
        """Unbiased number of users who hold each value, float64 (k,); may be negative.

        reports: bool (n, k), n at least 1, ``size`` ones in each row.
        """
        bits = checked_bits(reports, self.k)
        n = checked_reports(len(bits))
        self._check_sizes(bits, ParameterError)
        return self.support.estimate(column_sums(bits), n)

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""
        return self.support.variance_of(count, n)

    def pack(self, reports: NDArray[np.bool_]) -> bytes:
        """Reports, bool (n, k) with ``size`` ones in each row, in ``report_bits`` bits each.

        The shorter of two forms, the same for all reports of a mechanism: a row's k bits, or the
        rising list of its values in as many bits as k - 1 has.
        """
        bits = checked_bits(reports, self.k)
        self._check_sizes(bits, ParameterError)
        if not self._as_lists:
            return packed.pack(bits)
        values = np.flatnonzero(bits) % self.k
        return packed.pack_words(values.astype(np.uint64), self._index_bits)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.bool_]:
        """Inverse of ``pack`` for a known shape (n, k).

        Raises WireError for bytes that are no such reports, ParameterError for another shape.
        """
        n, k = checked_shape(shape, self.k)
        if not self._as_lists:
            bits = packed.unpack(data, (n, k))
            self._check_sizes(bits, WireError)
            return bits
        values = packed.unpack_words(data, (n, self.size), self._index_bits)
        wrong = (values[:, -1] >= k) | np.any(values[:, 1:] <= values[:, :-1], axis=1)
        if wrong.any():
            raise WireError(f"report {int(np.argmax(wrong))} is no rising list of values below {k}")
        bits = np.zeros((n, k), dtype=np.bool_)
        np.put_along_axis(bits, values.astype(np.intp), True, axis=1)
        return bits

    def _check_sizes(
        self, bits: NDArray[np.bool_], error: type[ParameterError] | type[WireError]
    ) -> None:
        step = max(1, _PIECE_BITS // self.k)
        for start in range(0, len(bits), step):
            wrong = np.flatnonzero(row_sums(bits[start : start + step]) != self.size)
            if wrong.size:
                raise error(f"report {start + int(wrong[0])} does not hold {self.size} values")


def default_size(k: int, epsilon: float) -> int:
    """The size with the least variance for a value that nobody holds, in [1, k / 2].

    The search starts at the sources' k / (e^epsilon + 1), rounded, which is at most a few steps
    away. In floating point, since it decides no privacy: ``keep`` fits whatever size comes out.
    """
    odds = math.exp(-checked_epsilon(epsilon, MIN_EPSILON))  # e^epsilon itself could overflow

    def variance(size: int) -> float:
        share = size + (k - size) * odds
        p, q = size / share, (size - size / share) / (k - 1)
        return q * (1 - q) / (p - q) ** 2 if p > q else math.inf

    size = min(max(1, round(k * odds / (1 + odds))), k // 2)
    while size > 1 and variance(size - 1) <= variance(size):
        size -= 1
    while size < k // 2 and variance(size + 1) < variance(size):
        size += 1
    return size


def first_share(k: int, size: int) -> int:
    """How many of 256 bits begin as ones: an integer in [0, 128].

    Any number would give the same law. This one leaves nearly all reports a little short of
    ``size``, and few of them much.
    """
    spread = 2 * math.sqrt(size * (k - size) / k)  # about two standard deviations of a row's sum
    return max(0, math.floor(256 * (size - spread) / k))


def complete(
    own: NDArray[np.unsignedinteger[Any]],
    size: int,
    keep: int,
    out: NDArray[np.bool_],
    rng: Rng,
) -> None:
    """Turn each row of coins into a set of ``size`` values, as subset selection draws it.

    own: unsigned values below k, (n,).  out: independent coins of any one probability, bool (n, k),
    C-contiguous; overwritten.
    The own bit of a row is drawn with probability keep / 2^64. A row that then has more than
    ``size`` ones is cleared but for the own bit. As long as m ones are missing, m uniform places
    other than the own are set, some of them in vain.
    Why the law is right: the own bit is a coin of its own and never changes afterwards. Nothing
    here prefers one of the other places to another, so that renaming them leaves the law of the
    row as it is: given the own bit, all sets of the size are equally likely.
    """
    k = out.shape[1]
    rows = np.arange(len(out))
    told = rng.bernoulli(keep, len(out))
    out[rows, own] = told
    missing = size - row_sums(out)
    beyond = np.flatnonzero(missing < 0)
    out[beyond] = False
    out[beyond, own[beyond]] = told[beyond]
    missing[beyond] = size - told[beyond]
    flat = out.reshape(-1)
    while (short := np.flatnonzero(missing)).size:
        rows, missing = rows[short], missing[short]
        places = rng.uniform(k - 1, int(missing.sum()), own.dtype)
        places += places >= np.repeat(own[rows], missing)  # the own place is skipped
        flat[np.repeat(rows * k, missing) + places] = True
        missing = size - row_sums(out[rows])
