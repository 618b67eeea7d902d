"""Who drops out of which round: experiment coins, so that a run can show what drop-outs do.

A share of each cohort, other members in each round, vanishes after sharing keys and before its
vector is sent. The same members are gone whether sums are formed by the protocol or simulated.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from recsys.simulation import SimulationRng

SECAGG = ("pads", "full")
"""How a cohort's vectors are added up: without drop-outs, or with some."""


class DropOuts:
    """In each round the share ``rate`` of each cohort, rounded down.

    cohorts: int32 arrays of users.  rate: in [0, 1).
    """

    def __init__(
        self, cohorts: Sequence[NDArray[np.int32]], rate: float, sim: SimulationRng
    ) -> None:
        self._cohorts = cohorts
        self._rate = rate
        self._sim = sim

    def gone(self, cohort: int, round_: int) -> NDArray[np.intp]:
        """Positions, rising, of the members of ``cohort`` who are missing in the sum of a round."""
        members = self._cohorts[cohort]
        count = missing(members.size, self._rate)
        if not count:
            return np.zeros(0, dtype=np.intp)
        return np.sort(self._sim.order("drop-outs", members, round_)[:count])


def missing(members: int, rate: float) -> int:
    """How many of so many members drop out."""
    # A rate is a decimal that somebody wrote: 0.29 of 100 are 29, whatever the float makes of it.
    return math.floor(rate * members + 1e-9)


def check_drop_rate(secagg: str, rate: float) -> None:
    """Refuse a rate outside [0, 1), and one that one-time pads cannot stand."""
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not (number and 0 <= rate < 1):  # false for NaN too
        raise ParameterError(f"drop_rate must lie in [0, 1), got {rate!r}")
    if rate and secagg == "pads":
        raise ParameterError(
            f"drop_rate must be 0 with secagg pads, got {rate:g}: if one vector is missing, pads "
            "do not cancel",
            remedy="set secagg to full, or leave drop_rate out",
        )
