"""The matcher: collects tokens and payloads, and hands every client her neighbours' payloads.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3, "third-party server"; Algorithm 2, lines 4
    and 5.
Model: semi-honest towards the clients (it could withhold or invent neighbours); does not collude
    with the key holder.
Leaks: learns the user-token graph: who has a token in common with whom, how many users hold each
    token, which tokens occur together; and all payloads. Not which item a token stands for.
    A client learns the payloads of her neighbours and their number.
Differs: tokens of fewer than g users are dropped, all clients bring exactly m; an answer is a set
    of payloads in random order, and says neither whose nor through which item.
"""

import numpy as np

from mpc.core.errors import PeerError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.messages import (
    CLIENT,
    TOKEN_BYTES,
    MatchTerms,
    Neighbourhood,
    Upload,
    check_insecure,
    check_method,
    check_session,
)
from mpc.matching.uploads import Uploads, answers


class Matcher:
    """The matcher of one session, of method ``oprf`` or ``deterministic``.

    insecure: must be True for ``deterministic``, whose tokens a dictionary opens.
    A refused message leaves its state as it was.
    """

    def __init__(self, terms: MatchTerms, *, insecure: bool = False, rng: Rng = SYSTEM_RNG) -> None:
        if terms.method == "deterministic":
            check_insecure(insecure)
        else:
            check_method(terms, "oprf")
        self._terms = terms
        self._digest = terms.digest
        self._rng = rng
        self._uploads: Uploads[Upload] = Uploads(terms)

    @property
    def terms(self) -> MatchTerms:
        """The terms as this matcher knows them, for every client to compare."""
        return self._terms

    @property
    def users(self) -> int:
        """How many clients have uploaded; 0 after ``match``."""
        return len(self._uploads)

    def collect(self, pseudonym: bytes, upload: Upload) -> None:
        """Take one client's upload.

        pseudonym: 1 to 1024 bytes that the caller's channel has authenticated, one for each
        person (``admission.TicketGate`` gives such).
        Raises PeerError for another session, key or terms, a second upload under a pseudonym, a
        wrong number or order of tokens and a payload of the wrong size; StateError after ``match``.
        """
        check_session(upload, self._digest, CLIENT)
        if len(upload.tokens) != self._terms.items * TOKEN_BYTES:
            raise PeerError(
                f"{len(upload.tokens)} bytes of tokens, agreed are {self._terms.items} "
                f"of {TOKEN_BYTES}",
                party=CLIENT,
            )
        if not _is_rising(upload.tokens):
            raise PeerError("tokens must be distinct and in rising order", party=CLIENT)
        self._uploads.add(pseudonym, upload, upload.payload)

    def match(self) -> tuple[tuple[bytes, Neighbourhood], ...]:
        """Line 5: for each pseudonym the answer, once; tokens and payloads are dropped then.

        Raises AbortError, and keeps collecting, while there are fewer uploads than ``min_users``;
        StateError the second time.
        """
        taken = self._uploads.take()
        data = b"".join(upload.tokens for upload in taken.values())
        tokens = np.frombuffer(data, dtype=np.uint8).reshape(len(taken), -1, TOKEN_BYTES)
        payloads = [upload.payload for upload in taken.values()]
        return answers(tuple(taken), tokens, payloads, self._terms, rng=self._rng)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Matcher holds uploads and is not picklable")

    def __repr__(self) -> str:
        return f"Matcher(users={self.users})"


def _is_rising(tokens: bytes) -> bool:
    words = np.frombuffer(tokens, dtype=">u8").reshape(-1, TOKEN_BYTES // 8)
    before, after = words[:-1], words[1:]
    first = before[:, 0] < after[:, 0]
    second = (before[:, 0] == after[:, 0]) & (before[:, 1] < after[:, 1])
    return bool((first | second).all())
