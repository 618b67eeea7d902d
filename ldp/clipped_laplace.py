"""Clipping and Laplace noise for vectors of reals, on a grid: FedGNN's protection of gradients.

Each coordinate is rounded to a multiple of 2^-frac_bits, clipped to an integer bound on that grid,
and gets discrete Laplace noise. So nothing that a report shows depends on floating point.

Source: Wu, Wu, Cao, Huang and Xie, "FedGNN: Federated graph neural network for privacy-preserving
    recommendation" (2021), Eq. (1): clip is the paper's delta, scale its lambda. The order of
    rounding, clipping and noise, and why noise in floating point fails: Mironov, "On significance
    of the least significant bits for differential privacy" (CCS 2012).
Model: epsilon-LDP for each coordinate of each report, against anyone who sees any set of reports,
    with unbounded computing power given ideal coins; computational for AES-CTR coins. A vector of
    d coordinates costs d times as much, each round again (``vector_epsilon``), and only if every
    coordinate is sent with noise: which coordinates a user leaves out is not protected.
Leaks: the report, that the user reported, and the number of coordinates. The time of a draw depends
    a little on the noise.
Error: rounding is unbiased and adds a variance of at most 1/4 of a squared grid step, so that means
    are unbiased where no coordinate passes the bound. The noise has the exact law of
    ``ldp.discrete_laplace``, on all multiples of the grid step.
Differs: the paper adds real noise to real values, and calls 2 clip / scale = 1 "1-differential
    privacy" although that is the loss for one coordinate in one round. The bound is the clip
    rounded down to the grid, and the noise shrinks with it, so that epsilon is 2 clip / scale
    exactly.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.discrete_laplace import MAX_SCALE, DiscreteLaplace
from ldp.exact_exp import RealNumber, positive_rational
from ldp.exact_table import PIECE
from ldp.integer_noise import mean_of
from ldp.mechanism import Estimate, checked_epsilon
from ldp.rounding import round_up, shown
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng, Shape
from mpc.core.samplers import round_unbiased

FRAC_BITS = 16
_MAX_BOUND = 1 << 52  # so that doubles hold the bound and its neighbours exactly
_MIN_EPSILON = 2.0**-53  # the largest scale, for a bound of one step
_ROUNDING_VARIANCE = 0.25


@dataclass(frozen=True)
class VectorCost:
    """The loss about one coordinate, about a vector, and about a user after some rounds, in nats.

    coordinates: of a vector.  Basic composition: losses add up.
    """

    coordinate: float
    coordinates: int
    vector: float
    rounds: int
    user: float

    def __str__(self) -> str:
        after = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return (
            f"epsilon {shown(self.coordinate)} for each coordinate, {shown(self.vector)} for each "
            f"vector of {self.coordinates}, {shown(self.user)} for each user after "
            f"{after} (basic composition)"
        )


@dataclass(frozen=True)
class ClippedLaplace:
    """Clips reals to [-clip, clip] and adds Laplace noise of ``scale``, both on a grid.

    clip, scale: int, float (taken as the dyadic rational that it is) or Fraction, positive; kept as
    Fractions. The grid step is 2^-frac_bits, frac_bits in [0, 62]. The clip must reach one step,
    and at most 2^52 of them; the scale at most 2^54. There are no other bounds than -clip and clip.
    """

    clip: Fraction
    scale: Fraction
    frac_bits: int = FRAC_BITS

    def __init__(self, clip: RealNumber, scale: RealNumber, frac_bits: int = FRAC_BITS) -> None:
        bits = integer("frac_bits", frac_bits, 0, 62)
        exact_clip = positive_rational("clip", clip, _MAX_BOUND)
        exact_scale = positive_rational("scale", scale, MAX_SCALE)
        steps = exact_clip * 2**bits
        if not 1 <= steps <= _MAX_BOUND:
            raise ParameterError(
                f"clip must be between 1 and 2^52 grid steps of 2^-{bits}, got {clip!r}",
                remedy="choose frac_bits so that the clip is a few thousand steps",
            )
        if exact_scale * 2**bits > MAX_SCALE:
            raise ParameterError(
                f"scale must be at most 2^54 grid steps of 2^-{bits}, got {scale!r}",
                remedy="use fewer frac_bits or a larger epsilon",
            )
        object.__setattr__(self, "clip", exact_clip)
        object.__setattr__(self, "scale", exact_scale)
        object.__setattr__(self, "frac_bits", bits)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, clip: RealNumber, frac_bits: int = FRAC_BITS
    ) -> "ClippedLaplace":
        """The mechanism whose loss is ``epsilon`` for each coordinate: scale = 2 clip / epsilon.

        epsilon: finite, at least 2^-53.  Raises ParameterError for anything else, NaN, strings and
        bools included, and if the scale would pass 2^54 grid steps.
        """
        loss = Fraction(checked_epsilon(epsilon, _MIN_EPSILON))
        return cls(clip, 2 * positive_rational("clip", clip, _MAX_BOUND) / loss, frac_bits)

    @cached_property
    def bound(self) -> int:
        """The clip in grid steps, rounded down; the sensitivity of a coordinate is twice this."""
        return int(self.clip * 2**self.frac_bits)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise on the grid; its scale is to the bound as ``scale`` is to ``clip``."""
        return DiscreteLaplace(self.scale * self.bound / self.clip, 2 * self.bound)

    @property
    def epsilon(self) -> float:
        """Privacy loss of one coordinate of one report in nats: 2 clip / scale, rounded up."""
        return self.noise.epsilon

    @property
    def unit(self) -> str:
        """What ``epsilon`` protects: one coordinate of one vector."""
        return "coordinate"

    def vector_epsilon(self, coordinates: int, rounds: int = 1) -> float:
        """Loss about a vector over ``rounds`` reports of it, by basic composition, rounded up.

        coordinates: of the vector, every one sent with noise; both at least 1.
        """
        return self.vector_cost(coordinates, rounds).user

    def vector_cost(self, coordinates: int, rounds: int = 1) -> VectorCost:
        """The losses about a coordinate, a vector and a user, side by side; see ``VectorCost``."""
        width = integer("coordinates", coordinates, 1, 1 << 53)
        times = integer("rounds", rounds, 1, 1 << 53)
        loss = 2 * self.clip / self.scale
        return VectorCost(
            coordinate=self.epsilon,
            coordinates=width,
            vector=round_up(loss * width),
            rounds=times,
            user=round_up(loss * width * times),
        )

    @cached_property
    def variance(self) -> float:
        """Bound on the variance that one report adds to one coordinate, in squared grid steps."""
        return self.noise.variance + _ROUNDING_VARIANCE

    def perturb(self, x: NDArray[np.floating[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.int64]:
        """Round, clip and add noise to each entry, independently: int64 grid steps.

        x: floats of at most 64 bits, any shape; infinities are clipped like other large values.
        Raises ParameterError for other dtypes, and for a NaN, with the index of the first.
        """
        given = np.asarray(x)
        if given.dtype.kind != "f" or given.dtype.itemsize > 8:
            raise ParameterError(f"x must hold floats of at most 64 bits, got dtype {given.dtype}")
        missing = np.isnan(given)
        if missing.any():
            index = tuple(int(i) for i in np.argwhere(missing)[0])
            raise ParameterError(
                f"x is NaN at index {index}", remedy="repair or drop the value before the report"
            )
        flat = given.reshape(-1)
        out = np.empty(flat.size, dtype=np.int64)
        for start in range(0, flat.size, PIECE):
            steps = self._clipped(flat[start : start + PIECE].astype(np.float64), rng)
            out[start : start + PIECE] = self.noise.perturb(steps, rng=rng)
        return out.reshape(given.shape)

    def _clipped(self, x: NDArray[np.float64], rng: Rng) -> NDArray[np.int64]:
        """Rounded to the grid first, then clipped to the integer bound."""
        # What lies a step or more beyond the bound rounds to something beyond it, whatever it is:
        # so it may be cut there before, which keeps infinities out of the rounding. Both products
        # are exact, as powers of two.
        edge = (self.bound + 1) * 2.0**-self.frac_bits
        scaled = np.clip(x, -edge, edge) * 2.0**self.frac_bits
        steps = round_unbiased(scaled, rng)
        return np.clip(steps, -self.bound, self.bound, out=steps)

    def values(self, reports: NDArray[np.int64]) -> NDArray[np.float64]:
        """Reports as reals: float64 multiples of 2^-frac_bits, never NaN, infinite or -0.0."""
        steps = np.asarray(reports)
        if steps.dtype != np.int64:
            raise ParameterError(f"reports must be int64, got dtype {steps.dtype}")
        return np.asarray(steps * 2.0**-self.frac_bits)

    def estimate(self, reports: NDArray[np.int64]) -> Estimate:
        """The users' mean along axis 0; unbiased for values within the bound.

        reports: int64, shape (users, ...).  Returns an Estimate whose value has shape (...), with
        the variance of the noise and the largest that rounding can have.
        """
        return mean_of(reports, self.variance, 2.0**-self.frac_bits)

    @property
    def report_bits(self) -> int:
        """Bits of one coordinate on the wire: a bound on their mean, whatever the value.

        A single one may take more or less, since no fixed width holds every report.
        """
        return self.noise.code.mean_bits(self.bound**2 + self.variance)

    def pack(self, reports: NDArray[np.int64]) -> bytes:
        """Reports of any shape as bytes, with the Rice code for this noise; lossless."""
        return self.noise.code.pack(reports)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.int64]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return self.noise.code.unpack(data, shape)
