"""Sums over the nodes of a Flower federation, of which nobody sees an addend.

    sums = SecureSums(grid, config, figures, least=3, wait=60)     the server
    total = sums.over_nodes(arrays, asked)                         None where a round gave no sum
    figures.reply(message, arrays, counted)                        a node

``secagg.flower`` averages what nodes send. Every node sends with weight 1, and whole numbers of
grid steps, so that the mean times the number of nodes is the sum again, to the last bit.

Model: as ``secagg.flower``.
Leaks: to the server the sums, how many nodes are in one, and which nodes answered when; to every
    node what the server asks.
Error: none for arrays on the grid whose entries are within the clip. A figure is rounded without
    bias to a multiple of its unit by 2^-frac_bits.
"""

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from mpc.core.errors import AbortError, ParameterError
from recsys.data.ratings import Floats
from recsys.training import Arrays
from secagg.flower.config import SecAggConfig
from secagg.flower.grid import SecureGrid

ARRAYS, ASKED, FIGURES, TRAIN = "arrays", "asked", "figures", "train"
WEIGHT = "num-examples"

Plain = bool | int | float | str | list[int] | list[float] | list[str]
"""What a message may say besides arrays; no text and no list is empty."""

_POLL_SECONDS = 0.2
_KEPT_BITS = 4


@dataclass(frozen=True)
class Figures:
    """Numbers that go with the arrays into a sum.

    clip: the largest magnitude of an entry of the arrays.  frac_bits: the grid is 2^-frac_bits.
    most: the largest magnitude of each figure of one node, by name. One that is larger than the
    clip travels in units of a power of two, so that figures hardly widen the ring; sixteenths of a
    figure are still told apart, so whole numbers are exact.
    """

    clip: float
    frac_bits: int
    most: Mapping[str, float]

    def unit(self, name: str) -> float:
        """In which the figure travels."""
        over = math.ceil(math.log2(max(self.most[name] / self.clip, 1.0)))
        return float(2 ** max(min(over, self.frac_bits - _KEPT_BITS), 0))

    def configured(self, config: SecAggConfig) -> SecAggConfig:
        """``config`` for such sums."""
        metrics = {name: most / self.unit(name) for name, most in self.most.items()}
        return replace(
            config,
            clip=self.clip,
            frac_bits=self.frac_bits,
            max_weight=1,
            weight_key=WEIGHT,
            metrics=metrics,
        )

    def reply(self, message: Message, arrays: Arrays, counted: Mapping[str, float]) -> Message:
        """A node's answer. arrays: those of the message, on the grid and within the clip.

        counted: all figures.
        Raises ParameterError for a figure beyond its bound, by name and without its value.
        """
        told: dict[str, int | float | list[int] | list[float]] = {WEIGHT: 1}
        for name, most in self.most.items():
            if not abs(counted[name]) <= most:  # true for NaN too
                raise ParameterError(
                    f"the figure {name!r} of this node is beyond the {most:g} that were announced",
                    remedy="announce more: settings node-users and node-ratings",
                )
            told[name] = float(counted[name]) / self.unit(name)
        content = RecordDict({ARRAYS: _record(arrays), FIGURES: MetricRecord(told)})
        return Message(content, reply_to=message)

    def totals(self, means: Mapping[str, float], nodes: int) -> dict[str, float]:
        """The sums over so many nodes, from what ``reply`` sent, on average."""
        return {name: float(self.exact(means[name], nodes)) * self.unit(name) for name in self.most}

    def exact(self, mean: Any, nodes: int) -> Any:
        """The sum over ``nodes`` values on the grid, from their mean."""
        step = 2.0**self.frac_bits
        return np.rint(np.asarray(mean, dtype=np.float64) * nodes * step) / step


@dataclass(frozen=True)
class Total:
    """One sum. nodes: how many are in it, of those that were ``asked``."""

    nodes: int
    asked: int
    arrays: Arrays = field(repr=False)
    figures: dict[str, float]


class SecureSums:
    """The server's side: one secure round for each sum.

    config: of ``secagg.flower``; what ``figures`` decides is replaced.  least: nodes that a round
    waits for.  wait: seconds that it does, before AbortError.
    """

    def __init__(
        self, grid: Grid, config: SecAggConfig, figures: Figures, *, least: int, wait: float
    ) -> None:
        self._grid, self._least, self._wait = grid, least, wait
        self.figures = figures
        self.secure = SecureGrid(grid, figures.configured(config))
        self._round = 0

    def over_nodes(
        self,
        arrays: Mapping[str, Floats],
        asked: Mapping[str, Plain],
        among: Collection[int] | None = None,
    ) -> Total | None:
        """The sum of what the nodes answer; None where too few did.

        arrays, asked: the same for every node. The answer has arrays of the same names and shapes.
        among: who may be asked; None for everybody.
        """
        nodes = wait_for_nodes(self._grid, self._least, self._wait)
        if among is not None:
            nodes = [node for node in nodes if node in among]
        self._round += 1
        content = RecordDict({ARRAYS: _record(arrays), ASKED: ConfigRecord(dict(asked))})
        messages = [
            Message(content, node, TRAIN, group_id=str(self._round)) for node in sorted(nodes)
        ]
        replies = list(self.secure.send_and_receive(messages))
        if not replies:
            return None
        content = replies[0].content  # all are the same
        means, figures = content.array_records[ARRAYS], _metrics(content)
        exact = self.figures.exact
        summed = {name: exact(mean.numpy(), len(replies)) for name, mean in means.items()}
        return Total(
            len(replies), len(messages), summed, self.figures.totals(figures, len(replies))
        )


def wait_for_nodes(grid: Grid, least: int, seconds: float) -> list[int]:
    """The nodes that are connected, once there are ``least``. AbortError if there never are."""
    end = time.monotonic() + seconds
    while len(nodes := list(grid.get_node_ids())) < least:
        if time.monotonic() >= end:
            raise AbortError(
                f"{len(nodes)} of {least} nodes are connected after {seconds:g} s",
                remedy="start more SuperNodes, or lower the setting nodes (never below 3)",
            )
        time.sleep(_POLL_SECONDS)
    return nodes


def read(message: Message) -> tuple[Arrays, dict[str, Any]]:
    """What a node was asked: arrays that it may write to, and everything else.

    Raises ParameterError for a message of something else.
    """
    arrays, asked = message.content.get(ARRAYS), message.content.get(ASKED)
    if not isinstance(arrays, ArrayRecord) or not isinstance(asked, ConfigRecord):
        raise ParameterError(
            f"the message has no records {ARRAYS!r} and {ASKED!r}",
            remedy="run this node's app with its own server app",
        )
    found = {name: array.numpy().astype(np.float64) for name, array in arrays.items()}
    return found, dict(asked)


def _record(arrays: Mapping[str, Floats]) -> ArrayRecord:
    """Contiguous arrays of doubles, as Flower writes them."""
    return ArrayRecord(
        {name: Array(np.ascontiguousarray(array, np.float64)) for name, array in arrays.items()}
    )


def _metrics(content: RecordDict) -> dict[str, float]:
    (record,) = content.metric_records.values()
    return {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
