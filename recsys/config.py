"""Settings of a training run, checked when they are made."""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from ldp.randomized_response import RandomizedResponse
from mpc.core.errors import ParameterError
from mpc.core.ring import Ring
from recsys.data.prepare import PrepareConfig
from recsys.network import WEIGHTS

MODELS = ("fm", "prirec-", "prirec")
MODES = ("protocol", "simulate", "float")
FEATURES = ("user", "static", "all")
NETWORKS = ("geographic", "random")
DYNAMIC = ("visitors", "three")
MIXES = ("epoch", "update")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a run depends on besides the data.

    model: ``fm`` (central), ``prirec-`` (no dynamic features), ``prirec``.
    mode: ``protocol`` (shares, pads and randomized bits are made for real), ``simulate`` (same
        encodings and coins, plain ring sums), ``float`` (no encoding; measures its cost).
    features: ``user``, ``static`` (user and static), ``all`` (and dynamic); None takes the
        model's own: ``static`` for ``prirec-``, ``all`` otherwise.
    factors: K.  epochs: T, at most; training stops after ``patience`` epochs without a better
        validation AUC.  learning_rate: alpha.  learning_rate_v: alpha of V, whose
        step adds up a whole cohort; None takes ``learning_rate``.  penalty_w, penalty_v: lambda_w, lambda_v.
    neighbours: N (0: no mixing; 1 and 2 only when simulated).  network, weights, own_weight: see
        recsys.network.  mix: ``epoch`` (one secure sum for each user and epoch, from one
        snapshot) or ``update`` (one for each update, the literal Algorithm 2, which lets a
        receiver subtract consecutive sums).
    local_batch: samples of a user in one update.  cohort, min_cohort: members of an aggregation
        cohort, and the fewest that are accepted.
    epsilon: of one user-POI pair over all dynamic features together.  dynamic: one visitor count,
        or the paper's three features, which share epsilon.
    regions, categories: static POI features: one-hots of this many regions (0: none), and of the
        categories.
    ring_bits, frac_bits: l and l_F.  clip: bound on a user's gradient entries of V.
    relay: shares travel through the recommender, sealed end to end.
    seed: None draws privacy coins from the system; an integer makes the whole run reproducible,
        which leaves no privacy.
    """

    model: str = "prirec"
    mode: str = "protocol"
    features: str | None = None
    factors: int = 5
    epochs: int = 60
    patience: int = 8
    learning_rate: float = 0.05
    learning_rate_v: float | None = None
    penalty_w: float = 1e-3
    penalty_v: float = 1e-3
    init_scale: float = 0.05
    neighbours: int = 10
    network: str = "geographic"
    weights: str = "half"
    own_weight: float = 0.5
    mix: str = "epoch"
    local_batch: int = 4
    cohort: int = 128
    min_cohort: int = 16
    epsilon: float = 1.0
    dynamic: str = "visitors"
    regions: int = 32
    categories: bool = True
    ring_bits: int = 32
    frac_bits: int = 16
    clip: float = 16.0
    relay: bool = False
    seed: int | None = None
    prepare: PrepareConfig = field(default_factory=PrepareConfig)

    def __post_init__(self) -> None:
        _one_of("model", self.model, MODELS)
        _one_of("mode", self.mode, MODES)
        _one_of("features", self.feature_kind, FEATURES)
        _one_of("network", self.network, NETWORKS)
        _one_of("weights", self.weights, WEIGHTS)
        _one_of("mix", self.mix, MIXES)
        _one_of("dynamic", self.dynamic, DYNAMIC)
        for name, low in (
            ("factors", 1),
            ("epochs", 1),
            ("patience", 1),
            ("neighbours", 0),
            ("local_batch", 1),
            ("cohort", 1),
            ("min_cohort", 3),
            ("regions", 0),
        ):
            _integer(name, getattr(self, name), low)
        for name, open_low in (
            ("learning_rate", True),
            ("step_v", True),
            ("penalty_w", False),
            ("penalty_v", False),
            ("init_scale", True),
            ("clip", True),
        ):
            _positive(name, getattr(self, name), strict=open_low)
        if self.model == "prirec-" and self.feature_kind == "all":
            raise ParameterError(
                "prirec- is the variant without dynamic features, got features 'all'",
                remedy="choose the model prirec, or features static",
            )
        if self.seed is not None and (
            isinstance(self.seed, bool)
            or not isinstance(self.seed, int)
            or not 0 <= self.seed < 2**64
        ):
            raise ParameterError(f"seed must be an integer in [0, 2^64), got {self.seed!r}")
        # Both constructors know their own domains; an invalid value is refused here, not mid-run.
        Ring(self.ring_bits)
        RandomizedResponse.from_epsilon(self.epsilon)

    @property
    def feature_kind(self) -> str:
        """The features really used: ``features``, or the model's own."""
        return self.features or ("static" if self.model == "prirec-" else "all")

    @property
    def step_v(self) -> float:
        """The learning rate of V."""
        return self.learning_rate if self.learning_rate_v is None else self.learning_rate_v

    @property
    def is_central(self) -> bool:
        """True for FM: the recommender holds all data, and no protocol runs."""
        return self.model == "fm"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a configuration file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Inverse of ``to_dict``; an unknown name is refused."""
        known = set(cls.__dataclass_fields__)
        unknown = sorted(set(values) - known)
        if unknown:
            raise ParameterError(
                f"unknown setting {unknown[0]!r}", remedy=f"known: {', '.join(sorted(known))}"
            )
        values = dict(values)
        if isinstance(values.get("prepare"), dict):
            values["prepare"] = PrepareConfig(**values["prepare"])
        return cls(**values)

    def with_seed(self, seed: int) -> Self:
        """The same settings under another seed."""
        return replace(self, seed=seed)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _integer(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ParameterError(f"{name} must be an integer of at least {low}, got {value!r}")


def _positive(name: str, value: object, *, strict: bool) -> None:
    valid = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not valid or value < 0 or (strict and value == 0):  # type: ignore[operator]
        bound = "above 0" if strict else "at least 0"
        raise ParameterError(f"{name} must be a finite number {bound}, got {value!r}")
