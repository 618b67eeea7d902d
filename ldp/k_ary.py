"""k-ary randomized response: one of k values told truthfully, else any other one.

Source: Kairouz, Bonawitz and Ramage, "Discrete distribution estimation under local privacy"
    (ICML 2016), "k-RR"; "direct encoding" in Wang, Blocki, Li and Jha, "Locally differentially
    private protocols for frequency estimation" (USENIX Security 2017). For k = 2 it is
    Warner's randomized response (JASA 60, 1965), ``ldp.randomized_response``.
Model: epsilon-LDP for each value against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported.
Error: probabilities are exact: keep / 2^64 for the truth, (2^64 - keep) / (2^64 (k - 1)) for each
    other value, on the safe side of the requested epsilon. The estimate is unbiased; its variance
    for a value that nobody holds is n (k - 2 + e^epsilon) / (e^epsilon - 1)^2, so that other
    oracles do better where k is above 3 e^epsilon + 2 (Wang et al.).
Differs: the estimate is raw and may be negative. ``perturb`` draws fresh coins at each call: m
    reports about one value cost m * epsilon.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.frequency import MAX_VALUES, Support, checked_reports, checked_values, smallest_dtype
from ldp.mechanism import Estimate
from ldp.thresholds import largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.errors import ParameterError, WireError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape


@dataclass(frozen=True)
class KaryRandomizedResponse:
    """Report one of ``k`` values truthfully with probability keep / 2^64, else a uniform other one.

    k: in [2, 2^32].  keep: integer with 2^64 / k < keep < 2^64, so that the truth is likelier than
    any one lie.  Values and reports are the integers 0..k-1.
    """

    k: int
    keep: int

    def __post_init__(self) -> None:
        # With one value there is nothing to tell and no other value to tell instead.
        k = integer("k", self.k, 2, MAX_VALUES)
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "keep", integer("keep", self.keep, ONE // k + 1, ONE - 1))

    @classmethod
    def from_epsilon(cls, k: int, epsilon: float) -> "KaryRandomizedResponse":
        """The most truthful reports whose privacy loss is at most ``epsilon``, in nats.

        They have the largest keep with keep (k - 1) / (2^64 - keep) <= e^epsilon, decided exactly.
        epsilon: finite, at least 2^-60; the loss stays at ln((2^64 - 1)(k - 1)) above that number.
        Raises ParameterError for anything else, and where no coin of 64 bits is truthful enough to
        tell k values apart at so small an epsilon.
        """
        k = integer("k", k, 2, MAX_VALUES)
        keep = largest_threshold(epsilon, k - 1)
        if keep * k <= ONE:
            raise ParameterError(
                f"no coin in steps of 2^-64 tells {k} values apart at epsilon {epsilon!r}",
                remedy="ask for a larger epsilon, or a smaller domain",
            )
        return cls(k, keep)

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below the exact one."""
        return loss(Fraction(self.keep * (self.k - 1), ONE - self.keep))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one value of one user."""
        return "value"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: those of k - 1."""
        return (self.k - 1).bit_length()

    @cached_property
    def support(self) -> Support:
        """A report supports the value that it names."""
        keep = Fraction(self.keep, ONE)
        return Support(keep, (1 - keep) / (self.k - 1))

    def perturb(
        self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG
    ) -> NDArray[np.unsignedinteger[Any]]:
        """Randomize each entry of ``x`` with coins of its own.

        x: integers in [0, k), shape (n,).  Returns the same shape, in the smallest unsigned dtype
        that holds k - 1.  Raises ParameterError for anything else, naming the first entry at fault.
        """
        values = checked_values(x, self.k)
        out = np.empty(values.size, dtype=smallest_dtype(self.k))
        # Piece by piece, so that the coins are used while they are in the cache.
        for start in range(0, out.size, PIECE_BYTES):
            own = values[start : start + PIECE_BYTES].astype(out.dtype)
            # A uniform one of the k - 1 others: from the user's own value on, they move up by one.
            told = rng.uniform(self.k - 1, own.size, out.dtype)
            told += told >= own
            # Where the coin says truth, the difference to the own value is taken off again: an
            # exclusive or costs a tenth of a copy under a random mask.
            own ^= told
            own *= rng.bernoulli(self.keep, own.size).view(np.uint8)
            np.bitwise_xor(told, own, out=out[start : start + PIECE_BYTES])
        return out

    def estimate(self, reports: NDArray[np.integer[Any]]) -> Estimate:
        """Unbiased number of users who hold each value, float64 (k,); may be negative.

        reports: integers in [0, k), shape (n,), n at least 1.
        """
        told = checked_values(reports, self.k, "reports")
        n = checked_reports(told.size)
        counts = np.zeros(self.k, dtype=np.int64)
        # numpy counts in words of 64 bits: a piece at a time, the copy stays small.
        step = max(PIECE_BYTES, self.k)
        for start in range(0, n, step):
            piece = told[start : start + step].astype(np.intp)
            counts += np.bincount(piece, minlength=self.k)
        return self.support.estimate(counts, n)

    def variance_of(self, count: ArrayLike, n: int) -> NDArray[np.float64]:
        """Variance of the estimate of a value that ``count`` of ``n`` users hold."""
        return self.support.variance_of(count, n)

    def pack(self, reports: NDArray[np.unsignedinteger[Any]]) -> bytes:
        """Reports, shape (n,), in ``report_bits`` bits each."""
        told = checked_values(reports, self.k, "reports")
        return packed.pack_words(told.astype(smallest_dtype(self.k)), self.report_bits)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.unsignedinteger[Any]]:
        """Inverse of ``pack`` for a known shape, n or (n,), in the dtype of ``perturb``.

        Raises WireError for bytes that are not the encoding of n values below k.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if len(sizes) != 1:
            raise ParameterError(f"reports have one axis, got shape {sizes}")
        words = packed.unpack_words(data, sizes, self.report_bits)
        if words.size and int(words.max()) >= self.k:
            first = int(np.argmax(words >= self.k))
            raise WireError(f"report {first} does not lie in [0, {self.k})")
        return words.astype(smallest_dtype(self.k))
