"""Private matching by ``oprf``, by items: what a user blinds, has evaluated and opens; the join.

Users and items follow no data set. Each user brings distinct items, drawn in proportion to
1 / (40 + rank), which gives about as many neighbours as MovieLens does; docs/protocols/matching.md
has the figures for that itself (``benchmarks.matching_movielens``).
"""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.rng import SYSTEM_RNG
from mpc.matching.items import ItemSet, choose, item_input
from mpc.matching.key_holder import KeyHolder
from mpc.matching.messages import (
    TOKEN_BYTES,
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Neighbourhood,
    Upload,
)
from mpc.matching.neighbours import Adjacency, Tokens, join
from mpc.matching.tokens import RISTRETTO, Blinded, blind_items, open_tokens
from mpc.matching.uploads import neighbours
from mpc.oprf import ServerKey, output_of

CATALOGUES = {943: 1682, 6040: 3706}
"""Users and items, as many as ML-100K and ML-1M have."""

PAYLOAD_BYTES = 256
MOST = 10

by_items = pytest.mark.parametrize("items", [20, 85])
by_users = pytest.mark.parametrize("users", CATALOGUES)


class _Session:
    """The terms, a key whose secret the checks know, and one user with three items too few."""

    def __init__(self, items: int) -> None:
        self.key, public = RISTRETTO.generate(SYSTEM_RNG)
        self.terms = MatchTerms(
            session=SYSTEM_RNG.bytes(16),
            method="oprf",
            public=public,
            items=items,
            payload_bytes=PAYLOAD_BYTES,
            min_group=2,
            max_group=0,
            min_users=2,
            max_neighbours=MOST,
        )
        self.chosen: ItemSet = choose(range(items - 3), items)

    def blind(self) -> Blinded:
        return blind_items(self.chosen, self.terms.items, self.terms.digest, RISTRETTO)

    def expected(self) -> set[bytes]:
        """The tokens of the user's items, without the protocol."""
        key: ServerKey = self.key
        inputs = (item_input(one, self.terms.digest) for one in self.chosen.encoded)
        return {output_of(key, given)[:TOKEN_BYTES] for given in inputs}

    def are_right(self, tokens: Tokens) -> bool:
        found = {row.tobytes() for row in tokens}
        return len(found) == self.terms.items and self.expected() <= found


@cache
def _session(items: int) -> _Session:
    return _Session(items)


@cache
def _tokens(users: int, items: int = 20) -> Tokens:
    """What the matcher gets: a table of random tokens for items, rows of distinct ones."""
    coins, catalogue = np.random.default_rng(users), CATALOGUES[users]
    popularity = 1 / (41.0 + np.arange(catalogue))
    # The largest of log(u) / p are a sample without replacement in proportion to p.
    order = np.argsort(-np.log(coins.random((users, catalogue))) / popularity, axis=1)
    table: NDArray[np.uint8] = SYSTEM_RNG.words((catalogue, TOKEN_BYTES), np.uint8)
    return table[order[:, :items]]


def _describe(benchmark: Any, tokens: int, sent: int, rounds: int = 1) -> None:
    """Bytes are those of the message of one user, or of all answers, header included."""
    benchmark.extra_info.update(operations=tokens, rounds=rounds, bytes=sent, key_bits=256)


@pytest.mark.benchmark(group="matching.blind")
@by_items
def test_blind(benchmark: Any, items: int) -> None:
    session = _session(items)
    blinded = benchmark(session.blind)
    evaluated, proof = RISTRETTO.evaluate(session.key, blinded.elements, SYSTEM_RNG)
    opened = open_tokens(blinded, evaluated, proof, session.terms.public, RISTRETTO)
    assert session.are_right(opened)
    message = BlindedItems(session.terms.digest, b"".join(blinded.elements))
    _describe(benchmark, items, len(message.to_bytes()))


@pytest.mark.benchmark(group="matching.evaluate")
@by_items
def test_evaluate(benchmark: Any, items: int) -> None:
    """With the proof, which serves for all elements of a user."""
    session = _session(items)
    blinded = session.blind()
    evaluated, proof = benchmark(RISTRETTO.evaluate, session.key, blinded.elements, SYSTEM_RNG)
    opened = open_tokens(blinded, evaluated, proof, session.terms.public, RISTRETTO)
    assert session.are_right(opened)
    message = EvaluatedItems(session.terms.digest, b"".join(evaluated), proof)
    _describe(benchmark, items, len(message.to_bytes()))


@pytest.mark.benchmark(group="matching.open")
@by_items
def test_open(benchmark: Any, items: int) -> None:
    """With the check of the proof."""
    session = _session(items)
    blinded = session.blind()
    evaluated, proof = RISTRETTO.evaluate(session.key, blinded.elements, SYSTEM_RNG)
    opened = benchmark(open_tokens, blinded, evaluated, proof, session.terms.public, RISTRETTO)
    assert session.are_right(opened)
    message = Upload(session.terms.digest, opened.tobytes(), bytes(PAYLOAD_BYTES))
    _describe(benchmark, items, len(message.to_bytes()))


@pytest.mark.benchmark(group="matching.join")
@by_users
def test_join(benchmark: Any, users: int) -> None:
    """Everybody's neighbours, before any is left out."""
    tokens = _tokens(users)
    found = benchmark(join, tokens, 2)
    assert _are_neighbours(found, tokens)
    _describe(benchmark, tokens.shape[0] * tokens.shape[1], 0, rounds=0)


@pytest.mark.benchmark(group="matching.match")
@by_users
def test_match(benchmark: Any, users: int) -> None:
    """The join, random order, and at most ten neighbours for each user."""
    tokens, terms = _tokens(users), _session(20).terms
    found = benchmark(neighbours, tokens, terms, rng=SYSTEM_RNG)
    everybody = join(tokens, 2)
    assert np.array_equal(found.degrees, np.minimum(everybody.degrees, MOST))
    assert all(set(found.of(user)) <= set(everybody.of(user)) for user in range(0, users, 97))
    answer = Neighbourhood.make(terms, bytes(MOST * PAYLOAD_BYTES), MOST)
    _describe(benchmark, tokens.shape[0] * tokens.shape[1], users * len(answer.to_bytes()))


def _are_neighbours(found: Adjacency, tokens: Tokens) -> bool:
    """Whether some users have exactly the neighbours that their sets of tokens give."""
    sets = [{row.tobytes() for row in mine} for mine in tokens]
    return all(
        found.of(user).tolist()
        == [other for other, theirs in enumerate(sets) if other != user and theirs & sets[user]]
        for user in range(0, len(sets), 97)
    )


@pytest.mark.benchmark(group="matching.key_holder")
def test_key_holder(benchmark: Any) -> None:
    """A fresh session: key, session id and terms."""
    holder = benchmark(
        KeyHolder,
        items=20,
        payload_bytes=PAYLOAD_BYTES,
        min_group=2,
        min_users=2,
        max_neighbours=MOST,
    )
    assert len(holder.terms.public) == RISTRETTO.element_bytes
    _describe(benchmark, 1, len(holder.terms.to_bytes()))
