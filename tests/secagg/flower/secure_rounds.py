"""Secure rounds over a grid of this process, with the real mod at every node: for server tests.

Nodes, model and training function are those of ``by_hand``: node number p has weight p + 1, and all
that it knows about the mean is in ``by_hand.trained``.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from secagg.flower import Policy, SecAggConfig, SecAggMod, SecureGrid
from secagg.flower.exchange import Clock
from secagg.flower.records import RECORD, VECTOR, Request, add_request, read_request
from secagg.flower.training import model_of
from tests.secagg.flower.by_hand import (
    CLIP,
    MAX_WEIGHT,
    METRICS,
    OPERATOR_KEY,
    Keys,
    app,
    grid_of,
    mean,
    train,
    train_content,
)
from tests.support import flower_grid
from tests.support.flower_grid import LocalGrid

UNIT = 2.0**-16

VARIANTS = ("semi-honest", "malicious")
TRIPS = {"semi-honest": 4, "malicious": 5}

Patched = Callable[[Request], Request]


class Session:
    """A grid of n nodes and the secure grid over it, with a clock that no test waits for."""

    def __init__(
        self,
        n: int,
        variant: str = "semi-honest",
        folder: Path | None = None,
        *,
        make_app: Callable[[], ClientApp] | None = None,
        options: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.clock = flower_grid.Clock()
        self.keys = None
        more: dict[str, Any] = {"clip": CLIP, "max_weight": MAX_WEIGHT, "metrics": METRICS}
        policy = Policy()
        if variant == "malicious":
            assert folder is not None
            self.keys = Keys(folder, tuple(range(1, n + 1)))
            more |= {"roster": folder / "roster.bin", "operator": OPERATOR_KEY.public}
            policy = Policy(variant="malicious")
        make = make_app or (lambda: app(train, SecAggMod(policy)))
        given = {"clock": self.clock, **(options or {})}
        self.grid = grid_of(n, make, keys=self.keys, **given)
        self.nodes = list(self.grid.configs)
        config = {**more, "variant": variant, **config}
        clock = Clock(self.clock, self.clock.sleep)
        self.secure = SecureGrid(self.grid, SecAggConfig(**config), clock=clock)

    def messages(
        self, content: RecordDict | None = None, nodes: Iterable[int] | None = None
    ) -> list[Message]:
        given = train_content() if content is None else content
        return [Message(given, node, "train") for node in nodes or self.nodes]

    def train(
        self,
        content: RecordDict | None = None,
        nodes: Iterable[int] | None = None,
        timeout: float | None = None,
    ) -> list[Message]:
        """The replies of one round."""
        return list(self.secure.send_and_receive(self.messages(content, nodes), timeout=timeout))

    @property
    def outcome(self) -> Any:
        return self.secure.outcomes[-1]

    def numbers(self, nodes: Iterable[int]) -> list[int]:
        """Nodes as their places on the grid, which are their partitions."""
        return sorted(self.nodes.index(node) for node in nodes)

    def missing(self) -> dict[int, tuple[str, str]]:
        """Step and reason by place."""
        return {self.nodes.index(m.node): (m.step, m.reason) for m in self.outcome.missing}


def arrays_in(reply: Message) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in model_of(reply.content)[1].items()}


def assert_mean(replies: list[Message], partitions: Iterable[int]) -> None:
    """One equal reply for each, with their mean."""
    who = sorted(partitions)
    assert len(replies) == len(who)
    expected = mean(who)
    for reply in replies:
        got = arrays_in(reply)
        assert got.keys() == expected.keys()
        for name, array in expected.items():
            # A unit of the codec, and half of one in the last place of the array's own dtype.
            rounding = np.abs(array) * np.finfo(got[name].dtype).eps
            assert (np.abs(got[name] - array) <= UNIT + rounding).all(), name


def altering(change: Patched) -> Callable[..., Any]:
    """A man in the middle who alters what a node is asked."""

    def between(message: Message, deliver: flower_grid.Deliver) -> Message | None:
        request = change(read_request(message.content))
        message.content = add_request(message.content, request)
        return deliver(message)

    return between


def shown(grid: LocalGrid) -> list[Message]:
    """All that left the nodes."""
    return [one.reply for one in grid.passed if one.reply is not None]


def only_ours(reply: Message) -> bool:
    return reply.has_error() or set(reply.content) <= {RECORD, VECTOR}
