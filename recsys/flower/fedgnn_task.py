"""What the recommender asks of every node in a round of FedGNN, and which figures come back.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 1.
Model: public: everybody gets the same, and ``secagg.flower`` binds it to the masks.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

from mpc.core.checks import integer
from mpc.core.errors import ParameterError

HeldOut = Literal["none", "validation", "test"]

USERS, RATINGS, TOTAL, ERRORS, HELD_OUT, HELD_OUT_ERRORS = (
    "users",
    "ratings",
    "total",
    "errors",
    "held-out",
    "held-out-errors",
)
"""Figures of a node: of its users who take part their number and that of their training ratings;
the sum of these ratings, where ``counts``; the sum of squared errors as they were met; number and
sum of squared errors of ratings that are held out."""


@dataclass(frozen=True)
class Catalogue:
    """items: ids of all items, the position being the index.  low, high: the range of ratings."""

    items: tuple[str, ...]
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.items or len(set(self.items)) < len(self.items):
            raise ParameterError("a catalogue needs items of distinct ids")
        if not self.low < self.high:
            raise ParameterError(f"low must be below high, got {self.low!r} and {self.high!r}")

    def most(self, users: int, ratings: int) -> dict[str, float]:
        """The largest magnitude of each figure of a node with so many users and ratings."""
        square = (self.high - self.low) ** 2
        return {
            USERS: float(users),
            RATINGS: float(ratings),
            TOTAL: ratings * max(abs(self.low), abs(self.high), 1.0),
            # No useful model is further off on average; what is beyond counts as this.
            ERRORS: ratings * square,
            HELD_OUT: float(ratings),
            HELD_OUT_ERRORS: ratings * square,
        }


@dataclass(frozen=True)
class Task:
    """One round.

    mean: of all training ratings.  epoch: from 0.  batch: the users of which part compute
    gradients, in [0, batches); -1 for none.  counts: whether ratings are added up.
    held_out: which ratings are predicted, by the arrays of the message.  model: how many epochs
    these have behind them; best: of the best ones so far, 0 for none.
    finish: the arrays are the best ones, and the training is over.
    node_users, node_ratings: the most that a node may have, which bound what it sends.
    """

    mean: float = 0.0
    epoch: int = 0
    batch: int = -1
    batches: int = 1
    counts: bool = False
    held_out: HeldOut = "none"
    model: int = 0
    best: int = 0
    finish: bool = False
    node_users: int = 1
    node_ratings: int = 1

    def __post_init__(self) -> None:
        for name, low in (("epoch", 0), ("batch", -1), ("model", 0), ("best", 0)):
            integer(name, getattr(self, name), low, 2**31 - 1)
        for name in ("batches", "node_users", "node_ratings"):
            integer(name, getattr(self, name), 1, 2**31 - 1)
        if self.batch >= self.batches:
            raise ParameterError(f"batch must be below {self.batches}, got {self.batch}")
        if self.held_out not in get_args(HeldOut):
            raise ParameterError(f"held_out must be one of {get_args(HeldOut)}")

    def to_dict(self, catalogue: Catalogue) -> dict[str, Any]:
        """Plain values for a message, the catalogue among them."""
        return {
            **asdict(self),
            "items": list(catalogue.items),
            "low": catalogue.low,
            "high": catalogue.high,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> tuple[Self, Catalogue]:
        """Inverse of ``to_dict``. ParameterError for values that it did not give."""
        rest = dict(values)
        try:
            items, low, high = (rest.pop(name) for name in ("items", "low", "high"))
            return cls(**rest), Catalogue(tuple(items), float(low), float(high))
        except (KeyError, TypeError) as error:
            raise ParameterError(
                "the message asks for no round of FedGNN",
                remedy="the server and its nodes need the same version of privrec",
            ) from error
