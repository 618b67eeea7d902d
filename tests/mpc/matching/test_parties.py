"""Client, key holder and matcher: what they compute, what they refuse, and what stays as it was."""

import pickle
import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc import oprf
from mpc.core.errors import AbortError, BudgetError, ParameterError, PeerError, StateError
from mpc.matching.client import MatchClient, Phase
from mpc.matching.key_holder import KeyHolder
from mpc.matching.matcher import Matcher
from mpc.matching.messages import (
    DIGEST_BYTES,
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Neighbourhood,
    SessionMessage,
    Upload,
)
from tests.mpc.matching.functions import Ideal
from tests.mpc.matching.session import DEFAULTS, O20, PAYLOAD_BYTES, Session, payload_of, run
from tests.mpc.matching.test_neighbours import plain_join


def replaced(message: Any, **changes: Any) -> Any:
    """The message with other values in some fields."""
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return type(message)(**fields | changes)


# Results


@pytest.mark.parametrize("kind", [int, str, lambda i: str(i).encode()])
def test_two_users_with_one_item_in_common_become_neighbours(kind: Any) -> None:
    sets = {name: [kind(item) for item in items] for name, items in O20.items()}
    assert run(sets) == {"A": ["B"], "B": ["A"], "C": [], "D": []}


def test_numbers_and_their_texts_are_different_items() -> None:
    assert run({"A": [5, 7], "B": ["5", "7"]}) == {"A": [], "B": []}


def test_tokens_change_between_sessions() -> None:
    def tokens() -> set[bytes]:
        session = Session({"A": [5, 7, 9]}).collect_all()
        data = session.uploads["A"].tokens
        return {data[i : i + 16] for i in range(0, len(data), 16)}

    assert not tokens() & tokens()


def test_tokens_change_between_sessions_even_under_one_key() -> None:
    """The terms' digest is part of every input, so a key that was kept links nothing."""

    class OneKey(Ideal):
        def generate(self, rng: Any) -> tuple[bytes, bytes]:
            return bytes(8), bytes(8)

    function = OneKey()
    first, second = (Session({"A": [5, 7, 9]}, function=function) for _ in range(2))
    assert not set(_pieces(first.upload("A").tokens)) & set(_pieces(second.upload("A").tokens))


def _pieces(data: bytes, size: int = 16) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


@given(
    st.lists(st.sets(st.integers(0, 9), max_size=4), min_size=2, max_size=8),
    st.integers(2, 4),
    st.integers(0, 3),
    st.integers(4, 6),
)
def test_neighbours_equal_a_plain_join(
    sets: list[set[int]], low: int, above: int, items: int
) -> None:
    high = low + above if above else None
    low = min(low, len(sets))
    named = {str(user): mine for user, mine in enumerate(sets)}
    found = run(
        named,
        function=Ideal(),
        items=items,
        min_group=low,
        min_users=len(sets),
        max_group=high,
    )
    expected = plain_join(sets, low, high)
    assert found == {str(user): sorted(str(v) for v in mine) for user, mine in enumerate(expected)}


@settings(max_examples=10)
@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=2, max_size=5))
def test_neighbours_equal_a_plain_join_under_the_real_function(sets: list[set[int]]) -> None:
    found = run({str(user): mine for user, mine in enumerate(sets)})
    expected = plain_join(sets, 2)
    assert found == {str(user): sorted(str(v) for v in mine) for user, mine in enumerate(expected)}


def test_more_items_than_agreed_are_refused_or_sampled() -> None:
    with pytest.raises(ParameterError, match="at most 3 items, got 4"):
        Session({"A": [1, 2, 3, 4]})
    session = Session({"A": [1, 2, 3, 4, 4], "B": [1, 2, 3, 4]}, excess="sample")
    assert (session.clients["A"].duplicates, session.clients["A"].left_out) == (1, 1)
    assert session.collect_all().neighbours() == {"A": ["B"], "B": ["A"]}  # two of three meet


