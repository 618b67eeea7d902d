"""Flower's quickstart with two lines changed trains the same model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import arrayrecord_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp.strategy import FedAdam, FedAvg, Result, Strategy

from secagg.flower import SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.legacy import OurWorkflow
from secagg.full.messages import Step
from tests.secagg.flower import quickstart
from tests.secagg.flower.by_hand import OPERATOR_KEY, Keys, grid_of
from tests.secagg.flower.quickstart import INITIAL, ORDER, Model
from tests.support.flower_grid import LocalGrid

N, ROUNDS, FRAC_BITS = 10, 4, 16
CLIP: dict[str, float] = {"*": 8.0, "steps": 1000}
LOSSES = {"loss": 100.0}


def config(**more: Any) -> SecAggConfig:
    return SecAggConfig(clip=CLIP, frac_bits=FRAC_BITS, max_weight=100, metrics=LOSSES, **more)


def plain_grid() -> LocalGrid:
    return grid_of(N, quickstart.app)


def secure_grid(**more: Any) -> SecureGrid:
    return SecureGrid(grid_of(N, lambda: quickstart.app(SecAggMod()), **more), config())


def start(grid: Any, strategy: Strategy | None = None, rounds: int = ROUNDS) -> Result:
    chosen = FedAvg(min_train_nodes=N, min_available_nodes=N) if strategy is None else strategy
    return chosen.start(grid=grid, initial_arrays=quickstart.initial(), num_rounds=rounds)


def model(result: Result) -> Model:
    assert result.arrays is not None
    return {name: array.numpy() for name, array in result.arrays.items()}


def distance(one: Model, other: Model) -> float:
    """The Euclidean distance over all arrays of floats."""
    squares = [((one[k].astype(float) - other[k]) ** 2).sum() for k in quickstart.FLOATS]
    return float(np.sqrt(sum(squares)))


def allowed(rounds: int = ROUNDS) -> float:
    """Less than a unit for each entry and round, and what float32 rounds beside that."""
    size = sum(INITIAL[name].size for name in quickstart.FLOATS)
    return rounds * float(np.sqrt(size)) * (2.0**-FRAC_BITS + 2.0**-21)


def inner(grid: SecureGrid) -> LocalGrid:
    found = grid._grid
    assert isinstance(found, LocalGrid)
    return found


@pytest.fixture(scope="module")
def plain() -> Result:
    return start(plain_grid())


@pytest.fixture(scope="module")
def run() -> tuple[SecureGrid, Result]:
    grid = secure_grid()
    return grid, start(grid)


@pytest.fixture
def grid(run: tuple[SecureGrid, Result]) -> SecureGrid:
    return run[0]


@pytest.fixture
def secure(run: tuple[SecureGrid, Result]) -> Result:
    return run[1]


def test_the_model_is_that_of_plain_fedavg_within_the_quantisation_error(
    plain: Result, secure: Result, grid: SecureGrid
) -> None:
    assert 0 < distance(model(secure), model(plain)) <= allowed()
    assert distance(model(secure), INITIAL) > 1000 * allowed()
    assert [outcome.aborted for outcome in grid.outcomes] == [None] * ROUNDS
    assert [len(outcome.survivors) for outcome in grid.outcomes] == [N] * ROUNDS


def test_shapes_and_dtypes_are_those_of_plain_fedavg(plain: Result, secure: Result) -> None:
    ours, theirs = model(secure), model(plain)
    assert list(ours) == list(theirs)
    for name, array in theirs.items():
        assert (ours[name].shape, ours[name].dtype) == (array.shape, array.dtype)


def test_integers_are_averaged_exactly(plain: Result, secure: Result) -> None:
    for found in (secure, plain):
        assert abs(model(found)["steps"] - ROUNDS * quickstart.LOCAL_STEPS) < 2.0**-40


def test_metrics_are_the_weighted_means_that_plain_fedavg_forms(
    plain: Result, secure: Result
) -> None:
    for round in range(1, ROUNDS + 1):
        ours, theirs = (r.train_metrics_clientapp[round] for r in (secure, plain))
        assert list(ours) == ["loss"]  # a metric without a bound stays with its client
        assert abs(ours["loss"] - theirs["loss"]) < 2.0**-12  # type: ignore[operator]
        ours, theirs = (r.evaluate_metrics_clientapp[round] for r in (secure, plain))
        assert abs(ours["loss"] - theirs["loss"]) < 2.0**-12  # type: ignore[operator]


def test_the_variant_against_a_malicious_server_trains_the_same_model(
    plain: Result, tmp_path: Path
) -> None:
    keys = Keys(tmp_path, tuple(range(1, N + 1)))
    nodes = grid_of(N, lambda: quickstart.app(SecAggMod()), keys=keys)
    told = {"roster": tmp_path / "roster.bin", "operator": OPERATOR_KEY.public}
    grid = SecureGrid(nodes, config(variant="malicious", **told))
    assert distance(model(start(grid)), model(plain)) <= allowed()
    assert all(outcome.aborted is None for outcome in grid.outcomes)


@pytest.fixture
def floats_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose dtypes stay as they are from round to round."""
    monkeypatch.setitem(INITIAL, "steps", np.zeros((), np.float64))


