"""What a training run keeps outside the model: secrets, high-water mark, checkpoints.

``Run`` is the seam between a model and wherever its state is stored. ``MemoryRun`` keeps nothing;
``recsys.report.run_folder.RunFolder`` writes a folder that separates who holds what.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mpc.core.rng import SYSTEM_RNG
from secagg.watermark import MemoryWatermark, Watermark

MEMO_KEY_BYTES = 32


@dataclass(frozen=True)
class Snapshot:
    """The state after a whole epoch.

    users: arrays that only the users hold.  recommender: arrays that the recommender holds.
    progress: plain values that may be public.
    """

    users: dict[str, NDArray[np.float64]] = field(repr=False)
    recommender: dict[str, NDArray[np.float64]] = field(repr=False)
    progress: dict[str, Any]


class Run(Protocol):
    """Where a run's secrets and checkpoints live."""

    def experiment_seed(self) -> int:
        """The seed of split, order and rounding; the same again after a resume."""

    def memo_keys(self, users: int) -> NDArray[np.uint8]:
        """Each user's 32-byte memo key (users, 32), stored durably before it is returned."""

    def watermark(self) -> Watermark:
        """The high-water mark of this process's pad keys."""

    def tell(self, text: str) -> None:
        """Say how far a step is that takes long; called often."""

    def load(self) -> Snapshot | None:
        """The newest snapshot, or None at the start."""

    def save(self, snapshot: Snapshot) -> None:
        """Store ``snapshot`` so that a kill at any point leaves it or its predecessor."""


class MemoryRun:
    """A run that lives and dies with the process."""

    def __init__(self) -> None:
        self._seed = int.from_bytes(SYSTEM_RNG.bytes(8), "big")

    def experiment_seed(self) -> int:
        """A seed drawn once from the system."""
        return self._seed

    def memo_keys(self, users: int) -> NDArray[np.uint8]:
        """Fresh keys; they end with the process, and so do the answers."""
        keys: NDArray[np.uint8] = SYSTEM_RNG.words((users, MEMO_KEY_BYTES), np.uint8)
        return keys

    def watermark(self) -> Watermark:
        """Pad keys end with the process, so a mark in memory suffices."""
        return MemoryWatermark()

    def tell(self, text: str) -> None:
        """Nobody listens."""

    def load(self) -> Snapshot | None:
        """Nothing is kept."""
        return None

    def save(self, snapshot: Snapshot) -> None:
        """Nothing is kept."""
