"""The matcher's collection: one upload for each pseudonym, until there are enough of them.

Model: the caller's channel authenticates pseudonyms, one for each person (``admission`` gives
    such). An upload is held in memory until the session is matched.
"""

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from mpc.core.errors import AbortError, PeerError, StateError
from mpc.core.rng import Rng
from mpc.matching.admission import check_client
from mpc.matching.messages import CLIENT, MatchTerms, Neighbourhood
from mpc.matching.neighbours import Adjacency, Tokens, join, limit, shuffle

_T = TypeVar("_T")


class Uploads(Generic[_T]):
    """Uploads by pseudonym. A refusal changes nothing; ``take`` empties and closes it."""

    def __init__(self, terms: MatchTerms) -> None:
        self._terms = terms
        self._held: dict[bytes, _T] | None = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held or ())

    def add(self, pseudonym: bytes, upload: _T, payload: bytes) -> None:
        """Keep one upload, which the caller has checked but for its payload's size.

        Raises PeerError for that and for a second upload under a pseudonym, StateError after
        ``take``, ParameterError for a pseudonym that is not 1 to 1024 bytes.
        """
        check_client(pseudonym)
        if len(payload) != self._terms.payload_bytes:
            raise PeerError(
                f"a payload of {len(payload)} bytes, agreed are {self._terms.payload_bytes}",
                party=CLIENT,
            )
        with self._lock:
            held = self._open()
            if pseudonym in held:
                raise PeerError("this client has uploaded already", party=CLIENT)
            held[pseudonym] = upload

    def take(self) -> dict[bytes, _T]:
        """All uploads, once.

        Raises AbortError, and stays open, while there are fewer than ``min_users``; StateError
        the second time.
        """
        with self._lock:
            held = self._open()
            if len(held) < self._terms.min_users:
                raise AbortError(
                    f"{len(held)} clients have uploaded, at least {self._terms.min_users} "
                    "are needed",
                    remedy="wait for more clients: a small crowd hides nobody",
                )
            self._held = None
        return held

    def put_back(self, held: dict[bytes, _T]) -> None:
        """Undo ``take``, for a computation that failed before anything left the matcher."""
        with self._lock:
            self._held = held

    def _open(self) -> dict[bytes, _T]:
        if self._held is None:
            raise StateError("this session takes no more uploads")
        return self._held


def neighbours(tokens: Tokens, terms: MatchTerms, *, rng: Rng) -> Adjacency:
    """What the matcher computes: everybody's neighbours under the terms, in random order.

    tokens: uint8, (users, m, w).  At most ``max_neighbours`` each, drawn at random.
    """
    found = shuffle(join(tokens, terms.min_group, terms.max_group or None), rng=rng)
    return limit(found, terms.max_neighbours) if terms.max_neighbours else found


def answers(
    pseudonyms: Sequence[bytes],
    tokens: Tokens,
    payloads: Sequence[bytes],
    terms: MatchTerms,
    *,
    rng: Rng,
) -> tuple[tuple[bytes, Neighbourhood], ...]:
    """Every pseudonym with its answer; rows of ``tokens`` and ``payloads`` in the same order."""
    adjacency = neighbours(tokens, terms, rng=rng)
    rows = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), -1)
    return tuple(
        (pseudonym, Neighbourhood.make(terms, rows[mine].tobytes(), mine.size))
        for pseudonym, mine in zip(pseudonyms, map(adjacency.of, range(len(rows))), strict=True)
    )
