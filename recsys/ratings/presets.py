"""Settings of FedGNN by name: the paper's, ours, and ours with local noise.

Source: Wu et al. (arXiv:2102.04925), section 4.1, for ``paper``: 256-dimensional embeddings, GAT,
    plain gradient steps of .01, 3 epochs, neighbours after 2 of them, 128 users a round, dropout
    .2, clip .1, Laplace noise of strength .2, 1,000 pseudo-interacted items.
Differs: ``paper`` centres the ratings, since without that three epochs leave the model far below
    every rating; ``center = false`` is the literal setting. The paper does not give the scale of
    the first embeddings.
"""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # No noise: the sums over the catalogue hide what a user rated, and nothing more.
    "default": {"aggregate": "secure"},
    # Epsilon 1 for each coordinate of an upload: 2 clip / laplace. Small plain steps average the
    # noise of all rounds, and the penalty is small because cut gradients are.
    "default-ldp": {
        "dim": 0,
        "epochs": 60,
        "patience": 60,
        "optimizer": "sgd",
        "learning_rate": 2.0,
        "decay": 0.97,
        "bias_penalty": 2.0,
        "aggregate": "clear",
        "pseudo": 1000,
        "clip": 0.1,
        "laplace": 0.2,
    },
    "paper": {
        "gnn": "gat",
        "dim": 256,
        "init_scale": 0.1,
        "epochs": 3,
        "patience": 3,
        "user_fit": "steps",
        "learning_rate": 0.01,
        "user_rate": 0.01,
        "decay": 1.0,
        "penalty": 0.0,
        "bias_penalty": 0.0,
        "optimizer": "sgd",
        "loss": "absolute",
        "reduction": "mean",
        "bias": False,
        "residual": False,
        "dropout": 0.2,
        "neighbours": "fixed",
        "expand_after": 2,
        "aggregate": "clear",
        "pseudo": 1000,
        "clip": 0.1,
        "laplace": 0.2,
    },
}
