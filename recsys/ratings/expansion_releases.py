"""What graph expansion releases, to whom and at what loss, as plain data for a ledger.

Source: docs/protocols/matching.md, "Who learns what" and "What is not protected".
"""

import math
from typing import Any

from mpc.core.checks import integer
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion_payloads import EMBEDDING_CLIP, embedding_noise

RECOMMENDER = "the recommender (key holder)"
MATCHER = "the matcher"


def expansion_releases(
    config: RatingConfig, coordinates: int, expansions: int = 1
) -> tuple[dict[str, Any], ...]:
    """Each release as the fields of ``recsys.report.ledger.Release``.

    coordinates: d, of an embedding, at least 1.  expansions: how many there are in a training.
    Item ids are in none: they reach nobody unless recommender and matcher collude.
    """
    coordinates = integer("coordinates", coordinates, 1, 1 << 53)
    expansions = integer("expansions", expansions, 1, 1 << 53)
    return (
        _open(
            "who takes part in graph expansion",
            RECOMMENDER,
            expansions,
            "no protection, and no item",
            f"Everybody has {config.match_items} elements evaluated, dummies included, blinded "
            "uniformly. Recommender and matcher together open all items.",
        ),
        _open(
            "user-token graph: who shares how many of the items brought, under pseudonyms",
            MATCHER,
            expansions,
            "item ids hidden by a keyed function, unless matcher and recommender collude",
            f"Degrees, which tokens occur together and how many users hold each: popular items can "
            "be guessed from that. A new key for each expansion changes tokens, not the graph. A "
            f"corrupt client has {config.match_items} evaluations to recognise items by.",
        ),
        _embeddings(config, coordinates, expansions),
        _open(
            "number of neighbours, and that each has an item in common",
            f"each user about up to {config.most_neighbours} others, without names",
            expansions,
            f"an item counts with at least {config.min_group} holders",
            "Who brings a single item knows through which one all her neighbours are neighbours. "
            "Users who collude read from equal payloads what one user holds among the items that "
            "they bring.",
        ),
    )


def _embeddings(config: RatingConfig, coordinates: int, expansions: int) -> dict[str, Any]:
    noise = embedding_noise(config)
    what = f"user embeddings, {coordinates} coordinates each"
    sees = f"{MATCHER}, and every user whose neighbour she is"
    once = "An equal payload is the same user to whoever meets it twice."
    if noise is None:
        return _open(
            what,
            sees,
            expansions,
            "no protection",
            f"In the clear, rounded to 2^-{config.frac_bits}; an embedding trained on a history "
            f"is a quasi-identifier. {once}",
        )
    cost = noise.vector_cost(coordinates, expansions)
    return {
        "what": f"{what}, with Laplace noise",
        "sees": sees,
        "unit": "coordinate",
        "epsilon_unit": cost.coordinate,
        "epsilon_user": cost.user,
        "rounds": expansions,
        "adversary": "epsilon-LDP against whoever holds all payloads, given ideal coins",
        "note": f"Each coordinate is cut at {-EMBEDDING_CLIP} and {EMBEDDING_CLIP} "
        f"(EMBEDDING_CLIP) and gets noise of scale {float(noise.scale):.4g}: {cost}. That covers "
        "what the embedding tells of her ratings, and nothing else: not the gradients that she "
        "uploads, not with whom she shares items. One noisy vector goes to all receivers. "
        f"{once}",
    }


def _open(what: str, sees: str, rounds: int, adversary: str, note: str) -> dict[str, Any]:
    return {
        "what": what,
        "sees": sees,
        "unit": "user",
        "epsilon_unit": math.inf,
        "epsilon_user": math.inf,
        "rounds": rounds,
        "adversary": adversary,
        "note": note,
    }
