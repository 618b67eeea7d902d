"""How much of users' histories the item sets of this very training give away.

Source: the attacks of ``recsys.ratings.intersection``; docs/protocols/fedgnn-uploads.md has them
    for the benchmark sets.
Model: a recommender who sees which items each user uploads, and nothing else.
Leaks: shares over all users, or over ``MOST`` of them; of few there are none.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recsys.ratings.intersection import popularity_precision
from recsys.ratings.model import RatingModel
from recsys.ratings.pseudo import PseudoItems
from recsys.report.rating_errors import LEAST

MOST = 4096
"""Users of whom histories are guessed at most, spread evenly: thousands tell what all would."""


@dataclass(frozen=True)
class Guesses:
    """What a recommender finds of the histories of users with ratings, as shares.

    users: of whom.  popular: of as many items as a user rated, those of her upload that most users
    upload, how many are hers.  at_random: the same of items taken at random from her upload.
    left: of what is in all of a user's uploads, how much is hers; expected for sets that are
    resampled, and no more than one round tells for sticky ones.
    """

    users: int
    popular: float
    at_random: float
    left: float

    def __str__(self) -> str:
        return (
            "Popularity tells: whoever names, of each user's upload, the items that most users "
            f"upload, as many as she rated, is right for {percent(self.popular)}, and at random "
            f"for {percent(self.at_random)} (the sets of this training, {self.users:,} users)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def guesses(model: RatingModel) -> Guesses | None:
    """Of a model that ``fit`` has just trained.

    None where no set is uploaded or none hides any, and of fewer than ``LEAST`` users.
    """
    pseudo = getattr(model.learner_, "pseudo", None)
    if not isinstance(pseudo, PseudoItems):
        return None
    parts, config = model.parts_, model.config
    rated = np.bincount(parts.train.users, minlength=parts.n_users)
    users = np.flatnonzero(rated)
    others = np.minimum(config.pseudo, parts.n_items - rated[users])
    if users.size < LEAST or (rated[users] + others == parts.n_items).all():
        return None  # if everybody uploads the whole catalogue, sets tell nothing
    rounds = 1 if config.pseudo_items == "sticky" else len(model.history_)
    unrated = np.maximum(parts.n_items - rated[users], 1)
    # Each of a user's unrated items is in a set with the same probability, in every round anew.
    left = rated[users] + unrated * (others / unrated) ** rounds
    chosen = users[:: -(-users.size // MOST)]
    found = popularity_precision(pseudo, chosen)
    return Guesses(
        users=chosen.size,
        popular=found.precision,
        at_random=found.at_random,
        left=float(rated.sum() / left.sum()),
    )


def percent(share: float) -> str:
    """A share for a reader."""
    return f"{100 * share:.0f} %"
