"""What the mechanisms that add integer noise share: sums that cannot overflow, means, the wire.

Error: reports are int64. Where the true sum lies beyond 2^62 it is replaced by plus or minus 2^62,
    a step after the mechanism that costs no privacy and that no parameter makes likelier than
    e^-192.
"""

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.exact_table import PIECE
from ldp.mechanism import Estimate
from ldp.rice import LIMIT, RiceCode
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng, Shape

MAX_INPUT = 1 << 60
"""Inputs lie within this of 0, so that input plus noise fits into 64 bits."""


class IntegerNoise(ABC):
    """Adds independent noise, symmetric around 0, to each integer of an array."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """How far two inputs may lie apart that must not be told from each other."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise."""

    @property
    @abstractmethod
    def _spread(self) -> Fraction:
        """About the mean distance of the noise from 0."""

    @abstractmethod
    def _fill(self, out: NDArray[np.int64], rng: Rng) -> None:
        """Overwrite at most ``PIECE`` entries with noise.

        Exact up to 2^62 + 2^60 in magnitude; what is larger may be anything up to 2^62 + 2^61.
        """

    @property
    def unit(self) -> str:
        """What the privacy loss is about: one value, an entry of ``perturb``'s argument."""
        return "value"

    def sample(self, shape: Shape = (), *, rng: Rng = SYSTEM_RNG) -> NDArray[np.int64]:
        """Independent noise: int64 of ``shape``, clipped to [-2^62, 2^62]."""
        out = np.empty(shape, dtype=np.int64)
        flat = out.reshape(-1)
        for start in range(0, flat.size, PIECE):
            piece = flat[start : start + PIECE]
            self._fill(piece, rng)
            np.clip(piece, -LIMIT, LIMIT, out=piece)
        return out

    def perturb(self, x: NDArray[np.integer[Any]], *, rng: Rng = SYSTEM_RNG) -> NDArray[np.int64]:
        """Add fresh noise to each entry: int64 of ``x``'s shape, clipped to [-2^62, 2^62].

        x: integers of any dtype, within 2^60 of 0.  Raises ParameterError for anything else.
        """
        given = np.asarray(x)
        if given.dtype.kind not in "iu":
            raise ParameterError(
                f"x must hold integers, got dtype {given.dtype}",
                remedy="put real values on a grid, as ldp.clipped_laplace does",
            )
        flat = given.reshape(-1)
        if flat.size and not (flat.min() >= -MAX_INPUT and flat.max() <= MAX_INPUT):
            raise ParameterError("x must lie in [-2^60, 2^60]", remedy="clip it first")
        out = np.empty(flat.size, dtype=np.int64)
        for start in range(0, flat.size, PIECE):
            self._add_noise(flat[start : start + PIECE], out[start : start + PIECE], rng)
        return out.reshape(given.shape)

    def _add_noise(self, x: NDArray[Any], out: NDArray[np.int64], rng: Rng) -> None:
        self._fill(out, rng)
        out += x.astype(np.int64)  # at most 2^62 + 2^61 and 2^60 in magnitude
        np.clip(out, -LIMIT, LIMIT, out=out)

    def estimate(self, reports: NDArray[np.int64]) -> Estimate:
        """The users' mean along axis 0; reports: int64 (users, ...), value of shape (...)."""
        return mean_of(reports, self.variance)

    @property
    def report_bits(self) -> int:
        """Bits of one report on the wire: a bound on their mean, for x within the sensitivity.

        A single report may take more or less, since no fixed width holds every report.
        """
        return self.code.mean_bits(self.sensitivity**2 + self.variance)

    def pack(self, reports: NDArray[np.int64]) -> bytes:
        """Reports of any shape as bytes, with the Rice code for this noise; lossless."""
        return self.code.pack(reports)

    def unpack(self, data: bytes, shape: Shape) -> NDArray[np.int64]:
        """Inverse of ``pack`` for a known shape; WireError for bytes that are no such reports."""
        return self.code.unpack(data, shape)

    @cached_property
    def code(self) -> RiceCode:
        """The code of reports on the wire."""
        return RiceCode.around(self._spread)


def mean_of(reports: NDArray[np.int64], variance: float, step: float = 1.0) -> Estimate:
    """The mean along axis 0, in units of ``step``, of reports with noise of this variance."""
    values = np.asarray(reports)
    if values.dtype != np.int64:
        raise ParameterError(f"reports must be int64, got dtype {values.dtype}")
    if values.ndim == 0 or not values.shape[0]:
        raise ParameterError(f"reports need at least one user on axis 0, got {values.shape}")
    n = values.shape[0]
    largest = max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
    # Integers add up exactly as long as they cannot wrap.
    exact = largest * n < 2**63
    total = values.sum(axis=0, dtype=np.int64 if exact else np.float64)
    each = np.full(values.shape[1:], variance * step**2 / n)
    return Estimate(value=np.asarray(total / n * step), variance=each, worst=each, n=n)


def checked_sensitivity(sensitivity: int) -> int:
    """``sensitivity`` as an integer in [1, 2^53]; ParameterError otherwise."""
    return integer("sensitivity", sensitivity, 1, 1 << 53)
