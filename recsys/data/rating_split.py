"""Ratings split into parts for training, validation and test.

The published test part is kept where there is one. Which of the other ratings are held out depends
on a coin of each (seed, user, item) alone, users and items as indices: users or items that are
added behind the others change nobody else's parts.

Ratings are held out without regard to how many a user or an item has left, so that some may have
none to train on. Such users and items stay in the set, are skipped in training and are predicted by
what is known of the other side; ``notes`` counts them.
"""

from dataclasses import dataclass

import numpy as np

from mpc.core.errors import ParameterError
from recsys.data.ratings import RatingParts, Ratings, Triples
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
    """The parts of ``ratings``; each is sorted as the set is, and any of them may be empty.

    Raises ParameterError where the published test part does not match the ratings in number.
    """
    triples = ratings.triples
    held_out = ratings.test if config.published else None
    coins = sim.coins("rating split", triples.users, triples.items) / 2.0**64
    if held_out is None:
        held_out = coins < config.test_fraction
        # The rest of the unit interval decides on validation, as if it were whole.
        coins = (coins - config.test_fraction) / (1 - config.test_fraction)
    elif held_out.dtype != np.bool_ or held_out.shape != triples.users.shape:
        raise ParameterError(
            f"test must be bool of shape {triples.users.shape}, got {held_out.dtype} of "
            f"{held_out.shape}"
        )
    chosen = ~held_out & (coins < config.validation_fraction)
    train, validation, test = (
        triples.part(part) for part in (~held_out & ~chosen, chosen, np.asarray(held_out))
    )
    notes = _notes(ratings, train, validation, test, config)
    return RatingParts(
        name=ratings.name,
        train=train,
        validation=validation,
        test=test,
        user_ids=ratings.user_ids,
        item_ids=ratings.item_ids,
        low=ratings.low,
        high=ratings.high,
        user_graph=ratings.user_graph,
        item_graph=ratings.item_graph,
        notes=(*ratings.notes, *notes),
    )


def _notes(
    ratings: Ratings, train: Triples, validation: Triples, test: Triples, config: SplitConfig
) -> list[str]:
    """What a reader of results should know of the parts."""
    notes = []
    if ratings.test is not None and not config.published:
        notes.append("the published test part is not used, another one is drawn")
    for name, size, who in (("users", ratings.n_users, "who"), ("items", ratings.n_items, "which")):
        seen = np.bincount(getattr(train, name), minlength=size) > 0
        cold = int((~seen[getattr(test, name)]).sum())
        if not seen.all():
            notes.append(
                f"{name} without a training rating: {int((~seen).sum()):,} of {size:,}, "
                f"{who} have {cold:,} of {len(test):,} test ratings"
            )
    if len(train) and not len(validation):
        notes.append("no rating is held out for validation")
    if len(train) and not len(test):
        notes.append("no rating is held out for test")
    return notes
