"""The literal reading of the paper matches, and a dictionary opens all of it and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from mpc.core.errors import ParameterError, StateError
from mpc.matching.deterministic import (
    DeterministicClient,
    deterministic_terms,
    deterministic_tokens,
    dictionary_attack,
)
from mpc.matching.items import ItemId
from mpc.matching.matcher import Matcher
from mpc.matching.messages import MatchTerms, Upload
from mpc.paillier.keys import PublicKey
from tests.mpc.matching.session import DEFAULTS, O20, Session, payload_of
from tests.mpc.matching.test_parties import replaced
from tests.mpc.paillier.stored_keys import private_key

CATALOGUE = range(1682)


def public_key() -> PublicKey:
    """A stored key of 2048 bits."""
    return private_key(2048).public


def terms(**changes: Any) -> MatchTerms:
    settings = DEFAULTS | {"items": 20} | changes
    return deterministic_terms(public_key(), insecure=True, **settings)


def upload(agreed: MatchTerms, items: Any, name: str = "A") -> Upload:
    client = DeterministicClient(agreed, items, payload_of(name), insecure=True)
    client.confirm(agreed)
    return client.upload()


def tokens_of(sent: Upload) -> list[bytes]:
    return [sent.tokens[i : i + 16] for i in range(0, len(sent.tokens), 16)]


def test_two_users_with_one_item_in_common_become_neighbours() -> None:
    agreed = terms()
    matcher = Matcher(agreed, insecure=True)
    clients = {}
    for name, items in O20.items():
        client = DeterministicClient(agreed, items, payload_of(name), insecure=True)
        client.confirm(matcher.terms)
        matcher.collect(name.encode(), client.upload())
        clients[name] = client
    found = {name.decode(): clients[name.decode()].receive(a) for name, a in matcher.match()}
    assert found == {"A": (payload_of("B"),), "B": (payload_of("A"),), "C": (), "D": ()}


@pytest.mark.parametrize("kind", [int, str])
def test_a_dictionary_opens_a_whole_history(kind: Callable[[int], ItemId]) -> None:
    agreed = terms()
    history = {kind(item) for item in range(100, 1600, 100)}
    tokens = tokens_of(upload(agreed, history))
    opened = dictionary_attack(tokens, [kind(item) for item in CATALOGUE], agreed)
    assert set(opened.values()) == history
    assert len(set(tokens) - set(opened)) == 20 - len(history)  # the dummies are told apart


def test_the_same_dictionary_opens_nothing_of_oprf() -> None:
    """All that is public in both methods is the same but for the kind of key."""
    session = Session({"A": range(100, 115)}, items=20)
    sent = session.upload("A")
    forged = replaced(session.terms, method="deterministic", public=public_key().to_bytes())
    assert dictionary_attack(tokens_of(sent), CATALOGUE, forged) == {}
    for other in (bytes(16), b"\xff" * 16):
        assert dictionary_attack([other], CATALOGUE, forged) == {}


def test_tokens_of_two_sessions_differ_and_are_opened_alike() -> None:
    first, second = terms(), terms()
    tokens = [tokens_of(upload(agreed, [5, 7])) for agreed in (first, second)]
    assert not set(tokens[0]) & set(tokens[1])
    for agreed, mine in zip((first, second), tokens, strict=True):
        assert set(dictionary_attack(mine, CATALOGUE, agreed).values()) == {5, 7}


def test_encryption_is_a_function_of_key_and_input() -> None:
    agreed = terms()
    assert deterministic_tokens([b"a", b"a"], agreed)[0] == deterministic_tokens([b"a"], agreed)[0]
    assert deterministic_tokens([b"a"], agreed) != deterministic_tokens([b"b"], agreed)


@pytest.mark.parametrize("insecure", [False, None, 1, "yes"])
def test_nobody_gets_here_without_saying_so(insecure: Any) -> None:
    agreed = terms()
    for build in (
        lambda: deterministic_terms(public_key(), insecure=insecure, items=3, **DEFAULTS),
        lambda: DeterministicClient(agreed, [], payload_of("A"), insecure=insecure),
        lambda: Matcher(agreed, insecure=insecure),
    ):
        with pytest.raises(ParameterError, match="pass insecure=True"):
            build()
    with pytest.raises(TypeError):
        DeterministicClient(agreed, [], payload_of("A"))  # type: ignore[call-arg]


def test_calls_out_of_order_and_other_terms_are_refused() -> None:
    agreed = terms()
    client = DeterministicClient(agreed, [5], payload_of("A"), insecure=True)
    with pytest.raises(StateError, match="in phase NEW"):
        client.upload()
    client.confirm(agreed)
    client.upload()
    with pytest.raises(StateError, match="in phase UPLOADED"):
        client.upload()
    with pytest.raises(ParameterError, match="of method 'oprf'"):
        deterministic_tokens([b"a"], replaced(agreed, method="oprf"))
    with pytest.raises(ParameterError, match="no Paillier key"):
        deterministic_tokens([b"a"], replaced(agreed, public=b"x"))
