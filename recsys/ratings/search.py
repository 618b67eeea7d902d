"""Where each rating model's search begins and what it tries: one budget for all models.

Source: FedGNN (Wu et al., 2021), section 4: hyper-parameters by validation. The walk along the axes
    is that of ``recsys.search``.
Leaks: as ``recsys.search``.
Differs: the paper does not say what it tried for whom. Models learn by steps or in closed form, on
    scales far apart, so each has axes of its own; but all have ``ENOUGH`` trainings.
"""

from collections.abc import Mapping

from mpc.core.errors import ParameterError
from recsys.search import Settings, Space

ENOUGH = 12
"""Trainings of a search: every space is seen whole by as many, or by fewer."""

_FEDERATED: Mapping[str, tuple[float, ...]] = {
    "dim": (8, 16, 32, 64),
    "learning_rate": (0.003, 0.01, 0.03),
    "penalty": (3.0, 5.0, 8.0, 12.0, 18.0),
    "init_scale": (0.003, 0.01, 0.1),
}

GRID: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "bias": {"penalty": (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)},
    "fedgnn": {
        "penalty": (70.0, 100.0, 140.0, 220.0, 320.0),
        "learning_rate": (0.005, 0.01, 0.02),
        "bias_penalty": (7.0, 20.0, 60.0),
        "decay": (0.92, 0.96),
    },
    "pmf": {
        "dim": (8, 16, 32),
        "learning_rate": (0.01, 0.02, 0.04, 0.08),
        "penalty": (0.05, 0.08, 0.1, 0.12, 0.15),
        "init_scale": (0.001, 0.003, 0.03),
    },
    "svdpp": {
        "dim": (8, 16, 32),
        "learning_rate": (0.003, 0.005, 0.01, 0.02),
        "penalty": (0.02, 0.05, 0.1, 0.15),
        "epochs": (20, 40),
        "init_scale": (0.01, 0.03, 0.1),
    },
    "grals": {
        "dim": (4, 8, 16, 32),
        "penalty": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 18.0),
    },
    "srgcnn": {
        "dim": (5, 10, 20),
        "learning_rate": (0.001, 0.003, 0.01),
        "penalty": (0.05, 0.1, 0.2, 0.4),
    },
    "gcmc": {
        "dim": (36, 72, 96),
        "learning_rate": (0.005, 0.01, 0.02, 0.04),
        "dropout": (0.5, 0.6, 0.7, 0.8),
    },
    "pinsage": {
        "dim": (16, 32, 64),
        "learning_rate": (0.003, 0.01, 0.02),
        "penalty": (0.1, 0.15, 0.2, 0.3, 0.5),
        "dropout": (0.0, 0.2),
    },
    "ngcf": {
        "dim": (16, 32, 64),
        "learning_rate": (0.003, 0.01, 0.02),
        "penalty": (0.25, 0.5, 1.0, 2.0),
        "dropout": (0.0, 0.1, 0.3),
    },
    "fcf": _FEDERATED,
    "fedmf": _FEDERATED,
}
"""Axes of each model in the order of its search, fields of ``RatingConfig``, and their values."""

_FCF: Settings = {"dim": 16, "learning_rate": 0.01, "penalty": 8.0, "init_scale": 0.003}

START: Mapping[str, Settings] = {
    "bias": {"penalty": 5.0},
    "fedgnn": {"penalty": 140.0, "learning_rate": 0.01, "bias_penalty": 20.0, "decay": 0.96},
    "pmf": {
        "dim": 16,
        "learning_rate": 0.02,
        "penalty": 0.08,
        "init_scale": 0.003,
        "decay": 1.0,
        "epochs": 64,
    },
    "svdpp": {
        "dim": 8,
        "learning_rate": 0.01,
        "penalty": 0.1,
        "epochs": 40,
        "init_scale": 0.03,
    },
    "grals": {"dim": 8, "penalty": 5.0, "init_scale": 0.01},
    "srgcnn": {"dim": 10, "learning_rate": 0.003, "penalty": 0.2},
    "gcmc": {"dim": 72, "learning_rate": 0.02, "dropout": 0.7, "decay": 0.98},
    "pinsage": {
        "dim": 32,
        "learning_rate": 0.01,
        "penalty": 0.3,
        "dropout": 0.0,
        "init_scale": 0.1,
    },
    "ngcf": {
        "dim": 32,
        "learning_rate": 0.01,
        "penalty": 1.0,
        "dropout": 0.0,
        "init_scale": 0.1,
    },
    "fcf": _FCF,
    "fedmf": _FCF,
}
"""The models' own settings, where a search begins: good on MovieLens 100K and Douban alike.

Some are on no axis, and stay as they are. FedGNN's are those of its convolution, which the other
networks start from too.
"""


def space_of(model: str) -> Space:
    """What a search tries for ``model``; ParameterError for one without a space.

    The measure is the RMSE of the validation part, so that lower is better.
    """
    if model not in GRID:
        raise ParameterError(
            f"{model} has no settings to search",
            remedy=f"search one of {', '.join(GRID)}",
        )
    return Space(GRID[model], START[model], lower=True)
