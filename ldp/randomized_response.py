"""Binary randomized response: a bit told truthfully with a fixed probability, else flipped.

Source: Warner, "Randomized response" (JASA 60, 1965); the form of Ding, Kulkarni and Yekhanin,
    "Collecting telemetry data privately" (NIPS 2017), which PriRec (Chen et al., 2020)
    uses as Eq. 5 (``perturb``) and Eq. 6 (``estimate_count``).
Model: epsilon-LDP for each bit against anyone who sees any set of reports, with unbounded
    computing power given ideal coins; computational for the AES-CTR coins used by default.
Leaks: the report itself, and that the user reported; the number of bits in clear.
Error: probabilities are exact multiples of 2^-64, on the safe side of the requested epsilon. The
    estimate is unbiased with variance e^epsilon / (e^epsilon - 1)^2 for each report.
Differs: the paper says nothing about asking twice. ``perturb`` draws fresh coins at each call, and
    k reports about one bit cost k * epsilon; ``ldp.memo`` gives answers that may be repeated.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldp import packed
from ldp.mechanism import Estimate
from ldp.thresholds import largest_threshold, loss
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.keystream import PIECE_BYTES
from mpc.core.rng import ONE, SYSTEM_RNG, Rng, Shape


@dataclass(frozen=True)
class RandomizedResponse:
    """Report a bit truthfully with probability keep / 2^64, else flipped; 2^63 < keep < 2^64.

    ``keep`` is an integer so that the sampler compares integers, never floats.
    """

    keep: int

    def __post_init__(self) -> None:
        # At 2^63 a report would say nothing, at 2^64 everything.
        object.__setattr__(self, "keep", integer("keep", self.keep, ONE // 2 + 1, ONE - 1))

    @classmethod
    def from_epsilon(cls, epsilon: float) -> "RandomizedResponse":
        """The most truthful coin whose privacy loss is at most ``epsilon``, in nats.

        It has the largest keep with keep / (2^64 - keep) <= e^epsilon, decided exactly.
        epsilon: finite, at least 2^-60; from 44.37 on the loss stays at ln(2^64 - 1) = 44.36.
        Raises ParameterError for anything else, NaN, strings and bools included.
        """
        return cls(largest_threshold(epsilon))

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report in nats: the smallest double not below ln(keep / flip).

        From ``from_epsilon`` it never exceeds the request, which is such a double too.
        """
        return loss(Fraction(self.keep, ONE - self.keep))

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one bit of one user."""
        return "bit"

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: one."""
        return 1

    @cached_property
    def variance(self) -> float:
        """Variance that one report adds to the estimate: e^epsilon / (e^epsilon - 1)^2."""
        # Exact integers until the last division: nothing cancels at either end of the domain.
        return float(Fraction(self.keep * (ONE - self.keep), self._gap**2))

    @property
    def _gap(self) -> int:
        return 2 * self.keep - ONE

    def perturb(self, x: NDArray[np.bool_], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.bool_]:
        """Randomize each entry of bool array ``x``, any shape, with coins of its own (Eq. 5).

        Returns a new bool array of the same shape.  Raises ParameterError for any other dtype:
        integer zeros and ones are refused, since a count would silently become a bit.
        """
        bits = _bits(x, "x")
        flat = bits.reshape(-1)
        out = np.empty(flat.size, dtype=np.bool_)
        # Piece by piece, so that the coins are used while they are in the cache.
        for start in range(0, flat.size, PIECE_BYTES):
            piece = flat[start : start + PIECE_BYTES]
            truthful = rng.bernoulli(self.keep, piece.size)
            _report(piece, truthful, out[start : start + PIECE_BYTES])
        return out.reshape(bits.shape)

    def perturb_with(self, x: NDArray[np.bool_], coins: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """The same with given coins: an entry is told truthfully where its coin is below keep.

        x: bool, any shape.  coins: uniform 64-bit words, uint64 of the same shape; whoever knows
        them reads x from the report. A coin that serves two different bits tells if they differ.
        """
        bits = _bits(x, "x")
        words = np.asarray(coins)
        if words.dtype != np.uint64 or words.shape != bits.shape:
            raise ParameterError(
                f"coins must be uint64 of shape {bits.shape}, got {words.dtype} {words.shape}"
            )
        out = np.empty(bits.shape, dtype=np.bool_)
        np.less(words, np.uint64(self.keep), out=out)
        _report(bits, out, out)
        return out

    def estimate_count(self, reports: NDArray[np.bool_]) -> Estimate:
        """Unbiased number of ones among the users, along axis 0 (Eq. 6); may be negative.

        reports: bool, shape (users, ...).  Returns an Estimate whose value has shape (...), with
        variance users * e^epsilon / (e^epsilon - 1)^2.  Raises ParameterError without users.
        """
        bits = _bits(reports, "reports")
        if bits.ndim == 0 or not bits.shape[0]:
            raise ParameterError(f"reports need at least one user on axis 0, got {bits.shape}")
        return self.estimate_from_ones(np.sum(bits, axis=0, dtype=np.int64), bits.shape[0])

    def estimate(self, reports: NDArray[np.bool_]) -> Estimate:
        """``estimate_count`` under the name that every mechanism has."""
        return self.estimate_count(reports)

    def estimate_from_ones(self, ones: ArrayLike, n: int) -> Estimate:
        """The same from the numbers of reported ones among ``n`` reports each.

        ones: integers in [0, n], any shape.  n: in [1, 2^53), so that doubles hold every count.
        """
        counts = np.asarray(ones)
        n = integer("n", n, 1, 2**53 - 1)
        if counts.dtype.kind not in "iu":
            raise ParameterError(f"ones must be integers, got dtype {counts.dtype}")
        if counts.size and not (counts.min() >= 0 and counts.max() <= n):
            raise ParameterError(f"ones must lie in [0, {n}]")
        variance = np.full(counts.shape, n * self.variance)
        # Eq. 6 is (ones - n q) / (p - q). Written around n / 2 its numerator is an exact integer,
        # so that no digit is lost where p - q is tiny.
        surplus = 2 * counts.astype(np.int64) - n
        value = (surplus / (self._gap / ONE) + float(n)) / 2
        return Estimate(
            value=np.asarray(value, dtype=np.float64), variance=variance, worst=variance, n=n
        )

    def pack(self, reports: NDArray[np.bool_]) -> bytes:
        """Reports of any shape, eight to a byte."""
        return packed.pack(_bits(reports, "reports"))

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.bool_]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return packed.unpack(data, shape)


def _bits(x: NDArray[np.bool_], name: str) -> NDArray[np.bool_]:
    bits = np.asarray(x)
    if bits.dtype != np.bool_:
        raise ParameterError(
            f"{name} must be a bool array, got dtype {bits.dtype}",
            remedy="say which values count as one, for example with counts > 0",
        )
    return bits


def _report(x: NDArray[np.bool_], truthful: NDArray[np.bool_], out: NDArray[np.bool_]) -> None:
    # The bit itself where the coin says truth and its complement elsewhere.
    np.equal(x, truthful, out=out)
