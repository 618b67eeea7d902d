"""Tickets: each person takes part once, under a pseudonym that the matcher cannot look behind.

Source: ours. A tag is HKDF-Expand under a key that the matcher and whoever knows the clients'
    accounts share; HKDF is a pseudo-random function, and so authenticates.
Model: whoever issues tickets (usually the key holder) authenticates clients; the matcher, who has
    no accounts, counts one upload for a ticket. Without such a count one person under many names
    makes any group as large as ``min_group``, and learns through which item somebody is her
    neighbour by bringing each item under another name.
Leaks: the issuer knows whose pseudonym each one is, the matcher knows a pseudonym's tokens; the
    two together know both, as they do in any case (``docs/protocols/matching.md``).
"""

import hmac
import threading

from mpc.core.errors import ParameterError, PeerError
from mpc.core.keys import KEY_BYTES, derive
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.messages import (
    CLIENT,
    PSEUDONYM_BYTES,
    MatchTerms,
    Ticket,
    check_session,
    sized,
)

MAX_CLIENT_BYTES = 1024


def check_client(client: bytes) -> None:
    """ParameterError unless ``client``, an authenticated identity, is 1 to 1024 bytes."""
    if not isinstance(client, bytes) or not 1 <= len(client) <= MAX_CLIENT_BYTES:
        raise ParameterError(f"client must be an identity of 1 to {MAX_CLIENT_BYTES} bytes")


def _tag(key: bytes, digest: bytes, pseudonym: bytes) -> bytes:
    return derive(key, "matching.ticket", digest, pseudonym)


class TicketIssuer:
    """Gives every authenticated client one ticket of a session.

    key: 32 bytes, drawn from ``rng`` by default, that the matcher must hold too and nobody else.
    """

    def __init__(
        self, terms: MatchTerms, *, key: bytes | None = None, rng: Rng = SYSTEM_RNG
    ) -> None:
        self._digest = terms.digest
        self._rng = rng
        self._key = rng.bytes(KEY_BYTES) if key is None else key
        sized("key", self._key, KEY_BYTES)
        self._served: set[bytes] = set()
        self._lock = threading.Lock()

    @property
    def key(self) -> bytes:
        """The secret key, for the matcher alone."""
        return self._key

    def issue(self, client: bytes) -> Ticket:
        """The ticket of ``client``, an identity that the caller's channel has authenticated.

        Raises PeerError the second time: a second ticket would be a second person.
        """
        check_client(client)
        with self._lock:
            if client in self._served:
                raise PeerError("this client has her ticket already", party=CLIENT)
            self._served.add(client)
        pseudonym = self._rng.bytes(PSEUDONYM_BYTES)
        return Ticket(self._digest, pseudonym, _tag(self._key, self._digest, pseudonym))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a TicketIssuer holds a key and its count, and is not picklable")

    def __repr__(self) -> str:
        return f"TicketIssuer(issued={len(self._served)})"


class TicketGate:
    """The matcher's side: turns a valid ticket into a pseudonym, for ``Matcher.collect``."""

    def __init__(self, terms: MatchTerms, key: bytes) -> None:
        sized("key", key, KEY_BYTES)
        self._digest = terms.digest
        self._key = key

    def admit(self, ticket: Ticket) -> bytes:
        """The ticket's pseudonym, 16 bytes. PeerError for a forged one or another session's.

        A ticket shown twice gives the same pseudonym, which the matcher takes once.
        """
        check_session(ticket, self._digest, CLIENT)
        expected = _tag(self._key, self._digest, ticket.pseudonym)
        if not hmac.compare_digest(expected, ticket.tag):
            raise PeerError("a ticket does not authenticate", party=CLIENT)
        return ticket.pseudonym

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a TicketGate holds a key and is not picklable")

    def __repr__(self) -> str:
        return "TicketGate()"
