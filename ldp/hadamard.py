"""Hadamard response: a report of log2(k) bits that supports half of a block of values.

Source: Acharya, Sun and Zhang, "Hadamard response: estimating distributions privately, efficiently,
    and with little communication" (AISTATS 2019): one block is its scheme for high privacy, several
    are its scheme for general privacy.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported.
Error: probabilities are exact multiples of 2^-64 over a power of two, on the safe side of the
    requested epsilon. The estimate is unbiased; ``variance_of`` gives its variance.
Differs: values go to the blocks in turn, so that all are equally full; and the number of blocks is
    the one with the least squared error over the whole histogram, not the largest below e^epsilon.

The reports are split into B blocks of b = 2^m. Value x belongs to block x mod B and to row
j = 1 + x div B of the Hadamard matrix of order b, whose entry (j, z) is (-1)^(ones in j & z); C_x
holds the reports of its block where that entry is +1. C_x is told with probability p = keep / 2^64,
else one of the other 2B - 1 half blocks, uniformly; within a half, all reports are equally likely.
So the odds of two reports are at most p (2B - 1) / (1 - p). Rows are orthogonal and row 0 is not
used: the sum of the entries of row j over all reports of a block, divided by p - (1 - p)/(2B - 1),
counts the holders of x, and neither her neighbours in the block nor the others move its mean.
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
from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

Words = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class HadamardResponse:
    """Tell the half block of a value with probability keep / 2^64, else one of the others.

    k: number of values, in [2, 2^32].  keep: in (2^64 / (2 blocks), 2^64).
    blocks: a power of two below 2 k. One block bounds the error of every value, whatever the data;
    more of them lower the sum of the squared errors where epsilon is large.
    """

    k: int
    keep: int
    blocks: int = 1

    def __post_init__(self) -> None:
        k = integer("k", self.k, 2, MAX_VALUES)
        blocks = integer("blocks", self.blocks, 1, 2 * k - 1)
        if blocks & (blocks - 1):
            raise ParameterError(
                f"blocks must be a power of two, got {blocks}",
                remedy="leave it out, and the best number is taken",
            )
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "blocks", blocks)
        # At the lower end each half block would be told equally often, at the upper end only one.
        keep = integer("keep", self.keep, ONE // (2 * blocks) + 1, ONE - 1)
        object.__setattr__(self, "keep", keep)

    @classmethod
    def from_epsilon(cls, k: int, epsilon: float, blocks: int | None = None) -> "HadamardResponse":
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60.  blocks: by default the number for which the variances of
        the k estimates have the least sum; one up to an epsilon of about 1.5.
        Raises ParameterError for anything else, and where so many blocks need a larger epsilon.
        """
        k = integer("k", k, 2, MAX_VALUES)
        if blocks is not None:
            blocks = integer("blocks", blocks, 1, 2 * k - 1)
            return cls(k, largest_threshold(epsilon, 2 * blocks - 1), blocks)
        best = cls(k, largest_threshold(epsilon))
        while best.blocks < k:
            more = 2 * best.blocks
            keep = largest_threshold(epsilon, 2 * more - 1)
            # Tiny epsilons leave no coin for many blocks.
            if keep <= ONE // (2 * more):
                break
            # The sum falls and then rises in the number of blocks.
            candidate = cls(k, keep, more)
            if candidate._sum_of_variances >= best._sum_of_variances:
                break
            best = candidate
        return best

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below that of the code."""
        return loss(Fraction(self.keep * (2 * self.blocks - 1), ONE - self.keep))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: the value of one user."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: log2 of the number of reports."""
        return self._block_bits + self._row_bits

    @property
    def _block_bits(self) -> int:
        return self.blocks.bit_length() - 1

    @cached_property
    def _row_bits(self) -> int:
        # The least m with 2^m > the number of values in the fullest block: row 0 stays free.
        return (-(-self.k // self.blocks)).bit_length()

    @property
    def _dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        return smallest_dtype(1 << self.report_bits)

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> Words:
        """Randomize each value of ``x``, integers in [0, k) of shape (n,), with fresh coins.

        Returns n reports below 2^report_bits, in the smallest unsigned dtype.
        """
        values = checked_values(x, self.k)
        out = np.empty(values.size, dtype=self._dtype)
        # Piece by piece, so that the coins are used while they are in the cache.
        for start in range(0, values.size, PIECE_BYTES):
            piece = values[start : start + PIECE_BYTES].astype(self._dtype)
            out[start : start + PIECE_BYTES] = self._reports(piece, rng)
        return out

    def _reports(self, x: Words, rng: Rng) -> Words:
        half = self._half_blocks(x.size, rng)
        row = (x >> self._block_bits) + 1
        inner: Words = rng.uniform(1 << self._row_bits, x.size, self._dtype)
        # Where the entry has the other sign, one bit of the row turns it. That maps either half
        # onto the other one to one, so a uniform draw stays uniform within its half.
        wrong = (np.bitwise_count(inner & row) ^ half) & 1
        inner ^= (row & -row) * wrong.astype(self._dtype, copy=False)
        if self.blocks > 1:
            # A sum that wraps around keeps its lower bits.
            block = (x + (half >> 1)) & (self.blocks - 1)
            inner |= block << self._row_bits
        return inner

    def _half_blocks(self, n: int, rng: Rng) -> Words:
        """0 for C_x, 1 for the rest of its block, 2 and 3 for the next block, and so on."""
        lies = ~rng.bernoulli(self.keep, n)
        if self.blocks == 1:
            return lies.view(np.uint8)
        others: Words = rng.uniform(2 * self.blocks - 1, n, self._dtype) + 1
        return others * lies

    def estimate(self, reports: NDArray[np.integer[Any]]) -> Estimate:
        """Unbiased number of users who hold each value, float64 (k,); may be negative.

        reports: integers below 2^report_bits, shape (n,), n at least 1.
        The plug-in variance takes the counts of a value and of its block as they are estimated.
        The worst case is a value that nobody holds in a block that holds everybody.
        """
        told = self._checked(reports)
        n = checked_reports(told.size)
        sums = _transform(self._histogram(told).reshape(self.blocks, -1))
        # Value x stands in block x mod B, row 1 + x div B: read by rows, without row 0.
        value = sums[:, 1:].T.reshape(-1)[: self.k] / float(self._gap)
        # Row 0 sums to the reports of each block. Written around n / B the numerator is an exact
        # integer, and one block holds exactly n users.
        surplus = self.blocks * sums[:, 0] - n
        in_block = (surplus / float(self._gap) + float(n)) / self.blocks
        holders = np.clip(value, 0, n)
        return Estimate(
            value=value,
            variance=self.variance_of(holders, n, np.clip(np.resize(in_block, self.k), holders, n)),
            worst=np.where(self._has_neighbours, self._neighbour, self._worst_alone) * n,
            n=n,
        )

    def variance_of(
        self, count: ArrayLike, n: int, in_block: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold.

        in_block: how many users hold a value of its block, ``count`` included. By default its mean
        over all ways to number the values, with which the result is the mean variance; with one
        block that is n, and the result exact.
        """
        holders = np.asarray(count, dtype=np.float64)
        if in_block is None:
            near = (n - holders) * float(self._same_block)
        else:
            near = np.asarray(in_block, dtype=np.float64) - holders
        far = n - holders - near
        return np.asarray(holders * self._holder + near * self._neighbour + far * self._far)

    # What a user's report adds to an estimate is s / gap with s = 1 on C_x, -1 on the rest of the
    # block of x and 0 elsewhere. So E[s^2] is the probability of that block.

    @cached_property
    def _other(self) -> Fraction:
        """The probability r of each half block that is not told on purpose."""
        return Fraction(ONE - self.keep, ONE * (2 * self.blocks - 1))

    @cached_property
    def _gap(self) -> Fraction:
        return Fraction(self.keep, ONE) - self._other

    @cached_property
    def _holder(self) -> float:
        return float(self._neighbour_exactly - 1)

    @cached_property
    def _neighbour(self) -> float:
        return float(self._neighbour_exactly)

    @cached_property
    def _neighbour_exactly(self) -> Fraction:
        return (Fraction(self.keep, ONE) + self._other) / self._gap**2

    @cached_property
    def _far(self) -> float:
        return float(2 * self._other / self._gap**2)

    @property
    def _worst_alone(self) -> float:
        return max(self._holder, self._far)

    @property
    def _has_neighbours(self) -> NDArray[np.bool_]:
        x = np.arange(self.k)
        return (x >= self.blocks) | (x + self.blocks < self.k)

    @property
    def _same_block(self) -> Fraction:
        """The share of the other values that lie in a value's block, on average."""
        least, fuller = divmod(self.k, self.blocks)
        pairs = fuller * (least + 1) * least + (self.blocks - fuller) * least * (least - 1)
        return Fraction(pairs, self.k * (self.k - 1))

    @cached_property
    def _sum_of_variances(self) -> Fraction:
        """What a report adds to the variances of all k estimates together, on average."""
        near = (self.k - 1) * self._same_block
        far = self.k - 1 - near
        return (1 + near) * self._neighbour_exactly - 1 + far * 2 * self._other / self._gap**2

    def pack(self, reports: NDArray[np.integer[Any]]) -> bytes:
        """Reports, shape (n,), in ``report_bits`` bits each."""
        return packed.pack_words(self._checked(reports).astype(self._dtype), self.report_bits)

    def unpack(self, data: bytes, shape: Shape) -> Words:
        """Inverse of ``pack`` for a known shape, n or (n,), in the dtype of ``perturb``.

        Raises WireError for bytes that are not the encoding of n reports.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(sizes) != 1:
            raise ParameterError(f"reports have one axis, got shape {sizes}")
        return packed.unpack_words(data, sizes, self.report_bits).astype(self._dtype)

    def _checked(self, reports: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        return checked_values(reports, 1 << self.report_bits, "reports")

    def _histogram(self, told: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        size = 1 << self.report_bits
        counts = np.zeros(size, dtype=np.int64)
        step = max(PIECE_BYTES, size)
        for start in range(0, told.size, step):
            piece = told[start : start + step]
            counts += np.bincount(piece.astype(np.intp), minlength=size)
        return counts


def _transform(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of ``counts`` times the Hadamard matrix of their length, in exact integers."""
    length = counts.shape[1]
    for _ in range(length.bit_length() - 1):
        even, odd = counts[:, 0::2], counts[:, 1::2]
        # Each pass does the lowest bit of the index and makes it the highest one, so that after
        # all passes every bit is done and stands where it was.
        counts = np.concatenate([even + odd, even - odd], axis=1)
    return counts
