"""Matching by blinded equality: Enc(rho (a - b)) for every pair of items, for small sets.

The matcher holds everybody's encrypted ids. For every two items a, b of different users it forms
Enc(a - b), multiplies the plaintext by a rho of its own, re-randomises, mixes the results with
dummies and lets the key holder say which are zero.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3 and Algorithm 2, by a comparison that
    Paillier's encryption allows: the blinded difference of Jakobsson and Juels ("Mix and match",
    ASIACRYPT 2000, plaintext equality test) and Lipmaa ("Verifiable homomorphic oblivious transfer
    and private equality test", ASIACRYPT 2003).
Model: semi-honest key holder and matcher that do not collude, whatever clients join either. The
    matcher must be semi-honest: with the public key it could form Enc(rho (a - x)) for a guess x
    and so use the key holder as an oracle; its quota bounds the number of such guesses. Clients
    and matcher rest on DCR alone, as they encrypt by ``Textbook``.
Leaks: the key holder learns the number of comparisons, hence of users, and the number of equal
    pairs plus that of zero dummies (binomial with p = 1/2). The matcher learns which encrypted
    items are equal: the same graph that tokens show.
Error: with 2048 bits and more, ids are 256 bits of SHA-256, so that unequal items coincide with
    probability 2^-256 for each pair. No other: |a - b| is below both primes, so rho (a - b) is zero
    modulo n exactly for a = b, and otherwise uniform in Z_n^*.
Differs: FedGNN says that the third party matches ciphertexts, which probabilistic encryption
    forbids; here the key holder takes part. (n choose 2) m^2 comparisons of some 20 ms each.
"""

import hashlib
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mpc.core.checks import integer
from mpc.core.errors import BudgetError, ParameterError, PeerError, StateError, WireError
from mpc.core.rng import ONE, SYSTEM_RNG, Rng
from mpc.core.wire import MAX_BYTES
from mpc.matching.items import Excess, ItemId, padded_inputs
from mpc.matching.messages import (
    CLIENT,
    KEY_HOLDER,
    MATCHER,
    SESSION_BYTES,
    BlindedPairs,
    EncryptedItems,
    EqualPairs,
    MatchTerms,
    Neighbourhood,
    bound_or_none,
    check_method,
    check_session,
)
from mpc.matching.neighbours import Tokens, permutation
from mpc.matching.participant import Participant, Phase
from mpc.matching.uploads import Uploads, answers
from mpc.paillier.batch import BatchEncryptor, Map, decrypt_many
from mpc.paillier.ciphertext import Ciphertext, vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Textbook
from mpc.paillier.keys import DEFAULT_BITS, PrivateKey, PublicKey, generate
from mpc.paillier.primes import unit

MAX_QUOTA = 1 << 32
DUMMIES = 256
"""Dummies among the comparisons; the number of zeros among them has a standard deviation of 8."""

_MOST_ID_BITS = 256
_CHUNK = 64


def public_key(terms: MatchTerms, *, small_for_tests: bool = False) -> PublicKey:
    """The Paillier key of the terms, checked. ParameterError if ``public`` is no such key."""
    check_method(terms, "paillier")
    try:
        return PublicKey.from_bytes(terms.public, small_for_tests=small_for_tests)
    except WireError as error:
        raise ParameterError(f"the terms hold no Paillier key: {error.message}") from error


