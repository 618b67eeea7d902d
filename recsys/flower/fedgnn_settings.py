"""The settings of FedGNN as a Flower app: those of ``privrec train fedgnn``, and of the federation.

They come from ``[tool.flwr.app.config]`` of the app's pyproject.toml and from ``--run-config``,
under the names of the command's options, with ``-`` or ``_``. TOML has no null: ``"none"`` switches
a clip or noise off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.flower.federation import Federation
from recsys.ratings.config import RatingConfig
from recsys.tasks import PRESET, RATING

NONE = "none"

_WITHOUT_MEANING = {
    "mode": "every node does its users' real work",
    "secagg": "sums are always formed by the full protocol of secagg",
    "drop_rate": "nodes leave when they leave",
    "ring_bits": "the ring follows from the number of nodes and the clip",
}


@dataclass(frozen=True, kw_only=True)
class FedGNNSettings(Federation):
    """All of them; those of the federation are its own.

    train: of the model, as ``privrec train fedgnn`` has them, so far as they have a meaning here.
    data: name of a rating set or path to it, on every machine: a node takes its partition of it. A
    node whose configuration names ratings of its own (``privrec-data``) takes those.
    catalogue: file of item ids, one in a line, with ``lowest`` and ``highest``, the range of
    ratings; empty takes all three from ``data``, as the server sees it.
    node_users, node_ratings: the most of one node; 0 for what ``data`` and ``nodes`` give, which
    suits partitions alone.
    """

    train: RatingConfig
    data: str = RATING.default_data
    catalogue: str = ""
    lowest: float = 0.0
    highest: float = 0.0
    node_users: int = 0
    node_ratings: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("node_users", "node_ratings"):
            integer(name, getattr(self, name), 0, 2**31 - 1)
        if self.catalogue and not self.lowest < self.highest:
            raise ParameterError(
                f"a catalogue needs lowest below highest, got {self.lowest!r} and {self.highest!r}",
                remedy="set the smallest and the largest rating that can be given",
            )
        if self.catalogue and not (self.node_users and self.node_ratings):
            raise ParameterError(
                "a catalogue needs node-users and node-ratings: the most that one node holds",
                remedy="set both; they bound what a node sends, and are no secret",
            )
        _check_model(self.train)

    @classmethod
    def read(cls, run_config: Mapping[str, Any]) -> Self:
        """The settings that a run has. ParameterError for an unknown name or a bad value."""
        own, model = cls.parted(run_config, {*RATING.names, PRESET}, _WITHOUT_MEANING)
        model = {name: _value(value) for name, value in model.items()}
        train = RATING.make(RATING.completed({"model": "fedgnn", **model}))
        if not isinstance(train, RatingConfig):
            raise TypeError(type(train))
        # The variant of secagg that a ledger and a report speak of.
        secure = train.aggregate == "secure"
        return cls(train=replace(train, secagg="full" if secure else train.secagg), **own)


def _check_model(train: RatingConfig) -> None:
    if train.model != "fedgnn":
        raise ParameterError(
            f"this app trains fedgnn, got model {train.model!r}", remedy="leave model out"
        )
    if train.neighbours != "none":
        raise ParameterError(
            f"neighbours must be none in a Flower app, got {train.neighbours!r}: graph expansion "
            "needs a matcher and a key holder, whom this app does not have",
            remedy='set neighbours = "none", or train with privrec train fedgnn',
        )


def _value(given: Any) -> Any:
    return None if given == NONE and isinstance(given, str) else given
