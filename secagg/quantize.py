"""Real vectors as ring elements for a sum: clip, scale, round without bias, refuse what can wrap.

Source: clip, scale and stochastic rounding as in Bonawitz et al., "Federated Learning with
    Autotuned Communication-Efficient Secure Aggregation" (2019), section 3.
Model: a local computation; the count of clipped entries goes to its caller and nowhere else.
Error: below one unit of 2^-frac_bits for each entry and party, and unbiased but for less than 2^-64
    units (``mpc.core.samplers``); clipping is a bias, and counted. Decoding to float64 rounds sums
    of more than 53 bits.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpc.core.checks import integer
from mpc.core.errors import AbortError, ParameterError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.core.samplers import round_clipped

MAX_CLIP = 2**63
MAX_FRAC_BITS = 62
MAX_PARTIES = 2**32
MAX_BITS = 64
MAX_WEIGHT = 2**53
"""Above this a float64 no longer names every integer."""


@dataclass(frozen=True)
class Quantizer:
    """Vectors for a plain sum of at most ``parties`` of them.

    clip: largest magnitude kept, in (0, 2^63).  frac_bits: f in [0, 62]; one unit is 2^-f.
    parties: at least 2.  Raises ParameterError at construction, with the bits that are missing,
    if a sum of ``parties`` vectors could leave [-2^(l-1), 2^(l-1)).
    """

    clip: float
    frac_bits: int
    ring: Ring
    parties: int

    def __post_init__(self) -> None:
        exact = {
            "clip": check_clip(self.clip),
            "frac_bits": integer("frac_bits", self.frac_bits, 0, MAX_FRAC_BITS),
            "parties": integer("parties", self.parties, 2, MAX_PARTIES),
        }
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        check_head_room(self.parties * self.bound, self.ring, "clip, frac_bits or parties")

    @cached_property
    def bound(self) -> int:
        """Largest magnitude of one encoded entry: clip * 2^f, rounded up."""
        return math.ceil(Fraction(self.clip) * (1 << self.frac_bits))

    def encode(
        self, x: ArrayLike, *, rng: Rng = SYSTEM_RNG, strict: bool = False
    ) -> tuple[RingArray, NDArray[np.int64]]:
        """Ring elements of ``x``, and how many entries of each vector were clipped.

        x: real, shape (..., d), finite.  Returns (ring dtype (..., d), int64 (...)).
        Raises ParameterError for NaN, an infinity or a wrong dtype; if ``strict``, also where an
        entry would be clipped.
        """
        values, clipped = self._checked(x, strict)
        encoded: RingArray = np.empty(values.shape, dtype=self.ring.dtype)
        round_clipped(values, self.clip, self.frac_bits, rng, encoded)
        if self.ring.bits < 8 * self.ring.element_bytes():
            np.bitwise_and(encoded, self.ring.mask, out=encoded)
        return encoded, clipped

    def to_integers(
        self, x: ArrayLike, *, rng: Rng = SYSTEM_RNG, strict: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As ``encode``, but signed integers in [-bound, bound] instead of ring elements."""
        values, clipped = self._checked(x, strict)
        integers = np.empty(values.shape, dtype=np.int64)
        round_clipped(values, self.clip, self.frac_bits, rng, integers)
        return integers, clipped

    def _checked(self, x: ArrayLike, strict: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """``x`` as doubles, and how many entries of each vector lie outside the clip."""
        given = np.asarray(x)
        if given.dtype.kind not in "iuf" or given.dtype.itemsize > 8:
            raise ParameterError(
                f"x must be real numbers of at most 64 bits, got dtype {given.dtype}"
            )
        if given.ndim == 0:
            raise ParameterError("x must have at least one axis, got a scalar")
        # As float64 first, so that entries of a smaller type are compared without rounding clip.
        values = given.astype(np.float64, copy=False)
        clipped = np.zeros(values.shape[:-1], dtype=np.int64)
        if not values.size or (-self.clip <= values.min() and values.max() <= self.clip):
            return values, clipped
        finite = np.isfinite(values)
        if not np.all(finite):
            raise ParameterError(f"x must be finite; entry {_first(~finite)} is NaN or infinite")
        outside = values > self.clip
        outside |= values < -self.clip
        clipped[...] = np.count_nonzero(outside, axis=-1)
        if strict:
            raise ParameterError(
                f"{int(clipped.sum())} entries exceed clip = {self.clip}; the first is "
                f"{_first(outside)}",
                remedy="raise clip, or accept clipping with strict=False",
            )
        return values, clipped

    def decode(self, total: RingArray) -> NDArray[np.float64]:
        """The sum that ``total`` (ring dtype, any shape) stands for, as float64."""
        return self.ring.signed(total) / float(1 << self.frac_bits)


@dataclass(frozen=True)
class WeightedQuantizer:
    """Vectors for a weighted mean whose weights stay hidden: the weight is one more element.

    A party sends weight * x and weight; the sums show sum(w x) and sum(w), no single weight.
    values: how x is encoded.  max_weight: largest weight of one party, in [1, 2^53].
    Raises ParameterError, with the bits that are missing, if a weighted sum could wrap.
    """

    values: Quantizer
    max_weight: int

    def __post_init__(self) -> None:
        largest_weight = integer("max_weight", self.max_weight, 1, MAX_WEIGHT)
        object.__setattr__(self, "max_weight", largest_weight)
        # An entry weighs at least as much as the weight itself, since ``bound`` is at least 1.
        largest = self.values.parties * self.max_weight * self.values.bound
        check_head_room(largest, self.values.ring, "clip, frac_bits, max_weight or parties")

    def encode(
        self, x: ArrayLike, weight: ArrayLike, *, rng: Rng = SYSTEM_RNG, strict: bool = False
    ) -> tuple[RingArray, NDArray[np.int64]]:
        """Ring elements of weight * x followed by weight, and the clipped entries of each vector.

        x: real, shape (..., d), finite.  weight: whole numbers in [0, max_weight], shape (...).
        Returns (ring dtype (..., d + 1), int64 (...)). Raises ParameterError as ``Quantizer``
        does, and for a weight that is negative, NaN, fractional or too large.
        """
        weights = self._weights(weight)
        integers, clipped = self.values.to_integers(x, rng=rng, strict=strict)
        if weights.shape != clipped.shape:
            raise ParameterError(f"weight must have shape {clipped.shape}, got {weights.shape}")
        # Integers times integers below 2^63: the weighting itself rounds nothing.
        column = weights[..., np.newaxis]
        both = np.concatenate([integers * column, column], axis=-1)
        return self.values.ring.reduce(both), clipped

    def decode(self, total: RingArray) -> NDArray[np.float64]:
        """The weighted mean: ``total`` of shape (..., d + 1) to float64 (..., d).

        Raises AbortError, and returns nothing, where the total weight does not lie in
        [1, parties * max_weight]: at zero there is no mean.
        """
        if np.ndim(total) == 0 or np.shape(total)[-1] < 2:
            raise ParameterError(f"total must have shape (..., d + 1), got {np.shape(total)}")
        sums = self.values.ring.signed(total)
        weight, most = sums[..., -1:], self.values.parties * self.max_weight
        if np.any(weight == 0):
            raise AbortError(
                "the total weight is 0, so there is no mean", remedy="keep the model as it is"
            )
        if np.any((weight < 0) | (weight > most)):
            raise AbortError(
                f"a total weight lies outside [1, {most}]",
                remedy="a member sent something else than its encoded vector",
            )
        return sums[..., :-1] / weight / float(1 << self.values.frac_bits)

    def _weights(self, weight: ArrayLike) -> NDArray[np.int64]:
        weights = np.asarray(weight)
        if weights.dtype.kind not in "iuf":
            raise ParameterError(f"weight must be real numbers, got dtype {weights.dtype}")
        # Stated as what is allowed, so that NaN falls out too.
        allowed = (weights >= 0) & (weights <= self.max_weight) & (weights == np.floor(weights))
        if not np.all(allowed):
            raise ParameterError(
                f"weight must be whole numbers in [0, {self.max_weight}]; entry "
                f"{_first(~allowed)} is not",
                remedy="scale fractional weights to integers",
            )
        return weights.astype(np.int64)


def check_clip(clip: float) -> float:
    """``clip`` as a float in (0, 2^63); ParameterError for anything else."""
    if isinstance(clip, bool | np.bool_) or not isinstance(
        clip, int | float | np.integer | np.floating
    ):
        raise ParameterError(f"clip must be a real number, got {type(clip).__name__}")
    if not 0 < clip < MAX_CLIP:  # false for NaN too
        raise ParameterError(f"clip must lie in (0, 2^63), got {clip}")
    return float(clip)


def check_head_room(largest: int, ring: Ring, ways: str) -> None:
    """ParameterError, with the bits that are missing, unless sums up to ``largest`` fit the ring.

    ways: what the caller might lower, for the remedy.
    """
    needed = largest.bit_length() + 1
    if needed > ring.bits:
        wider = f"take a ring of {needed} bits, or " if needed <= MAX_BITS else ""
        raise ParameterError(
            f"sums reach {largest}, which takes {needed} bits with the sign: "
            f"{needed - ring.bits} more than the ring's {ring.bits}",
            remedy=f"{wider}lower {ways}",
        )


def _first(where: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(where)))
