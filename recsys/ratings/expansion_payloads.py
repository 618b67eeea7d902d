"""A user's embedding as the payload of matching: integers on a grid, of one size for everybody.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 2, line 4; its Eq. 1 for clip and noise,
    which the paper applies to gradients alone.
Model: with ``embedding_epsilon``, epsilon-LDP for each coordinate of each payload, d times as much
    for a vector (``ldp.clipped_laplace``), against whoever reads payloads. Without it, none.
Leaks: the payload. Nothing of the embedding below the grid step 2^-frac_bits is in it.
Error: without noise at most half a grid step. With noise, coordinates beyond ``EMBEDDING_CLIP`` are
    cut there, and rounding is unbiased.
Differs: the paper sends the embedding itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.clipped_laplace import ClippedLaplace
from mpc.core.rng import Rng
from recsys.errors import DivergenceError
from recsys.ratings.config import RatingConfig

Floats = NDArray[np.float64]

EMBEDDING_CLIP = 0.5
"""Bound of a coordinate under noise: five times the usual initial scale. It is fixed ahead, since
one that followed the embeddings would tell something of them."""

COORDINATE_BYTES = 8
_LIMIT = 2.0**62


def embedding_noise(config: RatingConfig) -> ClippedLaplace | None:
    """The mechanism of ``embedding_epsilon``, or None where embeddings are handed on as they are.

    Raises ParameterError where the grid has no room for it (see ``ClippedLaplace``).
    """
    if config.embedding_epsilon is None:
        return None
    return ClippedLaplace.from_epsilon(config.embedding_epsilon, EMBEDDING_CLIP, config.frac_bits)


@dataclass(frozen=True)
class EmbeddingGrid:
    """Multiples of 2^-frac_bits. noise: None rounds each coordinate to the nearest of them."""

    frac_bits: int
    noise: ClippedLaplace | None

    @classmethod
    def of(cls, config: RatingConfig) -> "EmbeddingGrid":
        """The grid that the settings ask for."""
        return cls(config.frac_bits, embedding_noise(config))

    def encode(self, embeddings: Floats, coins: Iterator[Rng]) -> NDArray[np.int64]:
        """Everybody's payload as grid steps, int64 (users, d).

        embeddings: float64 (users, d).  coins: for each user in turn her generator; none is asked
        for without noise.
        Raises DivergenceError where an entry is not finite or leaves the range of the grid.
        """
        if not np.isfinite(embeddings).all():
            raise DivergenceError("a user's embedding is not finite")
        if self.noise is not None:
            steps = np.empty(embeddings.shape, dtype=np.int64)
            for user, rng in zip(range(len(steps)), coins, strict=True):
                steps[user] = self.noise.perturb(embeddings[user], rng=rng)
            return steps
        scaled = np.rint(embeddings * 2.0**self.frac_bits)
        if np.abs(scaled).max(initial=0.0) >= _LIMIT:
            raise DivergenceError(
                f"a user's embedding has left the range of a grid of {self.frac_bits} fractional "
                "bits",
                remedy="lower the learning rate or user_rate, or use fewer frac_bits",
            )
        return scaled.astype(np.int64)

    def decode(self, payload: bytes) -> Floats:
        """What a payload, or several one after another, say: float64 (coordinates,)."""
        values: Floats = np.frombuffer(payload, dtype="<i8") * 2.0**-self.frac_bits
        return values


def payload_of(steps: NDArray[np.int64]) -> bytes:
    """Grid steps as bytes: 8 for each coordinate, little-endian."""
    return steps.astype("<i8", copy=False).tobytes()