def numbers(inputs: Sequence[bytes], public: PublicKey) -> list[int]:
    """Ids as integers below both primes of the key: the first bits of their SHA-256.

    256 bits, or fewer for keys of tests. Each prime has half the bits of n, so all shorter
    numbers, and their differences in absolute value, are smaller than both.
    """
    bits = min(_MOST_ID_BITS, public.bits // 2 - 1)
    digests = (hashlib.sha256(given).digest() for given in inputs)
    return [int.from_bytes(digest, "big") >> (_MOST_ID_BITS - bits) for digest in digests]


def comparisons(users: int, items: int) -> int:
    """How many pairs of items of different users there are, with ``items`` for each user."""
    return users * (users - 1) // 2 * items**2


def pairs(users: int, items: int) -> list[tuple[int, int]]:
    """Positions of all pairs of items of different users, item j of user i being i * items + j."""
    total = users * items
    return [
        (first, second)
        for first in range(total)
        for second in range((first // items + 1) * items, total)
    ]


def blinded_differences(
    first: Sequence[Ciphertext],
    second: Sequence[Ciphertext],
    encryptor: BatchEncryptor,
    *,
    map: Map = map,
    rng: Rng = SYSTEM_RNG,
) -> list[Ciphertext]:
    """Enc(rho (a - b)) for each a of ``first`` and b of ``second``: fresh, rho uniform in Z_n^*.

    second: must hold the *negated* ciphertexts, which serve in many pairs.
    """
    public = encryptor.public
    modulus = public.n_squared
    sums = [(a + b).value for a, b in zip(first, second, strict=True)]
    work = [(value, unit(public.n, rng), modulus) for value in sums]
    chunks = [work[start : start + _CHUNK] for start in range(0, len(work), _CHUNK)]
    scaled = [
        Ciphertext.unchecked(value, public) for done in map(_powers, chunks) for value in done
    ]
    return encryptor.rerandomise_many(scaled, map=map, chunk=_CHUNK, rng=rng)


def _powers(work: Iterable[tuple[Any, Any, Any]]) -> list[Any]:
    return [pow(*each) for each in work]


class PaillierClient(Participant):
    """One client of one session: ``confirm``, ``upload``, ``receive``.

    Arguments as for ``Participant``; small_for_tests: see ``PublicKey``.
    """

    def __init__(
        self,
        terms: MatchTerms,
        items: Iterable[ItemId],
        payload: bytes,
        *,
        excess: Excess = "refuse",
        small_for_tests: bool = False,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        super().__init__(terms, "paillier", items, payload, excess, rng)
        self._public = public_key(terms, small_for_tests=small_for_tests)

    def upload(self) -> EncryptedItems:
        """Lines 3 and 4: m encrypted ids and dummies in random order, for the matcher."""
        self._expect(Phase.CONFIRMED)
        inputs = padded_inputs(self._chosen, self._terms.items, self._digest, rng=self._rng)
        # Items come sorted, dummies last: their places would tell.
        order = permutation(len(inputs), rng=self._rng)
        mixed = numbers([inputs[i] for i in order], self._public)
        encrypted = Textbook(self._public).encrypt_many(mixed, rng=self._rng)
        self._phase = Phase.UPLOADED
        return EncryptedItems(self._digest, vector_to_bytes(encrypted), self._payload)


class PaillierMatcher:
    """The matcher of one session: ``collect``, ``compare``, ``match``.

    dummies: encryptions of zero or of a uniform unit, each with probability 1/2, mixed with the
    comparisons; they also catch a key holder who answers at random.
    encryptor: by default ``BatchEncryptor.textbook``. ``BatchEncryptor.djn`` is some ten times as
    fast, but hides from the key holder only if her primes are random and discrete logarithms modulo
    them, of half the bits of n, are hard (``mpc.paillier.encrypt``): else she relates the
    comparisons of one item by their residues, and tests guesses of the ids.
    A refused message leaves the state as it was.
    """

    def __init__(
        self,
        terms: MatchTerms,
        *,
        dummies: int = DUMMIES,
        encryptor: BatchEncryptor | None = None,
        small_for_tests: bool = False,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        self._public = public_key(terms, small_for_tests=small_for_tests)
        self._encryptor = BatchEncryptor.textbook(self._public) if encryptor is None else encryptor
        if self._encryptor.public != self._public:
            raise ParameterError("the encryptor is of another key than the terms")
        self._terms = terms
        self._digest = terms.digest
        self._dummies = integer("dummies", dummies, 0, MAX_QUOTA)
        self._rng = rng
        self._uploads: Uploads[tuple[list[Ciphertext], bytes]] = Uploads(terms)
        self._taken: dict[bytes, bytes] | None = None  # payloads by pseudonym
        self._order: list[int] = []
        self._zeros: list[bool] = []

    @property
    def terms(self) -> MatchTerms:
        """The terms as this matcher knows them, for every client to compare."""
        return self._terms

    @property
    def users(self) -> int:
        """How many clients have uploaded and wait for ``compare``."""
        return len(self._uploads)

    def collect(self, pseudonym: bytes, upload: EncryptedItems) -> None:
        """Take one client's upload; ``pseudonym`` as for ``Matcher.collect``.

        Raises PeerError for another session, a second upload under a pseudonym, a payload of the
        wrong size, and for ciphertexts that are not m of the session's key; StateError after
        ``compare``.
        """
        check_session(upload, self._digest, CLIENT)
        ciphertexts = self._read(upload.ciphertexts, self._terms.items, CLIENT)
        self._uploads.add(pseudonym, (ciphertexts, upload.payload), upload.payload)

    def compare(self, *, map: Map = map) -> BlindedPairs:
        """Blinded differences of all pairs of items of different users, for the key holder.

        map: spreads the work over workers, which see rho and the coins: of the matcher's own.
        Raises AbortError, and keeps collecting, below ``min_users``; ParameterError if the result
        does not fit a message of 2^30 bytes; and what ``map`` raises. The uploads are kept then.
        """
        m = self._terms.items
        count = comparisons(self.users, m) + self._dummies
        if count * self._public.ciphertext_bytes > MAX_BYTES - (1 << 10):
            raise ParameterError(
                f"{count} comparisons of {self._public.ciphertext_bytes} bytes exceed a message",
                remedy="this method is for small sets: use 'oprf'",
            )
        taken = self._uploads.take()
        try:
            return self._compared(taken, map)
        except BaseException:
            # Nothing has left, and another attempt draws every coin anew.
            self._uploads.put_back(taken)
            raise

    def _compared(
        self, taken: dict[bytes, tuple[list[Ciphertext], bytes]], map: Map
    ) -> BlindedPairs:
        m = self._terms.items
        items = [ciphertext for ciphertexts, _ in taken.values() for ciphertext in ciphertexts]
        negated = [-ciphertext for ciphertext in items]
        chosen = pairs(len(taken), m)
        differences = blinded_differences(
            [items[first] for first, _ in chosen],
            [negated[second] for _, second in chosen],
            self._encryptor,
            map=map,
            rng=self._rng,
        )
        self._zeros = self._rng.bernoulli(ONE // 2, self._dummies).tolist()
        public = self._public
        plain = [0 if zero else public.signed(unit(public.n, self._rng)) for zero in self._zeros]
        mixed = differences + self._encryptor.encrypt_many(
            plain, map=map, chunk=_CHUNK, rng=self._rng
        )
        self._order = permutation(len(mixed), rng=self._rng).tolist()
        ciphertexts = vector_to_bytes([mixed[i] for i in self._order])
        request = BlindedPairs(self._digest, len(mixed), ciphertexts)
        self._taken = {pseudonym: payload for pseudonym, (_, payload) in taken.items()}
        return request

    def match(self, equal: EqualPairs) -> tuple[tuple[bytes, Neighbourhood], ...]:
        """Line 5: for each pseudonym the answer, once; everything is dropped then.

        Raises StateError before ``compare`` and the second time; PeerError for another session, a
        wrong number of bits, and for a dummy that was answered wrongly; the state stays.
        """
        if self._taken is None:
            raise StateError("match needs the answer to compare, once")
        check_session(equal, self._digest, KEY_HOLDER)
        bits = _unpacked(equal.bits, len(self._order))
        is_zero = [False] * len(self._order)
        for place, bit in zip(self._order, bits, strict=True):
            is_zero[place] = bit
        real = len(is_zero) - self._dummies
        if is_zero[real:] != self._zeros:
            raise PeerError("the key holder's answer is wrong for a dummy", party=KEY_HOLDER)
        taken, self._taken = self._taken, None
        m = self._terms.items
        equals = [pair for pair, zero in zip(pairs(len(taken), m), is_zero, strict=False) if zero]
        tokens = classes(len(taken), m, equals)
        return answers(tuple(taken), tokens, tuple(taken.values()), self._terms, rng=self._rng)

    def _read(self, data: bytes, count: int, party: int) -> list[Ciphertext]:
        try:
            return vector_from_bytes(data, self._public, count)
        except WireError as error:
            raise PeerError(f"an upload is refused: {error.message}", party=party) from error

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PaillierMatcher holds uploads and is not picklable")

    def __repr__(self) -> str:
        return f"PaillierMatcher(users={self.users})"


class PaillierKeyHolder:
    """Draws session id and key, publishes ``terms``, and tells zeros from other plaintexts.

    Sizes and thresholds: see ``MatchTerms``; None sets no bound.  quota: decryptions in the whole
    session, for instance ``comparisons(users, items)`` and the matcher's dummies; a matcher who
    deviates tests as many guesses.
    key: a fresh one of 3072 bits by default.
    """

    def __init__(
        self,
        *,
        items: int,
        payload_bytes: int,
        min_group: int,
        min_users: int,
        quota: int,
        max_group: int | None = None,
        max_neighbours: int | None = None,
        key: PrivateKey | None = None,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        private = generate(DEFAULT_BITS, rng=rng) if key is None else key
        self._key: PrivateKey | None = private
        self._public = private.public
        self._terms = MatchTerms(
            session=rng.bytes(SESSION_BYTES),
            method="paillier",
            public=private.public.to_bytes(),
            items=items,
            payload_bytes=payload_bytes,
            min_group=min_group,
            max_group=bound_or_none("max_group", max_group),
            min_users=min_users,
            max_neighbours=bound_or_none("max_neighbours", max_neighbours),
        )
        self._digest = self._terms.digest
        self._quota = integer("quota", quota, 1, MAX_QUOTA)
        self._decrypted = 0
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()

    @property
    def terms(self) -> MatchTerms:
        """The public terms, for everybody and from one place that all can read."""
        return self._terms

    @property
    def decrypted(self) -> int:
        """How much of the quota is spent."""
        return self._decrypted

    def decrypt(
        self, request: BlindedPairs, *, map: Map | None = None, send_private_key: bool = False
    ) -> EqualPairs:
        """Which of the ciphertexts are encryptions of zero: nothing else about them is told.

        The caller's channel authenticates the matcher. map, send_private_key: as for
        ``mpc.paillier.batch.decrypt_many``.
        Raises PeerError for another session, a request seen before, and for ciphertexts that are
        not of this key; BudgetError beyond the quota, which counts all requests; StateError after
        ``close``. A refusal counts nothing.
        """
        check_session(request, self._digest, MATCHER)
        try:
            ciphertexts = vector_from_bytes(request.ciphertexts, self._public, request.count)
        except (ParameterError, WireError) as error:
            raise PeerError(f"a request is refused: {error.message}", party=MATCHER) from error
        key = self._reserve(request)
        found = decrypt_many(key, ciphertexts, map=map, send_private_key=send_private_key)
        bits = np.array([plaintext == 0 for plaintext in found])
        return EqualPairs(self._digest, np.packbits(bits).tobytes())

    def close(self) -> None:
        """End the session: drop the key."""
        with self._lock:
            self._key = None

    def _reserve(self, request: BlindedPairs) -> PrivateKey:
        digest = hashlib.sha256(request.ciphertexts).digest()
        with self._lock:
            if self._key is None:
                raise StateError("the session is closed and its key is gone")
            if digest in self._seen:
                raise PeerError("this request has been answered", party=MATCHER)
            if self._decrypted + request.count > self._quota:
                raise BudgetError(
                    f"{request.count} decryptions after {self._decrypted}, at most "
                    f"{self._quota} in a session"
                )
            self._seen.add(digest)
            self._decrypted += request.count
            return self._key

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a PaillierKeyHolder holds a key and its count, and is not picklable")

    def __repr__(self) -> str:
        return f"PaillierKeyHolder(open={self._key is not None}, decrypted={self._decrypted})"


def classes(users: int, items: int, equal: Iterable[tuple[int, int]]) -> Tokens:
    """Equal items under a common name: uint8 (users, items, 8), from pairs of positions."""
    parent = list(range(users * items))

    def root(position: int) -> int:
        while parent[position] != position:
            parent[position] = parent[parent[position]]
            position = parent[position]
        return position

    for first, second in equal:
        parent[root(second)] = root(first)
    names = np.array([root(position) for position in range(users * items)], dtype="<u8")
    return names.view(np.uint8).reshape(users, items, 8)


def _unpacked(data: bytes, count: int) -> list[bool]:
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if len(data) != (count + 7) // 8 or bits[count:].any():
        raise PeerError(f"{len(data)} bytes are no bits for {count} pairs", party=KEY_HOLDER)
    return [bool(bit) for bit in bits[:count]]
