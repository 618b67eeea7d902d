"""What a recommender learns by comparing the rounds of a user: two attacks on pseudo items.

A user uploads what she rated and pseudo-interacted items beside it, in every round in which she
takes part. Both attacks see the uploaded sets and nothing else; the true histories only judge them.

Source: intersection attacks on anonymity sets, Berthold, Pfitzmann and Standtke, "The disadvantages
    of free MIX routes and how to overcome them" (2000). Against FedGNN's pseudo-interacted items
    (Wu et al., arXiv:2102.04925, section 3.3) the measurement is our own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.data.ratings import Floats
from recsys.ratings.pseudo import PseudoItems

Items = NDArray[np.integer[Any]]


def intersection_precision(uploads: Sequence[Items], history: Items) -> Floats:
    """Share of the items in all uploads so far that the user rated, after each: float64 (r,).

    uploads: the item set of each of her r rounds, no item twice in one.  history: what she rated;
    a part of every upload.  Raises ParameterError where it is not, or is empty.
    """
    true = np.unique(history)
    if not true.size:
        raise ParameterError("a user without a history has nothing to be found")
    left: Items | None = None
    precision = np.empty(len(uploads))
    for r, upload in enumerate(uploads):
        left = np.unique(upload) if left is None else np.intersect1d(left, upload)
        if np.intersect1d(left, true, assume_unique=True).size < true.size:
            raise ParameterError(f"upload {r} lacks an item of the history")
        precision[r] = true.size / left.size
    return precision


@dataclass(frozen=True)
class Found:
    """What the attack has after some rounds in which a user took part.

    participations: rounds.  precision: of all (user, item) pairs left, the share that is true.
    typical: a user's own precision, the median.  opened: share of users of whom only true items
    are left.
    """

    participations: int
    precision: float
    typical: float
    opened: float


def intersection_table(
    pseudo: PseudoItems, users: NDArray[np.integer[Any]], participations: Sequence[int]
) -> list[Found]:
    """The intersection attack on ``users``, each with ratings, after so many rounds of hers.

    participations: rising, from 1.  Uploads are those that ``pseudo`` gives in rounds 0, 1, ....
    """
    if not participations or min(np.diff(participations, prepend=0)) < 1:
        raise ParameterError(f"participations must rise from 1, got {list(participations)}")
    rounds = np.empty((users.size, participations[-1]))
    sizes = np.empty(users.size)
    for row, user in enumerate(users.tolist()):
        history = pseudo.rated(user)
        uploads = [
            np.concatenate([history, pseudo.of(user, round_)]) for round_ in range(rounds.shape[1])
        ]
        rounds[row], sizes[row] = intersection_precision(uploads, history), history.size
    return [
        Found(
            participations=r,
            precision=float(sizes.sum() / (sizes / rounds[:, r - 1]).sum()),
            typical=float(np.median(rounds[:, r - 1])),
            opened=float(np.mean(rounds[:, r - 1] == 1.0)),
        )
        for r in participations
    ]


@dataclass(frozen=True)
class Guessed:
    """Precision of the pairs that an attack names, and of as many named at random."""

    precision: float
    at_random: float


def popularity_precision(pseudo: PseudoItems, users: NDArray[np.integer[Any]]) -> Guessed:
    """Name those items of each user's first upload that most of ``users`` upload.

    Pseudo items are spread evenly over the catalogue and rated ones are not, so that an item that
    many upload is likelier to be true; no round is compared with another, and sticky sets do not
    help. Each user is named as many items as she rated, which favours the attack a little: it has
    to guess that number.
    """
    uploads = [np.union1d(pseudo.rated(user), pseudo.of(user, 0)) for user in map(int, users)]
    uploaders = np.bincount(np.concatenate(uploads))
    rated = np.array([pseudo.rated(user).size for user in map(int, users)])
    true = 0
    for user, upload, count in zip(map(int, users), uploads, rated, strict=True):
        named = upload[np.argsort(-uploaders[upload], kind="stable")[:count]]
        true += np.intersect1d(named, pseudo.rated(user), assume_unique=True).size
    sizes = np.array([upload.size for upload in uploads])
    return Guessed(float(true / rated.sum()), float((rated**2 / sizes).sum() / rated.sum()))
