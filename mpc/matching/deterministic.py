"""INSECURE: equal ids give equal ciphertexts; beside it the dictionary that opens them.

This is how Fig. 3 and Algorithm 2 of FedGNN read: everybody encrypts her item ids with the public
key, and the third party matches ciphertexts. For that to work, encryption must be deterministic;
then whoever has the public key, and everybody has it, encrypts the catalogue and compares.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 2, lines 2 to 5. Paillier's scheme with
    coins that are a hash of the plaintext ("encrypt with hash": Bellare, Boldyreva and O'Neill,
    "Deterministic and efficiently searchable encryption", CRYPTO 2007), drawn as short exponents
    of a base that all derive from the key.
Model: none that holds. Ids of a catalogue have no entropy to hide behind.
Leaks: to the matcher, and to whoever sees its uploads, everybody's items: ``dictionary_attack``
    opens a catalogue of 1,682 ids in about a second under a key of 2048 bits.
Differs: the matcher gets 16 bytes of a ciphertext's SHA-256, uploads are padded to m, and the
    session enters the plaintext. None of this helps.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

from mpc.core.errors import ParameterError, WireError
from mpc.core.keys import label
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.items import Excess, ItemId, encode_id, item_input, padded_inputs
from mpc.matching.messages import (
    SESSION_BYTES,
    TOKEN_BYTES,
    MatchTerms,
    Upload,
    bound_or_none,
    check_insecure,
    check_method,
)
from mpc.matching.participant import Participant, Phase
from mpc.paillier.fixed_base import FixedBase
from mpc.paillier.keys import PublicKey

_EXPONENT_BITS = 448


def deterministic_terms(
    public: PublicKey,
    *,
    insecure: bool,
    items: int,
    payload_bytes: int,
    min_group: int,
    min_users: int,
    max_group: int | None = None,
    max_neighbours: int | None = None,
    rng: Rng = SYSTEM_RNG,
) -> MatchTerms:
    """Line 2: the terms of a session under a Paillier key. ParameterError unless ``insecure``."""
    check_insecure(insecure)
    return MatchTerms(
        session=rng.bytes(SESSION_BYTES),
        method="deterministic",
        public=public.to_bytes(),
        items=items,
        payload_bytes=payload_bytes,
        min_group=min_group,
        max_group=bound_or_none("max_group", max_group),
        min_users=min_users,
        max_neighbours=bound_or_none("max_neighbours", max_neighbours),
    )


def deterministic_tokens(inputs: Sequence[bytes], terms: MatchTerms) -> list[bytes]:
    """Line 3, for anybody: 16 bytes of the SHA-256 of each input's ciphertext.

    c = (1 + a n) h^e modulo n^2, with a the SHA-256 of the input and e 448 bits of another hash.
    """
    check_method(terms, "deterministic")
    public, base = _public_and_base(terms.public)
    tokens = []
    for given in inputs:
        a = int.from_bytes(hashlib.sha256(given).digest(), "big")
        wide = int.from_bytes(hashlib.sha512(label("matching.coins", given)).digest(), "big")
        coins = base.power(wide >> (512 - _EXPONENT_BITS))
        ciphertext = int((1 + a * public.n) * coins % public.n_squared)
        data = ciphertext.to_bytes(public.ciphertext_bytes, "big")
        tokens.append(hashlib.sha256(data).digest()[:TOKEN_BYTES])
    return tokens


@lru_cache(maxsize=2)
def _public_and_base(data: bytes) -> tuple[PublicKey, FixedBase]:
    """The key, and a table of the powers of an n-th residue that it determines."""
    try:
        public = PublicKey.from_bytes(data)
    except WireError as error:
        raise ParameterError(f"the terms hold no Paillier key: {error.message}") from error
    n = public.n
    x = int.from_bytes(hashlib.sha512(label("matching.base", public.fingerprint)).digest(), "big")
    return public, FixedBase(pow(-x * x % n, n, public.n_squared), n, _EXPONENT_BITS)


class DeterministicClient(Participant):
    """One client of one session: ``confirm``, ``upload``, ``receive``.

    insecure: must be True. Other arguments as for ``Participant``.
    """

    def __init__(
        self,
        terms: MatchTerms,
        items: Iterable[ItemId],
        payload: bytes,
        *,
        insecure: bool,
        excess: Excess = "refuse",
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        check_insecure(insecure)
        super().__init__(terms, "deterministic", items, payload, excess, rng)

    def upload(self) -> Upload:
        """Lines 3 and 4: the tokens and the payload, for ``Matcher(terms, insecure=True)``."""
        self._expect(Phase.CONFIRMED)
        inputs = padded_inputs(self._chosen, self._terms.items, self._digest, rng=self._rng)
        tokens = sorted(deterministic_tokens(inputs, self._terms))
        self._phase = Phase.UPLOADED
        return Upload(self._digest, b"".join(tokens), self._payload)


def dictionary_attack(
    tokens: Iterable[bytes], catalogue: Iterable[ItemId], terms: MatchTerms
) -> dict[bytes, ItemId]:
    """The items behind tokens of 16 bytes, by the public terms alone.

    catalogue: the ids to try.  Returns token to item, for all tokens that one of them explains.
    """
    wanted, ids, digest = set(tokens), list(catalogue), terms.digest
    inputs = [item_input(encode_id(item), digest) for item in ids]
    guesses = zip(deterministic_tokens(inputs, terms), ids, strict=True)
    return {token: item for token, item in guesses if token in wanted}
