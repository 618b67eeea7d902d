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
class _Tuned:
    """Settings that suit a model, chosen on the validation parts of real check-ins."""

    w: float
    v: float
    regions: int


# A user's model sees few samples, so it wants coarse regions and large steps. The central machine
# sees all of them, so it wants fine regions. PriRec's V adds up a cohort: small steps.
_TUNED = {True: _Tuned(w=0.01, v=0.01, regions=1024), False: _Tuned(w=0.1, v=0.003, regions=32)}


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a run depends on besides the data.

    model: ``fm`` (central), ``prirec-`` (no dynamic features), ``prirec``.
    mode: ``protocol`` (shares, pads and randomized bits are made for real), ``simulate`` (same
        encodings and coins, plain ring sums), ``float`` (no encoding; measures its cost).
    features: ``user``, ``static`` (user and static), ``all`` (and dynamic); None takes the
        model's own: ``static`` for ``prirec-``, ``all`` otherwise.
    factors: K.  epochs: T, at most; training stops after ``patience`` epochs without a better
        validation AUC.
    learning_rate, learning_rate_v: alpha of W, and of V, whose step adds up a whole cohort; None
        takes the model's own, chosen on validation.  penalty_w, penalty_v: lambda_w, lambda_v.
    neighbours: N (0: no mixing; 1 and 2 only when simulated).  network, weights, own_weight: see
        recsys.network.  mix: ``epoch`` (one secure sum for each user and epoch, from one
        snapshot) or ``update`` (one for each update, the literal Algorithm 2, which lets a
        receiver subtract consecutive sums).
    local_batch: samples of a user in one update.  cohort, min_cohort: members of an aggregation
        cohort, and the fewest that are accepted.
    epsilon: of one user-POI pair over all dynamic features together.  dynamic: one visitor count,
        or the paper's three features, which share epsilon.
    regions, categories: static POI features: one-hots of this many regions (0: none; None: the
        model's own, at most half of the POIs), and of the categories.
    ring_bits, frac_bits: l and l_F.  clip: bound on a user's gradient entries of V.
    relay: shares travel through the recommender, sealed end to end.
    seed: None draws privacy coins from the system; an integer makes the whole run reproducible,
        which leaves no privacy.
    """

    model: str = "prirec"
    mode: str = "protocol"
    features: str | None = None
    factors: int = 5
    epochs: int = 100
    patience: int = 10
    learning_rate: float | None = None
    learning_rate_v: float | None = None
    penalty_w: float = 1e-4
    penalty_v: float = 1e-4
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
    regions: int | None = None
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
        _positive("own_weight", self.own_weight, strict=False)
        for name, low in (
            ("factors", 1),
            ("epochs", 1),
            ("patience", 1),
            ("neighbours", 0),
            ("local_batch", 1),
            ("cohort", 1),
            ("min_cohort", 3),
            ("frac_bits", 0),
        ):
            _integer(name, getattr(self, name), low)
        if self.regions is not None:
            _integer("regions", self.regions, 0)
        for name in ("categories", "relay"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(f"{name} must be true or false, got {getattr(self, name)!r}")
        for name, open_low in (
            ("step_w", True),
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
        own = "static" if self.model == "prirec-" else "all"
        return own if self.features is None else self.features

    @property
    def step_w(self) -> float:
        """The learning rate of the linear models."""
        return _TUNED[self.is_central].w if self.learning_rate is None else self.learning_rate

    @property
    def step_v(self) -> float:
        """The learning rate of V."""
        return _TUNED[self.is_central].v if self.learning_rate_v is None else self.learning_rate_v

    def region_count(self, pois: int) -> int:
        """How many regions ``pois`` POIs are cut into."""
        if self.regions is not None:
            return self.regions
        return min(_TUNED[self.is_central].regions, pois // 2)

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