def trips(grid: SecureGrid) -> list[int]:
    return [outcome.trips for outcome in grid.outcomes]


@pytest.mark.usefixtures("floats_alone")
def test_a_round_takes_four_trips_and_three_once_the_next_is_offered() -> None:
    grid = secure_grid()
    start(grid)
    assert trips(grid) == [4, *[3] * (ROUNDS - 1)]
    asked = [passed for passed in inner(grid).passed if passed.step is not None]
    assert len(asked) == N * sum(trips(grid))


def test_an_offer_that_no_longer_fits_the_model_costs_the_trip(grid: SecureGrid) -> None:
    """The first mean makes floats of integers, which takes another ring."""
    assert trips(grid) == [4, 4, *[3] * (ROUNDS - 2)]


@pytest.mark.usefixtures("floats_alone")
def test_a_malicious_round_takes_five_trips_a_greeting_and_four_then(tmp_path: Path) -> None:
    keys = Keys(tmp_path, tuple(range(1, N + 1)))
    nodes = grid_of(N, lambda: quickstart.app(SecAggMod()), keys=keys)
    told = {"roster": tmp_path / "roster.bin", "operator": OPERATOR_KEY.public}
    grid = SecureGrid(nodes, config(variant="malicious", **told))
    start(grid)
    assert trips(grid) == [6, *[4] * (ROUNDS - 1)]


def test_another_cohort_in_each_round_costs_the_trip_and_nothing_else() -> None:
    grid = secure_grid()
    strategy = FedAvg(fraction_train=0.5, min_train_nodes=5, min_available_nodes=N)
    start(grid, strategy)
    for outcome in grid.outcomes:
        assert outcome.aborted is None
        assert len(outcome.survivors) == 5
        assert outcome.trips in (3, 4)


def test_a_server_side_optimizer_does_as_ever() -> None:
    options = {"min_train_nodes": N, "min_available_nodes": N, "eta": 0.01}
    ours = model(start(secure_grid(), FedAdam(**options), rounds=1))  # type: ignore[arg-type]
    theirs = model(start(plain_grid(), FedAdam(**options), rounds=1))  # type: ignore[arg-type]
    # One step of Adam is about eta in each entry, whatever the gradient's size.
    assert np.abs(ours["bias"] - theirs["bias"]).max() < 1e-4
    assert np.abs(ours["bias"]).max() > 0.005


def test_no_reply_holds_a_client_s_numbers() -> None:
    """Models as they would stand in a plain reply are searched for in all that left."""
    plain, secure = plain_grid(), secure_grid()
    start(plain, rounds=1)
    start(secure, rounds=1)
    left = b"".join(
        part
        for passed in inner(secure).passed
        if passed.step is not None and passed.reply is not None
        for record in passed.reply.content.values()
        for part in _values(record)
    )
    secrets = [
        array.data[128:]  # after numpy's header
        for passed in plain.passed
        if passed.reply is not None and "arrays" in passed.reply.content
        for name, array in passed.reply.content.array_records["arrays"].items()
        if name in ("weight", "bias")
    ]
    assert len(secrets) == 2 * N
    assert all(len(secret) >= 24 and secret not in left for secret in secrets)


