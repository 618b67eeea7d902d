"""Flower's Grid with secure aggregation in it: strategies work as ever, on means alone.

    FedAvg(...).start(grid=SecureGrid(grid, SecAggConfig()), ...)

``send_and_receive`` of train messages runs a round of the protocol with the nodes of the messages
and returns one reply for each survivor, all with the same mean and weight 1. Everything else goes
to Flower's grid as it is. If too few clients are left, nothing comes back, and a strategy keeps its
model.

Source: the interface is that of ``flwr.serverapp.Grid`` in Flower 1.42.
Model: as ``secagg.full.server``: an honest server. What clients need not believe of another one is
    said there and in ``secagg.flower.policy``.
Leaks: to the server the mean, the sum of weights, and who answered in which step. To its log, if a
    round is aborted, the last of these.
Error: as ``secagg.flower.conductor``; a strategy that averages n equal replies adds the rounding of
    that.
Differs: Flower's own SecAgg+ is a workflow of the legacy API, and shows every client's number of
    examples and metrics.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Array, Message, RecordDict
from flwr.serverapp import Grid

from mpc.core.rng import SYSTEM_RNG, Rng
from secagg.flower.conductor import Conductor, Mean
from secagg.flower.config import SecAggConfig
from secagg.flower.exchange import Clock
from secagg.flower.order import Order, is_train
from secagg.flower.outcome import RoundOutcome, tell_aborted
from secagg.flower.refusal import SecAggRefused
from secagg.flower.strategies import calling_strategy, check_strategy
from secagg.flower.training import mean_content


class SecureGrid(Grid):
    """A grid for one session, which is usually one run.

    grid: Flower's own.  on_outcome: told what became of each round; by default Flower's log is, if
    a round was aborted.  outcomes: of all rounds so far.  clock: a test has its own.
    """

    def __init__(
        self,
        grid: Grid,
        config: SecAggConfig | None = None,
        *,
        on_outcome: Callable[[RoundOutcome], None] = tell_aborted,
        clock: Clock | None = None,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        if isinstance(grid, SecureGrid):
            raise SecAggRefused("the grid is secure already", remedy="wrap it once")
        self.config = SecAggConfig() if config is None else config
        self.outcomes: list[RoundOutcome] = []
        self._grid, self._on_outcome = grid, on_outcome
        self._conductor = Conductor(grid, self.config, clock=clock, rng=rng)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Train messages: a secure round, one reply for each survivor. Others: as the grid does.

        timeout: seconds for the round at most; the config has deadlines for its steps.
        Raises SecAggRefused, before anything leaves, for a strategy or messages that a mean cannot
        serve, and ParameterError for a model that the config has no place for.
        """
        given = list(messages)
        training = [is_train(message) for message in given]
        if not any(training):
            return self._grid.send_and_receive(given, timeout=timeout)
        if not all(training):
            raise SecAggRefused(
                "train messages and others in one call", remedy="send the train messages alone"
            )
        strategy = calling_strategy()
        if strategy is not None:
            check_strategy(strategy, self.config)
        order = Order.of(given)
        mean, outcome = self._conductor.train(order, timeout)
        self.outcomes.append(outcome)
        self._on_outcome(outcome)
        return [] if mean is None else self._replies(order, mean, outcome)

    def _replies(self, order: Order, mean: Mean, outcome: RoundOutcome) -> list[Message]:
        arrays = {name: Array(value) for name, value in mean.arrays.items()}

        def content() -> RecordDict:
            return mean_content(order.content, arrays, mean.metrics, self.config.weight_key)

        within = set(outcome.survivors)
        return [
            Message(content(), reply_to=order.originals[node])
            for node in order.nodes
            if node in within
        ]

    # The rest is Flower's.

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the grid does. SecAggRefused for train messages, which would go past the protocol."""
        given = list(messages)
        if any(map(is_train, given)):
            raise SecAggRefused(
                "train messages pushed one by one would bypass secure aggregation",
                remedy="send them with send_and_receive",
            )
        return self._grid.push_messages(given)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the grid does."""
        return self._grid.pull_messages(message_ids)

    def get_node_ids(self) -> Iterable[int]:
        """As the grid does."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """As the grid does."""
        return self._grid.get_nodes()

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As the grid does."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def set_run(self, run: Any) -> None:
        """As the grid does."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """As the grid does."""
        return self._grid.run
