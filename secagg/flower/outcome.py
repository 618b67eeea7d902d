"""What became of a secure round: who is in the mean, who is not and why, and how long steps took.

    grid = SecureGrid(inner, config, on_outcome=print)
    grid.outcomes[-1].survivors

Source: ours.
Model: of the server alone.
Leaks: nothing beyond what the server sees: who answered in which step.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

_LOGGER = logging.getLogger("flwr")


@dataclass(frozen=True)
class Missing:
    """A node that left the round.

    step: as the paper names it, or "Hello".  node: Flower's id.  reason: one sentence.
    """

    step: str
    node: int
    reason: str


@dataclass(frozen=True)
class RoundOutcome:
    """The end of one round.

    round: its number in the session, 0 for the first; a number may be left out. After a round that
    clients refused, and that was aborted, a new session begins.  survivors: the nodes whose updates
    are in the mean, none if the round was aborted.  missing: the others.
    altered: nodes that sent other shares than they had been given; their inputs are in the mean.
    seconds: of each step with its round trip, in order.  aborted: why there is no mean.
    """

    round: int
    survivors: tuple[int, ...] = ()
    missing: tuple[Missing, ...] = ()
    altered: tuple[int, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    aborted: str | None = None

    @property
    def trips(self) -> int:
        """Round trips between the server and its nodes."""
        return len(self.seconds)


def tell_aborted(outcome: RoundOutcome) -> None:
    """Say in Flower's log that a round has no mean, and who was missing; nothing otherwise."""
    if outcome.aborted is None:
        return
    _LOGGER.warning("secagg: round %d gives no mean: %s", outcome.round, outcome.aborted)
    for gone in outcome.missing:
        _LOGGER.warning("secagg: node %d left in %s: %s", gone.node, gone.step, gone.reason)
