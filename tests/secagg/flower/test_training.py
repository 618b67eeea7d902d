"""What train messages and replies hold, in both of Flower's APIs."""

from collections.abc import Callable

import flwr.compat.common.recorddict_compat as compat
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

from mpc.core.errors import ParameterError
from secagg.flower.records import VECTOR
from secagg.flower.terms import Terms
from secagg.flower.training import LEGACY_MODEL, mean_content, model_of, read_trained

TERMS = Terms.make(
    clip=8.0,
    frac_bits=16,
    ring_bits=60,
    parties=3,
    max_weight=100,
    weight_key="num-examples",
    metrics={"loss": 10.0},
)


def arrays() -> ArrayRecord:
    return ArrayRecord({"w": Array(np.ones(3, np.float32)), "s": Array(np.asarray(2.0))})


def reply() -> RecordDict:
    metrics = MetricRecord({"num-examples": 7, "loss": 0.5, "more": 1.0})
    return RecordDict({"arrays": arrays(), "metrics": metrics})


def legacy_reply() -> RecordDict:
    parameters = ndarrays_to_parameters([np.ones(3, np.float32), np.asarray(2.0)])
    result = FitRes(Status(Code.OK, ""), parameters, 7, {"loss": 0.5, "text": "x"})
    return compat.fitres_to_recorddict(result, keep_input=False)


def test_the_only_arrays_are_the_model() -> None:
    content = reply()
    content[VECTOR] = arrays()
    assert model_of(content)[0] == "arrays"
    for wrong in (RecordDict(), RecordDict({"a": arrays(), "b": arrays()})):
        with pytest.raises(ParameterError, match="one ArrayRecord"):
            model_of(wrong)


@pytest.mark.parametrize("make", [reply, legacy_reply])
def test_a_reply_gives_arrays_weight_and_the_metrics_that_are_averaged(
    make: Callable[[], RecordDict],
) -> None:
    trained = read_trained(make(), TERMS)
    assert trained.weight == 7
    assert trained.metrics == {"loss": 0.5}
    assert [array.tolist() for array in trained.arrays.values()] == [[1, 1, 1], 2]
    fields = trained.fields()
    assert list(fields)[-1] == "metric:loss"
    assert fields["metric:loss"].shape == ()
    assert "7" not in repr(trained)


@pytest.mark.parametrize(
    "metrics",
    [
        MetricRecord({"loss": 0.5}),
        MetricRecord({"num-examples": 7}),
        MetricRecord({"num-examples": [7], "loss": 0.5}),
        MetricRecord({"num-examples": 7, "loss": [0.5]}),
        ConfigRecord({"num-examples": 7, "loss": 0.5}),
    ],
)
def test_a_reply_that_lacks_a_number_is_refused(metrics: MetricRecord | ConfigRecord) -> None:
    with pytest.raises(ParameterError):
        read_trained(RecordDict({"arrays": arrays(), "metrics": metrics}), TERMS)
    with pytest.raises(ParameterError, match="one MetricRecord, got 2"):
        read_trained(RecordDict({**reply(), "again": MetricRecord({})}), TERMS)


def test_a_legacy_client_that_failed_has_trained_nothing() -> None:
    failed = FitRes(Status(Code.FIT_NOT_IMPLEMENTED, ""), ndarrays_to_parameters([]), 0, {})
    with pytest.raises(ParameterError, match="training failed"):
        read_trained(compat.fitres_to_recorddict(failed, keep_input=False), TERMS)
    for name in ("fitres.status", "fitres.metrics", "fitres.num_examples"):
        content = legacy_reply()
        del content[name]
        with pytest.raises(ParameterError, match=name):
            read_trained(content, TERMS)


def test_a_strategy_gets_the_means_under_the_names_that_it_sent() -> None:
    sent = RecordDict({"model": arrays(), "config": ConfigRecord({"lr": 1.0})})
    means = {"w": Array(np.full(3, 0.5, np.float32)), "s": Array(np.asarray(1.0))}
    content = mean_content(sent, means, {"loss": 0.25}, "num-examples")
    assert list(content) == ["model", "metrics"]
    assert content["metrics"] == {"num-examples": 1, "loss": 0.25}
    got = content["model"]
    assert isinstance(got, ArrayRecord)
    assert [array.numpy().tolist() for array in got.values()] == [[0.5] * 3, 1.0]
    assert got["s"].numpy().shape == ()


def test_a_legacy_strategy_gets_them_as_a_fit_result_again_and_again() -> None:
    parameters = ndarrays_to_parameters([np.ones(3, np.float32), np.asarray(2.0)])
    sent = compat.fitins_to_recorddict(FitIns(parameters, {}), keep_input=False)
    assert model_of(sent)[0] == LEGACY_MODEL
    means = {"0": Array(np.full(3, 0.5, np.float32)), "1": Array(np.asarray(1.0))}
    for _ in range(2):
        content = mean_content(sent, means, {"loss": 0.25}, "num-examples")
        result = compat.recorddict_to_fitres(content, keep_input=False)  # which empties it
        assert result.status.code is Code.OK
        assert (result.num_examples, result.metrics) == (1, {"loss": 0.25})
        got = parameters_to_ndarrays(result.parameters)
        assert [array.tolist() for array in got] == [[0.5] * 3, 1.0]
