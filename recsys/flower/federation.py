"""What the settings of every app say about the federation, and how settings are read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from secagg.flower.config import SecAggConfig

MIN_NODES = 3
"""Below it ``secagg`` forms no sum."""

TRAIN = "train"
"""The field of an app's settings that holds those of its model."""


@dataclass(frozen=True, kw_only=True)
class Federation:
    """The settings that every app has.

    out: folder of the model, on the server; empty saves none.
    nodes: rounds wait for so many nodes, and no sum has fewer.  wait: seconds that they do.
    variant, dropout, corrupt, deadline, train_deadline, grace, roster, operator: of
    ``secagg.flower.SecAggConfig``; ``grace`` 0 waits for everybody until the deadline.
    ParameterError for a value of another type, and for fewer nodes than a sum may have.
    """

    out: str = ""
    nodes: int = MIN_NODES
    wait: float = 120.0
    variant: str = "semi-honest"
    dropout: float = 0.3
    corrupt: float = 0.1
    deadline: float = 60.0
    train_deadline: float = 600.0
    grace: float = 0.0
    roster: str = ""
    operator: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name != TRAIN:
                typed = _typed(item.name, getattr(self, item.name), item.default)
                object.__setattr__(self, item.name, typed)
        integer("nodes", self.nodes, MIN_NODES, 2**16 - 1)

    @classmethod
    def parted(
        cls, run_config: Mapping[str, Any], names: Collection[str], reasons: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A run's settings by name: those that are fields here, and those of the model.

        names: all that the model has.  reasons: why some of them have no meaning in an app.
        Raises ParameterError for an unknown name and for one without meaning.
        """
        values = {name.replace("-", "_"): value for name, value in run_config.items()}
        own = {item.name for item in fields(cls)} - {TRAIN}
        unknown = sorted(set(values) - own - set(names))
        if unknown:
            known = ", ".join(sorted({*own, *names}))
            raise ParameterError(f"unknown setting {unknown[0]!r}", remedy=f"known: {known}")
        for name, reason in reasons.items():
            if name in values:
                raise ParameterError(
                    f"{name} has no meaning in a Flower app: {reason}", remedy="leave it out"
                )
        ours = {name: value for name, value in values.items() if name in own}
        return ours, {name: value for name, value in values.items() if name not in own}


def _typed(name: str, value: object, default: object) -> object:
    """``value`` as its field's type, where TOML's is as good: 60 for 60.0."""
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        kind = {str: "text", int: "a whole number", float: "a number"}[type(default)]
        raise ParameterError(f"{name.replace('_', '-')} must be {kind}, got {value!r}")
    return value


def secagg_config(settings: Federation) -> SecAggConfig:
    """How sums over nodes are formed, but for scales and figures. ParameterError as its class."""
    try:
        operator = bytes.fromhex(settings.operator)
    except ValueError:
        raise ParameterError("operator must be a public key in hexadecimal digits") from None
    return SecAggConfig(
        variant=settings.variant,  # type: ignore[arg-type]  # checked there
        dropout=settings.dropout,
        corrupt=settings.corrupt,
        min_clients=settings.nodes,
        deadline=settings.deadline,
        train_deadline=settings.train_deadline,
        grace=settings.grace or None,
        roster=settings.roster or None,
        operator=operator or None,
    )
