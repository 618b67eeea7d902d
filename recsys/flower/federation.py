"""What the settings of an app say about the federation, for ``secagg.flower``."""

from typing import Protocol

from mpc.core.errors import ParameterError
from secagg.flower.config import SecAggConfig


class Federation(Protocol):
    """The settings that every app has; see ``secagg.flower.SecAggConfig``."""

    @property
    def nodes(self) -> int:
        """No sum has fewer nodes."""

    @property
    def variant(self) -> str:
        """Against which server."""

    @property
    def dropout(self) -> float:
        """Share of the nodes that may leave a round."""

    @property
    def corrupt(self) -> float:
        """Share of the nodes that may pool what they see with the server."""

    @property
    def deadline(self) -> float:
        """Seconds that a step may take."""

    @property
    def train_deadline(self) -> float:
        """Seconds that the step which trains may take."""

    @property
    def grace(self) -> float:
        """Seconds after a quorum; 0 waits for everybody until the deadline."""

    @property
    def roster(self) -> str:
        """Path of the operator's roster, or nothing."""

    @property
    def operator(self) -> str:
        """The operator's public key in hexadecimal digits, or nothing."""


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
