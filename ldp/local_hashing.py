"""Local hashing: a value is hashed by a function of the user's own, and its bucket is randomized.

Source: Wang, Blocki, Li and Jha, "Locally differentially private protocols for frequency
    estimation" (USENIX Security 2017); OLH is g = e^epsilon + 1. The hash functions
    are multiply-shift: Dietzfelbinger, "Universal hashing and k-wise independent random variables
    via integer arithmetic without primes" (STACS 1996), in the form of Thorup, "High speed hashing
    for integers and strings" (arXiv:1504.06804).
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, the user's hash function, which is drawn without a look at the value, and
    that the user reported.
Error: probabilities are exact, on the safe side of the requested epsilon. The estimate is unbiased
    even where the buckets are not equally large, since q counts their sizes as they are.
Differs: the source takes a seeded xxHash for a random function. Here the hashes of any two values
    are exactly independent, and the mean and variance of an estimate rest on nothing else.

The hash of x is h = ((a x + b) mod 2^w) div 2^(w/2) with a and b uniform below 2^w: for two values
below 2^(w/2) the pair of hashes is uniform. The bucket is h g div 2^(w/2). A report is (a, b, y)
with y the bucket by k-ary randomized response, and it supports the values in bucket y.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.bit_reports import row_sums
from ldp.frequency import MAX_VALUES, Support, checked_reports, checked_values, smallest_dtype
from ldp.k_ary import KaryRandomizedResponse
from ldp.mechanism import Estimate, checked_epsilon
from ldp.thresholds import MIN_EPSILON, largest_threshold
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape

Words = NDArray[np.unsignedinteger[Any]]

# With so many buckets a user adds less than 1/1000 to the variance of a value that is not hers, and
# more of them would raise what the holders add.
_MOST_BUCKETS = 4096

# So many users' seeds, and so many hashes at a time, stay in the second cache level.
_USERS = PIECE_BYTES // 4
_HASHES = PIECE_BYTES // 2


@dataclass(frozen=True)
class LocalHashing:
    """Hash a value to one of g buckets and tell it with probability keep / 2^64, else another one.

    k: number of values, in [2, 2^32].  g: number of buckets, in [2, 2^32).
    keep: in (2^64 / g, 2^64).  width: bits of a word of the seed, even, with k at most and g below
    2^(width/2); by default 32 where that is enough, else 64.

    A report is a record with the fields ``a`` and ``b``, the words of the seed, and ``y``, the
    bucket, in the smallest unsigned dtypes.
    """

    k: int
    g: int
    keep: int
    width: int = 0

    def __post_init__(self) -> None:
        k = integer("k", self.k, 2, MAX_VALUES)
        g = integer("g", self.g, 2, (1 << 32) - 1)
        width = integer("width", self.width, 0, 64)
        if not width:
            width = 32 if k <= 1 << 16 and g < 1 << 16 else 64
        if width % 2 or k > 1 << width // 2 or g >= 1 << width // 2:
            raise ParameterError(
                f"width must be even with k at most and g below 2^(width/2), got {width}",
                remedy="leave it out, and 32 or 64 is taken",
            )
        keep = integer("keep", self.keep, ONE // g + 1, ONE - 1)
        for name, value in (("k", k), ("g", g), ("keep", keep), ("width", width)):
            object.__setattr__(self, name, value)

    @classmethod
    def from_epsilon(cls, k: int, epsilon: float, g: int | None = None) -> "LocalHashing":
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        epsilon: finite, at least 2^-60.  g: by default the number of buckets next to
        e^epsilon + 1 that has the smaller variance for a value that nobody holds, at most 4096.
        Raises ParameterError for anything else, and where so many buckets need a larger epsilon.
        """
        k = integer("k", k, 2, MAX_VALUES)
        buckets = _best_buckets(epsilon) if g is None else integer("g", g, 2, (1 << 32) - 1)
        keep = largest_threshold(epsilon, buckets - 1)
        if keep * buckets <= ONE:
            raise ParameterError(
                f"no coin in steps of 2^-64 tells {buckets} buckets apart at epsilon {epsilon!r}",
                remedy="ask for a larger epsilon, or fewer buckets",
            )
        return cls(k, buckets, keep)

    @cached_property
    def _reply(self) -> KaryRandomizedResponse:
        return KaryRandomizedResponse(self.g, self.keep)

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: that of the k-ary randomized response over g."""
        return self._reply.epsilon

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: the value of one user."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: two words of the seed and the bucket."""
        return 2 * self.width + self._reply.report_bits

    @property
    def _word(self) -> np.dtype[np.unsignedinteger[Any]]:
        return smallest_dtype(1 << self.width)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The dtype of a report: ``a``, ``b`` and ``y``, all unsigned."""
        word = self._word
        return np.dtype([("a", word), ("b", word), ("y", smallest_dtype(self.g))])

    @cached_property
    def support(self) -> Support:
        """A report supports the values that its hash function puts into its bucket."""
        hashes = 1 << self.width // 2
        least, larger = divmod(hashes, self.g)
        squares = larger * (least + 1) ** 2 + (self.g - larger) * least**2
        # Another value's hash is independent of the report; it falls into bucket y with the share
        # of y, and the report is y likewise unless the user lies.
        same = Fraction(squares, hashes**2)
        keep = Fraction(self.keep, ONE)
        return Support(keep, keep * same + (1 - keep) * (1 - same) / (self.g - 1))

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.void]:
        """Randomize each value of ``x``, integers in [0, k) of shape (n,), with a seed of its own.

        Returns n records of ``dtype``.
        """
        values = checked_values(x, self.k)
        out = np.empty(values.size, dtype=self.dtype)
        for start in range(0, values.size, _USERS):
            piece = slice(start, start + _USERS)
            own = values[piece].astype(self._word)
            # The seed is drawn without a look at the value.
            a = rng.uniform(1 << self.width, own.size, self._word)
            b = rng.uniform(1 << self.width, own.size, self._word)
            out["a"][piece] = a
            out["b"][piece] = b
            out["y"][piece] = self._reply.perturb(self._bucket(a, b, own), rng=rng)
        return out

    # A word may be wider than w: then a and b stand in its upper bits, and the sum wraps at 2^w
    # times the same power of two.

    @property
    def _up(self) -> int:
        return 8 * self._word.itemsize - self.width

    @property
    def _hash_up(self) -> int:
        """The shift between a word and its upper w/2 bits."""
        return 8 * self._word.itemsize - self.width // 2

    def _bucket(self, a: Words, b: Words, x: Words) -> Words:
        words: Words = np.left_shift(a, self._up) * x
        words += np.left_shift(b, self._up)
        words >>= self._hash_up
        words *= self.g  # below 2^w, since g is below 2^(w/2)
        words >>= self.width // 2
        return words

    def estimate(self, reports: NDArray[np.void]) -> Estimate:
        """Unbiased number of users who hold each value, float64 (k,); may be negative.

        reports: records of ``dtype``, shape (n,), n at least 1. Takes n * k hashes.
        """
        told = self._checked(reports)
        n = checked_reports(told.size)
        supported = np.zeros(self.k, dtype=np.int64)
        for start in range(0, n, _HASHES):
            self._add_supported(told[start : start + _HASHES], supported)
        return self.support.estimate(supported, n)

    def _add_supported(self, told: NDArray[np.void], supported: NDArray[np.int64]) -> None:
        """Add to each value the number of reports that support it."""
        half, g = self.width // 2, self.g
        y = told["y"].astype(self._word)
        # The hashes of bucket y are those from y 2^(w/2) / g on, rounded up. Moving them down to 0
        # leaves one comparison for each hash, and the next value's word is an addition away.
        first = ((y << half) + (g - 1)) // g
        count = (((y + 1) << half) + (g - 1)) // g - first
        size = count << self._hash_up
        a = told["a"] << self._up
        base = (told["b"] << self._up) - (first << self._hash_up)
        # Few reports are met by several values at a time.
        rows = min(self.k, -(-_HASHES // (2 * told.size)))
        words = np.arange(rows, dtype=self._word)[:, np.newaxis] * a + base
        step = a * self._word.type(rows)
        supports = np.empty(words.shape, dtype=np.bool_)
        for x in range(0, self.k, rows):
            np.less(words, size, out=supports)
            if rows == 1:
                supported[x] += np.count_nonzero(supports)
            else:
                supported[x : x + rows] += row_sums(supports)[: self.k - x]
            words += step

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""
        return self.support.variance_of(count, n)

    def pack(self, reports: NDArray[np.void]) -> bytes:
        """Reports, shape (n,): of each the two words of the seed, then the bucket."""
        told = self._checked(reports)
        columns = [
            packed.unpack(packed.pack_words(told[name], bits), (told.size, bits))
            for name, bits in self._fields
        ]
        return packed.pack(np.concatenate(columns, axis=1))

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.void]:
        """Inverse of ``pack`` for a known shape, n or (n,).

        Raises WireError for bytes that are not the encoding of n reports.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(sizes) != 1:
            raise ParameterError(f"reports have one axis, got shape {sizes}")
        bits_of_all = packed.unpack(data, (*sizes, self.report_bits))
        out = np.empty(sizes, dtype=self.dtype)
        start = 0
        for name, bits in self._fields:
            column = packed.pack(bits_of_all[:, start : start + bits])
            out[name] = packed.unpack_words(column, sizes, bits)
            start += bits
        if out.size and int(out["y"].max()) >= self.g:
            raise WireError(f"a bucket must lie in [0, {self.g})")
        return out

    @property
    def _fields(self) -> tuple[tuple[str, int], ...]:
        return ("a", self.width), ("b", self.width), ("y", self._reply.report_bits)

    def _checked(self, reports: NDArray[np.void]) -> NDArray[np.void]:
        told = np.asarray(reports)
        if told.dtype != self.dtype or told.ndim != 1:
            raise ParameterError(
                f"reports must be records of {self.dtype} on one axis, got {told.dtype} "
                f"{told.shape}",
                remedy="take them from perturb or unpack of the same mechanism",
            )
        if told.size:
            if self._up and int(max(told["a"].max(), told["b"].max())) >> self.width:
                raise ParameterError(f"a and b must lie below 2^{self.width}")
            if int(told["y"].max()) >= self.g:
                raise ParameterError(f"y must lie in [0, {self.g})")
        return told


def _best_buckets(epsilon: float) -> int:
    # The variance for a value that nobody holds is about (e^eps + h)^2 / (h (e^eps - 1)^2) with
    # h = g - 1, which h = e^eps makes least. Of the two integers around it the lower one is better
    # if their product is larger than e^(2 eps).
    odds = math.exp(min(checked_epsilon(epsilon, MIN_EPSILON), 20.0))
    lower = math.floor(odds)
    return min(lower + (lower * (lower + 1) < odds * odds), _MOST_BUCKETS - 1) + 1
