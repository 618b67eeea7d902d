"""Hyper-parameters by coordinate search on the validation part: one grid and one budget for all.

Source: PriRec (Chen et al., 2020), section 4.1: each model's learning rate and penalties by grid
    search in {1e-4, ..., 1}.
Leaks: a search is as many trainings as it has trials. In a deployment each of them would release
    its sums, its V and its learning curve once more; answers about visits are memoized and cost
    nothing again.
Differs: one axis after the other instead of all combinations, so that every model can be searched
    with the same number of trainings in minutes; and by validation, where the paper does not say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mpc.core.checks import integer

Settings = dict[str, float]
Trial = Callable[[Settings], float | None]
"""A training with these settings: its best validation AUC, None if it diverged or has none."""

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

ENOUGH = 1 + sum(len(values) - 1 for values in GRID.values())
"""Trials that see every axis to its end."""


@dataclass(frozen=True)
class Found:
    """settings: the best.  auc: its validation AUC, None if no trial had one.

    trials: every training in order, with its validation AUC.
    """

    settings: Settings
    auc: float | None
    trials: tuple[tuple[Settings, float | None], ...]


def search(trial: Trial, budget: int = ENOUGH) -> Found:
    """Walk the axes once, keeping the best point so far, with at most ``budget`` trainings.

    The order is fixed and the same for all models; nothing is trained twice. A trial without AUC
    counts. Of equal trials the first stays.
    Raises ParameterError unless budget is at least 1.
    """
    integer("trials", budget, 1, 2**31 - 1)
    best, best_auc = START, trial(START)
    tried = [(START, best_auc)]
    for axis, values in GRID.items():
        centre = best
        for value in values:
            if value == centre[axis] or len(tried) == budget:
                continue
            settings = {**centre, axis: value}
            auc = trial(settings)
            tried.append((settings, auc))
            if auc is not None and (best_auc is None or auc > best_auc):
                best, best_auc = settings, auc
    return Found(best, best_auc, tuple(tried))
