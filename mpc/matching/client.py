"""A user's device in matching by oblivious evaluation: blind, upload, receive.

Source: FedGNN (Wu et al., arXiv:2102.04925), Fig. 3 and Algorithm 2, lines 3, 4 and 6; RFC 9497
    for the tokens.
Model: key holder and matcher do not collude. Each may deviate: a key other than the published one
    is noticed, by the proof here and by the digest of the terms at the matcher. The channels hide
    their content and authenticate both ends.
Leaks: to the key holder, that this client takes part; to the matcher, m tokens and the payload.
Differs: tokens instead of encrypted ids, which could not be compared.
"""

from collections.abc import Iterable

from mpc.core.errors import PeerError, StateError, WireError
from mpc.core.rng import SYSTEM_RNG, Rng
from mpc.matching.items import Excess, ItemId
from mpc.matching.messages import (
    KEY_HOLDER,
    BlindedItems,
    EvaluatedItems,
    MatchTerms,
    Upload,
    check_session,
    split,
)
from mpc.matching.participant import Participant, Phase
from mpc.matching.tokens import (
    RISTRETTO,
    Blinded,
    ObliviousFunction,
    blind_items,
    open_tokens,
)

__all__ = ["MatchClient", "Phase"]


class MatchClient(Participant):
    """One client of one session: ``confirm``, ``blind``, ``upload``, ``receive``.

    Without I/O: messages in, messages out. Arguments as for ``Participant``.
    """

    def __init__(
        self,
        terms: MatchTerms,
        items: Iterable[ItemId],
        payload: bytes,
        *,
        excess: Excess = "refuse",
        function: ObliviousFunction = RISTRETTO,
        rng: Rng = SYSTEM_RNG,
    ) -> None:
        super().__init__(terms, "oprf", items, payload, excess, rng)
        self._function = function
        self._blinded: Blinded | None = None

    def blind(self) -> BlindedItems:
        """Line 3, first half: m blinded items and dummies, for the key holder."""
        self._expect(Phase.CONFIRMED)
        blinded = blind_items(
            self._chosen, self._terms.items, self._digest, self._function, rng=self._rng
        )
        self._blinded, self._phase = blinded, Phase.BLINDED
        return BlindedItems(self._digest, b"".join(blinded.elements))

    def upload(self, evaluated: EvaluatedItems) -> Upload:
        """Line 3, second half, and line 4: the tokens and the payload, for the matcher.

        Raises PeerError for an answer of another session, of another length, or whose proof does
        not hold for the published key; the phase stays, for what the proof says is public.
        """
        blinded = self._kept()
        check_session(evaluated, self._digest, KEY_HOLDER)
        try:
            elements = split(evaluated.elements, self._function.element_bytes)
            tokens = open_tokens(
                blinded, elements, evaluated.proof, self._terms.public, self._function
            )
        except (PeerError, WireError) as error:
            raise PeerError(
                f"the key holder's answer is refused: {error.message}", party=KEY_HOLDER
            ) from error
        self._blinded, self._phase = None, Phase.UPLOADED
        return Upload(self._digest, tokens.tobytes(), self._payload)

    def _kept(self) -> Blinded:
        self._expect(Phase.BLINDED)
        if self._blinded is None:
            raise StateError("the blinds of this request have served")
        return self._blinded
