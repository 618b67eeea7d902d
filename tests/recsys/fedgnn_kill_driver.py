"""Trains FedGNN in forked processes that kill themselves, kill -9, in the middle of an epoch.

    python -m tests.recsys.fedgnn_kill_driver FOLDER

A process of its own, because it forks: PyTorch is imported once, and no thread of a test runner is
copied. Each name of ``RUNS`` is a folder below FOLDER; ``test_fedgnn_resume`` goes on from there.
"""

import os
import sys
from pathlib import Path
from typing import Any

from recsys.fedgnn import FedGNNLearner
from recsys.report.run_folder import RunFolder
from tests.recsys.fedgnn_cases import PAPER_LIKE, crowd, fitted

USERS = 32
EPOCHS: dict[str, Any] = {
    **{"epochs": 4, "patience": 4, "cohort": 8, "min_cohort": 5},
    "mode": "protocol",
}
MET: dict[str, Any] = {"gnn": "ggnn", "neighbours": "trainable", "match_items": 4}

RUNS: dict[str, tuple[dict[str, Any], int]] = {
    "default": ({"gnn": "gcn", "seed": None}, 7),
    "paper": ({**PAPER_LIKE, "neighbours": "none", "seed": None}, 7),
    "before-expansion": ({**MET, "expand_after": 2}, 6),
    "after-expansion": ({**MET, "expand_after": 1}, 10),
}
"""Settings, and how many rounds are summed, of four in an epoch, before the process is killed.

Without a seed users' coins follow from keys in the folder. The order of neighbours is then the
matcher's to draw, so that runs with an expansion have one.
"""


def train(folder: Path, settings: dict[str, Any]) -> str:
    """The digest of the run in this folder, from where it is."""
    with RunFolder(folder) as run:
        return fitted(crowd(USERS), run=run, **EPOCHS, **settings).model_digest


def killed(folder: Path, settings: dict[str, Any], rounds: int) -> int:
    """The wait status of a fork that trains until so many rounds are summed."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    step, steps = FedGNNLearner._server_step, 0

    def stops(self: FedGNNLearner, *arguments: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == rounds:
            os.kill(os.getpid(), 9)
        step(self, *arguments)

    FedGNNLearner._server_step = stops  # type: ignore[assignment,method-assign]
    train(folder, settings)
    os._exit(0)


def main() -> None:
    """Print the wait status of each run."""
    for name, (settings, rounds) in RUNS.items():
        print(name, killed(Path(sys.argv[1]) / name, settings, rounds))


if __name__ == "__main__":
    main()
