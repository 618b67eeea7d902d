"""Hyper-parameters by coordinate search on the validation part: one grid and one budget for all.

Source: PriRec (Chen et al., 2020), section 4.1: each model's learning rate and penalties by grid
    search in {1e-4, ..., 1}. FedGNN (Wu et al., 2021), section 4: by validation.
Leaks: a search is as many trainings as it has trials. In a deployment each of them would release
    its sums, its shared parameters and its learning curve once more; answers about visits are
    memoized and cost nothing again.
Differs: one axis after the other instead of all combinations, so that every model can be searched
    with the same number of trainings in minutes; and by validation, where the paper does not say.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from mpc.core.checks import integer

Settings = dict[str, float]
Trial = Callable[[Settings], float | None]
"""A training with these settings: its best validation measure, None if it diverged or has none."""

GRID: Mapping[str, tuple[float, ...]] = {
    "regions": (32, 256, 1024),
    "learning_rate": (0.01, 0.03, 0.1, 0.3),
    "learning_rate_v": (0.001, 0.003, 0.01, 0.03, 0.1),
    "penalty_w": (1e-4, 1e-3, 1e-2),
    "penalty_v": (1e-4, 1e-3, 1e-2),
}
"""Axes in the order of the search: what a model sees, then how it learns."""

START: Settings = {
    "regions": 32,
    "learning_rate": 0.1,
    "learning_rate_v": 0.01,
    "penalty_w": 1e-4,
    "penalty_v": 1e-4,
}
"""Where every search begins, a point of the grid."""


@dataclass(frozen=True)
class Space:
    """What is searched, and where it begins.

    grid: axes in their order, with the values to try.  start: values to begin with; others than
    those of the axes stay as they are.  lower: whether a lower measure is the better one.
    """

    grid: Mapping[str, tuple[float, ...]]
    start: Mapping[str, float]
    lower: bool = False

    @property
    def enough(self) -> int:
        """Trials that see every axis to its end."""
        return 1 + sum(len(v) - (axis in self.start) for axis, v in self.grid.items())

    def without(self, axes: Collection[str]) -> "Space":
        """The space less some axes, which somebody else decides."""
        return replace(
            self,
            grid={axis: values for axis, values in self.grid.items() if axis not in axes},
            start={axis: value for axis, value in self.start.items() if axis not in axes},
        )

    def better(self, one: float, other: float) -> bool:
        """Whether the measure ``one`` is better than ``other``."""
        return one < other if self.lower else one > other


VISITS = Space(GRID, START)

ENOUGH = VISITS.enough


@dataclass(frozen=True)
class Found:
    """settings: the best.  measure: its validation measure, None if no trial had one.

    trials: every training in order, with its validation measure.
    """

    settings: Settings
    measure: float | None
    trials: tuple[tuple[Settings, float | None], ...]


def search(trial: Trial, budget: int = ENOUGH, space: Space = VISITS) -> Found:
    """Walk the axes once, keeping the best point so far, with at most ``budget`` trainings.

    The order is fixed and the same for all models; nothing is trained twice. A trial without a
    measure counts. Of equal trials the first stays.
    Raises ParameterError unless budget is at least 1.
    """
    integer("trials", budget, 1, 2**31 - 1)
    best = dict(space.start)
    lead = trial(best)
    tried = [(best, lead)]
    for axis, values in space.grid.items():
        centre = best
        for value in values:
            if value == centre.get(axis) or len(tried) == budget:
                continue
            settings = {**centre, axis: value}
            measure = trial(settings)
            tried.append((settings, measure))
            if measure is not None and (lead is None or space.better(measure, lead)):
                best, lead = settings, measure
    return Found(best, lead, tuple(tried))
