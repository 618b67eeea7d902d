"""Exact laws of what each party sees in matching by tokens, and broken twins that break them.

The keyed function is replaced by an ideal one with few outputs, or by a group of order 11, and all
random choices of the code that runs are walked. The 32 bytes inside a dummy are the only coins not
walked: they are taken as distinct, as they are but for a probability of 2^-256 for each pair.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from mpc import oprf
from mpc.core.errors import BudgetError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng, Shape
from mpc.matching import tokens as tokens_module
from mpc.matching.items import ItemSet, choose, encode_id, item_input, padded_inputs
from mpc.matching.key_holder import KeyHolder
from mpc.matching.messages import BlindedItems, EvaluatedItems, MatchTerms, Neighbourhood
from mpc.matching.neighbours import Adjacency, Tokens, join
from mpc.matching.tokens import Blinded, blind_items, open_tokens
from mpc.matching.uploads import answers
from tests.mpc.matching.functions import Ideal, SmallGroup
from tests.mpc.matching.session import DEFAULTS, Session
from tests.support.walk import walk

Sets = Sequence[frozenset[int]]
Law = dict[Any, Fraction]

SESSION = bytes(range(32))
OUTPUTS = 4
M = 2
UNIVERSE = (1, 2, 3)
HISTORIES = [frozenset(c) for size in range(M + 1) for c in combinations(UNIVERSE, size)]


class Coins(Rng):
    """Walks integers, and counts through bytes, which are names that must only be distinct."""

    def __init__(self, walked: Rng) -> None:
        self._walked = walked
        self._next = 0

    def fill(self, out: NDArray[Any]) -> None:
        raise AssertionError("nothing here draws words")

    def bytes(self, n: int) -> bytes:
        drawn = b"".join((self._next + i).to_bytes(8, "big") for i in range(-(-n // 8)))
        self._next += -(-n // 8)
        return drawn[:n]

    def uniform(self, bound: int, shape: Shape = (), dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        return self._walked.uniform(bound, shape, dtype)


def law_of(view: Callable[[Coins], Any]) -> Law:
    law, left = walk(lambda walked: view(Coins(walked)))
    assert left == 0
    return law


def ideal(coins: Coins) -> Ideal:
    return Ideal(lambda: bytes([int(coins.uniform(OUTPUTS))]))


def tokens_of(sets: Sets, coins: Coins, function: Ideal, m: int = M) -> list[NDArray[np.uint8]]:
    """Everybody's tokens, by the code that runs in clients and in populations."""
    key, public = function.generate(coins)
    rows = []
    for items in sets:
        blinded = blind_items(choose(items, m), m, SESSION, function, rng=coins)
        evaluated, proof = function.evaluate(key, blinded.elements, coins)
        rows.append(open_tokens(blinded, evaluated, proof, public, function))
    return rows


def pattern(sets: Sets) -> Any:
    """What the matcher may learn: how often each group of two or more users has an item in common.

    Whatever one user holds alone looks like a dummy.
    """
    groups = (tuple(user for user, items in enumerate(sets) if item in items) for item in UNIVERSE)
    return tuple(sorted(Counter(group for group in groups if len(group) > 1).items()))


def matchers_law(sets: Sets) -> Law:
    return law_of(
        lambda coins: tuple(row.tobytes() for row in tokens_of(sets, coins, ideal(coins)))
    )


def keeps_its_promise(law: Callable[[Sets], Law], populations: Iterable[Sets]) -> bool:
    """Whether the law of a view is a function of the pattern alone."""
    known: dict[Any, Law] = {}
    return all(
        known.setdefault(pattern(sets), found) == found
        for sets in populations
        for found in [law(sets)]
    )


PAIRS = list(product(HISTORIES, repeat=2))


# The matcher


@pytest.mark.parametrize("items", [{1}, {2}, set()])
def test_one_token_is_exactly_uniform(items: set[int]) -> None:
    law = law_of(lambda coins: tokens_of([frozenset(items)], coins, ideal(coins), 1)[0].tobytes())
    assert law == {bytes([token]): Fraction(1, OUTPUTS) for token in range(OUTPUTS)}


