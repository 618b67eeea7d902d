"""Ratings split into parts for training, validation and test.

The published test part is kept where there is one. Which of the other ratings are held out depends
on a coin of each (seed, user, item) alone, so that adding a user changes nobody else's parts.
"""

from dataclasses import dataclass

import numpy as np

from mpc.core.errors import ParameterError
from recsys.data.ratings import RatingParts, Ratings
from recsys.simulation import SimulationRng


@dataclass(frozen=True)
class SplitConfig:
    """How ratings are split.

    validation_fraction: share of the training ratings that is held out to choose by, in [0, 1).
    test_fraction: share that is tested on where the set has no published test part, in [0, 1).
    published: False draws the test part even where one was published.
    """

    validation_fraction: float = 0.1
    test_fraction: float = 0.1
    published: bool = True

    def __post_init__(self) -> None:
        for name in ("validation_fraction", "test_fraction"):
            share = getattr(self, name)
            is_number = isinstance(share, int | float) and not isinstance(share, bool)
            if not (is_number and 0 <= share < 1):
                raise ParameterError(f"{name} must lie in [0, 1), got {share!r}")
        if not isinstance(self.published, bool):
            raise ParameterError(f"published must be true or false, got {self.published!r}")


def split_ratings(ratings: Ratings, config: SplitConfig, sim: SimulationRng) -> RatingParts:
    """The parts of ``ratings``; each is sorted as the set is."""
    triples = ratings.triples
    held_out = ratings.test if config.published else None
    coins = sim.coins("rating split", triples.users, triples.items) / 2.0**64
    if held_out is None:
        held_out = coins < config.test_fraction
        # The rest of the unit interval decides on validation, as if it were whole.
        coins = (coins - config.test_fraction) / (1 - config.test_fraction)
    chosen = ~held_out & (coins < config.validation_fraction)
    return RatingParts(
        name=ratings.name,
        train=triples.part(~held_out & ~chosen),
        validation=triples.part(chosen),
        test=triples.part(np.asarray(held_out)),
        user_ids=ratings.user_ids,
        item_ids=ratings.item_ids,
        low=ratings.low,
        high=ratings.high,
        user_graph=ratings.user_graph,
        item_graph=ratings.item_graph,
        notes=ratings.notes,
    )