def test_a_bound_of_neighbours_gives_that_many_and_one_length() -> None:
    sets = {name: [1] for name in "ABCDE"} | {"F": [2], "G": [2], "H": []}
    session = Session(sets, max_neighbours=2).collect_all()
    answers = dict(session.matcher.match())
    assert len({len(answer.to_bytes()) for answer in answers.values()}) == 1
    counts = {
        name.decode(): len(session.clients[name.decode()].receive(answer))
        for name, answer in answers.items()
    }
    assert counts == dict.fromkeys("ABCDE", 2) | {"F": 1, "G": 1, "H": 0}


def test_an_answer_to_a_sampled_client_names_true_neighbours() -> None:
    sets = {name: [1] for name in "ABCDE"}
    found = run(sets, max_neighbours=3)
    for name, mine in found.items():
        assert len(set(mine)) == 3
        assert set(mine) <= set(sets) - {name}


# The client


def test_a_client_walks_through_its_phases_and_refuses_other_orders() -> None:
    session = Session({"A": [5], "B": [5]})
    client, phases = session.clients["A"], []
    answer = EvaluatedItems(session.terms.digest, b"", b"")
    nothing = Neighbourhood.make(session.terms, b"", 0)

    def refuses(*calls: Any) -> None:
        before = client.phase
        for call in calls:
            with pytest.raises(StateError, match=f"in phase {before.name}"):
                call()
        assert client.phase is before
        phases.append(before)

    blind, upload = client.blind, lambda: client.upload(answer)
    confirm, receive = lambda: client.confirm(session.terms), lambda: client.receive(nothing)
    refuses(blind, upload, receive)
    client.confirm(session.terms)
    refuses(confirm, upload, receive)
    evaluated = session.holder.evaluate(b"A", client.blind())
    refuses(confirm, blind, receive)
    client.upload(evaluated)
    refuses(confirm, blind, upload)
    client.receive(nothing)
    refuses(confirm, blind, upload, receive)
    assert phases == [
        Phase.NEW,
        Phase.CONFIRMED,
        Phase.BLINDED,
        Phase.UPLOADED,
        Phase.DONE,
    ]


def test_terms_of_another_session_change_nothing() -> None:
    session, other = Session({"A": [5]}), Session({})
    client = session.clients["A"]
    with pytest.raises(PeerError, match="another session"):
        client.confirm(other.terms)
    client.confirm(session.terms)  # as if nothing had come
    assert client.phase is Phase.CONFIRMED


def test_a_key_for_one_client_alone_is_noticed_on_both_sides() -> None:
    """A key holder who marks a client by a key of her own meets the matcher's terms."""
    session = Session({"A": [5], "B": [5]})
    marked = replaced(session.terms, public=oprf.ServerKey.derive(bytes(32)).public)
    client = MatchClient(marked, [5], payload_of("A"))
    with pytest.raises(PeerError, match="different keys or terms") as refusal:
        client.confirm(session.terms)
    assert refusal.value.party == -1
    assert client.phase is Phase.ABORTED
    with pytest.raises(StateError):
        client.blind()
    # A client who confirms nothing is turned away by the matcher, whose digest is another.
    upload = Upload(marked.digest, session.upload("B").tokens, payload_of("A"))
    with pytest.raises(PeerError, match="another session, key or other terms"):
        session.matcher.collect(b"A", upload)


