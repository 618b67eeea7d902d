"""dBitFlip: a user is asked about d of the k buckets, and answers each with a randomized bit.

Source: Ding, Kulkarni and Yekhanin, "Collecting telemetry data privately" (NIPS 2017).
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, the buckets that were asked, which are drawn without a look at the value,
    and that the user reported.
Error: probabilities are exact multiples of 2^-64, on the safe side of the requested epsilon, and
    every set of d buckets is equally likely. The estimate is unbiased; ``variance_of`` is exact.
Differs: the paper spends epsilon / 2 on each bit, since a value and another one may both be asked.
    With d = 1 only one bit depends on the value, and it takes all of epsilon.

Repeated collection: in the paper a user draws her buckets once and keeps them, with one report for
each value that she ever had. ``ask`` and ``perturb_asked`` are the two halves of ``perturb`` for
that purpose. Fresh buckets would show more of the value each time, and so would fresh coins: m
calls of ``perturb``, or of ``perturb_asked``, about one value cost m * epsilon.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.frequency import MAX_VALUES, checked_reports, checked_values, smallest_dtype
from ldp.mechanism import Estimate
from ldp.thresholds import largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

Words = NDArray[np.unsignedinteger[Any]]

# Up to here a new bucket is compared with each earlier one; beyond it a table of k flags is faster.
_COMPARED = 64

# Many short steps on one piece: larger pieces share the cost of a step, up to what caches hold.
_ENTRIES = 1 << 20
_FLAGS = 1 << 22


@dataclass(frozen=True)
class DBitFlip:
    """Say of each of d buckets whether it is one's own, truly with probability keep / 2^64.

    k: number of buckets, in [2, 2^32].  d: in [1, k].  keep: in (2^63, 2^64).  With d = k every
    bucket is asked, which is symmetric unary encoding.

    A report is a record with the fields ``asked``, d buckets in ascending order, and ``bits``, d
    bools. So a bucket has one of three answers: not asked, no, yes.
    """

    k: int
    d: int
    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 2, MAX_VALUES))
        object.__setattr__(self, "d", integer("d", self.d, 1, self.k))
        object.__setattr__(self, "keep", integer("keep", self.keep, ONE // 2 + 1, ONE - 1))

    @classmethod
    def from_epsilon(cls, k: int, epsilon: float, d: int) -> "DBitFlip":
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60.  d: a report has d bits; from
        d = 2 on the variance falls as 1 / d, and a single bit may spend all of epsilon.
        Raises ParameterError for anything else.
        """
        k = integer("k", k, 2, MAX_VALUES)
        d = integer("d", d, 1, k)
        return cls(k, d, largest_threshold(epsilon, power=min(d, 2)))

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below that of the code."""
        # Two values differ in the bits of their own two buckets, where those are asked.
        return loss(Fraction(self.keep, ONE - self.keep) ** min(self.d, 2))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: the value of one user."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: d answers, each with its bucket unless all are asked."""
        return self.d * self._entry_bits

    @property
    def _entry_bits(self) -> int:
        return 1 if self.d == self.k else (self.k - 1).bit_length() + 1

    @property
    def _bucket(self) -> np.dtype[np.unsignedinteger[Any]]:
        return smallest_dtype(self.k)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The dtype of a report: ``asked``, unsigned (d,), and ``bits``, bool (d,)."""
        return np.dtype([("asked", self._bucket, (self.d,)), ("bits", np.bool_, (self.d,))])

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.void]:
        """Randomize each value of ``x``, integers in [0, k) of shape (n,): fresh buckets and coins.

        Returns n records of ``dtype``.
        """
        values = checked_values(x, self.k)
        out = np.empty(values.size, dtype=self.dtype)
        step = self._rows
        for start in range(0, values.size, step):
            piece = slice(start, min(start + step, values.size))
            self._answer(values[piece], self._ask(piece.stop - start, rng), rng, out[piece])
        return out

    def ask(self, n: int, *, rng: Rng = SYSTEM_RNG) -> Words:
        """The buckets of n users, shape (n, d), ascending: each set of d is equally likely."""
        n = integer("n", n, 0, 2**53 - 1)
        out = np.empty((n, self.d), dtype=self._bucket)
        step = self._rows
        for start in range(0, n, step):
            out[start : start + step] = self._ask(min(step, n - start), rng)
        return out

    def perturb_asked(
        self, x: NDArray[np.integer[Any]], asked: Words, *, rng: Rng = SYSTEM_RNG
    ) -> NDArray[np.void]:
        """``perturb`` with given buckets, as ``ask`` draws them: unsigned (n, d).

        They must not depend on ``x``. Returns n records of ``dtype``.
        """
        values = checked_values(x, self.k)
        buckets = np.asarray(asked)
        if buckets.dtype.kind != "u" or buckets.shape != (values.size, self.d):
            raise ParameterError(
                f"asked must be unsigned of shape {(values.size, self.d)}, got {buckets.dtype} "
                f"{buckets.shape}"
            )
        self._check_buckets(buckets)
        out = np.empty(values.size, dtype=self.dtype)
        step = self._rows
        for start in range(0, values.size, step):
            piece = slice(start, start + step)
            self._answer(values[piece], buckets[piece], rng, out[piece])
        return out

    def _answer(
        self, x: NDArray[np.integer[Any]], asked: Words, rng: Rng, out: NDArray[np.void]
    ) -> None:
        truthful = rng.bernoulli(self.keep, asked.shape)
        out["asked"] = asked
        out["bits"] = (asked == x.astype(self._bucket)[:, np.newaxis]) == truthful

    @property
    def _rows(self) -> int:
        return max(1, min(PIECE_BYTES, _ENTRIES // self.d))

    def _ask(self, n: int, rng: Rng) -> Words:
        if self.d == self.k:
            return np.broadcast_to(np.arange(self.k, dtype=self._bucket), (n, self.k))
        return (self._drawn_in_order if self.d <= _COMPARED else self._drawn_by_flags)(n, rng)

    def _drawn_in_order(self, n: int, rng: Rng) -> Words:
        """One bucket after the other, uniform among those that are left."""
        columns = np.empty((self.d, n), dtype=self._bucket)
        for i in range(self.d):
            new: Words = rng.uniform(self.k - i, n, self._bucket)
            for column in columns[:i]:
                # In ascending order a step over each bucket that is taken leads from the rank of
                # the new one among the free buckets to itself; then it is put in its place.
                new += new >= column
                lower = np.minimum(column, new)
                np.maximum(column, new, out=new)
                column[...] = lower
            columns[i] = new
        return columns.T

    def _drawn_by_flags(self, n: int, rng: Rng) -> Words:
        """Floyd's draw of a set (Bentley and Floyd, CACM 1987), or of those that are left out."""
        out = np.empty((n, self.d), dtype=self._bucket)
        fewer = min(self.d, self.k - self.d)
        step = max(1, _FLAGS // self.k)
        for start in range(0, n, step):
            rows = np.arange(min(step, n - start))
            flags = np.zeros((rows.size, self.k), dtype=np.bool_)
            for top in range(self.k - fewer, self.k):
                new = rng.uniform(top + 1, rows.size, self._bucket)
                # A bucket that is in the set already stands for the one that is first possible now.
                flags[rows, np.where(flags[rows, new], top, new)] = True
            if fewer < self.d:
                np.logical_not(flags, out=flags)
            out[start : start + step] = np.nonzero(flags)[1].reshape(-1, self.d)
        return out

    def estimate(self, reports: NDArray[np.void]) -> Estimate:
        """Unbiased number of users in each bucket, float64 (k,); may be negative.

        reports: records of ``dtype``, shape (n,), n at least 1.
        """
        told = self._checked(reports)
        n = checked_reports(told.size)
        no, yes = self._answers(told)
        # The paper's sum of (bit - q) / (p - q) over the answers, with q = 1 - p. Written around a
        # half, its numerator is an exact integer.
        sums = ((yes - no) / (self._gap / ONE) + (yes + no)) / 2
        value = sums * (self.k / self.d)
        return Estimate(
            value=value,
            variance=self.variance_of(np.clip(value, 0, n), n),
            worst=np.full(self.k, self._holder * n),
            n=n,
        )

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a bucket that ``count`` of ``n`` users hold."""
        holders = np.asarray(count, dtype=np.float64)
        return np.asarray(holders * self._holder + (n - holders) * self._other)

    # A user adds (k / d) z with z = (bit - q) / (p - q) to a bucket that is asked, which it is with
    # probability d / k, and else nothing. Given that it is asked, E[z^2] is v = p q / (p - q)^2 for
    # a stranger, where z has mean 0, and v + 1 for a holder, where it has mean 1.

    @property
    def _gap(self) -> int:
        return 2 * self.keep - ONE

    @property
    def _coin(self) -> Fraction:
        return Fraction(self.keep * (ONE - self.keep), self._gap**2)

    @cached_property
    def _holder(self) -> float:
        return float(Fraction(self.k, self.d) * (self._coin + 1) - 1)

    @cached_property
    def _other(self) -> float:
        return float(Fraction(self.k, self.d) * self._coin)

    def _answers(self, told: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each bucket was answered with no and with yes."""
        counts = np.zeros(2 * self.k, dtype=np.int64)
        step = max(PIECE_BYTES, 2 * self.k) // self.d + 1
        for start in range(0, told.size, step):
            piece = told[start : start + step]
            entries = 2 * piece["asked"].astype(np.intp) + piece["bits"]
            counts += np.bincount(entries.reshape(-1), minlength=counts.size)
        return counts[0::2], counts[1::2]

    def pack(self, reports: NDArray[np.void]) -> bytes:
        """Reports, shape (n,): of each bucket asked the number, unless all are, and the bit."""
        told = self._checked(reports)
        if self.d == self.k:
            return packed.pack(np.ascontiguousarray(told["bits"]))
        entries = 2 * told["asked"].astype(np.uint64) + told["bits"]
        return packed.pack_words(entries, self._entry_bits)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.void]:
        """Inverse of ``pack`` for a known shape, n or (n,).

        Raises WireError for bytes that are not the encoding of n reports.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(sizes) != 1:
            raise ParameterError(f"reports have one axis, got shape {sizes}")
        entries = packed.unpack_words(data, (*sizes, self.d), self._entry_bits)
        out = np.empty(sizes, dtype=self.dtype)
        out["bits"] = entries & 1
        if self.d == self.k:
            out["asked"] = np.arange(self.k)
            return out
        asked = entries >> np.uint64(1)
        try:
            self._check_buckets(asked)
        except ParameterError as error:
            raise WireError(error.message) from None
        out["asked"] = asked
        return out

    def _checked(self, reports: NDArray[np.void]) -> NDArray[np.void]:
        told = np.asarray(reports)
        if told.dtype != self.dtype or told.ndim != 1:
            raise ParameterError(
                f"reports must be records of {self.dtype} on one axis, got {told.dtype} "
                f"{told.shape}",
                remedy="take them from perturb or unpack of the same mechanism",
            )
        self._check_buckets(told["asked"])
        return told

    def _check_buckets(self, asked: Words) -> None:
        if asked.size and not int(asked[..., -1].max()) < self.k:
            raise ParameterError(f"the buckets of a report must lie in [0, {self.k})")
        if not np.all(asked[..., 1:] > asked[..., :-1]):
            raise ParameterError("the buckets of a report must be distinct and ascending")
