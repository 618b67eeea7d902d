"""The settings of FedGNN as a Flower app: those of ``privrec train fedgnn``, and of the federation.

They come from ``[tool.flwr.app.config]`` of the app's pyproject.toml and from ``--run-config``,
under the names of the command's options, with ``-`` or ``_``. TOML has no null: ``"none"`` switches
a clip or noise off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.ratings.config import RatingConfig
from recsys.tasks import PRESET, RATING

NONE = "none"

MIN_NODES = 3
"""Below it ``secagg`` forms no sum."""

_WITHOUT_MEANING = {
    "mode": "every node does its users' real work",
    "secagg": "sums are always formed by the full protocol of secagg",
    "drop_rate": "nodes leave when they leave",
    "ring_bits": "the ring follows from the number of nodes and the clip",
}


@dataclass(frozen=True)
class FedGNNSettings:
    """All of them.

    train: of the model, as ``privrec train fedgnn`` has them, so far as they have a meaning here.
    data: name of a rating set or path to it, on every machine: a node takes its partition of it. A
    node whose configuration names ratings of its own (``privrec-data``) takes those.
    catalogue: file of item ids, one in a line, with ``lowest`` and ``highest``, the range of
    ratings; empty takes all three from ``data``, as the server sees it.
    out: folder of the model, on the server; empty saves none.
    nodes: rounds wait for so many nodes, and no sum has fewer.  wait: seconds that they do.
    node_users, node_ratings: the most of one node; 0 for what ``data`` and ``nodes`` give, which
    suits partitions alone.
    variant, dropout, corrupt, deadline, train_deadline, grace, roster, operator: of
    ``secagg.flower.SecAggConfig``; ``grace`` 0 waits for everybody until the deadline.
    """

    train: RatingConfig
    data: str = RATING.default_data
    catalogue: str = ""
    lowest: float = 0.0
    highest: float = 0.0
    out: str = ""
    nodes: int = MIN_NODES
    wait: float = 120.0
    node_users: int = 0
    node_ratings: int = 0
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
        values = {name.replace("-", "_"): value for name, value in run_config.items()}
        own = {item.name for item in fields(cls)} - {"train"}
        unknown = sorted(set(values) - own - set(RATING.names) - {PRESET})
        if unknown:
            known = ", ".join(sorted({*own, *RATING.names, PRESET}))
            raise ParameterError(f"unknown setting {unknown[0]!r}", remedy=f"known: {known}")
        for name, reason in _WITHOUT_MEANING.items():
            if name in values:
                raise ParameterError(
                    f"{name} has no meaning in a Flower app: {reason}", remedy="leave it out"
                )
        model = {name: _value(values[name]) for name in values if name not in own}
        train = RATING.make(RATING.completed({"model": "fedgnn", **model}))
        if not isinstance(train, RatingConfig):
            raise TypeError(type(train))
        # The variant of secagg that a ledger and a report speak of.
        secure = train.aggregate == "secure"
        return cls(
            replace(train, secagg="full" if secure else train.secagg),
            **{name: values[name] for name in own if name in values},
        )


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


def _typed(name: str, value: object) -> object:
    """``value`` as its field's type, where TOML's is as good: 60 for 60.0."""
    default = getattr(FedGNNSettings, name)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        kind = {str: "text", int: "a whole number", float: "a number"}[type(default)]
        raise ParameterError(f"{name.replace('_', '-')} must be {kind}, got {value!r}")
    return value
