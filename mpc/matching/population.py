"""Matching for a whole population in one process: the parties' functions, user after user.

Source: as in client.py, key_holder.py and matcher.py, whose functions run here.
Model: one process holds every secret: experiments and measurements, no deployment.
Differs: no messages and no quotas; ``uploads.neighbours`` does the rest. Every user's view is, byte
    for byte, what the party objects exchange (``tests/mpc/matching/test_population.py``).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mpc.core.errors import ParameterError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.items import Excess, ItemId, ItemSet, choose
from mpc.matching.messages import MatchTerms, check_method
from mpc.matching.neighbours import Tokens
from mpc.matching.tokens import (
    RISTRETTO,
    Blinded,
    ObliviousFunction,
    blind_items,
    open_tokens,
)

Evaluation = tuple[Sequence[bytes], bytes]
"""Evaluated elements of one user, and their proof."""


def choose_all(
    histories: Iterable[Iterable[ItemId]],
    m: int,
    *,
    excess: Excess = "refuse",
    rng: Rng = SYSTEM_RNG,
) -> list[ItemSet]:
    """``items.choose`` for every user."""
    return [choose(items, m, excess=excess, rng=rng) for items in histories]


def blind_all(
    chosen: Sequence[ItemSet],
    terms: MatchTerms,
    *,
    function: ObliviousFunction = RISTRETTO,
    rng: Rng = SYSTEM_RNG,
) -> list[Blinded]:
    """What all clients send to the key holder."""
    check_method(terms, "oprf")
    digest = terms.digest
    return [blind_items(mine, terms.items, digest, function, rng=rng) for mine in chosen]


def evaluate_all(
    key: Any,
    blinded: Sequence[Blinded],
    *,
    function: ObliviousFunction = RISTRETTO,
    rng: Rng = SYSTEM_RNG,
) -> list[Evaluation]:
    """What the key holder answers, one proof for each user."""
    return [function.evaluate(key, mine.elements, rng) for mine in blinded]


def open_all(
    blinded: Sequence[Blinded],
    evaluations: Sequence[Evaluation],
    terms: MatchTerms,
    *,
    function: ObliviousFunction = RISTRETTO,
) -> Tokens:
    """What the matcher sees of all clients: tokens, uint8 (users, m, 16), rows rising."""
    if len(blinded) != len(evaluations):
        raise ParameterError(f"{len(evaluations)} evaluations for {len(blinded)} users")
    rows = [
        open_tokens(mine, *evaluation, terms.public, function)
        for mine, evaluation in zip(blinded, evaluations, strict=True)
    ]
    return np.stack(rows) if rows else np.empty((0, terms.items, 16), dtype=np.uint8)
