"""How the recommender comes by the sum of a round's gradients.

Two switches make four ways. ``aggregate`` decides what is protected: ``secure`` sums hide who
rated what (``aggregate_secure``), in ``clear`` each client's upload is seen, with pseudo-interacted
items and noise where the configuration asks for them, as in the paper (``aggregate_clear``).
``mode`` decides how the sum comes about: ``protocol`` does everybody's real work, ``simulate`` adds
up the same integers.

All four encode alike, with the same rounding coins (``recsys.ratings.encode``). So for one
``aggregate`` both modes give the same sums without noise, and sums of the same law with it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from mpc.core.keys import KEY_BYTES
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from recsys.drop_outs import DropOuts
from recsys.errors import PrivacyRefusal
from recsys.ratings.aggregate_base import Aggregation, AggregationFacts, Plan
from recsys.ratings.aggregate_clear import ClearSum, UploadedSum
from recsys.ratings.aggregate_mean import MeanRating
from recsys.ratings.aggregate_secure import FullSum, PaddedSum, SimulatedSum
from recsys.ratings.aggregate_vector import Layout
from recsys.ratings.config import RatingConfig
from recsys.ratings.encode import Encoding
from recsys.ratings.pseudo import PseudoItems
from recsys.rounds import check_drop_outs
from recsys.run import Run
from recsys.simulation import SimulationRng

__all__ = ["Aggregation", "AggregationFacts", "open_aggregation"]

_CLEAR_RING = Ring(64)
"""In the clear there is no ring, only machine integers."""


def open_aggregation(
    config: RatingConfig,
    cohorts: Sequence[NDArray[np.int32]],
    n_items: int,
    width: int,
    n_weights: int,
    sim: SimulationRng,
    run: Run,
    network: LocalNetwork,
    pseudo: PseudoItems | None = None,
    keys: NDArray[np.uint8] | None = None,
) -> Aggregation:
    """The way to sum that ``config`` asks for; with pads all pair keys are agreed here, once.

    cohorts: disjoint int32 arrays of rising users; with ``secure`` the same ones throughout the
    training, with ``clear`` those of the first epoch.  width: entries of an item's row.
    n_weights: entries of all shared weights.  network: counts what a protocol sends.
    pseudo: what each user uploads besides her own items; needed where ``config.pseudo`` is not 0.
    keys: ``pseudo.pseudo_keys``, from which noise follows, so that a resumed run repeats it; drawn
    afresh by default.
    Raises PrivacyRefusal for ``secure`` and a cohort below ``min_cohort``, or one that drop-outs
    leave too small; ParameterError, with the bits that are missing, where a sum could leave the
    ring.
    """
    if not cohorts:
        raise ParameterError("there must be at least one cohort")
    if bool(config.pseudo) != (pseudo is not None):
        raise ParameterError(
            f"pseudo must be given if config.pseudo is positive, and only then; it is "
            f"{config.pseudo}"
        )
    secure, protocol = config.aggregate == "secure", config.mode == "protocol"
    sizes = [members.size for members in cohorts]
    if secure:
        check_cohorts(config, sizes)
    ring = Ring(config.ring_bits) if secure else _CLEAR_RING
    if keys is None:
        users = 1 + max(int(members.max()) for members in cohorts)
        keys = SYSTEM_RNG.words((users, KEY_BYTES), np.uint8)
    plan = Plan(
        config=config,
        cohorts=cohorts,
        layout=Layout(n_items, width, n_weights),
        encoding=Encoding.of(config, max(sizes) if secure else sum(sizes), ring),
        sim=sim,
        mean=MeanRating(
            cohorts,
            config.min_cohort,
            run,
            network if protocol else None,
            full=config.secagg == "full",
        ),
        keys=keys,
        drop_outs=DropOuts(cohorts, config.drop_rate, sim) if secure else None,
    )
    if secure and not protocol:
        return SimulatedSum(plan)
    if secure:
        full = config.secagg == "full"
        return FullSum(plan, run, network) if full else PaddedSum(plan, run, network)
    return UploadedSum(plan, pseudo, network) if protocol else ClearSum(plan, pseudo)


def check_cohorts(config: RatingConfig, sizes: Sequence[int]) -> None:
    """Refuse what would open a single user's gradient."""
    smallest = min(sizes)
    if smallest < config.min_cohort:
        raise PrivacyRefusal(
            f"a cohort of {smallest} users is below the minimum of {config.min_cohort}: the sum of "
            "so few gradients tells too much about each",
            remedy="train with more users or a larger --cohort, or lower --min-cohort (never below "
            "3)",
        )
    if config.secagg == "full":
        check_drop_outs(sizes, config.drop_rate, config.min_cohort)
