"""What the server decides about secure rounds: who may fail, how numbers scale, how long to wait.

    SecureGrid(grid, SecAggConfig(variant="malicious", roster="roster.bin", operator=public_key))

Source: ours. ``secagg.plan`` turns shares of corrupt and lost clients into thresholds; the numbers
    of a vector are those of ``secagg.vectors``.
Model: as ``secagg.full.params``. Clients judge by a ``Policy`` of their own what this config asks.
Leaks: nothing; a config is public.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from secagg.flower.terms import Clips, Terms
from secagg.full.params import MAX_CLIENTS, Variant
from secagg.params import MIN_COHORT
from secagg.plan import Plan, plan
from secagg.quantize import MAX_BITS

KEY_BYTES = 32
MIN_SECONDS = 0.001
MAX_SECONDS = 1e7
_NO_METRICS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class SecAggConfig:
    """How ``SecureGrid`` runs its rounds.

    variant, dropout, corrupt, security_bits, failure: as for ``secagg.plan.plan``: which shares of
    the clients may leave a round, and may pool what they see with the server.  sparse_above: in
    cohorts of more clients each shares its secrets with few neighbours; smaller ones, and the
    malicious variant, have the complete graph, where nothing is left to chance.  threshold: instead
    of the planned one, and then with the complete graph.
    min_clients: the least number of summands of a sum, at least 3.
    clip: the largest magnitude of an entry of an array, one for all or by name (``"*"`` for the
    rest); integers need a whole number of their own.  frac_bits: one unit is 2^-frac_bits.
    max_weight: the largest weight of a client.  weight_key: the metric that is the weight, which no
    one sees but in the sum.  metrics: those that are averaged, hidden likewise, with the largest
    magnitude of each; all others stay with their client.
    deadline: seconds that a step may take, train_deadline: the one that trains.  grace: once as
    many have answered as the plan counts on, how many seconds more the others have; None lets all
    of them have the whole deadline.
    roster, operator: in the malicious variant the file of a ``SignedRoster``, and the 32 bytes of
    the public key that signed it.
    strategy_checked: you have made sure that a strategy which forms its own average needs nothing
    of single replies but their mean.
    Raises ParameterError for values out of range, and for shares that no number of clients allows.
    """

    variant: Variant = "semi-honest"
    dropout: float = 0.3
    corrupt: float = 0.1
    security_bits: int = 40
    failure: float = 2.0**-40
    sparse_above: int = 64
    threshold: int | None = None
    min_clients: int = MIN_COHORT
    clip: Clips = 8.0
    frac_bits: int = 16
    max_weight: int = 1_000_000
    weight_key: str = "num-examples"
    metrics: Mapping[str, float] = field(default_factory=lambda: _NO_METRICS)
    deadline: float = 60.0
    train_deadline: float = 3600.0
    grace: float | None = None
    roster: str | os.PathLike[str] | None = None
    operator: bytes | None = None
    strategy_checked: bool = False

    def __post_init__(self) -> None:
        exact: dict[str, object] = {
            "sparse_above": integer("sparse_above", self.sparse_above, 0, MAX_CLIENTS),
            "min_clients": integer("min_clients", self.min_clients, MIN_COHORT, MAX_CLIENTS),
            "deadline": _seconds("deadline", self.deadline),
            "train_deadline": _seconds("train_deadline", self.train_deadline),
            "clip": _frozen("clip", self.clip) if isinstance(self.clip, Mapping) else self.clip,
            "metrics": _frozen("metrics", self.metrics),
        }
        if self.threshold is not None:
            exact["threshold"] = integer("threshold", self.threshold, 2, MAX_CLIENTS)
        if self.grace is not None:
            exact["grace"] = _seconds("grace", self.grace, least=0.0)
        for name, value in exact.items():
            object.__setattr__(self, name, value)
        if not isinstance(self.strategy_checked, bool):
            raise ParameterError(f"strategy_checked must be a bool, got {self.strategy_checked!r}")
        self.terms(2, MAX_BITS)
        self._check_shares()
        self._check_roster()

    @property
    def malicious(self) -> bool:
        """Whether keys are signed and survivors checked."""
        return self.variant == "malicious"

    def plan(self, n: int, largest: int) -> Plan:
        """The thresholds and neighbours for ``n`` clients with entries up to ``largest``.

        Raises ParameterError, with what would do, if so few clients cannot meet the shares.
        """
        return plan(
            n,
            dropout=self.dropout,
            corrupt=self.corrupt,
            security_bits=self.security_bits,
            failure=self.failure,
            largest=largest,
            variant=self.variant,
            complete_graph=n <= self.sparse_above or self.threshold is not None,
        )

    def terms(self, parties: int, ring_bits: int) -> Terms:
        """What clients are told about vectors, in a round of ``parties`` clients."""
        return Terms.make(
            clip=self.clip,
            frac_bits=self.frac_bits,
            ring_bits=ring_bits,
            parties=parties,
            max_weight=self.max_weight,
            weight_key=self.weight_key,
            metrics=self.metrics,
        )

    def _check_shares(self) -> None:
        plan(
            MIN_COHORT,
            dropout=0,
            corrupt=0,
            security_bits=self.security_bits,
            failure=self.failure,
            variant=self.variant,
        )
        lost, bad = _share("dropout", self.dropout), _share("corrupt", self.corrupt)
        # What the thresholds need however many clients there are.
        together = (2 * lost if self.malicious else lost) + bad
        if together >= 1:
            twice = "2 dropout" if self.malicious else "dropout"
            raise ParameterError(
                f"{twice} + corrupt must be less than 1 in the {self.variant} variant, "
                f"got {float(together):g}",
                remedy="lower dropout or corrupt",
            )

    def _check_roster(self) -> None:
        given = (self.roster is not None, self.operator is not None)
        if given != (self.malicious, self.malicious):
            raise ParameterError(
                "roster and operator belong to the malicious variant, both of them",
                remedy=f"this config is {self.variant}",
            )
        if self.operator is not None and (
            not isinstance(self.operator, bytes) or len(self.operator) != KEY_BYTES
        ):
            raise ParameterError(f"operator must be the {KEY_BYTES} bytes of a public key")


def _share(name: str, value: float | Fraction) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ParameterError(f"{name} must be a real number, got {type(value).__name__}")
    if not 0 <= value < 1:  # false for NaN too
        raise ParameterError(f"{name} must lie in [0, 1), got {value}")
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _seconds(name: str, value: float, least: float = MIN_SECONDS) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(f"{name} must be seconds, got {type(value).__name__}")
    if not (math.isfinite(value) and least <= value <= MAX_SECONDS):
        raise ParameterError(f"{name} must lie in [{least:g}, {MAX_SECONDS:g}] s, got {value}")
    return float(value)


def _frozen(name: str, bounds: Mapping[str, float]) -> Mapping[str, float]:
    """A copy that nobody can change."""
    if not isinstance(bounds, Mapping):
        raise ParameterError(f"{name} must map names to bounds, got {type(bounds).__name__}")
    return MappingProxyType(dict(bounds))
