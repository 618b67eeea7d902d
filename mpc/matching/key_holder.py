"""The key holder: one published key for a session, and a counted number of evaluations.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3, "recommendation server" with its key;
    RFC 9497 section 3.3.2, VOPRF; section 7.2.3 there on limits of evaluations.
Model: authenticates clients by a channel of the caller's; does not collude with the matcher.
Leaks: learns who asks, and how many elements each; nothing of the items, not even how many of
    the m are dummies.
Differs: the key never encrypts anything: it is a key of evaluation, fresh for each session.
"""

import threading
from typing import Any

from mpc.core.checks import integer
from mpc.core.errors import BudgetError, PeerError, StateError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.admission import check_client
from mpc.matching.messages import (
    CLIENT,
    SESSION_BYTES,
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    bound_or_none,
    check_session,
    split,
)
from mpc.matching.tokens import RISTRETTO, ObliviousFunction

MAX_QUOTA = 1 << 32


class KeyHolder:
    """Draws session id and key, publishes ``terms``, evaluates for each client up to her quota.

    items, payload_bytes, min_group, min_users, max_group, max_neighbours: see ``MatchTerms``; None
    sets no bound.  quota: evaluations of one client in the session, at least ``items`` and by
    default exactly as many; each lets a corrupt client test one item.
    """

    def __init__(
        self,
        *,
        items: int,
        payload_bytes: int,
        min_group: int,
        min_users: int,
        max_group: int | None = None,
        max_neighbours: int | None = None,
        quota: int | None = None,
        function: ObliviousFunction = RISTRETTO,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        self._key, public = function.generate(rng)
        self._terms = MatchTerms(
            session=rng.bytes(SESSION_BYTES),
            method="oprf",
            public=public,
            items=items,
            payload_bytes=payload_bytes,
            min_group=min_group,
            max_group=bound_or_none("max_group", max_group),
            min_users=min_users,
            max_neighbours=bound_or_none("max_neighbours", max_neighbours),
        )
        self._digest = self._terms.digest
        self._quota = integer("quota", items if quota is None else quota, items, MAX_QUOTA)
        self._function = function
        self._rng = rng
        self._seen: dict[bytes, frozenset[bytes]] = {}
        self._open = True
        self._lock = threading.Lock()

    @property
    def terms(self) -> MatchTerms:
        """The public terms, for everybody and from one place that all can read."""
        return self._terms

    def evaluations(self, client: bytes) -> int:
        """How many elements ``client`` has had evaluated."""
        return len(self._seen.get(client, ()))

    def evaluate(self, client: bytes, request: BlindedItems) -> EvaluatedItems:
        """Evaluate a request of ``client``, an identity that the caller's channel authenticated.

        Raises PeerError for another session, no element at all, bytes that are no elements, and
        an element that this client has sent before; BudgetError beyond her quota, which counts
        all requests of the session; StateError after ``close``. A refusal counts nothing.
        """
        check_client(client)
        check_session(request, self._digest, CLIENT)
        elements = self._elements(request)
        key = self._reserve(client, elements)
        try:
            evaluated, proof = self._function.evaluate(key, elements, self._rng)
        except WireError as error:
            self._release(client, elements)
            raise PeerError(f"a request is refused: {error.message}", party=CLIENT) from error
        return EvaluatedItems(self._digest, b"".join(evaluated), proof)

    def close(self) -> None:
        """End the session: drop the key. Evaluations are refused from now on."""
        with self._lock:
            self._open, self._key = False, None

    def _elements(self, request: BlindedItems) -> tuple[bytes, ...]:
        try:
            elements = split(request.elements, self._function.element_bytes)
        except WireError as error:
            raise PeerError(f"a request is refused: {error.message}", party=CLIENT) from error
        if not 1 <= len(elements) <= self._terms.items:
            raise PeerError(
                f"a request has 1 to {self._terms.items} elements, got {len(elements)}",
                party=CLIENT,
            )
        if len(set(elements)) < len(elements):
            raise PeerError("a request holds an element twice", party=CLIENT)
        return elements

    def _reserve(self, client: bytes, elements: tuple[bytes, ...]) -> Any:
        """Count the elements before they are evaluated, so that two calls cannot share a quota."""
        with self._lock:
            if not self._open:
                raise StateError("the session is closed and its key is gone")
            seen = self._seen.get(client, frozenset())
            if not seen.isdisjoint(elements):
                raise PeerError("a request repeats an element of an earlier one", party=CLIENT)
            if len(seen) + len(elements) > self._quota:
                raise BudgetError(
                    f"{len(elements)} evaluations for a client who has {len(seen)}, "
                    f"at most {self._quota} in a session",
                    remedy="a lost answer costs a new session, unless quota leaves room",
                )
            self._seen[client] = seen.union(elements)
            return self._key

    def _release(self, client: bytes, elements: tuple[bytes, ...]) -> None:
        with self._lock:
            left = self._seen[client].difference(elements)
            if left:
                self._seen[client] = left
            else:
                del self._seen[client]

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a KeyHolder holds a key and its counts, and is not picklable")

    def __repr__(self) -> str:
        return f"KeyHolder(open={self._open}, clients={len(self._seen)})"
