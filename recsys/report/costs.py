"""What a run has cost so far: time by step and traffic by kind, summed over its processes."""

from dataclasses import dataclass, field
from typing import Any, Self

from recsys.prirec import PriRecLearner
from recsys.ratings.model import RatingModel
from recsys.recommender import Recommender


@dataclass(frozen=True)
class Costs:
    """seconds: wall-clock time.  steps: seconds by step.  traffic: (messages, bytes) by kind.

    clipped: gradient entries that the clip bound changed.
    """

    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    traffic: dict[str, tuple[int, int]] = field(default_factory=dict)
    clipped: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all kinds, each message counted once, where it is sent."""
        return sum(size for _, size in self.traffic.values())

    def __add__(self, other: "Costs") -> "Costs":
        steps = dict(self.steps)
        for name, seconds in other.steps.items():
            steps[name] = steps.get(name, 0.0) + seconds
        traffic = dict(self.traffic)
        for kind, (messages, size) in other.traffic.items():
            before = traffic.get(kind, (0, 0))
            traffic[kind] = (before[0] + messages, before[1] + size)
        return Costs(self.seconds + other.seconds, steps, traffic, self.clipped + other.clipped)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "seconds": self.seconds,
            "steps": self.steps,
            "traffic": {
                kind: {"messages": messages, "bytes": size}
                for kind, (messages, size) in self.traffic.items()
            },
            "clipped": self.clipped,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Inverse of ``to_dict``."""
        traffic = {
            kind: (int(cost["messages"]), int(cost["bytes"]))
            for kind, cost in values["traffic"].items()
        }
        return cls(values["seconds"], dict(values["steps"]), traffic, values["clipped"])


def costs_of(model: Recommender | RatingModel, seconds: float) -> Costs:
    """The costs of this process's part of the training, whose wall-clock time the caller took."""
    learner = model.learner_
    steps = dict(learner.clock.seconds)
    clipped, traffic = 0, {}
    if isinstance(model, RatingModel):
        clipped = int(getattr(getattr(learner, "aggregation", None), "clipped", 0))
    elif model.traffic is not None and isinstance(learner, PriRecLearner):
        clipped = learner.sums.clipped
    if model.traffic is not None:
        traffic = {
            kind: (cost.messages, cost.bytes) for kind, cost in model.traffic.traffic.items()
        }
    return Costs(seconds, steps, traffic, clipped)
