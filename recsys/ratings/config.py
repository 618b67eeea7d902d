"""Settings of a rating model, checked when they are made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from mpc.core.checks import integer
from mpc.core.errors import ParameterError
from recsys.data.rating_split import SplitConfig
from recsys.drop_outs import SECAGG, check_drop_rate

CENTRAL = ("pmf", "svdpp", "grals", "srgcnn", "gcmc", "pinsage", "ngcf")
"""Models for which the recommender holds all ratings."""

MEANS = ("global-mean", "user-mean", "bias")
"""Models without factors: constants, and user plus item bias."""

FEDERATED = ("fedgnn", "fcf", "fedmf")
MODELS = (*FEDERATED, *CENTRAL, *MEANS)

MODES = ("protocol", "simulate")
NETWORKS = ("gcn", "gat", "ggnn")
NEIGHBOURS = ("none", "fixed", "trainable")
AGGREGATES = ("secure", "clear")
PSEUDO = ("sticky", "resampled")
OPTIMIZERS = ("adam", "sgd")
LOSSES = ("squared", "absolute")
REDUCTIONS = ("sum", "mean")
USER_FITS = ("solve", "steps")


@dataclass(frozen=True)
class RatingConfig:
    """Everything that a run depends on besides the ratings.

    model: of ``MODELS``.  mode: ``protocol`` (pads, matching and noise are made for real) or
        ``simulate`` (same encodings and coins, plain sums; same model without noise, same law
        with it).
    dim: length of an embedding; 0 for biases alone.  epochs: at most; training stops after
        ``patience`` epochs without a better validation RMSE.
    learning_rate, penalty: of the shared parameters; None takes the model's own, tuned on
        validation.  bias_penalty: of the items' biases, where they have one of their own; None
        as ``penalty``.  decay: factor of the learning rate from epoch to epoch; of FedGNN every 8
        rounds where an epoch has more.  init_scale: standard deviation of the first embeddings.
    user_fit: how the device of a FedGNN user finds her own embedding and bias: ``solve`` for the
        best fit to her ratings, of which each is then predicted by a fit to the other ones;
        ``steps`` for gradient steps, as in the paper.  user_rate: of these, and of neighbours.
    full_star: once training is over, her device also solves with the ratings that validated.
    optimizer: of the server, on the aggregate.  loss, reduction: of a user over her items.
    gnn: the network.  center: ratings less the training mean.  bias: of users and items.
    residual: representations are added to the embeddings.  rating_edges: an edge carries the
        rating, left out where that very rating is predicted; of ``steps`` alone, since ``solve``
        reads all ratings.  dropout: share of entries dropped.
    cohort, min_cohort: users of a round, and the fewest that secure aggregation accepts.
    chunk: of FedGNN, as in ``recsys.config.TrainConfig``.
    aggregate: ``secure`` (only sums over the whole catalogue are seen) or ``clear`` (as in the
        paper).
    secagg, drop_rate: of ``secure``, as in ``recsys.config.TrainConfig``.
    pseudo: M, items without interaction that a user uploads as well; of ``clear`` alone.
        pseudo_items: ``sticky`` per user, or ``resampled`` in every round.
    clip, laplace: the paper's delta and lambda of Eq. 1; None for no clipping and no noise.
    bound: of a coordinate without ``clip``, for the encoding.
    ring_bits, frac_bits: of the encoding; ring_bits counts in ``secure`` alone.
    neighbours: neighbouring users' embeddings, ``none``, ``fixed`` when they arrive, or local
        copies that are ``trainable``; they join after ``expand_after`` epochs, at most
        ``most_neighbours`` of them, matched on at most ``match_items`` items of each user, of
        which items with fewer than ``min_group`` holders count for nobody.
    embedding_epsilon: privacy loss of one coordinate of the embedding that matching hands on;
        None hands it on as it is, rounded to the grid.
    seed: None draws privacy coins from the system; an integer makes the whole run reproducible,
        which leaves no privacy.
    """

    model: str = "fedgnn"
    mode: str = "protocol"
    dim: int = 32
    epochs: int = 48
    patience: int = 10
    learning_rate: float | None = None
    penalty: float | None = None
    bias_penalty: float | None = None
    decay: float = 0.96
    user_fit: str = "solve"
    user_rate: float = 0.05
    full_star: bool = True
    optimizer: str = "adam"
    loss: str = "squared"
    reduction: str = "sum"
    init_scale: float = 0.2
    gnn: str = "gcn"
    center: bool = True
    bias: bool = True
    residual: bool = True
    rating_edges: bool = False
    dropout: float = 0.0
    cohort: int = 128
    min_cohort: int = 16
    chunk: int = 32
    aggregate: str = "secure"
    secagg: str = "pads"
    drop_rate: float = 0.0
    pseudo: int = 0
    pseudo_items: str = "sticky"
    clip: float | None = None
    laplace: float | None = None
    bound: float = 16.0
    ring_bits: int = 32
    frac_bits: int = 16
    neighbours: str = "none"
    expand_after: int = 2
    most_neighbours: int = 10
    match_items: int = 20
    min_group: int = 2
    embedding_epsilon: float | None = None
    seed: int | None = None
    split: SplitConfig = field(default_factory=SplitConfig)

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_numbers()
        if not isinstance(self.split, SplitConfig):
            raise ParameterError(f"split must be a SplitConfig, got {self.split!r}")
        self._check_together()

    def _check_choices(self) -> None:
        for name, allowed in (
            ("model", MODELS),
            ("mode", MODES),
            ("optimizer", OPTIMIZERS),
            ("loss", LOSSES),
            ("reduction", REDUCTIONS),
            ("gnn", NETWORKS),
            ("aggregate", AGGREGATES),
            ("secagg", SECAGG),
            ("pseudo_items", PSEUDO),
            ("neighbours", NEIGHBOURS),
            ("user_fit", USER_FITS),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        for name in ("center", "bias", "residual", "rating_edges", "full_star"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(f"{name} must be true or false, got {getattr(self, name)!r}")

    def _check_numbers(self) -> None:
        for name, low, high in (
            ("dim", 0, 1 << 16),
            ("epochs", 1, 1 << 20),
            ("patience", 1, 1 << 20),
            ("cohort", 1, 2**31 - 1),
            ("min_cohort", 3, 2**31 - 1),
            ("chunk", 1, 2**31 - 1),
            ("pseudo", 0, 2**31 - 1),
            ("ring_bits", 1, 64),
            ("frac_bits", 0, 52),
            ("expand_after", 0, 1 << 20),
            ("most_neighbours", 1, 1 << 16),
            ("match_items", 1, 65_535),
            ("min_group", 2, 2**31 - 1),
        ):
            object.__setattr__(self, name, integer(name, getattr(self, name), low, high))
        if self.seed is not None:
            object.__setattr__(self, "seed", integer("seed", self.seed, 0, 2**64 - 1))
        for name in ("learning_rate", "clip", "laplace", "embedding_epsilon"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name), positive=True)
        for name in ("user_rate", "init_scale", "bound"):
            _number(name, getattr(self, name), positive=True)
        _number("decay", self.decay, positive=True, high=1)
        for name in ("penalty", "bias_penalty"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name))
        _number("dropout", self.dropout, high=0.99)
        check_drop_rate(self.secagg, self.drop_rate)

    def _check_together(self) -> None:
        if self.laplace is not None and self.clip is None:
            raise ParameterError(
                "laplace needs a clip: noise hides what is bounded",
                remedy="set clip too; the paper's are clip 0.1 and laplace 0.2",
            )
        if self.pseudo and self.aggregate == "secure":
            raise ParameterError(
                f"pseudo must be 0 with aggregate secure, got {self.pseudo}: a sum over the whole "
                "catalogue hides the items already",
                remedy="leave pseudo out, or set aggregate to clear",
            )

        if self.secagg == "full" and self.aggregate != "secure":
            raise ParameterError(
                "secagg full needs aggregate secure: in the clear there is no sum to protect",
                remedy="leave secagg out, or set aggregate to secure",
            )
        if self.neighbours != "none" and not self.dim:
            raise ParameterError(
                f"neighbours must be none with dim 0, got {self.neighbours!r}: without embeddings "
                "there is nothing to hand on",
                remedy="set dim to at least 1, or leave neighbours out",
            )
        if self.rating_edges and self.user_fit == "solve":
            raise ParameterError(
                "rating_edges needs user_fit steps: a user who solves for her embedding reads all "
                "of her ratings, and an edge would carry one into its own prediction",
                remedy="leave rating_edges out, or set user_fit to steps",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a configuration file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of ``to_dict``; an unknown name is refused."""
        values = dict(values)
        split = values.get("split")
        if isinstance(split, Mapping):
            _check_names("setting of split", split, SplitConfig)
            values["split"] = SplitConfig(**split)
        _check_names("setting", values, cls)
        return cls(**values)

    def with_seed(self, seed: int) -> Self:
        """The same settings under another seed."""
        return replace(self, seed=seed)


def _check_names(what: str, values: Mapping[str, Any], of: Any) -> None:
    known = sorted(item.name for item in fields(of))
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ParameterError(f"unknown {what} {unknown[0]!r}", remedy=f"known: {', '.join(known)}")


def _number(name: str, value: object, *, positive: bool = False, high: float = 1e18) -> None:
    """Refuse all but a number in [0, high], or in (0, high] if ``positive``."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Stated as what is allowed, so that NaN falls out too.
    if not (number and 0 <= value <= high) or (positive and not value):  # type: ignore[operator]
        bound = "(0" if positive else "[0"
        raise ParameterError(f"{name} must lie in {bound}, {high:g}], got {value!r}")