def test_an_answer_under_another_key_is_refused_and_changes_nothing() -> None:
    session = Session({"A": [5, 7]})
    request = session.request("A")
    foreign = oprf.evaluate(oprf.ServerKey.generate(), _pieces(request.elements, 32))
    wrong = EvaluatedItems(session.terms.digest, b"".join(foreign.elements), foreign.proof)
    client = session.clients["A"]
    right = session.holder.evaluate(b"A", request)
    elements, proof = right.elements, right.proof
    swapped = elements[32:64] + elements[:32] + elements[64:]
    for bad in (
        wrong,
        replaced(right, elements=wrong.elements),
        replaced(right, proof=wrong.proof),
        replaced(right, elements=elements[:-32]),
        replaced(right, elements=elements + elements[:32]),
        replaced(right, elements=elements[:-1]),
        replaced(right, elements=b""),
        replaced(right, elements=swapped),
        replaced(right, elements=b"\xff" * len(elements)),
        replaced(right, elements=bytes(len(elements))),
        replaced(right, proof=proof[:-1]),
        replaced(right, proof=b"\xff" * len(proof)),
        replaced(right, terms=bytes(DIGEST_BYTES)),
    ):
        with pytest.raises(PeerError) as refusal:
            client.upload(bad)
        assert refusal.value.party == -1
        assert client.phase is Phase.BLINDED
    assert len(client.upload(right).tokens) == 3 * 16


def test_an_unfit_answer_of_the_matcher_is_refused_and_changes_nothing() -> None:
    session = Session(O20, max_neighbours=2).collect_all()
    client = session.clients["A"]
    right = dict(session.matcher.match())[b"A"]
    for bad in (
        replaced(right, terms=bytes(DIGEST_BYTES)),
        replaced(right, count=bytes([3, 0, 0, 0])),
        replaced(right, count=b"\xff" * 4),
        replaced(right, payloads=right.payloads[:-1]),
        replaced(right, payloads=right.payloads[:PAYLOAD_BYTES]),
        replaced(right, payloads=right.payloads + bytes(PAYLOAD_BYTES)),
        replaced(right, count=bytes(4)),  # what follows is no padding then
    ):
        with pytest.raises(PeerError) as refusal:
            client.receive(bad)
        assert refusal.value.party == -2
        assert client.phase is Phase.UPLOADED
    assert client.receive(right) == (payload_of("B"),)


@pytest.mark.parametrize("size", [PAYLOAD_BYTES - 1, PAYLOAD_BYTES + 1, 0])
def test_a_payload_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ParameterError, match="payload must be 8 bytes"):
        MatchClient(Session({}).terms, [5], bytes(size))


def test_a_party_takes_terms_of_its_own_method_only() -> None:
    terms = replaced(Session({}).terms, method="paillier")
    for build in (lambda: MatchClient(terms, [], payload_of("A")), lambda: Matcher(terms)):
        with pytest.raises(ParameterError, match="of method 'paillier', this party's is 'oprf'"):
            build()
    deterministic = replaced(terms, method="deterministic")
    with pytest.raises(ParameterError, match="pass insecure=True"):
        Matcher(deterministic)
    assert Matcher(deterministic, insecure=True).users == 0


# The key holder


def elements_of(holder: KeyHolder, count: int) -> BlindedItems:
    _, elements = oprf.blind([b"x"] * count)
    return BlindedItems(holder.terms.digest, b"".join(elements))


def test_a_quota_counts_all_messages_of_a_session_and_each_client_apart() -> None:
    holder = KeyHolder(items=4, quota=5, **DEFAULTS)
    holder.evaluate(b"mallory", elements_of(holder, 4))
    with pytest.raises(BudgetError, match="2 evaluations for a client who has 4, at most 5"):
        holder.evaluate(b"mallory", elements_of(holder, 2))
    assert holder.evaluations(b"mallory") == 4  # the refusal counted nothing
    holder.evaluate(b"mallory", elements_of(holder, 1))
    with pytest.raises(BudgetError):
        holder.evaluate(b"mallory", elements_of(holder, 1))
    holder.evaluate(b"alice", elements_of(holder, 4))
    assert (holder.evaluations(b"mallory"), holder.evaluations(b"alice")) == (5, 4)


