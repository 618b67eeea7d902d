"""What the devices of federated factorization compute: a user's own row, and her items' gradients.

Source: Ammad-ud-din et al., "Federated collaborative filtering for privacy-preserving personalized
    recommendation system" (arXiv:1901.09888, 2019): the user by a closed form, the items by a
    gradient to which each user adds a part.
Model: a local computation of each user. It is vectorised over users, none of whom sees another's
    row or ratings.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recsys.models.rating_factors import predicted, ridge
from recsys.ratings.gradients import Floats, Gradients


@dataclass(frozen=True, eq=False)
class Devices:
    """All users with their ratings, less the mean (users, items).

    users, items: float64 (., d + 1), the rows as they are at any time; those of users are set here.
    penalty: of a user's own row, positive.  bias: False leaves all biases 0.
    """

    ratings: "csr_array[np.float64]" = field(repr=False)
    users: Floats = field(repr=False)
    items: Floats = field(repr=False)
    penalty: float
    bias: bool

    def solve(self, members: NDArray[np.int32]) -> None:
        """Each member's row becomes the best for the items as they are."""
        ratings = self.ratings[members]
        self.users[members] = ridge(ratings, self.items, self.penalty, bias=self.bias)

    def gradients(self, members: NDArray[np.int32]) -> tuple[Gradients, float]:
        """After ``solve``: of half the members' squared errors, by the rows of their items.

        members: rising.  Returns also the sum of the squared errors.
        """
        self.solve(members)
        hers = self.ratings[members]
        owners = np.repeat(members, np.diff(hers.indptr))
        p, q = self.users[owners], self.items[hers.indices]
        errors = hers.data - predicted(p, q)
        p[:, -1] = float(self.bias)
        gradients = Gradients(
            members=members,
            starts=hers.indptr.astype(np.int64),
            items=hers.indices.astype(np.int32),
            rows=-errors[:, np.newaxis] * p,
            weights=np.zeros((members.size, 0)),
        )
        return gradients, float(errors @ errors)
