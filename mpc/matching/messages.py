"""The public terms of a matching session, and its messages: one frozen type for each step.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3 and Algorithm 2. The recommender is the key
    holder, the third-party server the matcher, a user device a client.
Model: bytes come from anyone. Every message carries the digest of the terms, so that one of
    another session, another key or other sizes is told apart by one comparison.
Leaks: all messages of a kind have one length in a session, but for a ``Neighbourhood``, whose
    length shows the number of neighbours unless ``max_neighbours`` pads it.
Differs: Algorithm 2 publishes an encryption key alone; the terms here fix sizes and thresholds.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import TypeVar

from mpc.core.checks import integer
from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.core.keys import label
from mpc.core.wire import MAX_BYTES, Message
from mpc.matching.items import MAX_ITEMS

SESSION_BYTES = 16
DIGEST_BYTES = 32
TOKEN_BYTES = 16
"""Bytes of a token on the wire. Among N tokens the chance that two unequal inputs get equal ones
is at most N^2 / 2^129: 2^-87 for four million."""

PSEUDONYM_BYTES = 16
TAG_BYTES = 32
COUNT_BYTES = 4
MAX_USERS = 2**32 - 1
MAX_PAYLOAD = 1 << 24
MAX_PUBLIC_BYTES = 4096
METHODS = ("oprf", "paillier", "deterministic")

CLIENT, KEY_HOLDER, MATCHER = 0, -1, -2
"""Party numbers in errors. Clients all have the same: the caller's channel knows which it was."""

_HEADER_BYTES = 192  # version, tags, digests and the lengths of fields take less

_M = TypeVar("_M", bound=Message)


def sized(name: str, value: bytes, size: int) -> None:
    """ParameterError unless ``value`` is exactly ``size`` bytes."""
    if not isinstance(value, bytes) or len(value) != size:
        found = len(value) if isinstance(value, bytes) else type(value).__name__
        raise ParameterError(f"{name} must be {size} bytes, got {found}")


class MatchTerms(Message, frozen=True, tag="matching.terms"):
    """What all parties of a session agree on; the key holder publishes it, the matcher repeats it.

    session: 16 bytes, fresh.  method: one of METHODS.  public: the key holder's public key.
    items: m, the number of items that every client brings, dummies included, in [1, 65535].
    payload_bytes: size of every client's payload, in [1, 2^24].
    min_group: g; an item held by fewer users makes nobody neighbours. At least 2.
    max_group: an item held by more users makes nobody neighbours either; 0 for no such bound.
    min_users: with fewer uploads there is no matching at all; at least g.
    max_neighbours: a client with more neighbours gets that many of them, drawn at random, and all
    answers are padded to that number; 0 for no bound and no padding.
    """

    session: bytes
    method: str
    public: bytes
    items: int
    payload_bytes: int
    min_group: int
    max_group: int
    min_users: int
    max_neighbours: int

    def __post_init__(self) -> None:
        """Refuse sizes and thresholds out of range with ParameterError."""
        sized("session", self.session, SESSION_BYTES)
        if self.method not in METHODS:
            raise ParameterError(f"method must be one of {METHODS}, got {self.method!r}")
        if not 1 <= len(self.public) <= MAX_PUBLIC_BYTES:
            raise ParameterError(
                f"public must be 1 to {MAX_PUBLIC_BYTES} bytes, got {len(self.public)}"
            )
        integer("items", self.items, 1, MAX_ITEMS)
        integer("payload_bytes", self.payload_bytes, 1, MAX_PAYLOAD)
        integer("min_group", self.min_group, 2, MAX_USERS)
        if self.max_group:
            integer("max_group", self.max_group, self.min_group, MAX_USERS)
        integer("min_users", self.min_users, self.min_group, MAX_USERS)
        integer("max_neighbours", self.max_neighbours, 0, MAX_USERS)
        if self.max_neighbours * self.payload_bytes > MAX_BYTES - _HEADER_BYTES:
            raise ParameterError(
                f"{self.max_neighbours} payloads of {self.payload_bytes} bytes exceed a message",
                remedy="lower max_neighbours or payload_bytes",
            )

    @property
    def digest(self) -> bytes:
        """SHA-256 of the terms: what every other message carries."""
        return hashlib.sha256(label("matching.terms", self.to_bytes())).digest()

    def decode(self, kind: type[_M], data: bytes) -> _M:
        """The message of class ``kind`` in ``data``, refused unread if too large for the session.

        Raises WireError for whatever is not such a message.
        """
        return kind.from_bytes(data, limit=self._limit(kind))

    def _limit(self, kind: type[Message]) -> int:
        # An element of a group is no longer than the public key, which is one; an evaluation has
        # a proof of two scalars beside the elements, and a scalar is no longer than an element.
        elements = (self.items + 2) * len(self.public)
        room: dict[type[Message], int] = {
            Ticket: PSEUDONYM_BYTES + TAG_BYTES,
            BlindedItems: elements,
            EvaluatedItems: elements,
            Upload: self.items * TOKEN_BYTES + self.payload_bytes,
            # A Paillier ciphertext is twice as long as its key's n.
            EncryptedItems: 2 * elements + self.payload_bytes,
        }
        if self.max_neighbours:
            room[Neighbourhood] = COUNT_BYTES + self.max_neighbours * self.payload_bytes
        return min(MAX_BYTES, room.get(kind, MAX_BYTES) + _HEADER_BYTES)


