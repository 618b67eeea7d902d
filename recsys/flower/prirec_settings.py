"""The settings of PriRec as a Flower app: those of ``privrec train prirec``, and of the federation.

They come from ``[tool.flwr.app.config]`` of the app's pyproject.toml and from ``--run-config``,
under the names of the command's options, with ``-`` or ``_``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.prirec import check_neighbours
from recsys.tasks import VISITS

MIN_NODES = 3
"""Below it ``secagg`` forms no sum."""

FEW = ("keep", "refuse")

_WITHOUT_MEANING = {
    "mode": "every node does its users' real work",
    "secagg": "gradients are always summed by the full protocol of secagg",
    "drop_rate": "nodes leave when they leave",
    "cohort": "all nodes together are one",
    "mix": "linear models are mixed once in an epoch",
    "relay": "everything between nodes travels through the server, sealed",
    "security": "what the server alters is refused; neighbours are semi-honest",
    "patience": "nobody can validate in the clear, so epochs are fixed",
}


@dataclass(frozen=True)
class PriRecSettings:
    """All of them.

    train: of the model, as ``privrec train prirec`` has them, so far as they have a meaning here.
    data: name of a set of check-ins or path to it, on every machine: a node takes its partition of
    it. A node whose configuration names check-ins of its own (``privrec-data``) takes those.
    catalogue: path of a set whose POIs are all there are; empty takes those of ``data`` that are
    left after preparation, as the server sees it.
    out: folder of the model, on the server; empty saves none.
    nodes: training waits for so many nodes, and no sum has fewer.  wait: seconds that it does.
    few_nodes: of a user whose neighbours live on one or two other nodes, so that a sum of theirs
    would tell too much: let her ``keep`` her own model unmixed, or ``refuse`` to train.
    variant, dropout, corrupt, deadline, train_deadline, grace, roster, operator: of
    ``secagg.flower.SecAggConfig``; ``grace`` 0 waits for everybody until the deadline.
    """

    train: TrainConfig
    data: str = VISITS.default_data
    catalogue: str = ""
    out: str = ""
    nodes: int = MIN_NODES
    wait: float = 120.0
    few_nodes: str = "keep"
    variant: str = "semi-honest"
    dropout: float = 0.3
    corrupt: float = 0.1
    deadline: float = 60.0
    train_deadline: float = 600.0
    grace: float = 0.0
    roster: str = ""
    operator: str = ""

    def __post_init__(self) -> None:
        for item in fields(self)[1:]:
            object.__setattr__(self, item.name, _typed(item.name, getattr(self, item.name)))
        integer("nodes", self.nodes, MIN_NODES, 2**16 - 1)
        if self.few_nodes not in FEW:
            raise ParameterError(f"few-nodes must be one of {', '.join(FEW)}: {self.few_nodes!r}")
        object.__setattr__(self, "train", _checked_model(self.train))

    @classmethod
    def read(cls, run_config: Mapping[str, Any]) -> Self:
        """The settings that a run has. ParameterError for an unknown name or a bad value."""
        values = {name.replace("-", "_"): value for name, value in run_config.items()}
        own = {item.name for item in fields(cls)} - {"train"}
        unknown = sorted(set(values) - own - set(VISITS.names))
        if unknown:
            known = ", ".join(sorted({*own, *VISITS.names}))
            raise ParameterError(f"unknown setting {unknown[0]!r}", remedy=f"known: {known}")
        for name, reason in _WITHOUT_MEANING.items():
            if name in values:
                raise ParameterError(
                    f"{name} has no meaning in a Flower app: {reason}", remedy="leave it out"
                )
        model = {name: value for name, value in values.items() if name not in own}
        train = VISITS.make(VISITS.completed({"model": "prirec", **model}))
        if not isinstance(train, TrainConfig):
            raise TypeError(type(train))
        return cls(train, **{name: values[name] for name in own if name in values})


def _checked_model(train: TrainConfig) -> TrainConfig:
    """``train`` as it is meant here, where ``rounds`` stands for a number that everybody knows."""
    if train.model not in ("prirec", "prirec-"):
        raise ParameterError(
            f"this app trains prirec or prirec-, got model {train.model!r}", remedy="leave it out"
        )
    if train.feature_kind == "user":
        raise ParameterError(
            "features must not be 'user': without features of POIs there is no model to aggregate",
            remedy="leave it out",
        )
    if train.weights == "literal":
        raise ParameterError("weights must not be 'literal', which diverge", remedy="leave it out")
    if train.rounds == 0:
        raise ParameterError(
            "rounds must be at least 1 in a Flower app, where nobody knows the busiest user",
            remedy="leave it out for one round in an epoch",
        )
    check_neighbours(train, train.neighbours)
    return replace(train, rounds=1 if train.rounds is None else train.rounds, mode="protocol")


def _typed(name: str, value: object) -> object:
    """``value`` as its field's type, where TOML's is as good: 60 for 60.0."""
    default = getattr(PriRecSettings, name)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        kind = {str: "text", int: "a whole number", float: "a number"}[type(default)]
        raise ParameterError(f"{name.replace('_', '-')} must be {kind}, got {value!r}")
    return value
