"""Matching by blinded equality: results, refusals, and that these change nothing."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpc.core.errors import (
    AbortError,
    BudgetError,
    ParameterError,
    PeerError,
    StateError,
    WireError,
)
from mpc.matching.messages import (
    DIGEST_BYTES,
    BlindedPairs,
    EncryptedItems,
    EqualPairs,
    MatchTerms,
    Neighbourhood,
)
from mpc.matching.paillier import (
    PaillierClient,
    PaillierKeyHolder,
    PaillierMatcher,
    classes,
    comparisons,
    numbers,
    pairs,
    public_key,
)
from mpc.matching.participant import Phase
from mpc.paillier.batch import BatchEncryptor
from mpc.paillier.ciphertext import vector_to_bytes
from mpc.paillier.encrypt import Textbook
from mpc.paillier.keys import generate_small_for_tests
from tests.mpc.matching.paillier_session import DUMMIES, PaillierSession, run, small_key
from tests.mpc.matching.session import DEFAULTS, O20, payload_of
from tests.mpc.matching.test_neighbours import plain_join
from tests.mpc.matching.test_parties import replaced


@pytest.mark.parametrize("kind", [int, str])
def test_two_users_with_one_item_in_common_become_neighbours(kind: Any) -> None:
    sets = {name: [kind(item) for item in items] for name, items in O20.items()}
    assert run(sets, min_users=4) == {"A": ["B"], "B": ["A"], "C": [], "D": []}


@settings(max_examples=10)
@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=2, max_size=5), st.integers(2, 3))
def test_neighbours_equal_a_plain_join(sets: list[set[int]], low: int) -> None:
    low = min(low, len(sets))
    named = {str(user): mine for user, mine in enumerate(sets)}
    found = run(named, min_group=low, min_users=len(sets))
    expected = plain_join(sets, low)
    assert found == {str(user): sorted(str(v) for v in mine) for user, mine in enumerate(expected)}


def test_twenty_users_equal_a_plain_join() -> None:
    coins = np.random.default_rng(3)
    sets = [set(coins.integers(0, 40, user % 5).tolist()) for user in range(20)]
    found = run(
        {str(user): mine for user, mine in enumerate(sets)}, items=4, min_group=3, min_users=20
    )
    expected = plain_join(sets, 3)
    assert found == {str(user): sorted(str(v) for v in mine) for user, mine in enumerate(expected)}


def test_no_ciphertext_repeats_between_users_or_sessions() -> None:
    """Equal ids have different ciphertexts: what makes the literal reading impossible (O20)."""
    seen = [PaillierSession({"A": [5], "B": [5]}, items=1).upload(name) for name in "AB" * 2]
    assert len({upload.ciphertexts for upload in seen}) == 4


def test_all_pairs_of_different_users_are_compared() -> None:
    expected = [
        (i * 3 + a, j * 3 + b)
        for i in range(4)
        for j in range(i + 1, 4)
        for a in range(3)
        for b in range(3)
    ]
    assert sorted(pairs(4, 3)) == sorted(expected)
    assert len(expected) == comparisons(4, 3) == 54


def test_equal_pairs_become_classes() -> None:
    tokens = classes(3, 2, [(0, 2), (3, 5), (2, 4)])
    rows = tokens.reshape(6, 8)
    names = [row.tobytes() for row in rows]
    assert tokens.shape == (3, 2, 8)
    assert names[0] == names[2] == names[4]
    assert names[3] == names[5]
    assert len(set(names)) == 3


def test_numbers_are_below_both_primes() -> None:
    key = small_key()
    inputs = [bytes([i]) for i in range(200)]
    assert max(numbers(inputs, key.public)) < 2 ** min(256, key.public.bits // 2 - 1)
    assert max(numbers(inputs, key.public)) < key.primes()[0]
    tiny = generate_small_for_tests(32)
    assert 0 <= max(numbers(inputs, tiny.public)) < tiny.primes()[0]
    assert len(set(numbers(inputs, key.public))) == 200


def test_workers_give_the_same_result() -> None:
    session = PaillierSession(O20).collect_all()
    with ThreadPoolExecutor(2) as pool:
        request = session.matcher.compare(map=pool.map)
        with pytest.raises(ParameterError, match="send_private_key=True"):
            session.holder.decrypt(request, map=pool.map)
        fresh = PaillierSession(O20).collect_all()
        request = fresh.matcher.compare(map=pool.map)
        equal = fresh.holder.decrypt(request, map=pool.map, send_private_key=True)
    answers = dict(fresh.matcher.match(equal))
    assert answers[b"A"].read(fresh.terms) == (payload_of("B"),)


def test_a_pool_that_fails_loses_no_upload() -> None:
    def broken(*_: object) -> object:
        raise OSError("a worker died")

    session = PaillierSession(O20).collect_all()
    with pytest.raises(OSError, match="a worker died"):
        session.matcher.compare(map=broken)  # type: ignore[arg-type]
    assert session.matcher.users == len(O20)
    assert session.neighbours() == {"A": ["B"], "B": ["A"], "C": [], "D": []}


def test_the_fast_encryptor_gives_the_same_result() -> None:
    session = PaillierSession(O20)
    encryptor = BatchEncryptor.djn(small_key().public)
    session.matcher = PaillierMatcher(
        session.terms, dummies=DUMMIES, encryptor=encryptor, small_for_tests=True
    )
    assert session.collect_all().neighbours() == {"A": ["B"], "B": ["A"], "C": [], "D": []}


def test_a_bound_of_neighbours_holds() -> None:
    found = run({name: [1] for name in "ABCD"}, max_neighbours=2)
    assert all(len(mine) == 2 for mine in found.values())


# Refusals


def test_a_client_walks_through_its_phases_and_refuses_other_orders() -> None:
    session = PaillierSession(O20)
    client = session.clients["A"]
    nothing = Neighbourhood.make(session.terms, b"", 0)
    with pytest.raises(StateError, match="in phase NEW"):
        client.upload()
    client.confirm(session.terms)
    with pytest.raises(StateError, match="in phase CONFIRMED"):
        client.receive(nothing)
    client.upload()
    with pytest.raises(StateError, match="in phase UPLOADED"):
        client.upload()
    assert client.receive(nothing) == ()
    assert client.phase is Phase.DONE


def test_a_key_for_one_client_alone_is_noticed() -> None:
    session = PaillierSession(O20)
    other = generate_small_for_tests(512).public.to_bytes()
    client = PaillierClient(
        replaced(session.terms, public=other), [5], payload_of("A"), small_for_tests=True
    )
    with pytest.raises(PeerError, match="different keys or terms"):
        client.confirm(session.terms)
    assert client.phase is Phase.ABORTED


def test_bad_uploads_are_refused_and_change_nothing() -> None:
    session, other = PaillierSession(O20), PaillierSession(O20)
    good, fresh, foreign = session.upload("A"), session.upload("B"), other.upload("B")
    session.matcher.collect(b"A", good)
    public = small_key().public
    two = vector_to_bytes(Textbook(public).encrypt_many([1, 2]))
    strange = vector_to_bytes(
        Textbook(generate_small_for_tests(512).public).encrypt_many([1, 2, 3])
    )
    for pseudonym, bad in (
        (b"A", good),
        (b"A", fresh),
        (b"B", foreign),
        (b"B", replaced(fresh, terms=bytes(DIGEST_BYTES))),
        (b"B", replaced(fresh, ciphertexts=two)),
        (b"B", replaced(fresh, ciphertexts=strange)),
        (b"B", replaced(fresh, ciphertexts=b"")),
        (b"B", replaced(fresh, ciphertexts=fresh.ciphertexts[:-1])),
        (b"B", replaced(fresh, payload=b"")),
    ):
        with pytest.raises(PeerError) as refusal:
            session.matcher.collect(pseudonym, bad)
        assert refusal.value.party == 0
        assert session.matcher.users == 1
    session.matcher.collect(b"B", fresh)


def test_the_matcher_refuses_other_orders_and_small_crowds() -> None:
    session = PaillierSession(O20, min_users=4)
    for name in "ABC":
        session.matcher.collect(name.encode(), session.upload(name))
    with pytest.raises(AbortError, match="3 clients have uploaded, at least 4"):
        session.matcher.compare()
    with pytest.raises(StateError, match="match needs the answer"):
        session.matcher.match(EqualPairs(session.terms.digest, b""))
    session.matcher.collect(b"D", session.upload("D"))
    equal = session.decrypt(session.compare())
    with pytest.raises(StateError, match="takes no more uploads"):
        session.matcher.compare()
    session.matcher.match(equal)
    with pytest.raises(StateError, match="match needs the answer"):
        session.matcher.match(equal)


def test_an_unfit_answer_of_the_key_holder_is_refused_and_changes_nothing() -> None:
    session = PaillierSession(O20, dummies=40).collect_all()
    right = session.decrypt(session.compare())
    for bad in (
        replaced(right, terms=bytes(DIGEST_BYTES)),
        replaced(right, bits=right.bits[:-1]),
        replaced(right, bits=right.bits + b"\0"),
        replaced(right, bits=right.bits[:-1] + bytes([right.bits[-1] | 1])),  # a bit of padding
        replaced(right, bits=bytes(len(right.bits))),  # "none is equal": wrong for a dummy
        replaced(right, bits=b""),
    ):
        with pytest.raises(PeerError) as refusal:
            session.matcher.match(bad)
        assert refusal.value.party == -1
    assert dict(session.matcher.match(right))[b"A"].read(session.terms) == (payload_of("B"),)


def test_the_key_holder_counts_all_requests_and_answers_none_twice() -> None:
    session = PaillierSession(O20, quota=10)
    holder, terms = session.holder, session.terms
    public = small_key().public

    def request(count: int) -> BlindedPairs:
        ciphertexts = Textbook(public).encrypt_many([0, *range(1, count)])
        return BlindedPairs(terms.digest, count, vector_to_bytes(ciphertexts))

    first = request(8)
    assert holder.decrypt(first).bits == b"\x80"
    with pytest.raises(PeerError, match="has been answered"):
        holder.decrypt(first)
    with pytest.raises(BudgetError, match="3 decryptions after 8, at most 10"):
        holder.decrypt(request(3))
    assert holder.decrypted == 8
    holder.decrypt(request(2))
    holder.close()
    with pytest.raises(StateError, match="its key is gone"):
        holder.decrypt(request(1))


def test_bad_requests_are_refused_and_count_nothing() -> None:
    session = PaillierSession(O20)
    good = session.collect_all().compare()
    for bad in (
        replaced(good, terms=bytes(DIGEST_BYTES)),
        replaced(good, count=good.count + 1),
        replaced(good, count=0),
        replaced(good, count=1 << 60),
        replaced(good, ciphertexts=b""),
        replaced(good, ciphertexts=good.ciphertexts[:-1]),
    ):
        with pytest.raises(PeerError) as refusal:
            session.holder.decrypt(bad)
        assert refusal.value.party == -2
    assert session.holder.decrypted == 0
    session.decrypt(good)


def test_too_many_comparisons_for_a_message_are_refused() -> None:
    session = PaillierSession(O20)
    matcher = PaillierMatcher(session.terms, dummies=1 << 24, small_for_tests=True)
    for name in "AB":
        matcher.collect(name.encode(), session.upload(name))
    with pytest.raises(ParameterError, match="exceed a message"):
        matcher.compare()
    assert matcher.users == 2


def test_arguments_out_of_range_are_refused() -> None:
    terms = PaillierSession(O20).terms
    other = BatchEncryptor.textbook(generate_small_for_tests(512).public)
    with pytest.raises(ParameterError, match="another key"):
        PaillierMatcher(terms, encryptor=other, small_for_tests=True)
    with pytest.raises(ParameterError, match="no Paillier key"):
        PaillierMatcher(terms)  # 512 bits, and nobody said that this is a test
    with pytest.raises(ParameterError, match="no Paillier key"):
        public_key(replaced(terms, public=b"x"))
    with pytest.raises(ParameterError, match="of method 'oprf'"):
        public_key(replaced(terms, method="oprf"))
    with pytest.raises(ParameterError, match="quota"):
        PaillierKeyHolder(items=3, **DEFAULTS, quota=0, key=small_key())
    with pytest.raises(ParameterError, match="dummies"):
        PaillierMatcher(terms, dummies=-1, small_for_tests=True)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_but_a_wire_error(data: bytes) -> None:
    terms = MatchTerms(bytes(16), "paillier", bytes(8), 3, 8, 2, 0, 2, 0)
    for kind in (EncryptedItems, BlindedPairs, EqualPairs):
        with pytest.raises(WireError):
            terms.decode(kind, data)


def test_parties_are_not_pickled_and_show_no_secret() -> None:
    session = PaillierSession({"A": ["secret"]})
    for party in (session.holder, session.matcher, session.clients["A"]):
        with pytest.raises(TypeError, match="not picklable"):
            pickle.dumps(party)
        assert "secret" not in repr(party)
        assert str(small_key().primes()[0]) not in repr(party)
