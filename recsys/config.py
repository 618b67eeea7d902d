"""Settings of a training run, checked when they are made."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from ldp.randomized_response import RandomizedResponse
from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.prepare import PrepareConfig
from recsys.drop_outs import SECAGG, check_drop_rate
from recsys.network import BY_DISTANCE, WEIGHTS

MODELS = ("mf", "dmf", "fm", "prirec-", "prirec")
CENTRAL = ("mf", "fm")
"""Models of which the recommender trains all, on everybody's data."""

BY_ID = ("mf", "dmf")
"""Models that know users and POIs by their ids alone."""

MODES = ("protocol", "simulate", "float")
FEATURES = ("user", "static", "all")
NETWORKS = ("geographic", "random")
DYNAMIC = ("visitors", "average", "three")
MIXES = ("epoch", "update")
SECURITY = ("semi-honest", "malicious")


@dataclass(frozen=True)
class _Tuned:
    """Settings that suit a model, chosen on the validation parts of real check-ins.

    w, v: learning rates.  regions: 0 where a model has no features.
    """

    w: float
    v: float
    regions: int


# A user's model sees few samples, so it wants coarse regions and large steps. The central machine
# sees all of them, so it wants fine regions. PriRec's V adds up a cohort: small steps.
_PRIREC = _Tuned(w=0.1, v=0.003, regions=32)
_TUNED = {
    "mf": _Tuned(w=0.03, v=0.03, regions=0),
    "dmf": _Tuned(w=0.1, v=0.1, regions=0),
    "fm": _Tuned(w=0.01, v=0.01, regions=1024),
    "prirec-": _PRIREC,
    "prirec": _PRIREC,
}


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a run depends on besides the data.

    model: ``mf`` and ``fm`` (central), ``dmf`` (gradients in plaintext between neighbours),
        ``prirec-`` (no dynamic features), ``prirec``.
    mode: ``protocol`` (shares, pads and randomized bits are made for real), ``simulate`` (same
        encodings and coins, plain ring sums), ``float`` (no encoding; measures its cost).
    features: ``user``, ``static`` (user and static), ``all`` (and dynamic); None takes the
        model's own: ``static`` for ``prirec-``, ``all`` otherwise. ``mf`` and ``dmf`` have none.
    factors: K.  epochs: T, at most; training stops after ``patience`` epochs without a better
        validation AUC.
    learning_rate, learning_rate_v: alpha of W (the biases of ``mf``), and of V (the factors of
        ``mf`` and ``dmf``), whose step adds up a whole cohort in PriRec; None
        takes the model's own, chosen on validation.  penalty_w, penalty_v: lambda_w, lambda_v.
    neighbours: N (0: no mixing; 1 and 2 only when simulated).  network, weights, own_weight: see
        recsys.network.  mix: ``epoch`` (one secure sum for each user and epoch, from one
        snapshot) or ``update`` (one for each update, the literal Algorithm 2, which lets a
        receiver subtract consecutive sums).
    local_batch: samples of a user in one update, at least.  rounds: of one epoch, in which every
        user sends something; None for a user's mean number of batches (who has more samples takes
        larger batches), 0 for that of the busiest user (no batch is larger).
    cohort, min_cohort: members of an aggregation
        cohort, and the fewest that are accepted.
    chunk: members of a cohort whose gradients are computed at once, at most; chunks are what an
        engine spreads over its workers. Another size rounds last bits otherwise.
    secagg: what adds up the gradients of a cohort: one-time ``pads``, whose keys are agreed once
        and which tolerate no drop-outs, or the ``full`` protocol, with new keys in each round.
    drop_rate: of ``full``, the share of a cohort, other members in each round, that drops out
        after sharing keys; in [0, 1).
    epsilon: of one user-POI pair over all dynamic features together.  dynamic: one visitor count,
        the average number of visits, or the paper's three counts, which share epsilon.
    visit_cap: the most visits to one POI that a user reports for the average, at least 1, public.
    regions, categories: static POI features: one-hots of this many regions (0: none; None: the
        model's own, at most half of the POIs), and of the categories.
    ring_bits, frac_bits: l and l_F, 0 <= l_F < l <= 64.
    clip: bound on a user's gradient entries of V.
    relay: shares travel through the recommender, sealed end to end.
    security: of the secure sums that mode ``protocol`` makes. ``malicious``: a party who alters
        what it forwards ends the run; a trusted dealer takes part, and nothing needs a relay's
        seals.
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
    rounds: int | None = None
    cohort: int = 128
    min_cohort: int = 16
    chunk: int = 32
    secagg: str = "pads"
    drop_rate: float = 0.0
    epsilon: float = 1.0
    dynamic: str = "visitors"
    visit_cap: int = 2
    regions: int | None = None
    categories: bool = True
    ring_bits: int = 32
    frac_bits: int = 16
    clip: float = 16.0
    relay: bool = False
    security: str = "semi-honest"
    seed: int | None = None
    prepare: PrepareConfig = field(default_factory=PrepareConfig)

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_numbers()
        if not isinstance(self.prepare, PrepareConfig):
            raise ParameterError(f"prepare must be a PrepareConfig, got {self.prepare!r}")
        self._check_together()

    def _check_choices(self) -> None:
        for name, allowed in (
            ("model", MODELS),
            ("mode", MODES),
            ("network", NETWORKS),
            ("weights", WEIGHTS),
            ("mix", MIXES),
            ("security", SECURITY),
            ("secagg", SECAGG),
            ("dynamic", DYNAMIC),
        ):
            _one_of(name, getattr(self, name), allowed)
        if self.features is not None:
            _one_of("features", self.features, FEATURES)
        for name in ("categories", "relay"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(f"{name} must be true or false, got {getattr(self, name)!r}")

    def _check_numbers(self) -> None:
        for name, low in (
            ("factors", 1),
            ("epochs", 1),
            ("patience", 1),
            ("neighbours", 0),
            ("local_batch", 1),
            ("cohort", 1),
            ("min_cohort", 3),
            ("chunk", 1),
        ):
            self._set(name, _integer(name, getattr(self, name), low))
        if self.rounds is not None:
            self._set("rounds", _integer("rounds", self.rounds, 0))
        if self.regions is not None:
            self._set("regions", _integer("regions", self.regions, 0))
        if self.seed is not None:
            self._set("seed", integer("seed", self.seed, 0, 2**64 - 1))
        self._set("visit_cap", integer("visit_cap", self.visit_cap, 1, 2**31 - 1))
        self._set("ring_bits", integer("ring_bits", self.ring_bits, 1, 64))
        self._set("frac_bits", integer("frac_bits", self.frac_bits, 0, self.ring_bits - 1))
        for name in ("learning_rate", "learning_rate_v"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), positive=True)
        for name in ("init_scale", "clip"):
            _number(name, getattr(self, name), positive=True)
        for name in ("penalty_w", "penalty_v"):
            _number(name, getattr(self, name))
        _number("own_weight", self.own_weight, high=1)
        check_drop_rate(self.secagg, self.drop_rate)
        RandomizedResponse.from_epsilon(self.epsilon)  # which knows its domain

    def _check_together(self) -> None:
        """What one setting demands of another."""
        if self.model == "prirec-" and self.feature_kind == "all":
            raise ParameterError(
                "features must not be 'all' with prirec-, the variant without dynamic features",
                remedy="choose the model prirec, or features static",
            )
        if self.model in BY_ID and self.features is not None:
            raise ParameterError(
                f"features must be left out with {self.model}, which knows users and POIs by their "
                f"ids alone, got {self.features!r}"
            )
        if self.network == "random" and self.weights in BY_DISTANCE:
            raise ParameterError(
                f"weights {self.weights!r} go by distance, and a random network knows no homes",
                remedy="choose the network geographic, or weights half",
            )

        if self.relay and self.security == "malicious":
            raise ParameterError(
                "relay must be left out with security 'malicious', whose messages are masked and "
                "go to everybody",
                remedy="leave out relay, or choose the security semi-honest",
            )

    def _set(self, name: str, value: int) -> None:
        # A numpy integer becomes a plain one, which every file format can hold.
        object.__setattr__(self, name, value)

    @property
    def feature_kind(self) -> str:
        """The features really used: ``features``, or the model's own; ``none`` by id alone."""
        if self.model in BY_ID:
            return "none"
        own = "static" if self.model == "prirec-" else "all"
        return own if self.features is None else self.features

    @property
    def step_w(self) -> float:
        """The learning rate of the linear models."""
        return _TUNED[self.model].w if self.learning_rate is None else self.learning_rate

    @property
    def step_v(self) -> float:
        """The learning rate of V."""
        return _TUNED[self.model].v if self.learning_rate_v is None else self.learning_rate_v

    def region_count(self, pois: int) -> int:
        """How many regions ``pois`` POIs are cut into."""
        if self.regions is not None:
            return self.regions
        return min(_TUNED[self.model].regions, pois // 2)

    @property
    def is_central(self) -> bool:
        """True for MF and FM: the recommender holds all data, and no protocol runs."""
        return self.model in CENTRAL

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a configuration file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Inverse of ``to_dict``; an unknown name is refused."""
        _check_names("setting", values, cls.__dataclass_fields__)
        values = dict(values)
        prepare = values.get("prepare")
        if isinstance(prepare, dict):
            _check_names("setting of prepare", prepare, PrepareConfig.__dataclass_fields__)
            values["prepare"] = PrepareConfig(**prepare)
        return cls(**values)

    def with_seed(self, seed: int) -> Self:
        """The same settings under another seed."""
        return replace(self, seed=seed)


def _check_names(what: str, values: Iterable[str], known: Iterable[str]) -> None:
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ParameterError(
            f"unknown {what} {unknown[0]!r}", remedy=f"known: {', '.join(sorted(known))}"
        )


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _integer(name: str, value: object, low: int) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low:  # type: ignore[operator]
        raise ParameterError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def _number(name: str, value: object, *, positive: bool = False, high: float = 1e18) -> None:
    """Refuse all but a number in [0, high], or in (0, high] if ``positive``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Stated as what is allowed, so that NaN falls out too.
    if not (number and 0 <= value <= high) or (positive and not value):  # type: ignore[operator]
        bound = "(0" if positive else "[0"
        raise ParameterError(f"{name} must lie in {bound}, {high:g}], got {value!r}")
