"""What a client of every method does: compare the terms before, read the answer after.

Source: FedGNN (Wu et al., arXiv:2102.04925), Algorithm 2, lines 2 and 6.
Model: key holder and matcher do not collude, and the channels authenticate both.
Leaks: nothing; a method's own steps do.
"""

from collections.abc import Iterable
from enum import Enum

from mpc.core.errors import PeerError, StateError, WireError
from mpc.core.rng import Rng
from mpc.matching.items import Excess, ItemId, choose
from mpc.matching.messages import (
    KEY_HOLDER,
    MATCHER,
    MatchTerms,
    Neighbourhood,
    check_method,
    check_session,
    sized,
)


class Phase(Enum):
    """How far a client has come in its session."""

    NEW = "new"
    CONFIRMED = "confirmed"
    BLINDED = "blinded"
    UPLOADED = "uploaded"
    DONE = "done"
    ABORTED = "aborted"


class Participant:
    """One client of one session; subclasses add what lies between ``confirm`` and ``receive``.

    terms: as the key holder published them.  items: her item ids.  payload: opaque bytes that her
    neighbours receive, exactly ``terms.payload_bytes``.  excess: what to do with more than
    ``terms.items`` distinct ids (see ``items.choose``).
    Raises ParameterError for terms of another method, a payload of another size, unfit items.
    """

    def __init__(
        self,
        terms: MatchTerms,
        method: str,
        items: Iterable[ItemId],
        payload: bytes,
        excess: Excess,
        rng: Rng,
    ) -> None:
        check_method(terms, method)
        sized("payload", payload, terms.payload_bytes)
        self._terms = terms
        self._digest = terms.digest
        self._chosen = choose(items, terms.items, excess=excess, rng=rng)
        self._payload = payload
        self._rng = rng
        self._phase = Phase.NEW

    @property
    def phase(self) -> Phase:
        """How far this client has come; ABORTED and DONE are final."""
        return self._phase

    @property
    def duplicates(self) -> int:
        """How many of the given ids were repeats. For the device's owner alone."""
        return self._chosen.duplicates

    @property
    def left_out(self) -> int:
        """How many distinct ids were left out by sampling. For the device's owner alone."""
        return self._chosen.left_out

    def confirm(self, terms: MatchTerms) -> None:
        """Compare the published terms with those that the matcher states, before anything is sent.

        A key holder who publishes a key of its own for somebody would have to deceive the matcher
        too. Terms of another session are refused and change nothing; other terms under the same
        session id abort. Raises PeerError.
        """
        self._expect(Phase.NEW)
        if terms.session != self._terms.session:
            raise PeerError("the matcher's terms are those of another session", party=MATCHER)
        if terms != self._terms:
            self._phase = Phase.ABORTED
            raise PeerError(
                "key holder and matcher state different keys or terms for one session",
                party=KEY_HOLDER,
                remedy="take no part: a key for one client alone marks her tokens",
            )
        self._phase = Phase.CONFIRMED

    def receive(self, neighbourhood: Neighbourhood) -> tuple[bytes, ...]:
        """Line 6: the payloads of her neighbours, in random order, without names.

        Raises PeerError for another session's, or for sizes that do not fit the terms.
        """
        self._expect(Phase.UPLOADED)
        check_session(neighbourhood, self._digest, MATCHER)
        try:
            payloads = neighbourhood.read(self._terms)
        except WireError as error:
            raise PeerError(f"the matcher's answer: {error.message}", party=MATCHER) from error
        self._phase = Phase.DONE
        return payloads

    def _expect(self, expected: Phase) -> None:
        if self._phase is not expected:
            raise StateError(f"the client is in phase {self._phase.name}, not {expected.name}")

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"a {type(self).__name__} holds a user's items and is not picklable")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(phase={self._phase.name})"
