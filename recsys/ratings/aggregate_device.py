"""What one device adds up of the uploads of its own users, before it goes into a sum over devices.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1 and Eq. 1: pseudo-interacted items, then
    clipping and Laplace noise, of each user by herself.
Model: a local computation. The users of one device trust it, as each trusts hers; towards everybody
    else each user's noise protects her as ``ldp.clipped_laplace`` says, whoever adds up what.
Leaks: nothing; what a sum over devices tells is for who forms it to say.
Error: that of the encoding. Sums are those of ``recsys.ratings.aggregate``, integer by integer.
"""

import numpy as np

from recsys.ratings.aggregate_base import UploadPlan
from recsys.ratings.aggregate_clear import widened
from recsys.ratings.aggregate_noise import upload_of, vector_of
from recsys.ratings.aggregate_vector import Integers
from recsys.ratings.encode import encode
from recsys.ratings.gradients import Gradients, GridGradients
from recsys.ratings.pseudo import PseudoItems


class DeviceSum:
    """Sums of what a device's users upload, as vectors over the whole catalogue.

    With ``aggregate`` secure every user puts noise on every coordinate of it; with clear on those
    that she uploads, her pseudo-interacted items among them, as in the paper.
    pseudo: given if ``plan.config.pseudo`` is positive.
    """

    def __init__(self, plan: UploadPlan, pseudo: PseudoItems | None = None) -> None:
        self._plan, self._pseudo = plan, pseudo
        self._whole = plan.config.aggregate == "secure"

    def of(self, gradients: Gradients, round_: int) -> tuple[Integers, int]:
        """Steps of the grid, int64 (size,), and how many entries were clipped.

        All of ``gradients.members`` are in the sum. Raises as ``Aggregation.sum``.
        """
        plan = self._plan
        plan.layout.check(gradients)
        total, clipped = plan.layout.nothing(), 0
        for part in widened(gradients, self._pseudo, round_, plan.config):
            grid, cut = encode(part, plan.encoding.grid, plan.sim, round_)
            clipped += cut
            if plan.encoding.mechanism is None:
                total += plan.layout.total(grid)
                continue
            for user in grid.members:
                self._add(total, grid, int(user), round_)
        return total, clipped

    def _add(self, total: Integers, grid: GridGradients, user: int, round_: int) -> None:
        plan = self._plan
        if self._whole:
            np.add(total, vector_of(plan, grid, user, round_), out=total)
        else:
            plan.layout.add(total, *upload_of(plan, grid, user, round_))
