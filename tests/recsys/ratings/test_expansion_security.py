"""What each party of a graph expansion sees, and broken twins that show it more."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mpc.core.keys import derive
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.client import MatchClient
from mpc.matching.items import encode_id, item_input
from mpc.matching.key_holder import KeyHolder
from mpc.matching.messages import (
    KEY_HOLDER,
    MATCHER,
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Upload,
)
from mpc.matching.messages import Neighbourhood as Answer
from recsys.ratings import expansion
from recsys.ratings.expansion_payloads import EmbeddingGrid
from tests.recsys.ratings.expansions import (
    CONFIG,
    ITEMS,
    USERS,
    embeddings,
    expand,
    histories,
    owners,
    sharing,
)
from tests.recsys.worlds import KnownKeysRun
from tests.support.faults import flip_bit

Views = dict[int, list[tuple[int, str, bytes]]]


def views(**settings: Any) -> Views:
    """All that every party received: sender, kind and bytes."""
    network = LocalNetwork(record=True)
    expand(network=network, **settings)
    return {
        party: [(one.sender, one.kind, one.data) for one in network.view(party)]
        for party in (KEY_HOLDER, MATCHER, *range(USERS))
    }


def terms_in(seen: Views) -> MatchTerms:
    [data] = [data for _, kind, data in seen[MATCHER] if kind == "matching.terms"]
    return MatchTerms.from_bytes(data)


def uploads_in(seen: Views) -> list[Upload]:
    return [Upload.from_bytes(d) for _, kind, d in seen[MATCHER] if kind == "matching.upload"]


def tokens_in(seen: Views) -> set[bytes]:
    """The tokens that the matcher has seen, of 16 bytes each."""
    joined = b"".join(upload.tokens for upload in uploads_in(seen))
    return {joined[start : start + 16] for start in range(0, len(joined), 16)}


# --- the matcher and the items


def in_plain(item: int, terms: MatchTerms) -> set[bytes]:
    """What can stand for an item in 16 bytes without the key holder's key."""
    given = item_input(encode_id(item), terms.digest)
    forms = {encode_id(item), item.to_bytes(16, "little"), item.to_bytes(16, "big"), given}
    hashed = {hash_(form).digest() for form in forms for hash_ in (hashlib.sha256, hashlib.sha512)}
    return {form.ljust(16, b"\0")[:16] for form in forms | hashed}


def items_read(seen: Views) -> set[int]:
    """The items that a dictionary over the catalogue finds among the matcher's tokens."""
    found = tokens_in(seen)
    return {item for item in range(ITEMS) if in_plain(item, terms_in(seen)) & found}


def twin(token: Callable[[int, MatchTerms], bytes]) -> type[MatchClient]:
    """A client whose tokens are ``token`` of her items, and random for dummies."""

    class Twin(MatchClient):
        def __init__(
            self, terms: MatchTerms, items: list[int], payload: bytes, *, rng: Rng
        ) -> None:
            super().__init__(terms, items, payload, rng=rng)
            self.brought = items

        def upload(self, evaluated: EvaluatedItems) -> Upload:
            honest = super().upload(evaluated)
            tokens = [token(item, self._terms) for item in self.brought]
            tokens += [SYSTEM_RNG.bytes(16) for _ in range(self._terms.items - len(tokens))]
            return Upload(honest.terms, b"".join(sorted(tokens)), honest.payload)

    return Twin


def test_the_matcher_sees_no_item() -> None:
    assert items_read(views()) == set()


