"""Secure aggregation for Flower: a mod for the clients' app, and a grid for the server's.

    app = ClientApp(mods=[SecAggMod()])
    FedAvg(...).start(grid=SecureGrid(grid, SecAggConfig()), ...)

Flower's legacy API has its workflow in ``secagg.flower.legacy``. Needs the extra ``flower``.
"""

from secagg.flower.checked_flwr import FLWR_VERSION
from secagg.flower.config import SecAggConfig
from secagg.flower.grid import SecureGrid
from secagg.flower.mod import SecAggMod
from secagg.flower.outcome import Missing, RoundOutcome, tell_aborted
from secagg.flower.policy import Policy
from secagg.flower.refusal import SecAggRefused

__all__ = [
    "FLWR_VERSION",
    "Missing",
    "Policy",
    "RoundOutcome",
    "SecAggConfig",
    "SecAggMod",
    "SecAggRefused",
    "SecureGrid",
    "tell_aborted",
]