def test_two_users_the_matchers_view_depends_on_the_padded_incidence_alone() -> None:
    assert keeps_its_promise(matchers_law, PAIRS)


def test_three_users_the_matchers_view_depends_on_the_padded_incidence_alone() -> None:
    a, b, c, ab, bc = (frozenset(s) for s in ({1}, {2}, {3}, {1, 2}, {2, 3}))
    populations = [
        (a, a, b),
        (b, b, a),
        (ab, bc, frozenset()),
        (bc, bc - {3} | {1}, c),
        (a, b, c),
        (frozenset(), frozenset(), frozenset()),
        (ab, ab, ab),
        (bc, bc, bc),
        (ab, a, b),
        (bc, c, b),
    ]
    patterns = [pattern(sets) for sets in populations]
    assert len(set(patterns)) < len(patterns)  # some populations must look alike
    assert keeps_its_promise(matchers_law, populations)


def test_what_the_matcher_learns_is_no_less_than_the_page_says() -> None:
    """Different patterns give different laws: the user-token graph is open to the matcher."""
    laws: dict[Any, Law] = {pattern(sets): matchers_law(sets) for sets in PAIRS}
    assert len(laws) == 3  # no item in common, one, two
    assert all(first != second for first, second in combinations(laws.values(), 2))


def unpadded(chosen: ItemSet, m: int, session: bytes, *, rng: Rng) -> tuple[bytes, ...]:
    return padded_inputs(chosen, max(1, len(chosen.encoded)), session, rng=rng)


def shared_dummies(chosen: ItemSet, m: int, session: bytes, *, rng: Rng) -> tuple[bytes, ...]:
    items = [item_input(encoded, session) for encoded in chosen.encoded]
    return (*items, *(label("matching.dummy", session, i) for i in range(m - len(items))))


@pytest.mark.parametrize("twin", [unpadded, shared_dummies])
def test_a_broken_padding_is_caught(twin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "padded_inputs", twin)
    assert not keeps_its_promise(matchers_law, PAIRS)


def test_shared_dummies_make_strangers_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"A": [1], "B": [2]}
    assert Session(sets).collect_all().neighbours() == {"A": [], "B": []}
    monkeypatch.setattr(tokens_module, "padded_inputs", shared_dummies)
    assert Session(sets).collect_all().neighbours() == {"A": ["B"], "B": ["A"]}


def test_an_unkeyed_token_is_caught() -> None:
    """A hash of the item instead of a keyed function shows the item itself."""

    class Unkeyed(Ideal):
        def output(self, public: bytes, given: bytes) -> bytes:
            return given[-1:]

    def law(sets: Sets) -> Law:
        return law_of(
            lambda coins: tuple(row.tobytes() for row in tokens_of(sets, coins, Unkeyed()))
        )

    assert not keeps_its_promise(law, PAIRS)


def test_tokens_in_the_order_of_items_are_caught() -> None:
    def in_item_order(sets: Sets, coins: Coins) -> tuple[bytes, ...]:
        function = ideal(coins)
        key, public = function.generate(coins)
        rows = []
        for items in sets:
            inputs = padded_inputs(choose(items, M), M, SESSION, rng=coins)
            kept, elements = function.blind(inputs, coins)
            rows.append(b"".join(function.finalize(kept, elements, public, key)))
        return tuple(rows)

    def law(sets: Sets) -> Law:
        return law_of(lambda coins: in_item_order(sets, coins))

    assert not keeps_its_promise(law, PAIRS)


# The key holder


def key_holders_law(items: Iterable[int], function: SmallGroup) -> Law:
    return law_of(
        lambda coins: blind_items(choose(items, M), M, SESSION, function, rng=coins).elements
    )


def test_the_key_holders_view_is_uniform_whatever_the_items() -> None:
    """m elements, each uniform but for 1: not even the number of dummies shows."""
    group = SmallGroup()
    subgroup = [bytes([pow(2, e, 23)]) for e in range(1, 11)]
    uniform = {pair: Fraction(1, 100) for pair in product(subgroup, repeat=M)}
    for items in HISTORIES:
        assert key_holders_law(items, group) == uniform


