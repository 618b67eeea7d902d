"""Flower's legacy API: a workflow that averages as ``SecureGrid`` does.

    workflow = OurWorkflow(SecAggConfig())
    DefaultWorkflow(fit_workflow=workflow)(grid, LegacyContext(...))

It takes the place of ``SecAggPlusWorkflow``; the clients' app is ``ClientApp(client_fn=...,
mods=[SecAggMod()])``.

Source: Flower 1.42, ``flwr.server``: ``default_fit_workflow`` runs over whatever grid it is given.
    Nothing else in this package knows of the legacy API.
Model: as ``secagg.flower.grid``.
Leaks: as ``secagg.flower.grid``.
"""

from collections.abc import Callable, Mapping

from flwr.app import Context
from flwr.server import LegacyContext
from flwr.server import strategy as flower
from flwr.server.workflow.default_workflows import default_fit_workflow
from flwr.serverapp import Grid

from secagg.flower.config import SecAggConfig
from secagg.flower.grid import SecureGrid
from secagg.flower.outcome import RoundOutcome, tell_aborted
from secagg.flower.refusal import SecAggRefused
from secagg.flower.strategies import BITS, CLIPS, DISTANCES, ORDER, TREES, judge, wrapped

LEGACY_SINGLE: Mapping[type, str] = {
    flower.Krum: DISTANCES,
    flower.Bulyan: DISTANCES,
    flower.FedMedian: ORDER,
    flower.FedTrimmedAvg: ORDER,
    flower.QFedAvg: "it weights each update by that client's loss",
    flower.FedXgbBagging: TREES,
    flower.FedXgbCyclic: "it passes one client's trees on to the next",
    flower.FedXgbNnAvg: TREES,
    flower.FedAvgAndroid: "its clients send arrays in a form of their own",
    flower.DPFedAvgFixed: "it gives all clients one weight, and here weights are hidden",
    flower.DPFedAvgAdaptive: BITS,
    flower.DifferentialPrivacyServerSideFixedClipping: CLIPS,
    flower.DifferentialPrivacyServerSideAdaptiveClipping: CLIPS,
    flower.DifferentialPrivacyClientSideAdaptiveClipping: BITS,
}
"""Legacy strategies that need single updates, and what for."""

LEGACY_MEAN: tuple[type, ...] = (
    flower.FedAvg,
    flower.FedAvgM,
    flower.FedAdagrad,
    flower.FedAdam,
    flower.FedProx,
    flower.FedYogi,
    flower.FaultTolerantFedAvg,
    flower.DifferentialPrivacyClientSideFixedClipping,
)
"""Legacy strategies whose ``aggregate_fit`` needs the mean alone."""


class OurWorkflow:
    """A fit workflow with secure aggregation. One object serves one run.

    config: its weight is the legacy ``num_examples``, whatever ``weight_key`` is.  on_outcome, and
    ``outcomes``: as for ``SecureGrid``.
    """

    def __init__(
        self,
        config: SecAggConfig | None = None,
        *,
        on_outcome: Callable[[RoundOutcome], None] = tell_aborted,
    ) -> None:
        self.config = SecAggConfig() if config is None else config
        self._on_outcome = on_outcome
        self._grids: dict[int, tuple[Grid, SecureGrid]] = {}

    @property
    def outcomes(self) -> list[RoundOutcome]:
        """Of all rounds so far."""
        return [one for _, secure in self._grids.values() for one in secure.outcomes]

    def __call__(self, grid: Grid, context: Context) -> None:
        """One fit round. SecAggRefused for a strategy that the mean cannot serve."""
        if not isinstance(context, LegacyContext):
            raise SecAggRefused(
                f"OurWorkflow runs in a LegacyContext, got {type(context).__name__}",
                remedy="in the message API take SecureGrid",
            )
        for one in wrapped(context.strategy):
            checked = self.config.strategy_checked
            judge(one, "aggregate_fit", LEGACY_SINGLE, LEGACY_MEAN, checked=checked)
        # A session lives as long as the grid: with one for each round, each would be the first.
        if id(grid) not in self._grids:
            secure = SecureGrid(grid, self.config, on_outcome=self._on_outcome)
            self._grids[id(grid)] = (grid, secure)
        default_fit_workflow(self._grids[id(grid)][1], context)
