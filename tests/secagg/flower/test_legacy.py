"""Flower's legacy API: the workflow that takes the place of SecAggPlusWorkflow."""

import inspect
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server import strategy as flower
from flwr.server.strategy import FedAvg, Strategy
from flwr.server.workflow import DefaultWorkflow

from secagg.flower import SecAggConfig, SecAggMod, SecAggRefused
from secagg.flower.legacy import LEGACY_MEAN, LEGACY_SINGLE, OurWorkflow
from secagg.full.messages import Step
from tests.secagg.flower.secure_rounds import UNIT
from tests.support.flower_grid import Fault, LocalGrid

N = 4
CONFIG = SecAggConfig(metrics={"loss": 10.0})

ALL = [
    kind
    for _, kind in inspect.getmembers(flower, inspect.isclass)
    if issubclass(kind, Strategy) and kind is not Strategy
]


class Adds(NumPyClient):
    """Adds its number to the model."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: Any, config: Any) -> Any:
        return [a + self.number for a in parameters], self.number + 1, {"loss": 0.5 * self.number}

    def evaluate(self, parameters: Any, config: Any) -> Any:
        return 0.25, 1, {}


def app() -> ClientApp:
    def client_fn(context: Context) -> Any:
        return Adds(int(context.node_config["partition-id"])).to_client()

    return ClientApp(client_fn=client_fn, mods=[SecAggMod()])


class Watched(FedAvg):
    """Keeps the model of each round and how many results there were."""

    models: list[Any]
    results: list[int]

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        self.models = [*getattr(self, "models", []), parameters_to_ndarrays(parameters)]
        return super().configure_fit(server_round, parameters, client_manager)


def averaged(metrics: Any) -> Any:
    return {"loss": sum(weight * told["loss"] for weight, told in metrics) / len(metrics)}


def run(grid: LocalGrid, workflow: OurWorkflow, rounds: int, strategy: Any = None) -> LegacyContext:
    initial = ndarrays_to_parameters([np.zeros((2, 2), np.float32), np.zeros(3)])
    fed = strategy or Watched(
        min_fit_clients=N,
        min_available_clients=N,
        initial_parameters=initial,
        fit_metrics_aggregation_fn=averaged,
    )
    plain = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    context = LegacyContext(plain, ServerConfig(num_rounds=rounds), fed)
    DefaultWorkflow(fit_workflow=workflow)(grid, context)
    return context


def test_the_legacy_workflow_ends_with_the_weighted_mean_and_its_metrics() -> None:
    grid, workflow = LocalGrid(app, N), OurWorkflow(CONFIG)
    context = run(grid, workflow, 2)
    weights = np.arange(1, N + 1)
    step = (weights * np.arange(N)).sum() / weights.sum()
    _, first = [model[1] for model in context.strategy.models]  # type: ignore[attr-defined]
    np.testing.assert_allclose(first, step, atol=UNIT)
    (record,) = context.state.array_records.values()
    for array in record.values():
        np.testing.assert_allclose(array.numpy(), 2 * step, atol=3 * UNIT)
    assert [array.numpy().dtype for array in record.values()] == [np.float32, np.float64]
    losses = [value for _, value in context.history.metrics_distributed_fit["loss"]]
    assert losses == pytest.approx([0.5 * step] * 2, abs=UNIT)
    assert [one.trips for one in workflow.outcomes] == [4, 3]  # one session for the whole run
    assert context.history.losses_distributed[0][1] == 0.25  # evaluation passes through


def test_without_a_mean_the_legacy_model_stays() -> None:
    grid, workflow = LocalGrid(app, N), OurWorkflow(CONFIG)
    for node in list(grid.configs)[1:]:
        grid.on(node, Step.SHARE_KEYS, Fault.UNAVAILABLE)
    context = run(grid, workflow, 1)
    (record,) = context.state.array_records.values()
    assert all(not array.numpy().any() for array in record.values())
    assert workflow.outcomes[0].aborted is not None


def made(kind: type[Strategy]) -> Strategy:
    needed: dict[str, Any] = {
        "strategy": FedAvg(),
        "noise_multiplier": 0.1,
        "clipping_norm": 1.0,
        "clip_norm": 1.0,
        "num_sampled_clients": 3,
        "initial_parameters": ndarrays_to_parameters([np.zeros(2)]),
    }
    parameters = inspect.signature(kind.__init__).parameters
    return kind(**{name: value for name, value in needed.items() if name in parameters})


def test_every_legacy_strategy_is_judged_one_way_or_the_other() -> None:
    judged = set(LEGACY_SINGLE) | set(LEGACY_MEAN)
    assert {kind for kind in ALL if kind is not flower.FedOpt} == judged
    assert not set(LEGACY_SINGLE) & set(LEGACY_MEAN)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", LEGACY_SINGLE, ids=lambda kind: kind.__name__)
def test_a_legacy_strategy_that_needs_single_updates_is_refused(kind: type[Strategy]) -> None:
    grid = LocalGrid(app, N)
    plain = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    context = LegacyContext(plain, ServerConfig(num_rounds=1), made(kind))
    with pytest.raises(SecAggRefused, match=LEGACY_SINGLE[kind]):
        OurWorkflow(SecAggConfig(strategy_checked=True))(grid, context)
    assert grid.passed == []


def test_the_workflow_needs_a_legacy_context() -> None:
    plain = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(SecAggRefused, match="LegacyContext, got Context"):
        OurWorkflow()(LocalGrid(app, N), plain)
