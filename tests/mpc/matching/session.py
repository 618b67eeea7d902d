"""Whole sessions in one process, for the tests: every message travels as bytes."""

from collections.abc import Iterable, Mapping
from typing import Any

from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.client import MatchClient
from mpc.matching.items import Excess, ItemId
from mpc.matching.key_holder import KeyHolder
from mpc.matching.matcher import Matcher
from mpc.matching.messages import (
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Neighbourhood,
    Upload,
)
from mpc.matching.tokens import RISTRETTO, ObliviousFunction

PAYLOAD_BYTES = 8
DEFAULTS: dict[str, Any] = {"payload_bytes": PAYLOAD_BYTES, "min_group": 2, "min_users": 2}

O20: dict[str, list[int]] = {"A": [5, 7], "B": [5, 9], "C": [1], "D": []}
"""Users and their items: A and B have one in common."""


def payload_of(name: str) -> bytes:
    """A payload that tells whose it is."""
    return name.encode().ljust(PAYLOAD_BYTES)


class Session:
    """Key holder, matcher and clients by name."""

    def __init__(
        self,
        sets: Mapping[str, Iterable[ItemId]],
        *,
        function: ObliviousFunction = RISTRETTO,
        rng: Rng = SYSTEM_RNG,
        excess: Excess = "refuse",
        **settings: Any,
    ) -> None:
        self.holder = KeyHolder(**DEFAULTS | {"items": 3} | settings, function=function, rng=rng)
        self.terms = MatchTerms.from_bytes(self.holder.terms.to_bytes())
        self.matcher = Matcher(self.terms, rng=rng)
        self.clients = {
            name: MatchClient(
                self.terms, items, payload_of(name), excess=excess, function=function, rng=rng
            )
            for name, items in sets.items()
        }
        self.requests: dict[str, BlindedItems] = {}
        self.uploads: dict[str, Upload] = {}

    def decode(self, kind: Any, data: bytes) -> Any:
        return self.terms.decode(kind, data)

    def request(self, name: str) -> BlindedItems:
        """One client's request, decoded by the key holder."""
        client = self.clients[name]
        client.confirm(self.decode(MatchTerms, self.matcher.terms.to_bytes()))
        made: BlindedItems = self.decode(BlindedItems, client.blind().to_bytes())
        self.requests[name] = made
        return made

    def answer(self, name: str) -> EvaluatedItems:
        """The key holder's answer to one client's request."""
        made = self.holder.evaluate(name.encode(), self.request(name))
        answer: EvaluatedItems = self.decode(EvaluatedItems, made.to_bytes())
        return answer

    def upload(self, name: str) -> Upload:
        """One client's upload, decoded by the matcher."""
        made = self.clients[name].upload(self.answer(name))
        self.uploads[name] = self.decode(Upload, made.to_bytes())
        return self.uploads[name]

    def collect_all(self) -> "Session":
        """All clients upload, each under her name as pseudonym."""
        for name in self.clients:
            self.matcher.collect(name.encode(), self.upload(name))
        return self

    def neighbours(self) -> dict[str, list[str]]:
        """What everybody receives, by the names in the payloads, sorted."""
        found = {}
        for pseudonym, answer in self.matcher.match():
            name = pseudonym.decode()
            received = self.clients[name].receive(self.decode(Neighbourhood, answer.to_bytes()))
            found[name] = sorted(payload.decode().strip() for payload in received)
        return found


def run(sets: Mapping[str, Iterable[ItemId]], **settings: Any) -> dict[str, list[str]]:
    """Everybody's neighbours, by name."""
    return Session(sets, **settings).collect_all().neighbours()
