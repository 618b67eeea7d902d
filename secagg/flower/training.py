"""What a train message asks and what training gives, in Flower's message API and in its legacy one.

    name, model = model_of(content)                         # the arrays that clients train
    trained = read_trained(reply_content, terms)            # a client: what it would have sent
    content = mean_content(sent, means, metrics, "num-examples")        # the server, for a strategy

Source: Flower 1.42: its strategies expect one ArrayRecord and one MetricRecord in a reply
    (``flwr.serverapp.strategy``); the legacy form is that of ``fitins`` and ``fitres`` records.
Model: local conversions. Nothing here leaves a machine.
Leaks: nothing; errors name records, metrics and arrays, never their values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from mpc.core.errors import ParameterError
from secagg.flower.records import is_ours
from secagg.flower.terms import METRIC, Terms, read_arrays

LEGACY_MODEL = "fitins.parameters"
_LEGACY_OK = 0
_METRICS = "metrics"


@dataclass(frozen=True)
class Trained:
    """What one client puts into the sum.

    arrays: by name, in order.  weight: as the training function gave it, not yet judged.
    metrics: those that the terms average.
    """

    arrays: dict[str, NDArray[Any]] = field(repr=False)
    weight: float = field(repr=False)
    metrics: dict[str, float] = field(repr=False)

    def fields(self) -> dict[str, NDArray[Any]]:
        """Arrays and metrics under the names that ``Terms.codec`` gives them."""
        named = {METRIC + name: np.float64(value) for name, value in self.metrics.items()}
        return {**self.arrays, **{name: np.asarray(value) for name, value in named.items()}}


def model_of(content: RecordDict) -> tuple[str, ArrayRecord]:
    """The only ArrayRecord of a train message, or of a reply, with its name.

    Raises ParameterError if there is none, or more than one: which one is to be averaged?
    """
    found = {
        name: record
        for name, record in content.items()
        if isinstance(record, ArrayRecord) and not is_ours(name)
    }
    if len(found) != 1:
        raise ParameterError(
            f"a train message or its reply must have one ArrayRecord, got {sorted(found)}"
        )
    return next(iter(found.items()))


def read_trained(content: RecordDict, terms: Terms) -> Trained:
    """What the training function's reply holds, in either API.

    Raises ParameterError, naming the record or key, if the arrays, the weight or a metric that the
    terms average is missing or is not a number, and if a legacy client reports a failure.
    """
    name, arrays = model_of(content)
    if name.startswith("fitres."):
        return _read_legacy(content, arrays, terms)
    records = [record for record in content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        raise ParameterError(f"a reply must have one MetricRecord, got {len(records)}")
    found = records[0]
    return Trained(
        read_arrays(arrays),
        _number(found, terms.weight_key),
        {name: _number(found, name) for name in terms.metric_clips},
    )


def mean_content(
    sent: RecordDict, means: Mapping[str, Array], metrics: Mapping[str, float], weight_key: str
) -> RecordDict:
    """A reply that holds the means, of weight 1, in the form of the API of ``sent``.

    Every survivor's is the same, so that whatever average a strategy forms is the mean. Records are
    new ones each time, because the legacy API empties them as it reads.
    """
    name, _ = model_of(sent)
    arrays = ArrayRecord(dict(means))
    numbers = {key: float(value) for key, value in metrics.items()}
    if name != LEGACY_MODEL:
        return RecordDict({name: arrays, _METRICS: MetricRecord({weight_key: 1, **numbers})})
    return RecordDict(
        {
            "fitres.parameters": arrays,
            "fitres.num_examples": MetricRecord({"num_examples": 1}),
            "fitres.metrics": ConfigRecord(dict(numbers)),
            "fitres.status": ConfigRecord({"code": _LEGACY_OK, "message": "mean of the survivors"}),
        }
    )


def _read_legacy(content: RecordDict, arrays: ArrayRecord, terms: Terms) -> Trained:
    status, metrics = _config(content, "fitres.status"), _config(content, "fitres.metrics")
    if status.get("code") != _LEGACY_OK:
        raise ParameterError("the client reports that its training failed")
    examples = content.get("fitres.num_examples")
    if not isinstance(examples, MetricRecord):
        raise ParameterError("the reply has no record 'fitres.num_examples'")
    return Trained(
        read_arrays(arrays),
        _number(examples, "num_examples"),
        {name: _number(metrics, name) for name in terms.metric_clips},
    )


def _config(content: RecordDict, name: str) -> ConfigRecord:
    record = content.get(name)
    if not isinstance(record, ConfigRecord):
        raise ParameterError(f"the reply has no record {name!r}")
    return record


def _number(record: MetricRecord | ConfigRecord, name: str) -> float:
    value = record.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ParameterError(f"the reply's metric {name!r} is missing or is no number")
    return value
