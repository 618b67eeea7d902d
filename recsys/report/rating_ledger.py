"""The privacy ledger of a rating model: every release, with its unit, its loss and its adversary.

Source: FedGNN (Wu et al., 2021), Eq. 1 and section 3.5; losses by ``ldp.clipped_laplace``, basic
    composition.
Model: as ``recsys.report.ledger``.
Differs: the paper calls clip and noise "1-differential privacy", which is the loss about a single
    coordinate of a single upload. Here it stands beside that of a whole upload and that of a whole
    training, and beside what has no finite loss at all: which items are uploaded, sums, matching,
    the training mean and the learning curve. How much of a history the uploaded items give away is
    measured on the training's own sets.
"""

import math
from dataclasses import dataclass
from typing import Any

from ldp.clipped_laplace import VectorCost
from recsys.ratings.aggregate_base import AggregationFacts
from recsys.ratings.config import CENTRAL, MEANS, RatingConfig
from recsys.ratings.expansion_payloads import embedding_noise
from recsys.ratings.expansion_releases import expansion_releases
from recsys.ratings.model import RatingModel
from recsys.report.ledger import (
    Ledger,
    Release,
    in_cohort,
    open_release,
    plain,
    told_of_drop_outs,
)
from recsys.report.rating_guesses import Guesses, guesses, percent
from recsys.report.rating_uploads import aggregation_of, uploaded_items

NO_PRIVACY = "no differential privacy: epsilon = infinity"
"""How the report of a training without noise begins."""


@dataclass(frozen=True)
class RatingLedger(Ledger):
    """cost: what the noise on uploads costs about a coordinate, an upload and a user; or None.

    embedding: the same of the noise on embeddings that matching hands on.  guesses: what the
    uploaded item sets give away; None where none are uploaded, or none hide any.
    """

    cost: VectorCost | None = None
    embedding: VectorCost | None = None
    guesses: Guesses | None = None

    @property
    def costs(self) -> list[tuple[str, VectorCost]]:
        """What is noised, with its cost."""
        both = (("upload", self.cost), ("embedding handed on", self.embedding))
        return [(what, cost) for what, cost in both if cost is not None]

    @property
    def headline(self) -> str:
        """As ``Ledger.headline``; a training without any noise says so first."""
        if self.nominal is not None:
            return super().headline
        seeded = "; privacy: none (reproducible simulation), nominal epsilon = infinity"
        return f"{NO_PRIVACY}{seeded if self.seeded else ''}"

    def epsilon(self) -> dict[str, Any]:
        """As ``Ledger.epsilon``, with the loss of a coordinate and of a whole upload."""
        cost = self.cost
        return super().epsilon() | {
            "bit": None,
            "coordinate": None if cost is None else plain(cost.coordinate),
            "vector": None if cost is None else plain(cost.vector),
        }


NO_EPSILON = dict.fromkeys(
    ("headline", "bit", "user", "rounds", "scope", "coordinate", "vector")
) | {"note": "no model"}
"""The epsilon of a row without any model."""


def build_rating_ledger(model: RatingModel) -> RatingLedger:
    """The ledger of a model that ``fit`` has just trained."""
    config, epochs = model.config, len(model.history_)
    aggregation, found = aggregation_of(model), guesses(model)
    if config.model in (*CENTRAL, *MEANS) or aggregation is None:
        releases, cost = [_central()], None
    else:
        releases, cost = _federated(model, aggregation.describe(), epochs, found)
    noisy = [release for release in releases if release.unit == "coordinate"]
    return RatingLedger(
        tuple(releases),
        config.seed is not None,
        noisy[0] if cost is not None else None,
        cost,
        _embedding_cost(model, epochs),
        found,
    )


def upload_epsilon(model: RatingModel) -> float | None:
    """The loss about one coordinate of one upload; None without noise."""
    aggregation = aggregation_of(model)
    facts = None if aggregation is None else aggregation.describe()
    return None if facts is None or facts.mechanism is None else facts.epsilon


def _central() -> Release:
    return open_release(
        "all ratings",
        "the recommender",
        1,
        "no protection",
        "The recommender trains alone, on everybody's ratings.",
    )


def _federated(
    model: RatingModel, facts: AggregationFacts, epochs: int, found: Guesses | None
) -> tuple[list[Release], VectorCost | None]:
    config = model.config
    cost = None
    if facts.mechanism is not None:
        cost = facts.mechanism.vector_cost(_coordinates(model, facts), epochs)
    if facts.aggregate == "clear":
        releases = [_items(model, epochs, found), _uploads(cost, epochs)]
    elif facts.aggregate == "paillier":
        releases = _encrypted(facts, epochs)
    else:
        releases = [_sum(facts, cost, epochs)]
    if config.center:  # cohorts that are too small for that join
        releases.append(_totals(max(facts.smallest, config.min_cohort), facts.secagg))
    if _expanded(config, epochs):
        releases += [Release(**fields) for fields in expansion_releases(config, config.dim)]
    releases.append(_curve(epochs))
    return releases, cost


def _expanded(config: RatingConfig, epochs: int) -> bool:
    """Whether neighbours have joined, with embeddings to hand on."""
    return config.neighbours != "none" and epochs > config.expand_after and config.dim > 0


def _embedding_cost(model: RatingModel, epochs: int) -> VectorCost | None:
    noise = embedding_noise(model.config) if _expanded(model.config, epochs) else None
    return None if noise is None else noise.vector_cost(model.config.dim)


