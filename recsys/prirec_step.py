"""What a user's device makes of one local batch: the gradients of PriRec's Eq. 3 and 4.

Source: PriRec (Chen et al., 2020), Algorithm 2, lines 9 and 13, with the penalties of Eq. 2.
Model: a local computation. Who sums what, and who sees it, is for ``recsys.prirec`` in one process
    and ``recsys.flower.prirec`` on many nodes, which share this step.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recsys.batches import Batch
from recsys.config import TrainConfig
from recsys.features import Features
from recsys.models import fm


@dataclass(frozen=True)
class LocalGradients:
    """w: (members, D + 1).  v: (members, D, K).  losses: of the real samples, in nats."""

    w: fm.Floats
    v: fm.Floats
    losses: fm.Floats


def local_gradients(
    features: Features,
    members: NDArray[np.int32],
    batch: Batch,
    own: fm.Floats,
    v: fm.Floats,
    config: TrainConfig,
) -> LocalGradients:
    """Gradients of each member's batch at her own model and at the V that all pulled.

    members: rows of ``features.user``.  own: (members, D + 1), their linear models.  v: (D, K).
    """
    x = features.samples(members[:, np.newaxis], batch.pois)
    pass_ = fm.forward(x, own[:, np.newaxis], v)
    slopes = fm.slope(pass_.score, batch.labels)
    count = batch.counts[:, np.newaxis]
    grad_w = fm.linear_gradient(x, slopes) + 2 * config.penalty_w * count * own
    grad_v = fm.factor_gradient(x, slopes, pass_.factor_sums, v)
    grad_v += 2 * config.penalty_v * count[..., np.newaxis] * v
    losses = fm.loss(pass_.score, batch.labels)[batch.labels != 0]
    return LocalGradients(grad_w, grad_v, losses)
