"""Sessions of blinded equality under a key of 512 bits, which protects nothing."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from mpc.matching.items import ItemId
from mpc.matching.messages import BlindedPairs, EncryptedItems, EqualPairs, Neighbourhood
from mpc.matching.paillier import (
    PaillierClient,
    PaillierKeyHolder,
    PaillierMatcher,
    comparisons,
)
from mpc.paillier.keys import PrivateKey, generate_small_for_tests
from tests.mpc.matching.session import DEFAULTS, payload_of

DUMMIES = 6


@cache
def small_key() -> PrivateKey:
    """One key for all tests."""
    return generate_small_for_tests(512)


class PaillierSession:
    """Key holder, matcher and clients by name; every message travels as bytes."""

    def __init__(
        self,
        sets: Mapping[str, Iterable[ItemId]],
        *,
        items: int = 3,
        dummies: int = DUMMIES,
        quota: int | None = None,
        **settings: Any,
    ) -> None:
        spent = comparisons(len(sets), items) + dummies
        self.holder = PaillierKeyHolder(
            **DEFAULTS | {"items": items} | settings,
            quota=spent if quota is None else quota,
            key=small_key(),
        )
        self.terms = self.holder.terms
        self.matcher = PaillierMatcher(self.terms, dummies=dummies, small_for_tests=True)
        self.clients = {
            name: PaillierClient(self.terms, mine, payload_of(name), small_for_tests=True)
            for name, mine in sets.items()
        }

    def upload(self, name: str) -> EncryptedItems:
        """One client's upload, decoded by the matcher."""
        client = self.clients[name]
        client.confirm(self.matcher.terms)
        made: EncryptedItems = self.terms.decode(EncryptedItems, client.upload().to_bytes())
        return made

    def collect_all(self) -> "PaillierSession":
        """All clients upload, each under her name as pseudonym."""
        for name in self.clients:
            self.matcher.collect(name.encode(), self.upload(name))
        return self

    def compare(self) -> BlindedPairs:
        """The matcher's request, decoded by the key holder."""
        made: BlindedPairs = self.terms.decode(BlindedPairs, self.matcher.compare().to_bytes())
        return made

    def decrypt(self, request: BlindedPairs) -> EqualPairs:
        """The key holder's answer, decoded by the matcher."""
        made: EqualPairs = self.terms.decode(EqualPairs, self.holder.decrypt(request).to_bytes())
        return made

    def neighbours(self) -> dict[str, list[str]]:
        """What everybody receives, by the names in the payloads, sorted."""
        found = {}
        for pseudonym, answer in self.matcher.match(self.decrypt(self.compare())):
            name = pseudonym.decode()
            decoded = self.terms.decode(Neighbourhood, answer.to_bytes())
            received = self.clients[name].receive(decoded)
            found[name] = sorted(payload.decode().strip() for payload in received)
        return found


def run(sets: Mapping[str, Iterable[ItemId]], **settings: Any) -> dict[str, list[str]]:
    """Everybody's neighbours, by name."""
    return PaillierSession(sets, **settings).collect_all().neighbours()