def _coordinates(model: RatingModel, facts: AggregationFacts) -> int:
    """Coordinates of the largest upload: of the whole catalogue, or of one user's items."""
    if facts.all_items:
        return facts.coordinates
    parts, width = model.parts_, model.config.dim + 1
    weights = facts.coordinates - parts.n_items * width
    return int(uploaded_items(model).max(initial=0)) * width + weights


def _totals(members: int, secagg: str) -> Release:
    return open_release(
        f"sum and number of the ratings of a cohort (at least {members} users)",
        "the recommender, and everybody through the training mean",
        1,
        in_cohort(members, secagg),
        "Exact. Ratings are learned less their mean.",
    )


def _items(model: RatingModel, epochs: int, found: Guesses | None) -> Release:
    config, parts = model.config, model.parts_
    uploaded = uploaded_items(model)
    full = int((uploaded == parts.n_items).sum())
    many = f"{'up to ' if full else ''}{config.pseudo:,} others"
    if not config.pseudo:
        what = "items that a user uploads: exactly those that she rated"
        notes = ["Without pseudo-interacted items a user's history is what she uploads."]
    elif config.pseudo_items == "sticky":
        what = f"items that a user uploads: those that she rated and {many}"
        notes = [
            "The others are the same in every round, so that intersecting her rounds tells "
            "nothing more than one of them."
        ]
    else:
        what = f"items that a user uploads: those that she rated and {many}, drawn anew each round"
        notes = ["Intersection attack: what she rated is in every round's set, the rest is not."]
        if found is not None:
            sets = "the one set" if epochs == 1 else f"all {epochs:,} sets"
            notes.append(f"Of what is in {sets} of a user, {percent(found.left)} is hers.")
        notes.append("Sticky pseudo items (pseudo_items) withstand it.")
    if config.pseudo and full:
        who = "1 user" if full == 1 else f"{full:,} users"
        notes.append(f"Of {who} that is the whole catalogue, which tells nothing.")
    if found is not None:
        notes.append(f"{found} What suits the rest is likelier to be real too.")
    elif config.pseudo and full < int((uploaded > 0).sum()):
        notes.append("Popularity tells: popular items, and what suits the rest, are likelier real.")
    notes.append("There is no epsilon, because no upload leaves a rated item out.")
    return open_release(what, "the recommender", epochs, "no protection", " ".join(notes))


def _uploads(cost: VectorCost | None, epochs: int) -> Release:
    if cost is None:
        return open_release(
            "gradients of a user's items and of the network",
            "the recommender",
            epochs,
            "no protection",
            "A gradient follows from ratings, and can be turned back into them.",
        )
    return Release(
        what="gradients of a user's items and of the network, clipped and noised",
        sees="the recommender",
        unit="coordinate",
        epsilon_unit=cost.coordinate,
        epsilon_user=cost.user,
        rounds=epochs,
        adversary="epsilon-LDP against whoever holds all uploads, given ideal coins",
        note=f"{_worded(cost)} of the largest upload. The loss is about values alone: which items "
        "they belong to is a release of its own.",
    )


def _sum(facts: AggregationFacts, cost: VectorCost | None, epochs: int) -> Release:
    return sum_release(
        "sum of a cohort's gradients over the whole catalogue (cohorts of at least "
        f"{facts.smallest})",
        "her cohort",
        in_cohort(facts.smallest, facts.secagg),
        cost,
        epochs,
        all_items=facts.all_items,
        note=told_of_drop_outs(facts.secagg, facts.drop_rate),
    )


def sum_release(
    what: str,
    among: str,
    adversary: str,
    cost: VectorCost | None,
    rounds: int,
    *,
    all_items: bool,
    note: str = "",
) -> Release:
    """Sums of gradients, of which the recommender sees no addend.

    among: within whom a user is hidden.  adversary: against whom.  cost: of the noise, if any.
    rounds: sums that a user is in.  all_items: whether noise is on every coordinate of every user.
    """
    sees = "the recommender, and everybody through items and network"
    if cost is None:
        return open_release(
            what,
            sees,
            rounds,
            adversary,
            f"Which items a user rated and what she gave them is hidden within {among}. The sum "
            f"itself has no noise.{note}",
        )
    return Release(
        what=f"{what}, every user's with noise",
        sees=sees,
        unit="coordinate",
        epsilon_unit=cost.coordinate,
        epsilon_user=cost.user if all_items else math.inf,
        rounds=rounds,
        adversary="epsilon-LDP against anybody, given ideal coins; and within "
        f"{among.replace('her', 'the')} {adversary}",
        note=f"{_worded(cost)}.{note}",
    )


def _encrypted(facts: AggregationFacts, epochs: int) -> list[Release]:
    return [
        open_release(
            "who uploads in which round, and a ciphertext of her gradients of the whole catalogue",
            "the recommender",
            epochs,
            "semi-honest, and no user colludes: all share one private key, so that a single one "
            "opens every upload",
            "Uploads are equally long for everybody.",
        ),
        open_release(
            f"sum of a cohort's gradients over the whole catalogue (cohorts of at least "
            f"{facts.smallest}), and the items",
            "every user",
            epochs,
            f"semi-honest, at most {facts.smallest - 2} of {facts.smallest} members collude, and "
            "none with the recommender",
            "The users decrypt the sum and move the items themselves. The sum has no noise.",
        ),
    ]


def _worded(cost: VectorCost) -> str:
    text = str(cost)
    return f"{text[:1].upper()}{text[1:]}"


def _curve(epochs: int) -> Release:
    return open_release(
        "mean training loss and validation RMSE, over all users",
        "everybody, as the learning curve",
        epochs,
        "no protection",
        "The RMSE decides when training stops. No protocol adds these figures up: whoever runs the "
        "training takes them from all users.",
    )
