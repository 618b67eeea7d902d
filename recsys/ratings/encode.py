"""Gradients as integers on a grid: cut at the bound, rounded without bias.

Source: stochastic rounding as in Bonawitz et al., "Federated Learning with Autotuned
    Communication-Efficient Secure Aggregation" (2019), section 3; the bound is the paper's delta of
    FedGNN's Eq. 1 where the configuration sets ``clip``.
Model: a local computation. Its coins are functions of (seed, user, item, round, column), so that
    every way to form a sum adds up the same integers, in whatever batches it works.
Error: below one step of 2^-frac_bits for each entry, and unbiased: exactly for entries that are
    multiples of 2^-80 steps; the mean of a finer one is too near zero by less than that. Bounds are
    a bias, and counted.
Differs: without noise as ``secagg.quantize.Quantizer``, which cuts first and then rounds; with it
    as ``ldp.clipped_laplace.ClippedLaplace``, which rounds first, so that the bound is an integer.
    Coins of an entry are bound to what it belongs to, not to its place in an array: 16 bits decide
    all but one entry in 65,536; that one takes 64 more.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.clipped_laplace import ClippedLaplace
from ldp.discrete_laplace import DiscreteLaplace
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from recsys.errors import DivergenceError
from recsys.ratings.config import RatingConfig
from recsys.ratings.gradients import Floats, Gradients, GridGradients
from recsys.simulation import SimulationRng
from secagg.quantize import Quantizer

# Coins are drawn for a block of entries at once, since each draw makes a key of its own; what is
# rounded at a time stays in the second cache level.
_BLOCK = 1 << 17
_PIECE = 1 << 15

_COINS_PER_WORD = 4


@dataclass(frozen=True)
class Grid:
    """The integers that entries become.

    frac_bits: one step is 2^-frac_bits.  limit: entries of a larger magnitude count as clipped.
    edge: where entries are cut before they are rounded.  bound: and after, in steps.
    """

    frac_bits: int
    limit: float
    edge: float
    bound: int


@dataclass(frozen=True)
class Encoding:
    """How a configuration turns reals into integers, and sums of them back.

    mechanism: what adds the noise to them, None without any.
    quantizer: decodes sums of at most so many encodings as it has parties.
    """

    grid: Grid
    mechanism: ClippedLaplace | None
    quantizer: Quantizer

    @classmethod
    def of(cls, config: RatingConfig, parties: int, ring: Ring) -> "Encoding":
        """The encoding for sums of ``parties`` clients in ``ring``.

        Raises ParameterError, with the bits that are missing, if a sum could leave the ring: ever
        without noise, with a probability above 2^-60 for each entry of a sum with it.
        """
        frac_bits = config.frac_bits
        limit = float(config.bound if config.clip is None else config.clip)
        if config.laplace is None:
            quantizer = _quantizer(limit, frac_bits, parties, ring)
            return cls(Grid(frac_bits, limit, limit, quantizer.bound), None, quantizer)
        mechanism = ClippedLaplace(limit, config.laplace, frac_bits)
        # What lies a step beyond the bound rounds to something beyond it, whatever it is.
        edge = (mechanism.bound + 1) * 2.0**-frac_bits
        share = mechanism.bound - -noise_reach(mechanism.noise, parties) // parties
        quantizer = _quantizer(share * 2.0**-frac_bits, frac_bits, parties, ring)
        return cls(Grid(frac_bits, limit, edge, mechanism.bound), mechanism, quantizer)


def noise_reach(noise: DiscreteLaplace, terms: int) -> int:
    """Steps that a sum of ``terms`` draws of noise stays within, but for a probability of 2^-60.

    By Chernoff's bound: at c / scale the moment generating function of the continuous law,
    1 / (1 - c^2), is above that of the discrete one.
    """
    chance = 61 * math.log(2)  # one bit more for the two tails
    places = (k / 64 for k in range(1, 64))
    reach = min((chance - terms * math.log1p(-(c**2))) / c for c in places)
    return math.ceil(reach * noise.scale)


def _quantizer(clip: float, frac_bits: int, parties: int, ring: Ring) -> Quantizer:
    try:
        return Quantizer(clip, frac_bits, ring, max(parties, 2))
    except ParameterError as error:
        raise ParameterError(
            error.message,
            remedy="raise ring_bits (to 64 at most), or lower the clip, the bound, frac_bits or "
            "the cohort",
        ) from error


class _Coins:
    """The rounding coins of an array whose row r belongs to the indices (part[r] for part in keys).

    They are coins of (seed, purpose, keys, round, column).
    """

    def __init__(
        self, sim: SimulationRng, purpose: str, keys: tuple[NDArray[np.int32], ...], round_: int
    ) -> None:
        self._sim = sim
        self._purpose = purpose
        self._keys = keys
        self._round = round_

    def first(self, rows: slice, width: int) -> NDArray[np.uint16]:
        """16 bits for each entry of some rows."""
        word = np.arange(-(-width // _COINS_PER_WORD))
        keys = (key[rows, np.newaxis] for key in self._keys)
        words = self._sim.coins(self._purpose, *keys, self._round, word)
        return np.ascontiguousarray(words, dtype="<u8").view("<u2")[:, :width]

    def further(self, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.uint64]:
        """64 bits more for single entries."""
        keys = (key[rows] for key in self._keys)
        return self._sim.coins(f"{self._purpose} tie", *keys, self._round, columns)


def encode(
    gradients: Gradients, grid: Grid, sim: SimulationRng, round_: int
) -> tuple[GridGradients, int]:
    """The gradients of a round as multiples of 2^-frac_bits, and how many entries were clipped.

    Raises DivergenceError where an entry is NaN or infinite.
    """
    members, items = gradients.members, gradients.items
    owners = np.repeat(members, np.diff(gradients.starts))
    rows, cut = _rounded(
        gradients.rows, grid, _Coins(sim, "rounding of items", (owners, items), round_)
    )
    weights, cut_weights = _rounded(
        gradients.weights, grid, _Coins(sim, "rounding of weights", (members,), round_)
    )
    return GridGradients(members, gradients.starts, items, rows, weights), cut + cut_weights


def _rounded(values: Floats, grid: Grid, coins: _Coins) -> tuple[NDArray[np.int64], int]:
    count, width = values.shape
    out = np.empty((count, width), dtype=np.int64)
    if not out.size:
        return out, 0
    block, step = max(1, _BLOCK // width), max(1, _PIECE // width)
    scratch = np.empty((2, min(step, count), width))
    clipped = 0
    for start in range(0, count, block):
        end = min(start + block, count)
        first = coins.first(slice(start, end), width)
        for at in range(start, end, step):
            piece = slice(at, min(at + step, end))
            magnitude, steps = scratch[:, : piece.stop - at]
            np.abs(values[piece], out=magnitude)
            clipped += _cut(magnitude, grid)
            _round(magnitude, steps, first[at - start : piece.stop - start], grid, coins, at)
            out[piece] = np.copysign(steps, values[piece], out=steps)
    return out, clipped


def _cut(magnitude: Floats, grid: Grid) -> int:
    """Cut at the grid's edge, in place; how many entries lay beyond the limit."""
    largest = magnitude.max()
    if not largest < np.inf:  # true for NaN too
        raise DivergenceError("a gradient is not finite")
    if not largest > grid.limit:  # which no edge is below
        return 0
    beyond = int(np.count_nonzero(magnitude > grid.limit))
    np.minimum(magnitude, grid.edge, out=magnitude)
    return beyond


def _round(
    magnitude: Floats,
    steps: Floats,
    prefix: NDArray[np.uint16],
    grid: Grid,
    coins: _Coins,
    first_row: int,
) -> None:
    """Overwrite ``steps`` with whole steps, at most ``grid.bound``; spends ``magnitude``."""
    # Powers of two only move exponents, and a fraction is exact: so nothing is rounded but by coin.
    magnitude *= 2.0**grid.frac_bits
    np.floor(magnitude, out=steps)
    magnitude -= steps
    magnitude *= 2.0**16
    threshold = magnitude.astype(np.uint16)
    steps += prefix < threshold
    ties = np.flatnonzero(prefix == threshold)
    if ties.size:
        rest = (magnitude.reshape(-1)[ties] - threshold.reshape(-1)[ties]) * 2.0**64
        rows, columns = np.divmod(ties, steps.shape[1])
        up = coins.further(first_row + rows, columns) < rest.astype(np.uint64)
        steps.reshape(-1)[ties] += up
    if grid.edge > grid.limit:
        np.minimum(steps, grid.bound, out=steps)
