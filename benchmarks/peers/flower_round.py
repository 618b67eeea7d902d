"""A whole round of Flower's SecAgg+, with clients that drop out: one round.

Its workflow for the server and its mod for the clients, as its manual has them; between them a
grid that hands messages over as objects, within this process. All clients are neighbours. Those
that drop out do so after sharing their keys. Each client sends a vector and its weight, all weights
equal.

Arguments: number of clients, dimension, how many drop out, threshold.
"""

import logging
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import (
    ConfigRecord,
    Context,
    Error,
    Message,
    RecordDict,
)
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    Status,
    bytes_to_ndarray,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import (
    RECORD_KEY_CONFIGS,
    Key,
    Stage,
)
from flwr.compat.common.recorddict_compat import (
    fitres_to_recorddict,
    parameters_to_arrayrecord,
)
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import (
    MAIN_CONFIGS_RECORD,
    MAIN_PARAMS_RECORD,
)
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray
from one_round import one_round  # type: ignore[import-not-found]
from vectors import CLIP, are_masked, is_mean, vectors  # type: ignore[import-not-found]

WEIGHT = 1
SERVER, FIRST = 1, 2


class Round:
    """All parties of one round: the grid, the clients, and the strategy that takes the mean."""

    def __init__(self, x: NDArray[np.float64], dropped: int, threshold: int) -> None:
        self.x, self.dropped = x, dropped
        self.ids = [FIRST + client for client in range(len(x))]
        self.states = {node: _context(node) for node in self.ids}
        self.sent: list[Any] = []
        self.mean: Any = None
        self.workflow = SecAggPlusWorkflow(
            1.0, threshold / len(x), max_weight=float(WEIGHT), clipping_range=CLIP
        )

    def run(self) -> "Round":
        """Workflow and clients to the end."""
        empty = parameters_to_arrayrecord(ndarrays_to_parameters([]), keep_input=True)
        this: Any = self  # as much of a grid and of a strategy as the workflow asks for
        manager: Any = SimpleNamespace(num_available=lambda: len(self.ids))
        context = LegacyContext(_context(SERVER), strategy=this, client_manager=manager)
        context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {WorkflowKey.CURRENT_ROUND: 1}
        )
        context.state.array_records[MAIN_PARAMS_RECORD] = empty
        self.workflow(this, context)
        return self

    # What the workflow asks of a grid.

    def send_and_receive(self, messages: list[Any], timeout: float | None = None) -> list[Any]:
        """Every client's answer, an error where it has left."""
        return [self._answer(message) for message in messages]

    def _answer(self, message: Any) -> Any:
        node = message.metadata.dst_node_id
        # Its setup sends one record to all clients, who take things out of it.
        record = ConfigRecord(dict(message.content[RECORD_KEY_CONFIGS]))
        message.content = RecordDict({**message.content, RECORD_KEY_CONFIGS: record})
        stage = record[Key.STAGE]
        if stage == Stage.COLLECT_MASKED_VECTORS and node < FIRST + self.dropped:
            return Message(Error(1, "gone"), reply_to=message)
        answer = secaggplus_mod(message, self.states[node], self._train)
        if stage == Stage.COLLECT_MASKED_VECTORS:
            self.sent.append(answer.content.config_records[RECORD_KEY_CONFIGS])
        return answer

    def _train(self, message: Any, _: Any) -> Any:
        vector = self.x[message.metadata.dst_node_id - FIRST]
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([vector]), WEIGHT, {})
        return Message(fitres_to_recorddict(result, False), reply_to=message)

    # What it asks of a strategy.

    def configure_fit(self, *_: Any) -> list[tuple[Any, Any]]:
        """Every client takes part."""
        ins = FitIns(ndarrays_to_parameters([]), {})
        return [(SimpleNamespace(node_id=node), ins) for node in self.ids]

    def aggregate_fit(
        self, _: int, results: list[Any], __: list[Any]
    ) -> tuple[None, dict[Any, Any]]:
        """The workflow puts the mean in the place of every client's result."""
        self.mean = results[0][1].parameters
        return None, {}


def _context(node: int) -> Any:
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


def main(clients: int, dim: int, dropped: int, threshold: int) -> None:
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER, 1
    x = vectors(clients, dim)

    def check(done: Round) -> bool:
        (mean,) = parameters_to_ndarrays(done.mean)
        payloads = [bytes_to_ndarray(sent[Key.MASKED_PARAMETERS][1]) for sent in done.sent]
        complete = len(payloads) == clients - dropped
        return complete and are_masked(payloads) and is_mean(mean, x[dropped:])

    one_round(
        lambda: Round(x, dropped, threshold).run(),
        operations=1,
        check=check,
        warm_up=lambda: Round(x[:4], 1, 3).run(),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
