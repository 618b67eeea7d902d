"""The settings of PriRec as a Flower app: those of ``privrec train prirec``, and of the federation.

They come from ``[tool.flwr.app.config]`` of the app's pyproject.toml and from ``--run-config``,
under the names of the command's options, with ``-`` or ``_``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from mpc.core.errors import ParameterError
from recsys.config import TrainConfig
from recsys.flower.federation import Federation
from recsys.prirec import check_neighbours
from recsys.tasks import VISITS

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


@dataclass(frozen=True, kw_only=True)
class PriRecSettings(Federation):
    """All of them; those of the federation are its own.

    train: of the model, as ``privrec train prirec`` has them, so far as they have a meaning here.
    data: name of a set of check-ins or path to it, on every machine: a node takes its partition of
    it. A node whose configuration names check-ins of its own (``privrec-data``) takes those.
    catalogue: path of a set whose POIs are all there are; empty takes those of ``data`` that are
    left after preparation, as the server sees it.
    few_nodes: of a user whose neighbours live on one or two other nodes, so that a sum of theirs
    would tell too much: let her ``keep`` her own model unmixed, or ``refuse`` to train.
    """

    train: TrainConfig
    data: str = VISITS.default_data
    catalogue: str = ""
    few_nodes: str = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.few_nodes not in FEW:
            raise ParameterError(f"few-nodes must be one of {', '.join(FEW)}: {self.few_nodes!r}")
        object.__setattr__(self, "train", _checked_model(self.train))

    @classmethod
    def read(cls, run_config: Mapping[str, Any]) -> Self:
        """The settings that a run has. ParameterError for an unknown name or a bad value."""
        own, model = cls.parted(run_config, VISITS.names, _WITHOUT_MEANING)
        train = VISITS.make(VISITS.completed({"model": "prirec", **model}))
        if not isinstance(train, TrainConfig):
            raise TypeError(type(train))
        return cls(train=train, **own)


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