@pytest.mark.parametrize(
    "token",
    [
        lambda item, terms: item.to_bytes(16, "little"),
        lambda item, terms: hashlib.sha256(encode_id(item)).digest()[:16],
        lambda item, terms: hashlib.sha256(item_input(encode_id(item), terms.digest)).digest()[:16],
    ],
    ids=["the id", "its hash", "its hash with the session"],
)
def test_a_matcher_who_gets_items_is_caught(
    token: Callable[[int, MatchTerms], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbours stay right, so that no test of results would notice."""
    monkeypatch.setattr(expansion, "MatchClient", twin(token))
    seen = views()
    brought = {item for mine in histories() for item in mine}
    assert items_read(seen) == brought
    assert [set(mine) for mine in owners(expand())] == sharing(histories())


def test_everybody_sends_as_many_tokens_and_elements_whatever_she_holds() -> None:
    seen = views()
    lengths = defaultdict(set)
    for view in seen.values():
        for _, kind, data in view:
            lengths[kind].add(len(data))
    assert {kind: len(found) for kind, found in lengths.items()} == dict.fromkeys(lengths, 1)
    for _, kind, data in seen[KEY_HOLDER]:
        assert kind == "matching.blinded"
        assert len(BlindedItems.from_bytes(data).elements) == 32 * CONFIG.match_items


# --- keys


def test_two_expansions_under_one_seed_have_different_keys_and_tokens() -> None:
    first, second = views(), views()
    assert terms_in(first).public != terms_in(second).public
    assert terms_in(first).session != terms_in(second).session
    assert not tokens_in(first) & tokens_in(second)


def test_keys_that_follow_from_the_seed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for _ in range(2):
        monkeypatch.setattr(expansion, "SYSTEM_RNG", Prg(bytes(32)))
        found.append(views())
    assert terms_in(found[0]).public == terms_in(found[1]).public
    assert tokens_in(found[0]) & tokens_in(found[1])


def test_the_key_is_gone_and_every_quota_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    holders = []

    class Watched(KeyHolder):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            holders.append((self, settings))

    monkeypatch.setattr(expansion, "KeyHolder", Watched)
    expand()
    [(holder, settings)] = holders
    assert settings["quota"] == CONFIG.match_items
    assert {holder.evaluations(b"user %d" % user) for user in range(USERS)} == {8}
    assert repr(holder) == f"KeyHolder(open=False, clients={USERS})"


# --- embeddings


def without_payloads(seen: Views) -> list[tuple[int, int, str, bytes]]:
    """Every message as bytes, payloads cut out of uploads and answers."""
    left = []
    for party, view in seen.items():
        for sender, kind, data in view:
            rest = data
            if kind == "matching.upload":
                rest = Upload.from_bytes(data).tokens
            elif kind == "matching.neighbours":
                rest = Answer.from_bytes(data).count
            left.append((party, sender, kind, rest))
    return left


def under_fixed_coins(monkeypatch: pytest.MonkeyPatch, given: Any) -> Views:
    """The views of a run in which keys, blinds and dummies are the same each time."""
    monkeypatch.setattr(expansion, "SYSTEM_RNG", Prg(bytes(32)))
    return views(given=given, embedding_epsilon=1.0)


def test_no_bit_of_an_embedding_is_outside_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all coins fixed, other embeddings change payloads and not a byte besides."""
    first = under_fixed_coins(monkeypatch, embeddings())
    second = under_fixed_coins(monkeypatch, 0.4 - embeddings())
    assert first != second
    assert without_payloads(first) == without_payloads(second)


def test_a_bit_of_an_embedding_in_a_token_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaky(MatchClient):
        def upload(self, evaluated: EvaluatedItems) -> Upload:
            honest = super().upload(evaluated)
            last = honest.tokens[-1] ^ (honest.payload[0] & 1)
            return Upload(honest.terms, honest.tokens[:-1] + bytes([last]), honest.payload)

    monkeypatch.setattr(expansion, "MatchClient", Leaky)
    first = under_fixed_coins(monkeypatch, embeddings())
    second = under_fixed_coins(monkeypatch, 0.4 - embeddings())
    assert without_payloads(first) != without_payloads(second)


def test_nothing_below_the_grid_leaves_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings that round to the same steps give the same messages, payloads included."""
    found = []
    for given in (embeddings(), embeddings() + 2.0**-12):
        monkeypatch.setattr(expansion, "SYSTEM_RNG", Prg(bytes(32)))
        found.append(views(given=given))
    assert found[0] == found[1]


def test_payloads_of_raw_doubles_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        EmbeddingGrid, "encode", lambda self, given, coins: given.copy().view(np.int64)
    )
    found = []
    for given in (embeddings(), embeddings() + 2.0**-12):
        monkeypatch.setattr(expansion, "SYSTEM_RNG", Prg(bytes(32)))
        found.append(views(given=given))
    assert found[0] != found[1]


def shares_noise(seed: int | None) -> bool:
    """Whether some user's noise was the same on two embeddings: their payloads' gap is constant."""
    first, second = (
        expand(
            [[0]] * 5,
            np.full((5, 200), value),
            mode="simulate",
            embedding_epsilon=1.0,
            seed=seed,
            run=KnownKeysRun(),
        )
        for value in (0.0, 0.25)
    )
    return any(np.ptp(other - one) == 0 for one in first.embeddings for other in second.embeddings)


@pytest.mark.parametrize("seed", [11, None])
def test_two_embeddings_of_a_user_never_share_their_noise(
    seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else their difference would be in the clear for whoever has both payloads."""
    assert not shares_noise(seed)

    def by_user_alone(keys: Any, number: int, given: Any) -> Iterator[Prg]:
        return (Prg(derive(key.tobytes(), "twin", number)) for key in keys)

    monkeypatch.setattr(expansion, "_noise_coins", by_user_alone)
    assert shares_noise(seed)


# --- what is not hidden


def test_an_equal_payload_shows_clients_that_it_is_the_same_user() -> None:
    """Two clients who collude, one item each, read which of both items a stranger holds."""
    rated = [[0], [1], [0, 1], [0], [1]]
    result = expand(rated, embedding_epsilon=1.0)
    received = [
        {row.tobytes() for row in result.embeddings[result.starts[user] : result.starts[user + 1]]}
        for user in (0, 1)
    ]
    assert len(received[0] & received[1]) == 1  # user 2, noise or not


def test_the_matcher_reads_every_embedding() -> None:
    seen = views()
    grid = EmbeddingGrid.of(CONFIG)
    read = [grid.decode(upload.payload) for upload in uploads_in(seen)]
    assert np.array_equal(np.stack(read), embeddings())


# --- the protocol is what makes the result


class Altering(LocalNetwork):
    """Puts another upload in the place of the first user's."""

    def __init__(self, change: Callable[[Upload], Upload]) -> None:
        super().__init__()
        self._change = change

    def send(self, sender: int, receiver: int, kind: str, data: bytes) -> None:
        if kind == "matching.upload" and sender == 0:
            data = self._change(Upload.from_bytes(data)).to_bytes()
        super().send(sender, receiver, kind, data)


def other_payload(upload: Upload) -> Upload:
    return Upload(upload.terms, upload.tokens, flip_bit(upload.payload, 0))


def other_tokens(upload: Upload) -> Upload:
    return Upload(upload.terms, bytes(255 - byte for byte in upload.tokens), upload.payload)


def test_one_altered_bit_of_a_payload_reaches_the_neighbours() -> None:
    """So protocol mode hands on what was sent, and computes nothing beside it."""
    honest, altered = expand(), expand(network=Altering(other_payload))
    assert np.array_equal(honest.starts, altered.starts)
    changed = (honest.embeddings != altered.embeddings).any(axis=1)
    assert changed.sum() == len(sharing(histories())[0]) > 0


def test_altered_tokens_take_the_neighbours_away() -> None:
    found = owners(expand(network=Altering(other_tokens)))
    assert found[0] == []
    assert [set(mine) for mine in found[1:]] == [mine - {0} for mine in sharing(histories())[1:]]
