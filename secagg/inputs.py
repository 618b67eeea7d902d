"""What a client remembers of the inputs it has sent and that no confirmed sum has used up.

Source: ours. A server that holds every vector of a round may claim that one is missing. If the
    round is run again with the same inputs but for that member's, the difference of the two sums
    is what that member put in, or the change of it.
Model: catches an honest device that retries with the very same elements. Inputs that differ in
    the rounding coins alone are not the same elements, and a server that subtracts their sums
    learns the missing member's input up to that rounding: a retry needs new data, not new coins.
Leaks: digests are keyed, so the memory does not betray an input that can be guessed.
"""

import hashlib
import hmac

import numpy as np

from mpc.core.errors import StateError
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG, Rng

_KEY_BYTES = 32


class InputMemory:
    """Keyed digests of vectors sent under a mask, until their round is confirmed.

    Pass one memory to the clients of a device's later sessions too: a retry in a smaller cohort
    is a retry all the same. It lives in memory; a device that restarts starts with new inputs.
    """

    def __init__(self, *, rng: Rng = SYSTEM_RNG) -> None:
        self._key = rng.bytes(_KEY_BYTES)
        self._open: dict[tuple[bytes, int], frozenset[bytes]] = {}

    def digests(self, vectors: RingArray, ring: Ring) -> frozenset[bytes]:
        """One digest for each vector of (sums, dim) that is not all zero.

        A vector of zeros hides nobody, so sending it twice exposes nobody.
        """
        rows = vectors[np.any(vectors, axis=-1)]
        return frozenset(hmac.digest(self._key, ring.to_bytes(row), hashlib.sha256) for row in rows)

    def check(self, digests: frozenset[bytes]) -> None:
        """StateError if one of the vectors went out in a round that was not confirmed."""
        for (_, earlier), sent in self._open.items():
            if digests & sent:
                raise StateError(
                    f"these inputs were sent in round {earlier}, which was not confirmed",
                    remedy="mask new inputs: with the same ones a server could subtract the sums",
                )

    def remember(self, session: bytes, round: int, digests: frozenset[bytes]) -> None:
        """Keep the digests of a round whose vectors are about to be sent."""
        self._open[session, round] = digests

    def forget(self, session: bytes, round: int) -> None:
        """The round's sums exist: its inputs are used up."""
        self._open.pop((session, round), None)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("an InputMemory holds a key and is not picklable")

    def __repr__(self) -> str:
        return f"InputMemory(open_rounds={len(self._open)})"