def test_an_element_without_a_blind_is_caught() -> None:
    class Bare(SmallGroup):
        def blind(self, inputs: Sequence[bytes], rng: Rng) -> tuple[list[int], tuple[bytes, ...]]:
            return [1] * len(inputs), tuple(bytes([self.hashed(given)]) for given in inputs)

    laws = [key_holders_law(items, Bare()) for items in HISTORIES]
    assert any(law != laws[0] for law in laws)


def test_one_blind_for_all_elements_is_caught() -> None:
    """Their ratios are those of the inputs."""

    class Repeated(SmallGroup):
        def blind(self, inputs: Sequence[bytes], rng: Rng) -> tuple[list[int], tuple[bytes, ...]]:
            blinds, _ = super().blind(inputs[:1], rng)
            blinds *= len(inputs)
            pairs = zip(inputs, blinds, strict=True)
            return blinds, tuple(bytes([pow(self.hashed(x), r, 23)]) for x, r in pairs)

    laws = [key_holders_law(items, Repeated()) for items in HISTORIES]
    assert any(law != laws[0] for law in laws)


def test_the_small_group_computes_one_function_of_key_and_input() -> None:
    """So that the law above is that of a function that matches."""
    group = SmallGroup()
    key, public = group.generate(SYSTEM_RNG)
    outputs = set()
    for _ in range(20):
        kept, elements = group.blind([b"item"], SYSTEM_RNG)
        evaluated, proof = group.evaluate(key, elements, SYSTEM_RNG)
        outputs.update(group.finalize(kept, evaluated, public, proof))
    assert outputs == {bytes([pow(group.hashed(b"item"), key, 23)])}


# A client


def terms_of(users: int, **changes: Any) -> MatchTerms:
    fields: dict[str, Any] = {
        "session": bytes(16),
        "method": "oprf",
        "public": bytes(32),
        "items": M,
        "payload_bytes": 1,
        "min_group": 2,
        "max_group": 0,
        "min_users": users,
        "max_neighbours": 0,
    }
    return MatchTerms(**fields | changes)


def table(rows: Sequence[Sequence[int]]) -> Tokens:
    return np.array(rows, dtype=np.uint8)[:, :, np.newaxis]


Answer = Callable[[Tokens, tuple[bytes, ...], Rng], tuple[bytes, ...]]


def as_it_runs(tokens: Tokens, payloads: tuple[bytes, ...], rng: Rng) -> tuple[bytes, ...]:
    terms = terms_of(len(payloads))
    names = tuple(bytes([user]) for user in range(len(payloads)))
    return answers(names, tokens, payloads, terms, rng=rng)[0][1].read(terms)


def in_user_order(tokens: Tokens, payloads: tuple[bytes, ...], rng: Rng) -> tuple[bytes, ...]:
    """Broken: neighbours as they arrived."""
    return tuple(payloads[user] for user in join(tokens, 2).of(0))


def in_order_of_items(tokens: Tokens, payloads: tuple[bytes, ...], rng: Rng) -> tuple[bytes, ...]:
    """Broken: item after item, even if items and users come in random order."""
    order = list(range(tokens.shape[1]))
    if int(rng.uniform(2)):
        order.reverse()
    found: list[bytes] = []
    for place in order:
        holders = [user for user in range(1, len(tokens)) if tokens[0, place] in tokens[user]]
        for _ in range(len(holders)):
            found.append(payloads[holders.pop(int(rng.uniform(len(holders))))])
    return tuple(dict.fromkeys(found))


# User 0 holds 1 and 2; three others hold one or both of them, the last one neither. Payloads x, y
# and z belong to the three in any order: user 0 may learn which payloads, and nothing else.
ONE_OF = ([1, 7], [2, 8], [1, 2])
POPULATIONS = [
    (table([[1, 2], *(ONE_OF[i] for i in held), [5, 6]]), (b"-", *payloads, b"w"))
    for held in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 2, 0))
    for payloads in ((b"x", b"y", b"z"), (b"z", b"x", b"y"))
]


