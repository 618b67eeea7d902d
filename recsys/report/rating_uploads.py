"""What a user of a federated rating model uploads: counted where it was sent, else computed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.ratings.aggregate_base import Aggregation
from recsys.ratings.model import RatingModel
from recsys.report.costs import Costs


@dataclass(frozen=True)
class Uploads:
    """upload: bytes of one user's upload in one round, on average over users with ratings.

    per_user: bytes of a user in the whole training, on average over all users; all that was sent
    where ``counted``, else the uploads alone, one in every epoch.  None where nothing travels.
    """

    upload: float | None
    per_user: float | None
    counted: bool


def aggregation_of(model: RatingModel) -> Aggregation | None:
    """How the model sums gradients, None for one that does not."""
    found = getattr(model.learner_, "aggregation", None)
    return found if isinstance(found, Aggregation) else None


def uploads_of(model: RatingModel, costs: Costs) -> Uploads:
    """See ``Uploads``, of a model that ``fit`` has just trained."""
    users = model.parts_.n_users
    sent = costs.bytes / users if costs.traffic else None
    aggregation = aggregation_of(model)
    if aggregation is None:
        return Uploads(None, sent, sent is not None)
    counts, times = np.unique(uploaded_items(model), return_counts=True)
    active = counts > 0
    sizes = [aggregation.upload_bytes(int(count)) for count in counts[active]]
    total = float(np.dot(sizes, times[active]))
    computed = total * len(model.history_) / users
    return Uploads(
        total / float(times[active].sum()), computed if sent is None else sent, sent is not None
    )


def uploaded_items(model: RatingModel) -> NDArray[np.int64]:
    """How many items each user uploads in the clear: int64 (users,), 0 for one without ratings."""
    parts = model.parts_
    rated = np.bincount(parts.train.users, minlength=parts.n_users)
    pseudo = np.minimum(model.config.pseudo, parts.n_items - rated)
    return np.where(rated > 0, rated + pseudo, 0)
