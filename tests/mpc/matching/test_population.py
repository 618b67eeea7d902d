"""A whole population in one process: the same bytes as the parties, the same neighbours."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mpc.core.errors import ParameterError
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG
from mpc.matching.client import MatchClient
from mpc.matching.key_holder import KeyHolder
from mpc.matching.matcher import Matcher
from mpc.matching.messages import MatchTerms
from mpc.matching.population import blind_all, choose_all, evaluate_all, open_all
from mpc.matching.tokens import RISTRETTO, Ristretto
from mpc.matching.uploads import answers, neighbours
from tests.mpc.matching.functions import Ideal
from tests.mpc.matching.session import DEFAULTS, payload_of
from tests.mpc.matching.test_neighbours import as_sets, plain_join

SETS = [[5, 7, 7], [5, 9], [1], [], [9, 5, 1, 2], [7]]
M = 3


def seeds() -> tuple[Prg, Prg, Prg]:
    """Coins of all clients, of the key holder and of the matcher."""
    return Prg(b"c" * 32), Prg(b"k" * 32), Prg(b"m" * 32)


def test_every_view_equals_that_of_the_party_objects_byte_for_byte() -> None:
    client_coins, holder_coins, matcher_coins = seeds()
    settings = DEFAULTS | {"items": M, "min_users": len(SETS)}
    holder = KeyHolder(**settings, rng=holder_coins)
    matcher = Matcher(holder.terms, rng=matcher_coins)
    payloads = tuple(payload_of(str(user)) for user in range(len(SETS)))
    clients = [
        MatchClient(holder.terms, items, payload, excess="sample", rng=client_coins)
        for items, payload in zip(SETS, payloads, strict=True)
    ]
    for client in clients:
        client.confirm(matcher.terms)
    requests = [client.blind() for client in clients]
    replies = [holder.evaluate(bytes([1 + i]), request) for i, request in enumerate(requests)]
    uploads = [client.upload(reply) for client, reply in zip(clients, replies, strict=True)]
    for user, upload in enumerate(uploads):
        matcher.collect(bytes([1 + user]), upload)

    client_coins, holder_coins, matcher_coins = seeds()
    key, public = RISTRETTO.generate(holder_coins)
    fields = {name: getattr(holder.terms, name) for name in MatchTerms.__struct_fields__}
    terms = MatchTerms(**fields | {"public": public, "session": holder_coins.bytes(16)})
    assert terms == holder.terms
    chosen = choose_all(SETS, M, excess="sample", rng=client_coins)
    blinded = blind_all(chosen, terms, rng=client_coins)
    evaluated = evaluate_all(key, blinded, rng=holder_coins)
    tokens = open_all(blinded, evaluated, terms)
    assert [b"".join(mine.elements) for mine in blinded] == [r.elements for r in requests]
    assert [(b"".join(e), proof) for e, proof in evaluated] == [
        (reply.elements, reply.proof) for reply in replies
    ]
    assert [row.tobytes() for row in tokens] == [upload.tokens for upload in uploads]
    names = tuple(bytes([1 + user]) for user in range(len(SETS)))
    assert answers(names, tokens, payloads, terms, rng=matcher_coins) == matcher.match()


@pytest.mark.parametrize(("low", "high"), [(2, 0), (3, 0), (2, 4), (4, 9)])
def test_neighbours_of_a_larger_population_equal_a_plain_join(low: int, high: int) -> None:
    coins = np.random.default_rng(7)
    sets = [set(coins.integers(0, 60, 1 + user % 9).tolist()) for user in range(120)]
    function = Ideal()
    key, public = function.generate(Prg(bytes(32)))
    terms = MatchTerms(
        session=bytes(16),
        method="oprf",
        public=public,
        items=9,
        payload_bytes=1,
        min_group=low,
        max_group=high,
        min_users=low,
        max_neighbours=0,
    )
    blinded = blind_all(choose_all(sets, 9), terms, function=function)
    evaluated = evaluate_all(key, blinded, function=function)
    tokens = open_all(blinded, evaluated, terms, function=function)
    assert tokens.shape == (120, 9, 16)
    assert as_sets(neighbours(tokens, terms, rng=SYSTEM_RNG)) == plain_join(sets, low, high or None)


def test_a_pool_of_threads_gives_the_same_bytes() -> None:
    tapes = []
    with ThreadPoolExecutor(2) as pool:
        for function in (RISTRETTO, Ristretto(pool.map)):
            coins = Prg(bytes(32))
            key, public = function.generate(coins)
            kept, elements = function.blind([bytes([i]) for i in range(40)], coins)
            evaluated, proof = function.evaluate(key, elements, coins)
            outputs = function.finalize(kept, evaluated, public, proof)
            tapes.append((public, elements, evaluated, proof, outputs))
    assert tapes[0] == tapes[1]


def test_an_empty_population_and_a_wrong_number_of_answers() -> None:
    holder = KeyHolder(items=M, **DEFAULTS)
    assert open_all([], [], holder.terms).shape == (0, M, 16)
    blinded = blind_all(choose_all([[1]], M), holder.terms)
    with pytest.raises(ParameterError, match="0 evaluations for 1 users"):
        open_all(blinded, [], holder.terms)