def _values(record: Any) -> list[bytes]:
    return [
        value if isinstance(value, bytes) else getattr(value, "data", b"")
        for value in record.values()
    ]


def test_ten_clients_exchange_what_the_table_says_and_no_more() -> None:
    """Bytes a client sends and receives in the steps without the model."""
    grid = secure_grid()
    start(grid, rounds=1)
    sizes = {
        passed.step: sum(map(len, _values(passed.reply.content["privrec.secagg"])))
        for passed in inner(grid).passed
        if passed.step is not None and passed.reply is not None
    }
    assert sizes[Step.ADVERTISE_KEYS] < 150
    assert sizes[Step.SHARE_KEYS] < 150 + 84 * N
    assert sizes[Step.UNMASKING] < 250 + 34 * N


# The legacy API.


def legacy_losses(all: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    total = sum(weight for weight, _ in all)
    return {"loss": sum(weight * told.get("loss", 0.0) for weight, told in all) / total}


def legacy_context(rounds: int) -> LegacyContext:
    own = Context(1, 1, {}, RecordDict(), {})
    first = ndarrays_to_parameters([INITIAL[name] for name in ORDER])
    strategy = LegacyFedAvg(
        min_fit_clients=N,
        min_available_clients=N,
        initial_parameters=first,
        fit_metrics_aggregation_fn=legacy_losses,
    )
    return LegacyContext(own, config=ServerConfig(num_rounds=rounds), strategy=strategy)


def legacy_model(context: LegacyContext) -> Model:
    parameters = arrayrecord_to_parameters(context.state.array_records["parameters"], True)
    return dict(zip(ORDER, parameters_to_ndarrays(parameters), strict=True))


def run_legacy(grid: LocalGrid, workflow: OurWorkflow | None) -> tuple[Model, LegacyContext]:
    context = legacy_context(ROUNDS)
    chosen = DefaultWorkflow() if workflow is None else DefaultWorkflow(fit_workflow=workflow)
    chosen(grid, context)
    return legacy_model(context), context


def test_the_legacy_workflow_trains_the_same_model_too(plain: Result) -> None:
    theirs, their_context = run_legacy(grid_of(N, quickstart.legacy_app), None)
    clip: dict[str, float] = {"*": 8.0, str(ORDER.index("steps")): 1000}
    workflow = OurWorkflow(
        SecAggConfig(clip=clip, frac_bits=FRAC_BITS, max_weight=100, metrics=LOSSES)
    )
    nodes = grid_of(N, lambda: quickstart.legacy_app(SecAggMod()))
    ours, context = run_legacy(nodes, workflow)
    assert distance(theirs, model(plain)) < 2.0**-20
    assert distance(ours, theirs) <= allowed()
    # Flower's legacy average cuts integers off after each client; a sum of integers does not.
    assert abs(ours["steps"] - ROUNDS * quickstart.LOCAL_STEPS) < 2.0**-40
    assert [outcome.trips for outcome in workflow.outcomes] == [4, 4, *[3] * (ROUNDS - 2)]
    ours_losses = context.history.metrics_distributed_fit["loss"]
    their_losses = their_context.history.metrics_distributed_fit["loss"]
    for (_, one), (_, other) in zip(ours_losses, their_losses, strict=True):
        assert abs(float(one) - float(other)) < 2.0**-12


def test_a_legacy_client_s_answers_show_no_number_of_examples() -> None:
    workflow = OurWorkflow(SecAggConfig(clip={"*": 8.0, "3": 1000}, max_weight=100))
    nodes = grid_of(N, lambda: quickstart.legacy_app(SecAggMod()))
    run_legacy(nodes, workflow)
    for passed in nodes.passed:
        if passed.step is not None and passed.reply is not None:
            assert not passed.reply.content.metric_records
