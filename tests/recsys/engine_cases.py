"""Trainings whose users' work an engine can do."""

from typing import Any

from recsys.engine import Engine
from recsys.fedgnn import FedGNN
from recsys.prirec import PriRec
from recsys.run import Run
from tests.recsys.fedgnn_cases import PAPER_LIKE, config, crowd
from tests.recsys.worlds import KnownKeysRun, city, small

CHUNK = 7
"""Of cohorts of 40 and of 30 or 15 users."""

PRIREC: dict[str, dict[str, Any]] = {
    "prirec": {},
    "prirec, protocol": {"mode": "protocol"},
    "prirec, float": {"mode": "float"},
    "prirec, mixes in updates": {"mix": "update"},
    "prirec, own features alone": {"model": "prirec-", "regions": 3},
    "prirec, drop-outs": {"secagg": "full", "drop_rate": 0.2},
    "prirec, without a seed": {"seed": None, "mode": "protocol"},
}

FEDGNN: dict[str, dict[str, Any]] = {
    "fedgnn": {},
    "fedgnn, protocol": {"mode": "protocol"},
    "fedgnn, drop-outs": {"secagg": "full", "drop_rate": 0.2},
    "fedgnn, steps and neighbours": {
        **{"gnn": "gat", "user_fit": "steps", "dropout": 0.2},
        **{"neighbours": "trainable", "expand_after": 1, "match_items": 4},
    },
    "fedgnn, as the paper": PAPER_LIKE,
    "fedgnn, as the paper, protocol": {**PAPER_LIKE, "mode": "protocol"},
    "fedgnn, without a seed": {"seed": None, "aggregate": "clear", "pseudo": 3},
    "fedgnn, biases": {"dim": 0},
}

CASES = (*PRIREC, *FEDGNN)


def trained(
    case: str, engine: Engine | None, run: Run | None = None, **changes: Any
) -> PriRec | FedGNN:
    """The model of a case. Without a run of its own every training has the same keys and seed."""
    run = run or KnownKeysRun()
    if case in PRIREC:
        settings = {"chunk": CHUNK, **PRIREC[case], **changes}
        return PriRec(small(**settings)).fit(city(), run=run, engine=engine)
    settings = {"chunk": CHUNK, "cohort": 15, "min_cohort": 5, "epochs": 2, **FEDGNN[case]}
    return FedGNN(config(**{**settings, **changes})).fit(crowd(30), run=run, engine=engine)