def answer_laws(answer: Answer) -> list[Law]:
    return [
        law_of(lambda coins, t=tokens, p=payloads: answer(t, p, coins))  # type: ignore[misc]
        for tokens, payloads in POPULATIONS
    ]


def test_an_answer_is_a_set_of_payloads_and_nothing_more() -> None:
    orders = {
        order: Fraction(1, 6)
        for order in product((b"x", b"y", b"z"), repeat=3)
        if len(set(order)) == 3
    }
    assert all(law == orders for law in answer_laws(as_it_runs))


@pytest.mark.parametrize("twin", [in_user_order, in_order_of_items])
def test_a_telling_order_of_neighbours_is_caught(twin: Answer) -> None:
    laws = answer_laws(twin)
    assert any(law != laws[0] for law in laws)


def test_an_answer_holds_no_token_no_pseudonym_and_no_count_of_items() -> None:
    session = Session({"Alice": [1, 2], "Bob": [1, 2], "Carol": [2]}).collect_all()
    answers_of = dict(session.matcher.match())
    data = answers_of[b"Alice"].to_bytes()
    for upload in session.uploads.values():
        assert upload.tokens[:16] not in data
    assert isinstance(answers_of[b"Alice"], Neighbourhood)
    assert len(answers_of[b"Alice"].read(session.terms)) == 2  # Bob once, through two items


# Coalitions and their quota


class Forgetful(KeyHolder):
    """Broken: counts the evaluations of each message by itself."""

    def evaluate(self, client: bytes, request: BlindedItems) -> EvaluatedItems:
        answer = super().evaluate(client, request)
        self._seen.clear()
        return answer


def query_all(holder: KeyHolder, function: Any, catalogue: Sequence[int]) -> dict[bytes, int]:
    """What one corrupt client gets who asks for item after item: output to item, until refused."""
    opened: dict[bytes, int] = {}
    digest = holder.terms.digest
    for item in catalogue:
        given = item_input(encode_id(item), digest)
        kept, elements = function.blind([given], SYSTEM_RNG)
        try:
            answer = holder.evaluate(b"mallory", BlindedItems(digest, b"".join(elements)))
        except BudgetError:
            break
        size = function.element_bytes
        evaluated = [answer.elements[i : i + size] for i in range(0, len(answer.elements), size)]
        (output,) = function.finalize(kept, evaluated, holder.terms.public, answer.proof)
        opened[output[:16]] = item
    return opened


def coalition_law(kind: type[KeyHolder], sets: Sets) -> Law:
    """Matcher and one client with a quota of one, who asks for items 1, 2, 3 in this order."""

    def view(coins: Coins) -> Any:
        function = ideal(coins)
        holder = kind(**DEFAULTS | {"items": 1}, function=function, rng=coins)
        terms, key = holder.terms, vars(holder)["_key"]
        rows = []
        for items in sets:
            blinded: Blinded = blind_items(choose(items, 1), 1, terms.digest, function, rng=coins)
            evaluated, proof = function.evaluate(key, blinded.elements, coins)
            rows.append(open_tokens(blinded, evaluated, proof, terms.public, function).tobytes())
        digest, learnt = terms.digest, []
        for item in UNIVERSE:
            given = item_input(encode_id(item), digest)
            kept, elements = function.blind([given], coins)
            try:
                answer = holder.evaluate(b"mallory", BlindedItems(digest, elements[0]))
            except BudgetError:
                break
            learnt += function.finalize(kept, [answer.elements], terms.public, answer.proof)
        return tuple(rows), tuple(learnt)

    return law_of(view)


SINGLES = [frozenset(s) for s in ({1}, {2}, {3}, ())]


def queried_pattern(sets: Sets) -> Any:
    """What matcher and client may learn: the pattern, and who holds the one item asked for."""
    return pattern(sets), tuple(1 in items for items in sets)


