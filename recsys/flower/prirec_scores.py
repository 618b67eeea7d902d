"""Figures of a node that go into a secure sum beside its gradients: losses and AUCs of its users.

Every figure is a sum over users, each of whom counts at most once, so that bounds follow from the
number of users and tell nothing about how many visits somebody has.

Source: PriRec (Chen et al., 2020), Eq. 2; the mean of users' AUCs as ``recsys.metrics.user_auc``.
Model: local computations.
Leaks: what the sum over nodes leaks.
Error: losses above 32 nats count as 32.
Differs: a run in one process reports the mean over samples, and a pooled AUC, which no sum over
    users gives.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from recsys.data.prepare import Pairs
from recsys.features import Features
from recsys.metrics import user_auc
from recsys.models import fm
from recsys.scoring import score_pairs

USERS, LOSS = "users", "loss"
HELD_OUT_USERS, HELD_OUT_LOSS = "held-out-users", "held-out-loss"
AUC_USERS, AUC = "auc-users", "auc"
"""Of users with samples in the round their number and the sum of their mean losses, as the samples
were met; the same of held-out pairs; of users with held-out pairs of both labels their number and
the sum of their AUCs."""

NAMES = (USERS, LOSS, HELD_OUT_USERS, HELD_OUT_LOSS, AUC_USERS, AUC)

MOST_LOSS = 32.0
"""A model with a larger loss is off by more than ten thousand billion to one."""


def bounds(users: int) -> dict[str, float]:
    """The largest magnitude of each figure of a node with so many users."""
    return {name: users * (MOST_LOSS if name.endswith(LOSS) else 1.0) for name in NAMES}


def figures_of(users: float, losses: float) -> dict[str, float]:
    """Figures of a round without held-out pairs."""
    return {**dict.fromkeys(NAMES, 0.0), USERS: users, LOSS: min(losses, users * MOST_LOSS)}


def held_out_figures(
    features: Features, w: fm.Floats, v: fm.Floats, pairs: Pairs
) -> dict[str, float]:
    """How well users' own models tell their held-out visits."""
    if not len(pairs):
        return {}
    scores = score_pairs(features, w, v, pairs.users, pairs.pois)
    losses = np.minimum(fm.loss(scores, pairs.labels), MOST_LOSS)
    counts = np.bincount(pairs.users)
    some = counts > 0
    means = np.bincount(pairs.users, weights=losses)[some] / counts[some]
    both = _with_both_labels(pairs)
    area = user_auc(pairs.users, pairs.labels, scores)
    return {
        HELD_OUT_USERS: float(means.size),
        HELD_OUT_LOSS: float(means.sum()),
        AUC_USERS: float(both),
        AUC: 0.0 if area is None else area * both,
    }


def means(totals: Mapping[str, float]) -> tuple[float | None, float | None, float | None]:
    """Mean training loss, held-out loss and AUC of the users; None where nobody has any."""
    return (
        _ratio(totals[LOSS], totals[USERS]),
        _ratio(totals[HELD_OUT_LOSS], totals[HELD_OUT_USERS]),
        _ratio(totals[AUC], totals[AUC_USERS]),
    )


def _ratio(total: float, count: float) -> float | None:
    return total / round(count) if round(count) else None


def _with_both_labels(pairs: Pairs) -> int:
    size = int(pairs.users.max()) + 1
    has: list[NDArray[np.int64]] = [
        np.bincount(pairs.users[pairs.labels * sign > 0], minlength=size) for sign in (1, -1)
    ]
    return int(np.count_nonzero((has[0] > 0) & (has[1] > 0)))