def test_a_quota_not_counted_across_messages_is_caught() -> None:
    """The broken twin forgets a client between messages, and opens a catalogue item by item."""

    class Forgetful(KeyHolder):
        def evaluate(self, client: bytes, request: BlindedItems) -> EvaluatedItems:
            answer = super().evaluate(client, request)
            self._seen.clear()
            return answer

    def total(holder: KeyHolder) -> int:
        granted = 0
        for _ in range(10):
            try:
                holder.evaluate(b"mallory", elements_of(holder, 1))
            except BudgetError:
                break
            granted += 1
        return granted

    assert total(KeyHolder(items=3, **DEFAULTS)) == 3
    assert total(Forgetful(items=3, **DEFAULTS)) == 10


def test_calls_at_the_same_time_share_one_quota() -> None:
    holder = KeyHolder(items=4, **DEFAULTS)
    requests = [elements_of(holder, 1) for _ in range(16)]
    granted = []

    def ask(request: BlindedItems) -> None:
        with suppress(BudgetError):
            granted.append(holder.evaluate(b"mallory", request))

    threads = [threading.Thread(target=ask, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == holder.evaluations(b"mallory") == 4


def test_a_replay_is_refused_and_counts_nothing() -> None:
    holder = KeyHolder(items=4, quota=12, **DEFAULTS)
    request = elements_of(holder, 3)
    holder.evaluate(b"alice", request)
    for replay in (request, replaced(request, elements=request.elements[32:64])):
        with pytest.raises(PeerError, match="repeats an element"):
            holder.evaluate(b"alice", replay)
    twice = elements_of(holder, 1)
    with pytest.raises(PeerError, match="an element twice"):
        holder.evaluate(b"alice", replaced(twice, elements=twice.elements * 2))
    assert holder.evaluations(b"alice") == 3


def test_bad_requests_are_refused_and_count_nothing() -> None:
    holder = KeyHolder(items=4, **DEFAULTS)
    good = elements_of(holder, 4)
    for bad in (
        replaced(good, terms=bytes(DIGEST_BYTES)),
        replaced(good, elements=b""),
        replaced(good, elements=good.elements[:-1]),
        replaced(good, elements=good.elements + elements_of(holder, 1).elements),
        replaced(good, elements=b"\xff" * 32),
        replaced(good, elements=bytes(32)),
        replaced(good, elements=good.elements[:96] + b"\xff" * 32),
    ):
        with pytest.raises(PeerError) as refusal:
            holder.evaluate(b"alice", bad)
        assert refusal.value.party == 0
    assert holder.evaluations(b"alice") == 0
    assert repr(holder) == "KeyHolder(open=True, clients=0)"
    holder.evaluate(b"alice", good)


@pytest.mark.parametrize("client", [b"", b"x" * 1025, "alice", None])
def test_an_identity_is_bytes(client: Any) -> None:
    session = Session({"A": [5]})
    with pytest.raises(ParameterError, match="client must be an identity"):
        session.holder.evaluate(client, session.request("A"))


def test_a_closed_key_holder_has_no_key_left() -> None:
    holder = KeyHolder(items=4, **DEFAULTS)
    request = elements_of(holder, 2)
    holder.close()
    with pytest.raises(StateError, match="its key is gone"):
        holder.evaluate(b"alice", request)
    assert vars(holder)["_key"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"items": 0},
        {"items": 1 << 16},
        {"payload_bytes": 0},
        {"min_group": 1},
        {"min_users": 1},
        {"min_group": 3},  # above min_users
        {"max_group": 1},
        {"max_group": 0},
        {"max_neighbours": 0},
        {"max_neighbours": -1},
        {"max_neighbours": 1 << 30},
        {"quota": 3},
        {"quota": 2.0},
        {"items": True},
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        KeyHolder(**DEFAULTS | {"items": 4} | changes)


# The matcher


def test_too_few_clients_get_nothing_and_more_may_come() -> None:
    session = Session(O20, min_users=4)
    uploads = {name: session.upload(name) for name in O20}
    for name in "ABC":
        session.matcher.collect(name.encode(), uploads[name])
    with pytest.raises(AbortError, match="3 clients have uploaded, at least 4"):
        session.matcher.match()
    session.matcher.collect(b"D", uploads["D"])
    assert session.neighbours() == {"A": ["B"], "B": ["A"], "C": [], "D": []}


def test_a_session_is_matched_once_and_keeps_nothing() -> None:
    session = Session(O20).collect_all()
    upload = session.uploads["A"]
    session.neighbours()
    assert session.matcher.users == 0
    with pytest.raises(StateError, match="takes no more uploads"):
        session.matcher.match()
    with pytest.raises(StateError, match="takes no more uploads"):
        session.matcher.collect(b"E", upload)


def test_bad_uploads_are_refused_and_change_nothing() -> None:
    session, other = Session(O20), Session(O20)
    good = session.upload("A")
    session.matcher.collect(b"A", good)
    fresh, foreign = session.upload("B"), other.upload("B")
    first, second, third = _pieces(fresh.tokens)
    for pseudonym, bad in (
        (b"A", good),  # a replay
        (b"A", fresh),  # a second upload of one person
        (b"B", foreign),
        (b"B", replaced(foreign, terms=bytes(DIGEST_BYTES))),
        (b"B", replaced(fresh, tokens=first + second)),
        (b"B", replaced(fresh, tokens=b"")),
        (b"B", replaced(fresh, tokens=fresh.tokens + b"\xff" * 16)),
        (b"B", replaced(fresh, tokens=fresh.tokens[:-1])),
        (b"B", replaced(fresh, tokens=second + first + third)),
        (b"B", replaced(fresh, tokens=first + first + third)),
        (b"B", replaced(fresh, payload=fresh.payload[:-1])),
        (b"B", replaced(fresh, payload=fresh.payload + b" ")),
    ):
        with pytest.raises(PeerError) as refusal:
            session.matcher.collect(pseudonym, bad)
        assert refusal.value.party == 0
        assert session.matcher.users == 1
    session.matcher.collect(b"B", fresh)
    assert dict(session.matcher.match())[b"A"].read(session.terms) == (payload_of("B"),)


def test_rising_order_is_that_of_all_sixteen_bytes() -> None:
    session = Session({})
    digest = session.terms.digest
    base = b"\x80" * 16
    for place in range(16):
        higher = base[:place] + b"\x81" + base[place + 1 :]
        lower = base[:place] + b"\x7f" + base[place + 1 :]
        session.matcher.collect(
            bytes([1 + place]), Upload(digest, lower + base + higher, payload_of("A"))
        )
        with pytest.raises(PeerError, match="rising order"):
            session.matcher.collect(b"new", Upload(digest, lower + higher + base, payload_of("A")))
    assert session.matcher.users == 16


# Secrets


def test_parties_are_not_pickled_and_show_no_secret() -> None:
    session = Session({"A": ["secret"]})
    session.request("A")
    for party in (session.holder, session.matcher, session.clients["A"]):
        with pytest.raises(TypeError, match="not picklable"):
            pickle.dumps(party)
        assert "secret" not in repr(party)
    blinded = vars(session.clients["A"])["_blinded"]
    assert "secret" not in repr(blinded)


def test_messages_show_sizes_only() -> None:
    session = Session({"A": [5]})
    answer = session.answer("A")
    assert repr(answer) == (
        "EvaluatedItems(terms=<32 bytes>, elements=<96 bytes>, proof=<64 bytes>)"
    )
    assert isinstance(answer, SessionMessage)


def test_terms_name_all_that_the_parties_agree_on() -> None:
    """Each field enters the digest that every message carries."""
    terms = Session({}, max_group=9, max_neighbours=9).terms
    changes: dict[str, Any] = {
        "session": bytes(16),
        "method": "paillier",
        "public": bytes(32),
        "items": 4,
        "payload_bytes": 9,
        "min_group": 3,
        "max_group": 8,
        "min_users": 5,
        "max_neighbours": 8,
    }
    assert set(changes) == set(MatchTerms.__struct_fields__)
    base = replaced(terms, min_users=4)
    digests = {replaced(base, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {base.digest}) == len(changes) + 1