def is_within_quota(kind: type[KeyHolder]) -> bool:
    known: dict[Any, Law] = {}
    return all(
        known.setdefault(queried_pattern(sets), law) == law
        for sets in product(SINGLES, repeat=2)
        for law in [coalition_law(kind, sets)]
    )


def test_a_curious_matcher_with_a_client_opens_the_items_of_one_quota_alone() -> None:
    assert is_within_quota(KeyHolder)


def test_a_quota_that_is_not_counted_across_messages_is_caught() -> None:
    assert not is_within_quota(Forgetful)


def test_a_sybil_names_at_most_her_quota_of_a_whole_catalogue() -> None:
    catalogue = range(1682)
    function = Ideal()
    histories = {str(user): range(user, 1682, 90) for user in range(20)}
    session = Session(histories, function=function, items=20)
    session.collect_all()
    seen = {
        upload.tokens[i : i + 16]
        for upload in session.uploads.values()
        for i in range(0, len(upload.tokens), 16)
    }
    opened = query_all(session.holder, function, catalogue)
    assert len(opened) == 20  # her quota is m
    assert {opened[token] for token in seen & set(opened)} <= set(range(20))

    forgetful = Forgetful(**DEFAULTS | {"items": 20}, function=function)
    assert len(query_all(forgetful, function, catalogue)) == 1682


def test_the_real_function_gives_a_sybil_no_more() -> None:
    session = Session({"A": [1, 2, 3], "B": [4, 5]}).collect_all()
    opened = query_all(session.holder, tokens_module.RISTRETTO, range(1, 9))
    tokens = session.uploads["A"].tokens
    named = {opened.get(tokens[i : i + 16]) for i in range(0, 48, 16)}
    assert len(opened) == 3
    assert named == {1, 2, 3}  # items within her quota are hers to test
    other = session.uploads["B"].tokens
    assert not {other[i : i + 16] for i in range(0, 48, 16)} & set(opened)


def test_key_holder_and_matcher_together_open_everything() -> None:
    """What no method can prevent: the page says so, and this shows it."""
    session = Session({"A": [5, 7], "B": [9]}).collect_all()
    digest, key = session.terms.digest, vars(session.holder)["_key"]
    catalogue = {
        oprf.output_of(key, item_input(encode_id(item), digest))[:16]: item for item in range(20)
    }
    found = {
        name: {catalogue.get(upload.tokens[i : i + 16]) for i in range(0, 48, 16)}
        for name, upload in session.uploads.items()
    }
    assert found == {"A": {5, 7, None}, "B": {9, None}}


def test_clients_read_histories_off_equal_payloads() -> None:
    """Each brings one item alone, and a payload in two answers is one user. g = 3 is lifted too."""
    victims = {"V": [1, 2, 4], "W": [2]}
    corrupt = {f"M{item}{i}": [item] for item in (1, 2, 3) for i in range(2)}
    session = Session(victims | corrupt, min_group=3, min_users=3).collect_all()
    histories: dict[str, set[int]] = {name: set() for name in victims}
    for pseudonym, found in session.neighbours().items():
        for name in set(found) & set(victims) if pseudonym in corrupt else ():
            histories[name] |= set(corrupt[pseudonym])
    assert histories == {"V": {1, 2}, "W": {2}}  # 4 is not among the items that they brought


def test_the_matcher_sees_degrees_and_frequencies() -> None:
    """Popularity survives: the most frequent token is the most popular item."""
    sets = {"A": [1, 2], "B": [1, 3], "C": [1, 4], "D": [2]}
    session = Session(sets).collect_all()
    counts = Counter(
        upload.tokens[i : i + 16]
        for upload in session.uploads.values()
        for i in range(0, len(upload.tokens), 16)
    )
    assert sorted(counts.values(), reverse=True)[:3] == [3, 2, 1]


def test_adjacency_is_symmetric() -> None:
    found: Adjacency = join(table([[1, 2], [2, 3], [3, 4], [9, 8]]), 2)
    edges = {(u, int(v)) for u in range(4) for v in found.of(u)}
    assert edges == {(v, u) for u, v in edges}