class SessionMessage(Message, frozen=True):
    """What carries the digest of a session's terms."""

    terms: bytes

    def __post_init__(self) -> None:
        """Refuse a digest of the wrong size."""
        sized("terms", self.terms, DIGEST_BYTES)


class Ticket(SessionMessage, frozen=True, tag="matching.ticket"):
    """Who admits clients, to a client, to the matcher: this pseudonym may take part once."""

    pseudonym: bytes
    tag: bytes

    def __post_init__(self) -> None:
        """Refuse wrong sizes."""
        super().__post_init__()
        sized("pseudonym", self.pseudonym, PSEUDONYM_BYTES)
        sized("tag", self.tag, TAG_BYTES)


class BlindedItems(SessionMessage, frozen=True, tag="matching.blinded"):
    """Client to key holder: blinded items and dummies, group elements one after another."""

    elements: bytes


class EvaluatedItems(SessionMessage, frozen=True, tag="matching.evaluated"):
    """Key holder to client: the elements under the key, and the proof that it is the published one.

    The proof covers all elements of the request together.
    """

    elements: bytes
    proof: bytes


class Upload(SessionMessage, frozen=True, tag="matching.upload"):
    """Client to matcher: m distinct tokens of 16 bytes in rising order, and her payload."""

    tokens: bytes
    payload: bytes


class Neighbourhood(SessionMessage, frozen=True, tag="matching.neighbours"):
    """Matcher to client: the payloads of her neighbours, each once, in random order.

    count: their number, four bytes, little-endian.  payloads: as many, one after another, and
    zeros up to ``max_neighbours`` of them.
    """

    count: bytes
    payloads: bytes

    def __post_init__(self) -> None:
        """Refuse a count of the wrong size."""
        super().__post_init__()
        sized("count", self.count, COUNT_BYTES)

    @classmethod
    def make(
        cls, terms: MatchTerms, payloads: Sequence[bytes] | bytes, count: int
    ) -> "Neighbourhood":
        """The message with ``count`` payloads (one bytes object, or a sequence), padded."""
        joined = payloads if isinstance(payloads, bytes) else b"".join(payloads)
        padded = joined.ljust(terms.max_neighbours * terms.payload_bytes, b"\0")
        return cls(terms.digest, count.to_bytes(COUNT_BYTES, "little"), padded)

    def read(self, terms: MatchTerms) -> tuple[bytes, ...]:
        """The payloads; WireError if count, length and padding do not fit the terms."""
        count, size = int.from_bytes(self.count, "little"), terms.payload_bytes
        if terms.max_neighbours and count > terms.max_neighbours:
            raise WireError(f"{count} neighbours, at most {terms.max_neighbours} agreed")
        if len(self.payloads) != max(count, terms.max_neighbours) * size:
            raise WireError(f"{len(self.payloads)} bytes do not hold {count} payloads of {size}")
        if self.payloads[count * size :].strip(b"\0"):
            raise WireError("the padding after the payloads is not zero")
        return tuple(self.payloads[i * size : (i + 1) * size] for i in range(count))


class EncryptedItems(SessionMessage, frozen=True, tag="matching.paillier.items"):
    """Client to matcher: m encrypted ids and dummies in random order, and her payload.

    ciphertexts: as ``mpc.paillier.ciphertext.vector_to_bytes`` gives them.
    """

    ciphertexts: bytes
    payload: bytes


class BlindedPairs(SessionMessage, frozen=True, tag="matching.paillier.pairs"):
    """Matcher to key holder: blinded differences and dummies, in random order.

    ciphertexts: as ``mpc.paillier.ciphertext.vector_to_bytes`` gives them.
    """

    count: int
    ciphertexts: bytes


class EqualPairs(SessionMessage, frozen=True, tag="matching.paillier.equal"):
    """Key holder to matcher: a bit for each ciphertext, most significant first: is it zero?"""

    bits: bytes


def check_session(message: SessionMessage, digest: bytes, party: int) -> None:
    """PeerError if ``message``, which came from ``party``, carries other terms than ``digest``."""
    if not hmac.compare_digest(message.terms, digest):
        raise PeerError(
            f"a {type(message).__name__} belongs to another session, key or other terms",
            party=party,
        )


def bound_or_none(name: str, value: int | None) -> int:
    """The field of an upper bound in ``MatchTerms``: 0 for None. ParameterError for 0 itself."""
    if value is None:
        return 0
    if value == 0:
        raise ParameterError(f"{name} must be positive or None, got 0")
    return value


def check_method(terms: MatchTerms, method: str) -> None:
    """ParameterError unless the session's method is ``method``."""
    if terms.method != method:
        raise ParameterError(
            f"the terms are of method {terms.method!r}, this party's is {method!r}"
        )


def check_insecure(insecure: bool) -> None:
    """ParameterError unless the caller has asked for an insecure method in so many words."""
    if insecure is not True:
        raise ParameterError(
            "whoever has the public key opens deterministic tokens with a dictionary",
            remedy="use method 'oprf', or pass insecure=True to study the attack",
        )


def split(data: bytes, size: int) -> tuple[bytes, ...]:
    """``data`` cut into pieces of ``size`` bytes; WireError if something is left over."""
    if len(data) % size:
        raise WireError(f"{len(data)} bytes are no whole number of pieces of {size}")
    return tuple(data[start : start + size] for start in range(0, len(data), size))
